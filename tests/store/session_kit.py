"""Helpers for tests of recorded sessions: agents at a moment, made from few words, and the rows of the tables."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from imi_monitor import host
from imi_monitor.model import session_record, times
from imi_monitor.model.agent import DEAD, RUNNING, Agent, AgentEvent, SessionFacts, ToolCall, Truth
from imi_monitor.model.session_record import SessionRecord
from imi_monitor.model.snapshot import Key
from imi_monitor.store import db, session_writer
from tests.store import claim_kit

NOON = datetime(2025, 1, 27, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return times.stamp(NOON + timedelta(seconds=seconds))


def agent(
    state: str = RUNNING,
    since: float = 0,
    *,
    session: str = "s1",
    cli: str = "claude",
    worktree: str | None = "feat-x",
    ended: bool = False,
    pid: int | None = 4711,
    **more: Any,
) -> Agent:
    facts = SessionFacts(**{name: value for name, value in more.items() if name in SessionFacts.__dataclass_fields__})
    truth = Truth(state, at(since), "registry", "exact", more.get("detail"), ended=ended or state == DEAD)
    key = Key(host.hostname(), claim_kit.REPO, worktree) if worktree else None
    return Agent(
        f"{cli}:{session}",
        cli,
        cli,
        key,
        more.get("cwd", "/w/feat-x"),
        session,
        pid,
        None if pid is None else f"start-{pid}",
        truth,
        facts,
    )


def act(kind: str, ident: str, seconds: float = 0, text: str | None = None, **more: Any) -> AgentEvent:
    tool = more.pop("tool", None)
    if isinstance(tool, str):
        name, _, target = tool.partition(" ")
        tool = ToolCall(name, target or None, more.pop("call", None))
    return AgentEvent(kind, ident, at(seconds), text, tool, **more)


def record(one: Agent, *acts: AgentEvent, now: float = 3600, root: str = "/w/feat-x") -> SessionRecord:
    moment = NOON + timedelta(seconds=now)
    seen = session_record.session_state(one, host.hostname(), "boot/ns", moment)
    return session_record.session_record(seen, root, acts, moment, lambda path, inside: None)


def record_observation(connection: sqlite3.Connection, one: Agent, *acts: AgentEvent, now: float = 3600) -> None:
    db.transact(connection, session_writer.record, [record(one, *acts, now=now)])


def session_row(connection: sqlite3.Connection, ident: str = "claude:s1") -> dict[str, Any]:
    cursor = connection.execute("SELECT * FROM sessions WHERE id = ?", (ident,))
    names = [column[0] for column in cursor.description]
    return dict(zip(names, cursor.fetchone(), strict=True))


def event_stream(connection: sqlite3.Connection, what: str = "kind, status, at") -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT {what} FROM session_events ORDER BY at, seq").fetchall()


def recorded_event_types(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT type FROM events WHERE type LIKE 'session.%' ORDER BY seq")
    return [str(kind).removeprefix("session.") for (kind,) in rows]


def all_rows(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All recorded rows without the columns that hold the time of writing."""
    return {
        table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        for table in ("session_events", "tool_calls", "artifacts")
    }


def registry(path: Path) -> sqlite3.Connection:
    return claim_kit.registry(path, ["feat-x", "feat-y"])
