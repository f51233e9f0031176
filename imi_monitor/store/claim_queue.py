"""The line of each claimed worktree: first come, first served.

A waiter is a row with the waiting process and the time at which it gives up. Readers skip waiters that cannot claim now
(dead, suspended, given up); writers delete those that never will, so that no waiter is held up by a dead one.

A waiter of another home has no process here but the question by which it waits. It stays while the question is asked again.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.store import db
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_KEY = "WHERE repo_name = ? AND worktree_name = ?"


class WaiterRow(Row):
    seq: int
    repo_name: str
    worktree_name: str
    agent_id: str
    task_id: str | None
    host: str
    boot: str
    pid: int
    pid_started: str | None
    enqueued_at: str
    gives_up_uptime: float
    question: str | None
    asked: int | None

    @property
    def gone(self) -> bool:
        """True if it will never claim: its process is dead or its time to wait is over.

        The registry lies on this machine's disk, so a waiter of another boot is from before a restart.
        """
        if self.boot.partition("/")[0] != host.boot().partition("/")[0]:
            return True
        return host.uptime() > self.gives_up_uptime or self._alive() is False

    @property
    def ready(self) -> bool:
        """True if it could claim now: not gone and not suspended (SIGSTOP, a debugger)."""
        if self.gone:
            return False
        return not (self._alive() and host.is_suspended(self.pid))

    def _alive(self) -> bool | None:
        return host.is_alive(self.host, self.boot, self.pid, self.pid_started)


def join(
    connection: sqlite3.Connection,
    repo_name: str,
    worktree_name: str,
    agent: str,
    process: host.ProcessIdentity,
    *,
    task: str | None,
    seconds: float,
) -> int:
    """Append a waiter that gives up after `seconds`; returns its number, which is the order of the line."""
    made = connection.execute(
        "INSERT INTO claim_queue (repo_name, worktree_name, agent_id, task_id, host, boot, pid, pid_started,"
        " enqueued_at, gives_up_uptime) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            repo_name,
            worktree_name,
            agent,
            task,
            process.host,
            process.boot,
            process.pid,
            process.started,
            times.stamp(),
            host.uptime() + seconds,
        ),
    )
    return int(made.lastrowid or 0)


def join_from(
    connection: sqlite3.Connection,
    key: tuple[str, str],
    question: str,
    home: str,
    agent: str,
    *,
    task: str | None,
    number: int,
    seconds: float,
) -> int:
    """Append a waiter of another home, or let the one of this question stay for `seconds` more; returns its number."""
    stays = connection.execute(
        "UPDATE claim_queue SET gives_up_uptime = ?, asked = max(coalesce(asked, 0), ?) WHERE question = ? RETURNING seq",
        (host.uptime() + seconds, number, question),
    ).fetchall()
    if stays:
        return int(stays[0][0])
    process = host.ProcessIdentity(host.remote_holder(home).host, host.boot(), 0, None)
    seq = join(connection, *key, agent, process, task=task, seconds=seconds)
    connection.execute("UPDATE claim_queue SET question = ?, asked = ? WHERE seq = ?", (question, number, seq))
    return seq


def leave_from(connection: sqlite3.Connection, question: str, home: str) -> None:
    """Delete the waiter of this question if it is of that home."""
    connection.execute(
        "DELETE FROM claim_queue WHERE question = ? AND host = ?", (question, host.remote_holder(home).host)
    )


def list_from_homes(connection: sqlite3.Connection) -> list[WaiterRow]:
    """The waiters of other homes, in order."""
    rows = connection.execute(f"SELECT {WaiterRow.columns} FROM claim_queue WHERE question IS NOT NULL ORDER BY seq")
    return [WaiterRow(row) for row in rows]


def leave(connection: sqlite3.Connection, seq: int) -> None:
    """Delete the waiter, unless it was deleted before."""
    connection.execute("DELETE FROM claim_queue WHERE seq = ?", (seq,))


def leave_all(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, process: host.ProcessIdentity
) -> None:
    """Delete the waiters of one process."""
    connection.execute(
        f"DELETE FROM claim_queue {_KEY} AND host = ? AND boot = ? AND pid = ? AND pid_started IS ?",
        (repo_name, worktree_name, process.host, process.boot, process.pid, process.started),
    )


def list_waiters(
    connection: sqlite3.Connection, repo_name: str | None = None, worktree_name: str | None = None
) -> list[WaiterRow]:
    """All waiters in order, those that are gone too: of one worktree, one repository, or all."""
    where, values = db.where(repo_name=repo_name, worktree_name=worktree_name)
    rows = connection.execute(f"SELECT {WaiterRow.columns} FROM claim_queue{where} ORDER BY seq", values)
    return [WaiterRow(row) for row in rows]


def first_ready(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, before: int | None = None
) -> WaiterRow | None:
    """The first waiter that could claim now, among those before number `before` or among all."""
    rows = connection.execute(
        f"SELECT {WaiterRow.columns} FROM claim_queue {_KEY} AND seq < ? ORDER BY seq",
        (repo_name, worktree_name, before if before is not None else 1 << 62),
    ).fetchall()
    return next((waiter for row in rows if (waiter := WaiterRow(row)).ready), None)


def remove_gone(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> None:
    """Delete the waiters that will never claim."""
    for waiter in list_waiters(connection, repo_name, worktree_name):
        if waiter.gone:
            leave(connection, waiter.seq)


def is_waiting(connection: sqlite3.Connection, seq: int) -> bool:
    return connection.execute("SELECT 1 FROM claim_queue WHERE seq = ?", (seq,)).fetchone() is not None


def position(connection: sqlite3.Connection, repo_name: str, worktree_name: str, seq: int) -> int:
    """1 for the first in line. Counts the waiters ahead whose time is not over, without checking their processes."""
    row = connection.execute(
        f"SELECT count(*) FROM claim_queue {_KEY} AND seq < ? AND gives_up_uptime > ?",
        (repo_name, worktree_name, seq, host.uptime()),
    ).fetchone()
    return int(row[0]) + 1
