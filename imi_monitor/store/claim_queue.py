"""The line in front of a claimed worktree: first come, first served, and nobody waits behind the dead.

A waiter is a row with the process that waits and when it gives up. Whoever looks at the line skips those who cannot
take their turn (dead, suspended, given up), and whoever writes to it strikes out those who never will.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_COLUMNS = (
    "seq, repo_name, worktree_name, agent_id, task_id, host, boot, pid, pid_started, enqueued_at, gives_up_uptime"
)
_KEY = "WHERE repo_name = ? AND worktree_name = ?"


class Waiter:
    __slots__ = (
        "agent_id",
        "boot",
        "enqueued_at",
        "gives_up_uptime",
        "host",
        "pid",
        "pid_started",
        "repo_name",
        "seq",
        "task_id",
        "worktree_name",
    )

    def __init__(self, row: tuple[object, ...]) -> None:
        self.seq = int(str(row[0]))
        self.repo_name = str(row[1])
        self.worktree_name = str(row[2])
        self.agent_id = str(row[3])
        self.task_id = None if row[4] is None else str(row[4])
        self.host = str(row[5])
        self.boot = str(row[6])
        self.pid = int(str(row[7]))
        self.pid_started = None if row[8] is None else str(row[8])
        self.enqueued_at = str(row[9])
        self.gives_up_uptime = float(str(row[10]))

    @property
    def gone(self) -> bool:
        """Will never take its turn: dead, or past the end of its wait.

        The registry lives on this machine's disk, so a waiter of another boot is from before a restart.
        """
        if self.boot.partition("/")[0] != host.boot().partition("/")[0]:
            return True
        return host.uptime() > self.gives_up_uptime or self._alive() is False

    @property
    def ready(self) -> bool:
        """Could take its turn now: not gone, and not suspended (SIGSTOP, a debugger)."""
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
    """Stand at the end of the line for at most `seconds`; gives the number that is the order."""
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


def leave(connection: sqlite3.Connection, seq: int) -> bool:
    """False when somebody struck the waiter out already."""
    return connection.execute("DELETE FROM claim_queue WHERE seq = ?", (seq,)).rowcount == 1


def list_waiters(
    connection: sqlite3.Connection, repo_name: str | None = None, worktree_name: str | None = None
) -> list[Waiter]:
    """Everybody in line, in order, also those who are gone: of one worktree, one repository, or everywhere."""
    where = [("repo_name = ?", repo_name), ("worktree_name = ?", worktree_name)]
    asked = [(sql, value) for sql, value in where if value is not None]
    sql = " WHERE " + " AND ".join(part for part, _ in asked) if asked else ""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM claim_queue{sql} ORDER BY seq", [value for _, value in asked])
    return [Waiter(row) for row in rows]


def first_ready(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, before: int | None = None
) -> Waiter | None:
    """Whose turn it is: the first who could take it, among those ahead of number `before` or among all."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM claim_queue {_KEY} AND seq < ? ORDER BY seq",
        (repo_name, worktree_name, before if before is not None else 1 << 62),
    ).fetchall()
    return next((waiter for row in rows if (waiter := Waiter(row)).ready), None)


def remove_gone(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> int:
    """Take those who will never take their turn out of the line; how many that were."""
    gone = [waiter.seq for waiter in list_waiters(connection, repo_name, worktree_name) if waiter.gone]
    return sum(leave(connection, seq) for seq in gone)


def is_waiting(connection: sqlite3.Connection, seq: int) -> bool:
    return connection.execute("SELECT 1 FROM claim_queue WHERE seq = ?", (seq,)).fetchone() is not None


def position(connection: sqlite3.Connection, repo_name: str, worktree_name: str, seq: int) -> int:
    """1 for the first in line; counts those ahead whose wait is not over, without asking who of them is dead."""
    row = connection.execute(
        f"SELECT count(*) FROM claim_queue {_KEY} AND seq < ? AND gives_up_uptime > ?",
        (repo_name, worktree_name, seq, host.uptime()),
    ).fetchone()
    return int(row[0]) + 1


def change_counter(connection: sqlite3.Connection) -> int:
    """Moves when another process has committed something; asking costs microseconds."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
