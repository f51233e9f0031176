"""Checkpoints of runs in the registry: the newest of each run, numbered from 1."""

from __future__ import annotations

import sqlite3

from imi_monitor.fast import json_writer
from imi_monitor.model import times
from imi_monitor.store import events
from imi_monitor.store.row import Row
from imi_monitor.store.runs import RunRow

_KEPT = 100  # of each run
_COLUMNS = "run, number, kind, position, state, at"


class CheckpointRow(Row):
    run: int
    number: int
    kind: str
    position: int
    state: str
    at: str


def add(connection: sqlite3.Connection, one: RunRow, kind: str, position: int, state: dict[str, object]) -> int:
    """Add a checkpoint and return its number. Call it inside the transaction that moves the place in the output."""
    number = last_number(connection, one.seq) + 1
    connection.execute(
        f"INSERT INTO checkpoints ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (one.seq, number, kind, position, json_writer.dumps(state), times.stamp()),
    )
    connection.execute("DELETE FROM checkpoints WHERE run = ? AND number <= ?", (one.seq, number - _KEPT))
    return number


def record_progress(connection: sqlite3.Connection, one: RunRow, session: str, status: str, number: int) -> None:
    """Record the event of a checkpoint that was due by the number of messages."""
    data: dict[str, object] = {"session": session, "cli": one.program, "status": status, "checkpoint": number}
    events.record(connection, "session.progress", one.repo_name, one.worktree_name, agent_id=one.agent_id, data=data)


def last_number(connection: sqlite3.Connection, run: int) -> int:
    row = connection.execute("SELECT max(number) FROM checkpoints WHERE run = ?", (run,)).fetchone()
    return int(row[0] or 0)


def list_checkpoints(connection: sqlite3.Connection, run: int) -> list[CheckpointRow]:
    """Oldest first."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM checkpoints WHERE run = ? ORDER BY number", (run,))
    return [CheckpointRow(row) for row in rows]
