"""Claims: who holds a worktree now, and the slots that imi itself takes for an act such as a removal.

At most one agent holds a worktree at any time, also across kill -9 (`granting.seize` decides). A claim dies by proof:
another boot, no such process, a zombie. One that is only silent past its ttl is *stale*: shown, never freed by itself.

All functions that write expect to run inside `db.transact`. Lean: agents call this all day.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import names
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import granting, tasks
from imi_monitor.store.granting import Wish

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_COLUMNS = (
    "repo_name, worktree_name, agent_id, epoch, task_id, claimed_at, heartbeat_at, heartbeat_uptime, ttl_seconds,"
    " host, boot, pid, pid_started"
)
_KEY = "WHERE repo_name = ? AND worktree_name = ?"


class Claim:
    """One worktree's slot. `agent_id` None is free; `foreign` is an owner whom only iMi's own column names."""

    __slots__ = (
        "agent_id",
        "boot",
        "claimed_at",
        "epoch",
        "foreign",
        "heartbeat_at",
        "heartbeat_uptime",
        "host",
        "pid",
        "pid_started",
        "repo_name",
        "task_id",
        "ttl_seconds",
        "worktree_name",
    )

    def __init__(self, row: tuple[object, ...], *, foreign: bool = False) -> None:
        self.repo_name = str(row[0])
        self.worktree_name = str(row[1])
        self.agent_id = _text(row[2])
        self.epoch = int(str(row[3]))
        self.task_id = _text(row[4])
        self.claimed_at = _text(row[5])
        self.heartbeat_at = _text(row[6])
        self.heartbeat_uptime = _number(row[7])
        self.ttl_seconds = _number(row[8])
        self.host = _text(row[9])
        self.boot = _text(row[10])
        self.pid = None if row[11] is None else int(str(row[11]))
        self.pid_started = _text(row[12])
        self.foreign = foreign


def state(claim: Claim) -> str:
    """free, held, stale (silent past its ttl; only shown) or dead (its process is proven gone)."""
    if claim.agent_id is None:
        return "free"
    if host.alive(claim.host, claim.boot, claim.pid, claim.pid_started) is False:
        return "dead"
    silent = silence(claim) if claim.ttl_seconds else None
    return "stale" if silent is not None and silent > (claim.ttl_seconds or 0) else "held"


def silence(claim: Claim) -> float | None:
    """Seconds since the last sign of life, by the clock of this boot; None when it cannot be told."""
    if claim.heartbeat_uptime is None or not claim.boot:
        return None
    if claim.boot.partition("/")[0] != host.boot().partition("/")[0]:
        return None
    return max(0.0, host.uptime() - claim.heartbeat_uptime)


def current(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> Claim:
    """The slot of one worktree; a free one with epoch 0 when it was never claimed."""
    key = (repo_name, worktree_name)
    row = connection.execute(f"SELECT {_COLUMNS} FROM claims {_KEY}", key).fetchone()
    if row is not None and row[2] is not None:
        return Claim(row)
    epoch = 0 if row is None else row[3]
    # another program that shares the registry knows only iMi's column
    other = connection.execute(
        f"SELECT agent_id, claimed_at FROM worktrees {_KEY} AND active = 1 AND agent_id IS NOT NULL", key
    ).fetchone()
    if other is None:
        return Claim((*key, None, epoch, *(None,) * 9))
    return Claim((*key, other[0], epoch, None, other[1], *(None,) * 7), foreign=True)


def held(connection: sqlite3.Connection, repo_name: str | None = None) -> list[Claim]:
    """Every claim that stands, whatever its state, in one repository or in all."""
    only, values = ("", ()) if repo_name is None else (" AND repo_name = ?", (repo_name,))
    rows = connection.execute(f"SELECT {_COLUMNS} FROM claims WHERE agent_id IS NOT NULL{only}", values)
    found = [Claim(row) for row in rows]
    ours = {(claim.repo_name, claim.worktree_name) for claim in found}
    rows = connection.execute(
        "SELECT repo_name, worktree_name, agent_id, claimed_at FROM worktrees"
        f" WHERE active = 1 AND agent_id IS NOT NULL{only}",
        values,
    )
    found += [Claim((*row[:3], 0, None, row[3], *(None,) * 7), foreign=True) for row in rows if row[:2] not in ours]
    return sorted(found, key=lambda claim: (claim.repo_name, claim.worktree_name))


def worktree_id(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> str | None:
    """iMi's id of the row, which its scripts expect in an answer; nothing of ours refers to it."""
    row = connection.execute(f"SELECT id FROM worktrees {_KEY}", (repo_name, worktree_name)).fetchone()
    return None if row is None else str(row[0])


def reserve(connection: sqlite3.Connection, repo_name: str, worktree_name: str, *, expect_epoch: int, by: str) -> int:
    """Take the slot for an act of imi itself, whoever holds it; gives its epoch.

    Refused when the slot was granted to somebody since it was looked at.
    """
    import os

    before = current(connection, repo_name, worktree_name)
    wish = Wish(names.OURS + by, host.process(os.getpid()))
    epoch = None
    if before.epoch == expect_epoch:
        epoch = granting.seize(connection, repo_name, worktree_name, wish, instead_of=before, ended="reserved")
    if epoch is None:
        raise _changed(before)
    return epoch


def hand_back(connection: sqlite3.Connection, before: Claim, reserved_epoch: int) -> int:
    """Put back the claim that stood before `reserve`, under a new epoch; gives the epoch that counts now."""
    reserved = current(connection, before.repo_name, before.worktree_name)
    if reserved.epoch != reserved_epoch or not granting.is_ours(reserved.agent_id):
        raise _changed(reserved)
    if before.agent_id is None:
        granting.vacate(connection, reserved, "given_back")
        return reserved_epoch
    process = host.Process(before.host or host.hostname(), before.boot or "", before.pid, before.pid_started)
    wish = Wish(before.agent_id, process, task=before.task_id, ttl=before.ttl_seconds)
    epoch = granting.seize(
        connection,
        before.repo_name,
        before.worktree_name,
        wish,
        instead_of=reserved,
        ended="given_back",
        about={"how": "given_back"},
    )
    if epoch is None:
        raise _changed(reserved)
    tasks.go_along(connection, (before.repo_name, before.worktree_name), before.epoch, epoch)
    connection.execute(
        f"UPDATE claims SET claimed_at = ?, heartbeat_at = ?, heartbeat_uptime = ?, boot = ? {_KEY}",
        (
            before.claimed_at,
            before.heartbeat_at,
            before.heartbeat_uptime,
            before.boot,
            before.repo_name,
            before.worktree_name,
        ),
    )
    return epoch


def end(connection: sqlite3.Connection, repo_name: str, worktree_name: str, *, epoch: int, how: str, by: str) -> None:
    """Close the claim of this epoch for good, because its worktree is gone from its place; a free slot stays free."""
    claim = current(connection, repo_name, worktree_name)
    if claim.epoch != epoch:
        raise _changed(claim)
    if claim.agent_id is not None and not granting.vacate(connection, claim, how, by=by):
        raise _changed(claim)


def rename(connection: sqlite3.Connection, repo_name: str, old: str, new: str) -> int:
    """The worktree has another name from now on: claim, history and line go with it; gives the epoch that counts now.

    A worktree that once had the new name left a history; the epochs go on behind it, so that none is used twice.
    """
    base = connection.execute(
        f"SELECT max(epoch) FROM (SELECT epoch FROM claims {_KEY} UNION ALL SELECT epoch FROM claim_history {_KEY})",
        (repo_name, new, repo_name, new),
    ).fetchone()[0]
    connection.execute(f"DELETE FROM claims {_KEY} AND agent_id IS NULL", (repo_name, new))
    connection.execute(f"DELETE FROM automatic_claims {_KEY}", (repo_name, new))
    for table in ("claims", "claim_history", "automatic_claims", "tasks"):
        connection.execute(
            f"UPDATE {table} SET worktree_name = ?, epoch = epoch + ? {_KEY}", (new, base or 0, repo_name, old)
        )
    connection.execute(f"UPDATE claim_queue SET worktree_name = ? {_KEY}", (new, repo_name, old))
    return current(connection, repo_name, new).epoch


def _changed(claim: Claim) -> Refused:
    who = f"{safe(claim.agent_id)} has it now" if claim.agent_id else "it is free now"
    return Refused(
        f"the claim on {safe(claim.worktree_name)} changed while this was under way ({who}): look again and repeat",
        code="claim-changed",
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))
