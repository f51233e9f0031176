"""Work done beside the loading of the terminal library, in a copy of this process: Python's threads would only take turns.

For what the first picture needs and a disk may keep waiting. The copy touches no terminal and ends by itself; whatever becomes
of it, nothing depends on its answer.
"""

from __future__ import annotations

import _pickle  # the part of it in C: the rest would take as long to load as its answer to read
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")
_CHUNK = 1 << 20


class Ahead(Generic[T]):
    """`work` runs from now on; start it before there are threads."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._answer, told = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._answer)
            _answer(work, told)
        os.close(told)

    def result(self, seconds: float) -> T | None:
        """What it gave; None when it failed, or takes longer than this from now on. Ask once."""
        try:
            data = self._read(time.monotonic() + seconds)
            made: T | None = _pickle.loads(data) if data else None
            return made
        finally:
            os.close(self._answer)
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


def _answer(work: Callable[[], object], told: int) -> NoReturn:
    """In the copy: it must not come back into what the original does, whatever happens."""
    try:
        with os.fdopen(told, "wb") as file:
            file.write(_pickle.dumps(work(), -1))
    finally:
        os._exit(0)
