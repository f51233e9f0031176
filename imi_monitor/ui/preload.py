"""Runs a function in a subprocess while Textual is imported (a thread would be blocked by the GIL).

Measured on 200 worktrees: reading the first snapshot in the process itself takes 12 ms more of the start. The subprocess is
spawned, not forked: after a fork each written page of memory is copied, which takes as long as the work. It does not touch
the terminal, and the dashboard starts without its result if it fails or is slow.
"""

from __future__ import annotations

import _pickle  # the C part alone: importing the rest takes as long as reading the result
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_CHUNK = 1 << 20
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from imi_monitor.ui import preload; preload.answer(sys.argv[2])"
)


class Preload(Generic[T]):
    """Starts to run `function` of `module`, both given as names: importing the module is part of the work."""

    def __init__(self, module: str, function: str, *args: object, interpreter: str = sys.executable) -> None:
        self._pipe, result_end = os.pipe()
        self.pid = 0
        try:
            encoded = _pickle.dumps((module, function, args), -1).hex()
            self.pid = os.posix_spawn(
                interpreter,
                [interpreter, "-s", "-S", "-P", "-c", _PROGRAM, _ROOT, encoded],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, result_end, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
            )
        except (OSError, ValueError):
            pass  # no memory or no interpreter: there will be no result
        finally:
            os.close(result_end)

    def result(self, seconds: float) -> T | None:
        """Return the result; None if it failed or takes longer than this. Call it once."""
        try:
            data = self._read(time.monotonic() + seconds)
            made: T | None = _pickle.loads(data) if data else None
            return made
        except (EOFError, _pickle.UnpicklingError):
            return None  # it was killed while it wrote the result
        finally:
            os.close(self._pipe)
            if self.pid:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)

    def _read(self, until: float) -> bytes:
        parts: list[bytes] = []
        while select.select([self._pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            part = os.read(self._pipe, _CHUNK)
            if not part:
                return b"".join(parts)
            parts.append(part)
        return b""


def answer(encoded: str) -> None:
    """Run the function (in the subprocess), write the result to stdout, and exit without cleaning up."""
    module, function, args = _pickle.loads(bytes.fromhex(encoded))
    made = getattr(__import__(module, fromlist=[function]), function)(*args)
    with os.fdopen(1, "wb") as file:
        file.write(_pickle.dumps(made, -1))
    os._exit(0)
