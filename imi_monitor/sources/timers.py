"""When to look again: at once when asked, else after a while; after failures later and later, up to a limit.

Waking up is what idling costs, whatever is done then: so all who wait for seconds wake at the same moments.

Notices that we were stopped (SIGSTOP, suspend) or stuck for so long that events may have been dropped meanwhile.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

from imi_monitor import host


def aligned_deadline(now: float, pause: float) -> float:
    """When a pause that begins now is over: at the last whole second of the loop's clock in it, if it is that long."""
    return float(math.floor(now + pause)) if pause >= 1.0 else now + pause


async def sleep_aligned(pause: float) -> None:
    """Sleep so long, or a little less."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(aligned_deadline(now, pause) - now)


class PollTimer:
    """`await pace.next()` returns when it is time. `poke` makes it time now; `failed` and `worked` stretch the pause."""

    def __init__(self, every: float, *, longest: float = 60.0) -> None:
        self._every = every
        self._longest = longest
        self._pause = every
        self._asked = False
        self._waiting: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def poke(self) -> None:
        self._asked = True
        self._wake()

    def soon(self, pause: float) -> None:
        """What was seen is not settled yet: look again after `pause`, then after twice that, up to the usual time."""
        self._pause = min(self._every, max(pause, self._pause * 2 if self._pause < self._every else pause))

    def rest(self, pause: float) -> None:
        """There is nothing to look after: the next turn may come so much later, unless somebody asks."""
        self._pause = max(self._every, pause)

    def worked(self) -> None:
        self._pause = self._every

    def failed(self) -> None:
        # jitter, so that many that failed together do not come back together
        self._pause = min(self._longest, self._pause * 2) * random.uniform(0.8, 1.2)

    async def next(self, news: Callable[[], object] | None = None) -> bool:
        """Wait for the next turn; True when somebody asked for it, False when the pause was over.

        `news` is asked when it is over, and has to be cheap: while there are none, another pause follows.
        """
        if not self._asked:
            await self._wait(news)
        asked, self._asked = self._asked, False
        return asked

    async def _wait(self, news: Callable[[], object] | None) -> None:
        # a bare future: `wait_for` forgets a cancellation which comes together with what it waited for, and a timeout
        # is a cancellation each time it is over
        self._waiting = asyncio.get_running_loop().create_future()
        self._arm(news)
        try:
            await self._waiting
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._waiting = None

    def _arm(self, news: Callable[[], object] | None) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(aligned_deadline(loop.time(), self._pause), self._over, news)

    def _over(self, news: Callable[[], object] | None) -> None:
        """Nobody is woken for nothing."""
        if news is None:
            self._wake()
        else:
            self._arm(news)
            if news():
                self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


_EVERY = 5.0
_LATE = 3.0


class StallDetector:
    """A slow tick on the clock that counts sleep; coming late by seconds means that we did not run."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        self._expected = 0.0
        self._tell: Callable[[str], None] | None = None

    def start(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._next()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def alive(self) -> None:
        """Called on every event: notice the gap before the events behind it are told."""
        self._look()

    def _next(self) -> None:
        self._expected = host.uptime() + _EVERY
        loop = asyncio.get_running_loop()
        self._handle = loop.call_at(aligned_deadline(loop.time(), _EVERY), self._tick)

    def _tick(self) -> None:
        self._look()
        self._next()

    def _look(self) -> None:
        late = host.uptime() - self._expected
        if late > _LATE and self._tell is not None:
            self._expected = host.uptime() + _EVERY
            self._tell(f"we did not run for {late:.0f} s")
