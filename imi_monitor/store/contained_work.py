"""Contained workspaces in the registry: their lives, what was done to their files, and the files that go elsewhere."""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

ACTIVE, CLEANING, CLEANED, RESTORED, PURGED = "active", "cleaning", "cleaned", "restored", "purged"
WANTED, WAITS, DELIVERED, DROPPED = "wanted", "waits", "delivered", "dropped"
_MOST_LOG = 200_000  # rows


class ContainedRow(Row):
    """One life of a contained workspace: from the first file to its clean-up."""

    id: str
    name: str
    host: str
    path: str
    state: str
    created_at: str
    ended_at: str | None
    trash_path: str | None
    why: str | None


class LoggedAct(Row):
    """One act on a file, or one that was refused."""

    seq: int
    path: str
    run: str | None
    agent_id: str | None
    op: str
    name: str
    target: str | None
    size: int | None
    sha256: str | None
    why: str | None
    at: str


class Delivery(Row):
    """A file that is to go elsewhere: wanted, waits (for a person), delivered or dropped."""

    seq: int
    path: str
    run: str | None
    agent_id: str | None
    name: str
    target: str
    state: str
    allowed: int
    why: str | None
    at: str
    done_at: str | None


def open_life(connection: sqlite3.Connection, name: str, path: str) -> ContainedRow:
    """The present life of the workspace at this path, which begins here if there is none."""
    found = current(connection, path)
    if found is not None:
        return found
    values = (os.urandom(5).hex(), name, host.hostname(), path, ACTIVE, times.stamp())
    connection.execute(
        f"INSERT INTO contained_workspaces ({ContainedRow.columns}) VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL)", values
    )
    made = current(connection, path)
    assert made is not None
    return made


def current(connection: sqlite3.Connection, path: str) -> ContainedRow | None:
    row = connection.execute(
        f"SELECT {ContainedRow.columns} FROM contained_workspaces WHERE path = ? AND host = ? AND state IN (?, ?)"
        " ORDER BY rowid DESC LIMIT 1",
        (path, host.hostname(), ACTIVE, CLEANING),
    ).fetchone()
    return None if row is None else ContainedRow(row)


def list_lives(connection: sqlite3.Connection, *states: str) -> list[ContainedRow]:
    """The lives in these states on this machine, newest first."""
    marks = ", ".join("?" * len(states))
    rows = connection.execute(
        f"SELECT {ContainedRow.columns} FROM contained_workspaces WHERE host = ? AND state IN ({marks}) ORDER BY rowid DESC",
        (host.hostname(), *states),
    )
    return [ContainedRow(row) for row in rows]


def begin_cleaning(connection: sqlite3.Connection, ident: str, trash_path: str, why: str) -> None:
    connection.execute(
        "UPDATE contained_workspaces SET state = ?, trash_path = ?, why = ? WHERE id = ?",
        (CLEANING, trash_path, why, ident),
    )


def set_state(connection: sqlite3.Connection, ident: str, state: str) -> bool:
    """False if there is no such life."""
    done = connection.execute(
        "UPDATE contained_workspaces SET state = ?, ended_at = ? WHERE id = ?", (state, times.stamp(), ident)
    )
    return done.rowcount == 1


def log(
    connection: sqlite3.Connection,
    path: str,
    op: str,
    name: str,
    *,
    run: str | None = None,
    agent: str | None = None,
    target: str | None = None,
    size: int | None = None,
    sha256: str | None = None,
    why: str | None = None,
) -> None:
    """Add one act to the audit log."""
    values = (path, run, agent, op, name, target, size, sha256, why, times.stamp())
    done = connection.execute(
        "INSERT INTO file_log (path, run, agent_id, op, name, target, size, sha256, why, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    connection.execute("DELETE FROM file_log WHERE seq <= ?", ((done.lastrowid or 0) - _MOST_LOG,))


def history(connection: sqlite3.Connection, path: str, name: str | None, limit: int) -> list[LoggedAct]:
    """The last acts on files of this workspace, or on one of them, oldest first."""
    only, values = ("", ()) if name is None else (" AND name = ?", (name,))
    rows = connection.execute(
        f"SELECT {LoggedAct.columns} FROM file_log WHERE path = ?{only} ORDER BY seq DESC LIMIT ?",
        (path, *values, limit),
    )
    return [LoggedAct(row) for row in rows][::-1]


def want_delivery(
    connection: sqlite3.Connection,
    path: str,
    name: str,
    target: str,
    *,
    run: str | None,
    agent: str | None,
    allowed: bool,
) -> None:
    """Record where a file is to go; the same wish of the same run is recorded once."""
    same = connection.execute(
        "SELECT 1 FROM deliveries WHERE path = ? AND name = ? AND target = ? AND run IS ? AND state IN (?, ?)",
        (path, name, target, run, WANTED, WAITS),
    ).fetchone()
    if same is None:
        connection.execute(
            "INSERT INTO deliveries (path, run, agent_id, name, target, state, allowed, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (path, run, agent, name, target, WANTED, int(allowed), times.stamp()),
        )


def list_deliveries(connection: sqlite3.Connection, path: str, *states: str) -> list[Delivery]:
    marks = ", ".join("?" * len(states))
    rows = connection.execute(
        f"SELECT {Delivery.columns} FROM deliveries WHERE path = ? AND state IN ({marks}) ORDER BY seq", (path, *states)
    )
    return [Delivery(row) for row in rows]


def drop_wanted(connection: sqlite3.Connection, path: str, why: str) -> None:
    """End what is still wanted in a workspace in which no run is left to want it."""
    connection.execute(
        "UPDATE deliveries SET state = ?, why = ?, done_at = ? WHERE path = ? AND state = ?",
        (DROPPED, why, times.stamp(), path, WANTED),
    )


def end_delivery(
    connection: sqlite3.Connection, seq: int, state: str, why: str | None, target: str | None = None
) -> None:
    connection.execute(
        "UPDATE deliveries SET state = ?, why = ?, target = coalesce(?, target), done_at = ? WHERE seq = ?",
        (state, why, target, times.stamp(), seq),
    )
