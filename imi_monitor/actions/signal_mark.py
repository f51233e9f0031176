"""A mark that a signal sets, for work that must not be interrupted between two of its steps."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalMark:
    """Records the signal that asks the process to stop, instead of interrupting the current work."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> SignalMark:
        for number in _SIGNALS:
            try:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._record)
            except ValueError:  # not the main thread: the caller cancels with `context.cancelled`
                break
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _record(self, number: int, _: FrameType | None) -> None:
        self.signal = number
