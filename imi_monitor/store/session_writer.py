"""Recording of observed sessions. `record` runs in one transaction; rows that exist already stay as they are.

Several monitors may observe the same agent at slightly different times: an observation older than the row does not set
it back. The status changes only here, only along `model.session_status.steps`, and together with the agent's row and the
event log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from imi_monitor.fast import json_writer
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import session_status, times
from imi_monitor.model.agent import CANCELLED, FAILED, PLANNING, RESTING
from imi_monitor.model.session_record import SessionRecord, SessionState
from imi_monitor.store import agents, events, metrics, session_events

_COLUMNS = "seq, status, status_at, lost, ended_at, pid, pid_started, agent_id, repo_name, worktree_name, host, cli, id"
_GROWING = (
    "tokens_in",
    "tokens_out",
    "tokens_cached",
    "cost_usd",
)  # never decrease: another monitor may have read less so far
_TOLERANCE = 5.0  # seconds by which an agent's own files disagree
_MOST_ARTIFACTS = 50  # of an event
# a reader of transcripts knows nothing of a run: what its own reader has stored stays
_METADATA = "json_patch(json_remove(metadata, '$.source', '$.confidence', '$.format_note'), ?)"
_LATE = 60.0  # seconds: a session that ended longer ago when first observed records no events


@dataclass(slots=True)
class _RecordedSession:
    """The columns of a session's row that decide its next state."""

    seq: int
    status: str
    status_at: str
    lost: str | None
    ended_at: str | None
    pid: int | None
    pid_started: str | None
    agent_id: str
    repo_name: str | None
    worktree_name: str | None
    host: str
    cli: str
    id: str
    late: bool = False


def record(connection: sqlite3.Connection, records: Sequence[SessionRecord]) -> None:
    """Record everything new. Call it inside a transaction."""
    for record in records:
        _record_one(connection, record)


def known_event_ids(
    connection: sqlite3.Connection, host: str, wanted: Sequence[tuple[str, Sequence[str]]]
) -> set[tuple[str, str]]:
    """The (session, event id) pairs that are recorded, of those wanted."""
    return {
        (session, found)
        for session, ids in wanted
        for found in session_events.known_ids(connection, _seq(connection, host, session), ids)
    }


def _record_one(connection: sqlite3.Connection, record: SessionRecord) -> None:
    now = record.session
    row = _row(connection, now)
    if record.only_acts and row is not None:
        session_events.add_record(connection, row.seq, record)
        return
    fresh = row is None
    if row is None:
        row = _insert(connection, now)
    _update_agent_name(connection, row, now)
    if fresh or not _is_old(row, now):
        _resume(connection, row, now)
        _advance(connection, row, now, fresh)
        if fresh:
            how = "started" if "run" in now.metadata else "seen"
            about = {"how": how, "began_at": now.texts["started_at"], **_of_run(now, "run", "user", "labels")}
            _record_event(connection, row, "session.started", about)
        _update_details(connection, row, now)
        session_events.add_record(connection, row.seq, record)
        _end(connection, row, now)
    else:
        _update_details(connection, row, now)
        session_events.add_record(connection, row.seq, record)
    if row.ended_at is not None:
        metrics.record_end(connection, row.seq)
    _update_agent(connection, row, now)


def _update_agent(connection: sqlite3.Connection, row: _RecordedSession, now: SessionState) -> None:
    """Copy the state of the agent's newest session to the agent's row."""
    newest = connection.execute(
        "SELECT status, lost FROM sessions WHERE agent_id = ? ORDER BY ended_at IS NULL DESC, status_at DESC LIMIT 1",
        (row.agent_id,),
    ).fetchone()
    agents.mark_seen(connection, row.agent_id, row.host, now.seen_at, session_status.agent_entry_status(*newest))


def _seq(connection: sqlite3.Connection, host: str, session: str) -> int | None:
    found = connection.execute("SELECT seq FROM sessions WHERE host = ? AND id = ?", (host, session)).fetchone()
    return None if found is None else int(found[0])


def _row(connection: sqlite3.Connection, now: SessionState) -> _RecordedSession | None:
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE host = ? AND id = ?", (now.host, now.id)
    ).fetchone()
    return None if found is None else _RecordedSession(*found)


def _insert(connection: sqlite3.Connection, now: SessionState) -> _RecordedSession:
    """Insert the row of a new session, as planning since its start."""
    began = min(now.texts["started_at"] or now.since, now.since)
    name = _claiming_agent(connection, now, None)
    connection.execute(
        "INSERT INTO sessions (id, host, cli, agent_id, status, status_at, seen_at, created_at, updated_at, repo_name,"
        " worktree_name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            now.id,
            now.host,
            now.cli,
            name,
            PLANNING,
            began,
            now.seen_at,
            now.seen_at,
            now.seen_at,
            now.repo_name,
            now.worktree_name,
        ),
    )
    row = _row(connection, now)
    assert row is not None
    row.late = now.ended and _seconds(now.ended_at, now.seen_at) > _LATE
    return row


def _is_old(row: _RecordedSession, now: SessionState) -> bool:
    """True if the row is newer than this observation.

    For an ended session, always, unless the observation is proven to be of a later life (another process or a later
    time). Otherwise only by more than the tolerance, so that the next observation of the same monitor counts.
    """
    other = now.pid is not None and (now.pid, now.pid_started) != (row.pid, row.pid_started)
    if row.ended_at is not None:
        return not now.ended and not (now.since > row.ended_at or other)
    if now.ended:
        return other and now.since < row.status_at
    return row.lost is None and _seconds(now.since, row.status_at) > _TOLERANCE


def _resume(connection: sqlite3.Connection, row: _RecordedSession, now: SessionState) -> None:
    if row.ended_at is None or now.ended:
        return
    row.ended_at, row.lost = None, None
    connection.execute("UPDATE sessions SET ended_at = NULL, lost = NULL WHERE seq = ?", (row.seq,))
    _add_status_event(connection, row, "resumed", now.since, None, {})
    _record_event(connection, row, "session.started", {"how": "resumed"})


def _advance(connection: sqlite3.Connection, row: _RecordedSession, now: SessionState, fresh: bool) -> None:
    """Move the status to the observed one, step by step."""
    lost, target = (
        session_status.lost_state(now.state),
        row.status if session_status.lost_state(now.state) else now.state,
    )
    if now.ended and lost is None and target not in RESTING:
        target = CANCELLED  # it ended in the middle of a turn
    before = row.status
    passed = session_status.steps(before, target)
    for step in passed:
        seen = step if step == target else None  # the time of an intermediate step is unknown
        kind = session_status.READY if seen and now.never_asked else "status"
        _add_status_event(connection, row, kind, now.since, seen, {"from": row.status, "to": step})
        row.status = step
    if passed or (target in RESTING and now.since > row.status_at):
        row.status_at = now.since
    _update_lost(connection, row, lost, now)
    connection.execute(
        "UPDATE sessions SET status = ?, status_at = ?, lost = ?, detail = ? WHERE seq = ?",
        (row.status, row.status_at, row.lost, now.detail, row.seq),
    )
    if passed and target in (CANCELLED, FAILED):
        session_events.cancel_calls(connection, row.seq, now.since)
    if passed and not fresh:
        about: dict[str, object] = {"from": before, "detail": now.detail, "since": row.status_at}
        _record_event(connection, row, "session.progress", about)


def _update_lost(connection: sqlite3.Connection, row: _RecordedSession, lost: str | None, now: SessionState) -> None:
    if lost == row.lost:
        return
    if lost is not None:
        _add_status_event(connection, row, lost, now.since, lost, {})
    else:  # its state is known again
        _add_status_event(connection, row, "status", now.seen_at, row.status, {"from": row.lost, "to": row.status})
    row.lost = lost


def _end(connection: sqlite3.Connection, row: _RecordedSession, now: SessionState) -> None:
    if not now.ended or row.ended_at is not None:
        return
    row.ended_at = now.ended_at or now.since
    connection.execute("UPDATE sessions SET ended_at = ? WHERE seq = ?", (row.ended_at, row.seq))
    session_events.cancel_calls(connection, row.seq, row.ended_at)
    if now.gone:
        _add_status_event(connection, row, "gone", row.ended_at, None, {})
    artifacts, total = session_events.newest_artifacts(connection, row.seq, _MOST_ARTIFACTS)
    about: dict[str, object] = {"ended_at": row.ended_at, "detail": now.detail, "artifacts": artifacts}
    about |= {"more_artifacts": total - len(artifacts)} if total > len(artifacts) else {}
    _record_event(connection, row, "session.ended", {**about, **_of_run(now, "run", "committed", "uncommitted")})


def _of_run(now: SessionState, *names: str) -> dict[str, object]:
    """Return the columns that come from the session's run, for an agent that imi started."""
    return {name: now.metadata[name] for name in names if name in now.metadata}


def _update_details(connection: sqlite3.Connection, row: _RecordedSession, now: SessionState) -> None:
    """Update the other columns; an unknown value keeps the recorded one."""
    values: dict[str, object] = {
        **now.texts,
        **now.numbers,
        "repo_name": now.repo_name,
        "worktree_name": now.worktree_name,
        "boot": now.boot,
        "pid": now.pid,
        "pid_started": now.pid_started,
    }
    sets = [
        f"{column} = {f'max(coalesce(?, {column}), coalesce({column}, ?))' if column in _GROWING else f'coalesce(?, {column})'}"
        for column in values
    ]
    given: list[object] = []
    for column, value in values.items():
        given += [value, value] if column in _GROWING else [value]
    connection.execute(
        f"UPDATE sessions SET {', '.join(sets)}, metadata = {_METADATA}, seen_at = max(seen_at, ?), updated_at = ? WHERE seq = ?",
        (*given, json_writer.dumps(now.metadata), now.seen_at, times.stamp(), row.seq),
    )


def _update_agent_name(connection: sqlite3.Connection, row: _RecordedSession, now: SessionState) -> None:
    """Give the session the name under which its agent has claimed the worktree meanwhile."""
    name = _claiming_agent(connection, now, row)
    if name == row.agent_id:
        return
    connection.execute("UPDATE sessions SET agent_id = ? WHERE seq = ?", (name, row.seq))
    if row.agent_id == row.id:
        agents.forget(connection, row.id)
    row.agent_id = name


def _claiming_agent(connection: sqlite3.Connection, now: SessionState, row: _RecordedSession | None) -> str:
    """The owner of the worktree, if the claim is this process's or the session is the first of its program; else the id."""
    own = row.agent_id if row is not None else now.id
    if now.worktree_name is None or now.ended:
        return own
    claim = connection.execute(
        "SELECT agent_id, pid FROM claims WHERE repo_name = ? AND worktree_name = ? AND agent_id IS NOT NULL"
        " AND agent_id NOT LIKE 'imi:%'",
        (now.repo_name, now.worktree_name),
    ).fetchone()
    if claim is None:
        return own
    holder, pid = str(claim[0]), claim[1]
    if pid is not None and (pid == now.pid or pid in now.starters):
        return holder
    if now.cli not in holder.lower():
        return own
    taken = connection.execute(
        "SELECT 1 FROM sessions WHERE agent_id = ? AND repo_name = ? AND worktree_name = ? AND ended_at IS NULL"
        " AND NOT (host = ? AND id = ?)",
        (holder, now.repo_name, now.worktree_name, now.host, now.id),
    ).fetchone()
    return own if taken else holder


def _add_status_event(
    connection: sqlite3.Connection,
    row: _RecordedSession,
    kind: str,
    at: str,
    status: str | None,
    data: dict[str, object],
) -> None:
    """Add an event of the session's stream; called only for a change and under the write lock, so it is written once."""
    session_events.add_event(
        connection, row.seq, f"{kind}:{new_id()}", "status_change", kind, at, status=status, data=data
    )


def _record_event(connection: sqlite3.Connection, row: _RecordedSession, kind: str, data: dict[str, object]) -> None:
    """Record an event in the log, unless the session was over long before it was first observed."""
    if row.late:
        return
    about: dict[str, object] = {
        "session": row.id,
        "cli": row.cli,
        "status": session_status.displayed_status(row.status, row.lost),
        **data,
    }
    who = row.cli if row.agent_id == row.id else row.agent_id
    events.record(connection, kind, row.repo_name, row.worktree_name, agent_id=who, data=about)


def _seconds(begin: str | None, end: str) -> float:
    first, last = times.parse(begin), times.parse(end)
    return (last - first).total_seconds() if first is not None and last is not None else 0.0
