"""Everything that the dashboard did: which act, on what, how it ended, and the command line that would do the same.

One log for each running dashboard, bounded; acts run in threads and write into it from there.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from textual.app import App

from imi_monitor.model import times

MOST = 500
RUNNING, DONE, REFUSED, FAILED, CANCELLED = "running", "done", "refused", "failed", "cancelled"


@dataclass(frozen=True, slots=True)
class CommandLogEntry:
    """One act. `command` can be pasted into any shell, `short` does not say where; `seconds` is None while it runs."""

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
        """An act starts; gives its number for `end`."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._entries.append(CommandLogEntry(number, times.stamp(), short, command))
            self._begun[number] = time.monotonic()
            return number

    def end(self, number: int, state: str, said: list[str]) -> None:
        """How it ended and what it said; an entry that has fallen out of the log is forgotten."""
        with self._lock:
            seconds = time.monotonic() - self._begun.pop(number)
            for index, entry in enumerate(self._entries):
                if entry.number == number:
                    self._entries[index] = replace(entry, state=state, seconds=seconds, said=tuple(said[:20]))

    def entries(self) -> tuple[CommandLogEntry, ...]:
        with self._lock:
            return tuple(self._entries)


_logs: WeakKeyDictionary[App[object], CommandLog] = WeakKeyDictionary()


def of(app: App[object]) -> CommandLog:
    """The log of a running dashboard."""
    if app not in _logs:
        _logs[app] = CommandLog()
    return _logs[app]
