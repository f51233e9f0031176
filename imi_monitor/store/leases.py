"""Leases: claims of owners in other homes. One that is not renewed for its time ends by itself, by the clock of this boot.

The process of such an owner is never judged here. The functions that write run inside `db.transact`.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.store import claim_queue, claims
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.claims import Claim

_KEY = "WHERE repo_name = ? AND worktree_name = ?"
ENDED = "lease"  # how such a claim ends


class LeaseRow(Row):
    """The lease of a claim."""

    repo_name: str
    worktree_name: str
    epoch: int
    home: str
    seconds: float
    renewed_uptime: float
    boot: str

    @property
    def key(self) -> tuple[str, str]:
        return self.repo_name, self.worktree_name

    @property
    def is_over(self) -> bool:
        """False after a restart of this machine: how long that took is unknown, so the lease begins anew (`end_expired`)."""
        return self.boot == _boot() and host.uptime() - self.renewed_uptime > self.seconds


def begin(connection: sqlite3.Connection, claim: Claim, home: str, seconds: float) -> None:
    """Begin the lease of a claim that was granted, or renewed by another claim of its owner."""
    connection.execute(
        "INSERT OR REPLACE INTO leases (repo_name, worktree_name, epoch, home, seconds, renewed_uptime, boot)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*claim.key, claim.epoch, home, seconds, host.uptime(), _boot()),
    )


def renew(connection: sqlite3.Connection, key: tuple[str, str], epoch: int, home: str) -> str:
    """`renewed`; `busy` while an operation of imi has the worktree; `lost` if this home has not that claim any more."""
    claim = claims.current(connection, *key)
    if _is_of(claim, epoch, home):
        changed = connection.execute(
            f"UPDATE leases SET renewed_uptime = ?, boot = ? {_KEY} AND epoch = ? AND home = ?",
            (host.uptime(), _boot(), *key, epoch, home),
        ).rowcount
        return "renewed" if changed == 1 else "lost"
    lease = get(connection, key)
    paused = lease is not None and (lease.epoch, lease.home) == (epoch, home) and claims.is_reservation(claim.agent_id)
    return "busy" if paused else "lost"


def release(
    connection: sqlite3.Connection, key: tuple[str, str], epoch: int, home: str, *, how: str = "released"
) -> bool:
    """End the claim if this home still has it."""
    claim = claims.current(connection, *key)
    if not _is_of(claim, epoch, home) or not claims.free(connection, claim, how):
        return False
    _delete(connection, key)
    claim_queue.remove_gone(connection, *key)
    return True


def end_if_over(connection: sqlite3.Connection, claim: Claim) -> bool:
    """End the claim of another home if its lease is over; False: it stays."""
    lease = get(connection, claim.key)
    if lease is None or not lease.is_over:
        return False
    return release(connection, claim.key, lease.epoch, lease.home, how=ENDED)


def is_over(connection: sqlite3.Connection, claim: Claim) -> bool:
    """Whether the claim is one of another home whose lease is over. Reads only."""
    lease = get(connection, claim.key) if host.home_of(claim.host) is not None else None
    return lease is not None and lease.epoch == claim.epoch and lease.is_over


def are_due(connection: sqlite3.Connection) -> bool:
    """Whether `end_expired` would change anything. Reads only."""
    return any(one.is_over or one.boot != _boot() for one in list_leases(connection)) or bool(_untracked(connection))


def end_expired(connection: sqlite3.Connection, seconds: float) -> list[tuple[str, str]]:
    """End the leases that are over; returns their worktrees. One of an earlier boot, and one that is missing, begins now."""
    for claim in _untracked(connection):
        begin(connection, claim, host.home_of(claim.host) or "", seconds)
    ended = []
    for lease in list_leases(connection):
        claim = claims.current(connection, *lease.key)
        if not _is_of(claim, lease.epoch, lease.home):
            if not claims.is_reservation(claim.agent_id):
                _delete(connection, lease.key)
        elif lease.boot != _boot():
            renew(connection, lease.key, lease.epoch, lease.home)
        elif lease.is_over and release(connection, lease.key, lease.epoch, lease.home, how=ENDED):
            ended.append(lease.key)
    return ended


def get(connection: sqlite3.Connection, key: tuple[str, str]) -> LeaseRow | None:
    row = connection.execute(f"SELECT {LeaseRow.columns} FROM leases {_KEY}", key).fetchone()
    return None if row is None else LeaseRow(row)


def list_leases(connection: sqlite3.Connection) -> list[LeaseRow]:
    return [LeaseRow(row) for row in connection.execute(f"SELECT {LeaseRow.columns} FROM leases")]


def _untracked(connection: sqlite3.Connection) -> list[Claim]:
    """Claims of other homes without a lease of their epoch, as after the restoration of a copy."""
    rows = connection.execute(
        "SELECT repo_name, worktree_name FROM claims AS c WHERE c.host GLOB 'home:*' AND c.agent_id IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM leases AS l WHERE l.repo_name = c.repo_name AND l.worktree_name = c.worktree_name"
        " AND l.epoch = c.epoch)"
    ).fetchall()
    return [claims.current(connection, str(repo), str(name)) for repo, name in rows]


def _is_of(claim: Claim, epoch: int, home: str) -> bool:
    return claim.agent_id is not None and claim.epoch == epoch and host.home_of(claim.host) == home


def _delete(connection: sqlite3.Connection, key: tuple[str, str]) -> None:
    connection.execute(f"DELETE FROM leases {_KEY}", key)


def _boot() -> str:
    """The boot, without the namespace: two containers that share the registry have one clock."""
    return host.boot().partition("/")[0]
