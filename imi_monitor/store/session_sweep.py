"""How long sessions are kept: for so many days after they were last seen, and never more than there is room for.

Forgetting is done in small bites by whoever is in no hurry. Days are counted back from the last sign of any session, not
from a clock that may be wrong; a session that is not over stays, however old.
"""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.store import agents

KEEP_DAYS = 30
MOST_LINES = 200_000  # of all streams together
_BITE = 2_000
_SILENT = timedelta(days=2)  # not over, but not seen for so long: nobody looks after it any more


def due(connection: sqlite3.Connection, keep_days: int = KEEP_DAYS) -> bool:
    """Whether there is something to forget; costs next to nothing."""
    return _victim(connection, keep_days) is not None


def tidy(connection: sqlite3.Connection, keep_days: int = KEEP_DAYS) -> int:
    """Forget a bite of the session that was not seen for longest; gives how many rows went. Inside a transaction."""
    victim = _victim(connection, keep_days)
    if victim is None:
        return 0
    from imi_monitor.store import task_reading  # only now: every command asks whether something is due

    seq, ident, agent = victim
    task_reading.settle(connection, seq)
    gone = 0
    for table in ("session_events", "tool_calls", "artifacts"):
        gone += connection.execute(
            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE session = ? LIMIT ?)",
            (seq, max(0, _BITE - gone)),
        ).rowcount
    if gone < _BITE:
        gone += connection.execute("DELETE FROM sessions WHERE seq = ?", (seq,)).rowcount
        if agent == ident:
            agents.forget(connection, agent)
    return gone


def _victim(connection: sqlite3.Connection, keep_days: int) -> tuple[int, str, str] | None:
    last = connection.execute("SELECT max(seen_at) FROM sessions").fetchone()[0]
    if last is None:
        return None
    newest = min(times.parse(last) or times.now(), times.now())
    bound = None if _crowded(connection) else times.stamp(newest - timedelta(days=keep_days))
    row = connection.execute(
        "SELECT seq, id, agent_id FROM sessions WHERE (?1 IS NULL OR seen_at <= ?1)"
        " AND (ended_at IS NOT NULL OR seen_at <= ?2 OR host <> ?3) ORDER BY seen_at LIMIT 1",
        (bound, times.stamp(newest - _SILENT), host.hostname()),
    ).fetchone()
    return None if row is None else (int(row[0]), str(row[1]), str(row[2]))


def _crowded(connection: sqlite3.Connection) -> bool:
    """Counted only when there may be too many: numbers are given once, so there are never more than this."""
    first, last = connection.execute(
        "SELECT (SELECT min(seq) FROM session_events), (SELECT max(seq) FROM session_events)"  # two looks, no walk
    ).fetchone()
    if last is None or last - first < MOST_LINES:
        return False
    return bool(connection.execute("SELECT count(*) FROM session_events").fetchone()[0] > MOST_LINES)
