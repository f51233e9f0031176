"""How much history the registry keeps: so many events and ended claims, and sessions for so many days.

Events and claims are counted in rows, not in days: a clock that is wrong must not empty the log. The days of sessions
are counted back from the last sign of any session; a session that is not over stays, however old. Each call removes a
bounded number of rows, so that no command waits for it.
"""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.store import agents

MOST_EVENTS = 100_000
MOST_GRANTS = 20_000  # ended claims
MOST_LINES = 200_000  # session events of all sessions together
KEEP_DAYS = 30
_SILENT = timedelta(days=2)  # a session without an end that was not seen for this long counts as over
_BITE = 2_000  # rows removed by one call


def is_history_due(connection: sqlite3.Connection) -> bool:
    """True if a call of `trim_history` would delete enough rows; costs microseconds."""
    # two subqueries use the index; one query for both would scan the table
    first, last = connection.execute("SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)").fetchone()
    if last is not None and last - first >= MOST_EVENTS + _BITE:
        return True
    return bool(connection.execute("SELECT count(*) FROM claim_history").fetchone()[0] >= MOST_GRANTS + _BITE)


def trim_history(connection: sqlite3.Connection) -> int:
    """Delete the oldest events and ended grants beyond the limits, at most _BITE of each; returns the number of rows."""
    events = connection.execute(
        "DELETE FROM events WHERE seq <= (SELECT max(seq) FROM events) - ? AND seq < (SELECT min(seq) FROM events) + ?",
        (MOST_EVENTS, _BITE),
    ).rowcount
    surplus = connection.execute("SELECT count(*) FROM claim_history").fetchone()[0] - MOST_GRANTS
    grants = connection.execute(
        "DELETE FROM claim_history WHERE (repo_name, worktree_name, epoch) IN (SELECT repo_name, worktree_name, epoch"
        " FROM claim_history WHERE released_at IS NOT NULL ORDER BY claimed_at LIMIT ?)",
        (max(0, min(_BITE, surplus)),),
    ).rowcount
    if grants:
        connection.execute(
            "DELETE FROM tasks WHERE NOT EXISTS (SELECT 1 FROM claim_history AS g WHERE g.repo_name = tasks.repo_name"
            " AND g.worktree_name = tasks.worktree_name AND g.epoch = tasks.epoch)"
        )
    return int(events + grants)


def are_sessions_due(connection: sqlite3.Connection, keep_days: int = KEEP_DAYS) -> bool:
    """True if a session is due for deletion; costs microseconds."""
    return _session_to_delete(connection, keep_days) is not None


def trim_sessions(connection: sqlite3.Connection, keep_days: int = KEEP_DAYS) -> int:
    """Delete at most _BITE rows of the oldest session; returns the number of rows. Call it inside a transaction."""
    victim = _session_to_delete(connection, keep_days)
    if victim is None:
        return 0
    from imi_monitor.store import attempts  # imported late: every command checks whether something is due

    seq, ident, agent = victim
    attempts.store_outcomes(connection, seq)
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


def _session_to_delete(connection: sqlite3.Connection, keep_days: int) -> tuple[int, str, str] | None:
    last = connection.execute("SELECT max(seen_at) FROM sessions").fetchone()[0]
    if last is None:
        return None
    newest = min(times.parse(last) or times.now(), times.now())
    bound = None if _has_too_many_events(connection) else times.stamp(newest - timedelta(days=keep_days))
    row = connection.execute(
        "SELECT seq, id, agent_id FROM sessions WHERE (?1 IS NULL OR seen_at <= ?1)"
        " AND (ended_at IS NOT NULL OR seen_at <= ?2 OR host <> ?3) ORDER BY seen_at LIMIT 1",
        (bound, times.stamp(newest - _SILENT), host.hostname()),
    ).fetchone()
    return None if row is None else (int(row[0]), str(row[1]), str(row[2]))


def _has_too_many_events(connection: sqlite3.Connection) -> bool:
    """True if there are too many session events; counted only when the numbers, which are never reused, allow it."""
    first, last = connection.execute(
        "SELECT (SELECT min(seq) FROM session_events), (SELECT max(seq) FROM session_events)"  # uses the index, no scan
    ).fetchone()
    if last is None or last - first < MOST_LINES:
        return False
    return bool(connection.execute("SELECT count(*) FROM session_events").fetchone()[0] > MOST_LINES)
