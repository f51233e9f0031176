"""Metrics: one row for each session that ended, kept when the session itself is deleted. None is unknown, never zero."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.agent import FAILED
from imi_monitor.model.session_status import INTERRUPTED, measure_session_time
from imi_monitor.store import db, sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_LONG_AGO = "0001"


@dataclass(frozen=True, slots=True)
class EndedSession:
    """One session that ended."""

    ended_at: str
    repo_name: str | None
    worktree_name: str | None
    agent_id: str
    cli: str
    outcome: str
    seconds: float | None
    working_seconds: float | None
    turns: int | None
    tools: int | None
    failures: int | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None


_COLUMNS = ", ".join(EndedSession.__annotations__)


def record_end(connection: sqlite3.Connection, seq: int) -> None:
    """Write the row of a session that has ended; inside the transaction that records its end. A second end replaces it."""
    one = sessions.by_seq(connection, seq)
    if one is None or one.ended_at is None:
        return
    begin, end = times.parse(one.began_at), times.parse(one.ended_at)
    changes = [(each.at, each.status) for each in sessions.list_status_changes(connection, [seq])]
    spent = measure_session_time(changes, begin, end) if begin is not None and end is not None else None
    turns, tools, failed = sessions.count_activity(connection, seq, _LONG_AGO)
    values = (
        one.host,
        one.id,
        one.ended_at,
        one.repo_name,
        one.worktree_name,
        one.cli if one.agent_id == one.id else one.agent_id,
        one.cli,
        one.state_word,
        (end - begin).total_seconds() if begin is not None and end is not None else None,
        spent.working if spent is not None else None,
        turns,
        tools,
        failed + (one.state in (FAILED, INTERRUPTED)),
        one.tokens_in,
        one.tokens_out,
        one.cost_usd,
    )
    connection.execute(
        f"INSERT OR REPLACE INTO metrics (host, session, {_COLUMNS}) VALUES ({', '.join('?' * len(values))})", values
    )


def list_ends(
    connection: sqlite3.Connection,
    since: str | None = None,
    *,
    repo_name: str | None = None,
    worktree_name: str | None = None,
    agent: str | None = None,
) -> list[EndedSession]:
    """The sessions that ended since that moment, oldest first."""
    where, values = db.where(repo_name=repo_name, worktree_name=worktree_name)
    for condition, value in (("ended_at >= ?", [since]), ("(agent_id = ? OR cli = ?)", [agent, agent])):
        if value[0] is not None:
            where += f"{' AND' if where else ' WHERE'} {condition}"
            values += value
    rows = connection.execute(f"SELECT {_COLUMNS} FROM metrics{where} ORDER BY ended_at", values)
    return [EndedSession(*row) for row in rows]
