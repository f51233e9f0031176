"""How much history the registry keeps: so many events and ended claims, and sessions for so many days.

An event that a configured sink does not have yet stays, until there are a million or the file has a gigabyte: then the oldest
are deleted, and each sink counts what it did not get.

Events and claims are counted in rows, not in days: a clock that is wrong must not empty the log. The days of sessions
are counted back from the last sign of any session that is a day older than the newest one: a clock that is set forward
counts only after a day. A session that is not over stays, however old, and so does
that of a run whose folder is in its place. Each call removes a bounded number of rows, so that
no command waits for it.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.store import agents, db, sink_cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

KEEP_DAYS = 30
_PROVEN_DAYS = 1  # how long the clock must have shown a date before days are counted from it
_SILENT_DAYS = 2  # a session without an end that was not seen for this long counts as over

_OLDEST = (
    "SELECT seq, id, agent_id FROM sessions WHERE (?1 IS NULL OR seen_at <= ?1)"
    " AND (ended_at IS NOT NULL OR seen_at <= ?2 OR host <> ?3){} ORDER BY seen_at LIMIT 1"
)
_RUN_WITH_FOLDER = "SELECT 1 FROM runs AS r WHERE r.id = json_extract(metadata, '$.run') AND r.archive IS NULL"


class RetentionLimits:
    """A plain class: every command that is not hot imports this module, and `dataclasses` costs 8 ms."""

    __slots__ = ("events", "events_at_most", "file_bytes", "grants", "rows_per_call", "session_events")

    def __init__(
        self,
        *,
        events: int = 100_000,
        events_at_most: int = 1_000_000,  # the cap that also deletes events a sink has not received
        file_bytes: int = 1 << 30,  # the registry's size beyond which events are deleted before a sink has them
        grants: int = 20_000,  # current and ended claims; only ended ones are deleted
        session_events: int = 200_000,  # of all sessions together
        rows_per_call: int = 2_000,
    ) -> None:
        self.events = events
        self.events_at_most = events_at_most
        self.file_bytes = file_bytes
        self.grants = grants
        self.session_events = session_events
        self.rows_per_call = rows_per_call


LIMITS = RetentionLimits()


def trim_if_due(connection: sqlite3.Connection, keep_days: int | None) -> None:
    """Delete some of what is due, in transactions of its own; `keep_days` None leaves sessions alone."""
    if is_history_due(connection):
        db.transact(connection, trim_history)
    if keep_days is not None and are_sessions_due(connection, keep_days):
        db.transact(connection, trim_sessions, keep_days)


def has_many_events(connection: sqlite3.Connection, limits: RetentionLimits = LIMITS) -> bool:
    """True if there are more events than are kept, whether or not sinks have them; costs microseconds."""
    first, last = connection.execute("SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)").fetchone()
    return last is not None and last - first >= limits.events + limits.rows_per_call


def is_history_due(connection: sqlite3.Connection, limits: RetentionLimits = LIMITS) -> bool:
    """True if a call of `trim_history` would delete enough rows; costs microseconds."""
    # two subqueries use the index; one query for both would scan the table
    first, last = connection.execute("SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)").fetchone()
    due = last is not None and last - first >= limits.events + limits.rows_per_call
    if due and _last_event_to_delete(connection, first, last, limits) - first >= limits.rows_per_call:
        return True
    grants = connection.execute("SELECT count(*) FROM claim_history").fetchone()[0]
    return bool(grants >= limits.grants + limits.rows_per_call)


def trim_history(connection: sqlite3.Connection, limits: RetentionLimits = LIMITS) -> int:
    """Delete the oldest events and ended grants beyond the limits, at most `rows_per_call` of each; returns their number."""
    events = _trim_events(connection, limits)
    surplus = connection.execute("SELECT count(*) FROM claim_history").fetchone()[0] - limits.grants
    grants = connection.execute(
        "DELETE FROM claim_history WHERE (repo_name, worktree_name, epoch) IN (SELECT repo_name, worktree_name, epoch"
        " FROM claim_history WHERE released_at IS NOT NULL ORDER BY claimed_at LIMIT ?)",
        (max(0, min(limits.rows_per_call, surplus)),),
    ).rowcount
    if grants:
        connection.execute(
            "DELETE FROM tasks WHERE NOT EXISTS (SELECT 1 FROM claim_history AS g WHERE g.repo_name = tasks.repo_name"
            " AND g.worktree_name = tasks.worktree_name AND g.epoch = tasks.epoch)"
        )
    return int(events + grants)


def _trim_events(connection: sqlite3.Connection, limits: RetentionLimits) -> int:
    first, last = connection.execute("SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)").fetchone()
    if last is None:
        return 0
    upto = min(_last_event_to_delete(connection, first, last, limits), first + limits.rows_per_call - 1)
    if upto < first:
        return 0
    sink_cursors.count_dropped(connection, first, upto)
    return int(connection.execute("DELETE FROM events WHERE seq <= ?", (upto,)).rowcount)


def _last_event_to_delete(connection: sqlite3.Connection, first: int, last: int, limits: RetentionLimits) -> int:
    """The newest event that need not be kept: beyond the limit, and every sink has it or there are too many."""
    upto = int(last) - limits.events
    floor = sink_cursors.floor(connection)
    if floor is None or upto <= floor:
        return upto
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    if pages * size > limits.file_bytes:
        return upto
    return max(floor, int(last) - limits.events_at_most)


def are_sessions_due(
    connection: sqlite3.Connection, keep_days: int = KEEP_DAYS, limits: RetentionLimits = LIMITS
) -> bool:
    """True if a session is due for deletion; costs microseconds."""
    return _session_to_delete(connection, keep_days, limits) is not None


def trim_sessions(connection: sqlite3.Connection, keep_days: int = KEEP_DAYS, limits: RetentionLimits = LIMITS) -> int:
    """Delete at most `rows_per_call` rows of the oldest session; returns the number of rows. Call it inside a transaction."""
    victim = _session_to_delete(connection, keep_days, limits)
    if victim is None:
        return 0
    from imi_monitor.store import attempts  # imported late: every command checks whether something is due

    seq, ident, agent = victim
    attempts.store_outcomes(connection, seq)
    gone = 0
    for table in ("session_events", "tool_calls", "artifacts"):
        gone += connection.execute(
            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE session = ? LIMIT ?)",
            (seq, max(0, limits.rows_per_call - gone)),
        ).rowcount
    if gone < limits.rows_per_call:
        gone += connection.execute("DELETE FROM sessions WHERE seq = ?", (seq,)).rowcount
        if agent == ident:
            agents.forget(connection, agent)
    return gone


def _session_to_delete(
    connection: sqlite3.Connection, keep_days: int, limits: RetentionLimits
) -> tuple[int, str, str] | None:
    last = connection.execute("SELECT max(seen_at) FROM sessions").fetchone()[0]
    if last is None:
        return None
    from datetime import timedelta  # imported late too: most registries have no session

    newest = min(times.parse(last) or times.now(), times.now())
    if keep_days > 0:
        newest = _counted_from(connection, newest)
    bound = (
        None
        if _has_too_many_events(connection, limits.session_events)
        else times.stamp(newest - timedelta(days=keep_days))
    )
    values = (bound, times.stamp(newest - timedelta(days=_SILENT_DAYS)), host.hostname())
    row = connection.execute(_OLDEST.format(f" AND NOT EXISTS ({_RUN_WITH_FOLDER})"), values).fetchone()
    if row is None and bound is None:
        row = connection.execute(_OLDEST.format(""), values).fetchone()  # there are too many events all the same
    return None if row is None else (int(row[0]), str(row[1]), str(row[2]))


def _counted_from(connection: sqlite3.Connection, newest: datetime) -> datetime:
    """The last sign of a session a day before the newest one, or that itself."""
    from datetime import timedelta

    proven = (times.stamp(newest - timedelta(days=_PROVEN_DAYS)),)
    last = connection.execute("SELECT max(seen_at) FROM sessions WHERE seen_at <= ?", proven).fetchone()[0]
    return times.parse(last) or newest


def _has_too_many_events(connection: sqlite3.Connection, limit: int) -> bool:
    """True if there are too many session events; counted only when the numbers, which are never reused, allow it."""
    first, last = connection.execute(
        "SELECT (SELECT min(seq) FROM session_events), (SELECT max(seq) FROM session_events)"  # uses the index, no scan
    ).fetchone()
    if last is None or last - first < limit:
        return False
    return bool(connection.execute("SELECT count(*) FROM session_events").fetchone()[0] > limit)
