"""Notices that we were stopped (SIGSTOP, suspend) or stuck for so long that events may have been dropped meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from imi_monitor import host
from imi_monitor.sources.pace import due

_EVERY = 5.0
_LATE = 3.0


class Stall:
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
        self._handle = loop.call_at(due(loop.time(), _EVERY), self._tick)

    def _tick(self) -> None:
        self._look()
        self._next()

    def _look(self) -> None:
        late = host.uptime() - self._expected
        if late > _LATE and self._tell is not None:
            self._expected = host.uptime() + _EVERY
            self._tell(f"we did not run for {late:.0f} s")
