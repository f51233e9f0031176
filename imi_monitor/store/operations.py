"""Operations: recorded intents to change the disk.

A change of the disk records its intent first and deletes it in the transaction that records the result. A row whose
process is dead means a crash in between: `actions/recovery.py` examines the disk and completes or reverts it.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.fast import json_writer
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import times
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


class Operation(Row):
    id: str
    kind: str
    repo_name: str
    worktree_name: str
    host: str
    boot: str
    pid: int
    pid_started: str | None
    started_at: str
    data: dict[str, object]

    @property
    def abandoned(self) -> bool:
        """True if its process is proven dead; a process on another machine or in another namespace never is."""
        return host.is_alive(self.host, self.boot, self.pid, self.pid_started) is False


def begin(
    connection: sqlite3.Connection, kind: str, repo_name: str, worktree_name: str, data: dict[str, object]
) -> str:
    """Record an intent; returns the operation's id."""
    import os

    identity = new_id()
    me = host.identify_process(os.getpid())
    connection.execute(
        f"INSERT INTO operations ({Operation.columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            identity,
            kind,
            repo_name,
            worktree_name,
            me.host,
            me.boot,
            me.pid,
            me.started,
            times.stamp(),
            json_writer.dumps(data),
        ),
    )
    return identity


def refuse_if_busy(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> None:
    """Refuse while another operation on the worktree is unfinished; call it in the transaction that begins one."""
    for other in list_unfinished(connection):
        if (other.repo_name, other.worktree_name) == (repo_name, worktree_name):
            raise Refused(
                f"another operation on {safe(worktree_name)} is running ({safe(other.kind)}, process {other.pid}): "
                "wait for it, then repeat",
                code="busy",
            )


def update(connection: sqlite3.Connection, identity: str, data: dict[str, object]) -> None:
    connection.execute("UPDATE operations SET data = ? WHERE id = ?", (json_writer.dumps(data), identity))


def adopt(connection: sqlite3.Connection, operation: Operation) -> bool:
    """Assign an abandoned operation to this process; False when another process did so first."""
    import os

    me = host.identify_process(os.getpid())
    changed = connection.execute(
        "UPDATE operations SET host = ?, boot = ?, pid = ?, pid_started = ?"
        " WHERE id = ? AND boot = ? AND pid = ? AND pid_started IS ?",
        (me.host, me.boot, me.pid, me.started, operation.id, operation.boot, operation.pid, operation.pid_started),
    )
    return changed.rowcount == 1


def abandon(connection: sqlite3.Connection, identity: str) -> None:
    """Mark the operation as abandoned although this process runs: it could neither complete nor revert it."""
    connection.execute("UPDATE operations SET pid_started = 'given up' WHERE id = ?", (identity,))


def finish(connection: sqlite3.Connection, identity: str) -> bool:
    """Delete the intent; False when another process did so before."""
    return connection.execute("DELETE FROM operations WHERE id = ?", (identity,)).rowcount == 1


def list_unfinished(connection: sqlite3.Connection) -> list[Operation]:
    return [
        Operation(row) for row in connection.execute(f"SELECT {Operation.columns} FROM operations ORDER BY started_at")
    ]
