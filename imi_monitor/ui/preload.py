"""Work done beside the loading of the terminal library, in a process of its own: Python's threads would only take turns.

For what the first picture needs and a disk may keep waiting. Not a copy of this process: while there is one, each page of
memory that is written to is copied first, which takes as long as the work. It touches no terminal and ends by itself;
whatever becomes of it, nothing depends on its answer.
"""

from __future__ import annotations

import _pickle  # the part of it in C: the rest would take as long to load as its answer to read
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
    """`function` of `module` runs from now on. Both are names: loading it is a part of the work."""

    def __init__(self, module: str, function: str, *args: object) -> None:
        self._answer, told = os.pipe()
        self._pid = 0
        try:
            asked = _pickle.dumps((module, function, args), -1).hex()
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-s", "-S", "-P", "-c", _PROGRAM, _ROOT, asked],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, told, 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)],
            )
        except (OSError, ValueError):
            pass  # no memory, no interpreter or none by a name: then there is no answer
        finally:
            os.close(told)

    def result(self, seconds: float) -> T | None:
        """What it gave; None when it failed, or takes longer than this from now on. Ask once."""
        try:
            data = self._read(time.monotonic() + seconds)
            made: T | None = _pickle.loads(data) if data else None
            return made
        except (EOFError, _pickle.UnpicklingError):
            return None  # it was killed in the middle of its answer
        finally:
            os.close(self._answer)
            if self._pid:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)

    def _read(self, until: float) -> bytes:
        parts: list[bytes] = []
        while select.select([self._answer], [], [], max(0.0, until - time.monotonic()))[0]:
            part = os.read(self._answer, _CHUNK)
            if not part:
                return b"".join(parts)
            parts.append(part)
        return b""


def answer(asked: str) -> None:
    """In the other process: do it, tell it, and end without tidying up."""
    module, function, args = _pickle.loads(bytes.fromhex(asked))
    made = getattr(__import__(module, fromlist=[function]), function)(*args)
    with os.fdopen(1, "wb") as file:
        file.write(_pickle.dumps(made, -1))
    os._exit(0)
