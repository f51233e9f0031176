"""Claims of this home's agents in other homes: until when each is certain, and how it ended.

A claim is certain until `good_until` by the clock of this boot: its holder stops then, before its home gives it to another.
The functions that write run inside `db.transact`.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.store import events
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_KEY = "WHERE home = ? AND repo = ? AND worktree_name = ?"
_KEPT_ENDED = 100


class RemoteClaimRow(Row):
    """A claim in the home `home`, which was called `label`. `boot`, `pid` and `pid_started` are of the holder's process here."""

    home: str
    repo: str
    worktree_name: str
    label: str
    epoch: int
    agent_id: str
    task_id: str | None
    claimed_at: str
    seconds: float
    good_until: float
    host: str
    boot: str
    pid: int | None
    pid_started: str | None
    ended: str | None
    ended_at: str | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.home, self.repo, self.worktree_name

    @property
    def seconds_left(self) -> float:
        """Return how long the claim is certain, by this machine's clock; 0 after a restart."""
        if self.ended is not None or host.is_other_boot(self.boot) is not False:
            return 0.0
        return max(0.0, self.good_until - host.uptime())

    @property
    def is_abandoned(self) -> bool:
        """Whether its holder is proven dead, or the machine was restarted."""
        return host.is_alive(self.host, self.boot, self.pid, self.pid_started) is False


def put(
    connection: sqlite3.Connection,
    key: tuple[str, str, str],
    label: str,
    agent: str,
    process: host.ProcessIdentity,
    *,
    epoch: int,
    task: str | None,
    seconds: float,
    good_until: float,
) -> None:
    """Record a claim that another home granted; a renewal keeps when it began."""
    before = get(connection, key)
    again = before is not None and before.ended is None and before.epoch == epoch
    at = before.claimed_at if again and before is not None else times.stamp()
    connection.execute(
        "INSERT OR REPLACE INTO remote_claims (home, repo, worktree_name, label, epoch, agent_id, task_id, claimed_at,"
        " seconds, good_until, host, boot, pid, pid_started) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*key, label, epoch, agent, task, at, seconds, good_until, *_process(process)),
    )
    if not again:
        _record(connection, "remote.claimed", key, agent, epoch, {"host": label, "task": task})


def extend(connection: sqlite3.Connection, claim: RemoteClaimRow, good_until: float) -> None:
    """The home has renewed it."""
    connection.execute(
        f"UPDATE remote_claims SET good_until = ? {_KEY} AND epoch = ? AND ended IS NULL",
        (good_until, *claim.key, claim.epoch),
    )


def end(connection: sqlite3.Connection, claim: RemoteClaimRow, how: str) -> bool:
    """End the claim: `released`, `lost` (its home says so) or `silent` (not renewed); False if it had ended already."""
    changed = connection.execute(
        f"UPDATE remote_claims SET ended = ?, ended_at = ? {_KEY} AND epoch = ? AND ended IS NULL",
        (how, times.stamp(), *claim.key, claim.epoch),
    ).rowcount
    if changed != 1:
        return False
    _record(connection, "remote.released", claim.key, claim.agent_id, claim.epoch, {"host": claim.label, "how": how})
    connection.execute(
        "DELETE FROM remote_claims WHERE ended IS NOT NULL AND ended_at < (SELECT min(ended_at) FROM (SELECT ended_at FROM"
        " remote_claims WHERE ended IS NOT NULL ORDER BY ended_at DESC LIMIT ?))",
        (_KEPT_ENDED,),
    )
    return True


def get(connection: sqlite3.Connection, key: tuple[str, str, str]) -> RemoteClaimRow | None:
    row = connection.execute(f"SELECT {RemoteClaimRow.columns} FROM remote_claims {_KEY}", key).fetchone()
    return None if row is None else RemoteClaimRow(row)


def list_open(connection: sqlite3.Connection) -> list[RemoteClaimRow]:
    rows = connection.execute(
        f"SELECT {RemoteClaimRow.columns} FROM remote_claims WHERE ended IS NULL ORDER BY claimed_at"
    )
    return [RemoteClaimRow(row) for row in rows]


def list_named(connection: sqlite3.Connection, worktree_name: str) -> list[RemoteClaimRow]:
    """The claims on worktrees of this name, in any home, ended ones too."""
    rows = connection.execute(
        f"SELECT {RemoteClaimRow.columns} FROM remote_claims WHERE worktree_name = ? ORDER BY ended IS NOT NULL, claimed_at",
        (worktree_name,),
    )
    return [RemoteClaimRow(row) for row in rows]


def _process(process: host.ProcessIdentity) -> tuple[object, ...]:
    return process.host, process.boot, process.pid, process.started


def _record(
    connection: sqlite3.Connection,
    kind: str,
    key: tuple[str, str, str],
    agent: str,
    epoch: int,
    data: dict[str, object],
) -> None:
    events.record(
        connection, kind, None, None, agent_id=agent, epoch=epoch, data={**data, "repo": key[1], "name": key[2]}
    )
