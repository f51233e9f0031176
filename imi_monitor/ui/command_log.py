"""The log of the actions this dashboard ran: how each ended, and the command line that does the same.

It is bounded, and written from the threads in which actions run.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from textual.app import App

from imi_monitor.model import times

MOST = 500
RUNNING, DONE, REFUSED, FAILED, CANCELLED = "running", "done", "refused", "failed", "cancelled"


@dataclass(frozen=True, slots=True)
class CommandLogEntry:
    """One run of an action. `command` works in any folder, `short` leaves the repository out; `seconds` is None while it runs."""

    number: int
    at: str
    short: str
    command: str
    state: str = RUNNING
    seconds: float | None = None
    said: tuple[str, ...] = ()


class CommandLog:
    """Newest last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: deque[CommandLogEntry] = deque(maxlen=MOST)
        self._begun: dict[int, float] = {}
        self._next = 1

    def begin(self, short: str, command: str) -> int:
        """Add a running entry and return its number."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._entries.append(CommandLogEntry(number, times.stamp(), short, command))
            self._begun[number] = time.monotonic()
            return number

    def end(self, number: int, state: str, said: list[str]) -> None:
        """Set how the entry ended; one that was dropped from the log is ignored."""
        with self._lock:
            seconds = time.monotonic() - self._begun.pop(number)
            for index, entry in enumerate(self._entries):
                if entry.number == number:
                    self._entries[index] = replace(entry, state=state, seconds=seconds, said=tuple(said[:20]))

    def entries(self) -> tuple[CommandLogEntry, ...]:
        with self._lock:
            return tuple(self._entries)


_logs: WeakKeyDictionary[App[Any], CommandLog] = WeakKeyDictionary()


def of(app: App[Any]) -> CommandLog:
    """Return the log of this app."""
    if app not in _logs:
        _logs[app] = CommandLog()
    return _logs[app]
