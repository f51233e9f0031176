"""Codex's own log, `logs_<n>.sqlite`: which approvals were answered, and whether a process has begun a thread.

It does not name the thread of a request for an approval, so it proves that one was answered, never that one is open.
"""

from __future__ import annotations

from imi_monitor.sources.agents.codex.session import newest_database
from imi_monitor.sources.agents.foreign_db import DatabaseStamp, Unreadable, opened, stamp

_ANSWER = '%operation="exec_approval"%'
_MOST_KNOWN = 500

_Question = tuple[str, tuple[object, ...]]


class ThreadLog:
    """Asks the database again only after it changed."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._stamp: DatabaseStamp | None = None
        self._known: dict[_Question, bool | None] = {}

    def is_answered(self, thread: str, since: float) -> bool:
        """True if a person answered a request for an approval of this thread since then."""
        where = "thread_id = ? AND ts + ts_nanos / 1e9 >= ? AND feedback_log_body LIKE ?"
        return self._has(where, thread, since, _ANSWER) is True

    def has_thread_of(self, pid: int, since: float) -> bool | None:
        """Whether the process, which began then, has begun a thread; None without a log."""
        return self._has("ts >= ? AND thread_id IS NOT NULL AND process_uuid LIKE ?", int(since), f"pid:{pid}:%")

    def _has(self, where: str, *values: object) -> bool | None:
        path = newest_database(self._home, "logs")
        now = stamp(path) if path is not None else None
        if path is None or now is None:
            return None
        if now != self._stamp or len(self._known) > _MOST_KNOWN:
            self._stamp, self._known = now, {}
        question = (where, values)
        if question not in self._known:
            self._known[question] = _has_row(path, where, values)
        return self._known[question]


def _has_row(path: str, where: str, values: tuple[object, ...]) -> bool | None:
    try:
        with opened(path) as database:
            return bool(database.rows(f"SELECT 1 FROM logs WHERE {where} LIMIT 1", *values))
    except (Unreadable, OSError):
        return None
