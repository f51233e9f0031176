"""Claims: who holds a worktree now, and the slots that imi itself takes for an act such as a removal.

At most one agent holds a worktree at any time, also across kill -9 (`granting.seize` decides). A claim dies by proof:
another boot, no such process, a zombie. One that is only silent past its ttl is *stale*: shown, never freed by itself.

All functions that write expect to run inside `db.transact`. Lean: agents call this all day.

How a claim passes from hand to hand: the one conditional UPDATE that decides, and what is written beside it.

Inside the caller's BEGIN IMMEDIATE. Every grant raises the epoch; whatever is done later in a claim's name says which
epoch it means, and 0 rows changed means that it was refused. History, agent, iMi's own columns and the event are
written in the same transaction, so no reader ever sees one without the others.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import names, times
from imi_monitor.model.errors import Refused
from imi_monitor.model.names import OURS
from imi_monitor.model.text import safe
from imi_monitor.store import agents, claim_history, events

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
    if host.is_alive(claim.host, claim.boot, claim.pid, claim.pid_started) is False:
        return "dead"
    silent = silent_seconds(claim) if claim.ttl_seconds else None
    return "stale" if silent is not None and silent > (claim.ttl_seconds or 0) else "held"


def silent_seconds(claim: Claim) -> float | None:
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


def list_held(connection: sqlite3.Connection, repo_name: str | None = None) -> list[Claim]:
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
    wish = ClaimRequest(names.OURS + by, host.identify_process(os.getpid()))
    epoch = None
    if before.epoch == expect_epoch:
        epoch = grant(connection, repo_name, worktree_name, wish, instead_of=before, ended="reserved")
    if epoch is None:
        raise _claim_changed(before)
    return epoch


def restore(connection: sqlite3.Connection, before: Claim, reserved_epoch: int) -> int:
    """Put back the claim that stood before `reserve`, under a new epoch; gives the epoch that counts now."""
    reserved = current(connection, before.repo_name, before.worktree_name)
    if reserved.epoch != reserved_epoch or not is_reservation(reserved.agent_id):
        raise _claim_changed(reserved)
    if before.agent_id is None:
        free_slot(connection, reserved, "given_back")
        return reserved_epoch
    process = host.ProcessIdentity(before.host or host.hostname(), before.boot or "", before.pid, before.pid_started)
    wish = ClaimRequest(before.agent_id, process, task=before.task_id, ttl=before.ttl_seconds)
    epoch = grant(
        connection,
        before.repo_name,
        before.worktree_name,
        wish,
        instead_of=reserved,
        ended="given_back",
        about={"how": "given_back"},
    )
    if epoch is None:
        raise _claim_changed(reserved)
    claim_history.move_attempts(connection, (before.repo_name, before.worktree_name), before.epoch, epoch)
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


def close(connection: sqlite3.Connection, repo_name: str, worktree_name: str, *, epoch: int, how: str, by: str) -> None:
    """Close the claim of this epoch for good, because its worktree is gone from its place; a free slot stays free."""
    claim = current(connection, repo_name, worktree_name)
    if claim.epoch != epoch:
        raise _claim_changed(claim)
    if claim.agent_id is not None and not free_slot(connection, claim, how, by=by):
        raise _claim_changed(claim)


def rename_worktree(connection: sqlite3.Connection, repo_name: str, old: str, new: str) -> int:
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


def _claim_changed(claim: Claim) -> Refused:
    who = f"{safe(claim.agent_id)} has it now" if claim.agent_id else "it is free now"
    return Refused(
        f"the claim on {safe(claim.worktree_name)} changed while this was under way ({who}): look again and repeat",
        code="claim-changed",
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))


_SEIZE = (
    "UPDATE claims SET agent_id = ?, epoch = epoch + 1, task_id = ?, claimed_at = ?, heartbeat_at = ?,"
    " heartbeat_uptime = ?, ttl_seconds = ?, host = ?, boot = ?, pid = ?, pid_started = ?"
    " WHERE repo_name = ? AND worktree_name = ? AND "
)
# Free is free in iMi's column too: another program that shares the registry knows no other.
_IF_FREE = (
    "agent_id IS NULL AND NOT EXISTS (SELECT 1 FROM worktrees AS seen WHERE seen.repo_name = claims.repo_name"
    " AND seen.worktree_name = claims.worktree_name AND seen.active = 1 AND seen.agent_id <> ?)"
)
_IF_STILL = "agent_id IS ? AND epoch = ?"
_FREE = (
    "UPDATE claims SET agent_id = NULL, task_id = NULL, claimed_at = NULL, heartbeat_at = NULL,"
    " heartbeat_uptime = NULL, ttl_seconds = NULL, host = NULL, boot = NULL, pid = NULL, pid_started = NULL"
    " WHERE repo_name = ? AND worktree_name = ? AND agent_id = ? AND epoch = ?"
)
_PROJECT_FREE = "UPDATE worktrees SET agent_id = NULL, released_at = ? WHERE repo_name = ? AND worktree_name = ?"


class ClaimRequest:
    """What a claimer asks for: who, as which process (pid None: nobody to watch), and with what right."""

    __slots__ = ("agent", "displaced", "force", "process", "reason", "takeover", "task", "ttl")

    def __init__(
        self,
        agent: str,
        process: host.ProcessIdentity,
        *,
        task: str | None = None,
        ttl: float | None = None,
        takeover: bool = False,
        force: bool = False,
        reason: str | None = None,
        displaced: str | None = None,
    ) -> None:
        self.agent = agent
        self.process = process
        self.task = task
        self.ttl = ttl
        self.takeover = takeover
        self.force = force
        self.reason = reason
        self.displaced = displaced  # an owner whom only a presence lock names, when force goes past him


def is_reservation(agent: str | None) -> bool:
    """Whether this holder is imi itself in the middle of an act."""
    return agent is not None and agent.startswith(OURS)


def grant(
    connection: sqlite3.Connection,
    repo_name: str,
    worktree_name: str,
    wish: ClaimRequest,
    *,
    instead_of: Claim | None = None,
    ended: str = "",
    about: dict[str, object] | None = None,
) -> int | None:
    """Give the slot to `wish.agent` if it is free, or if exactly the claim `instead_of` still stands; the new epoch.

    None: it did not come to that, and nothing was changed. `ended` says how the earlier claim ended, `about` goes into
    the event.
    """
    at, process, key = times.stamp(), wish.process, (repo_name, worktree_name)
    values = (
        wish.agent,
        wish.task,
        at,
        at,
        host.uptime(),
        wish.ttl,
        process.host,
        process.boot,
        process.pid,
        process.started,
        *key,
    )
    connection.execute("INSERT OR IGNORE INTO claims (repo_name, worktree_name) VALUES (?, ?)", key)
    if instead_of is None:
        changed = connection.execute(_SEIZE + _IF_FREE, (*values, wish.agent)).rowcount
    else:
        before = None if instead_of.foreign else instead_of.agent_id
        changed = connection.execute(_SEIZE + _IF_STILL, (*values, before, instead_of.epoch)).rowcount
    if changed != 1:
        return None
    if instead_of is not None and instead_of.agent_id is not None:
        _record_end(connection, instead_of, ended, by=wish.agent, reason=wish.reason, at=at)
    return _record_grant(connection, key, wish, at, about or {})


def free_slot(
    connection: sqlite3.Connection,
    claim: Claim,
    how: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    holder: str | None = None,
    epoch: int | None = None,
) -> bool:
    """Free the slot if exactly this claim still stands, or the one of the `holder` and `epoch` that somebody names.

    False when it does not, and nothing was changed.
    """
    at, key = times.stamp(), (claim.repo_name, claim.worktree_name)
    expected = (claim.agent_id if holder is None else holder, claim.epoch if epoch is None else epoch)
    if claim.foreign:  # there is no claim of ours: iMi's column is all that says who has it
        sql, values = _PROJECT_FREE + " AND agent_id = ?", (at, *key, expected[0])
        if connection.execute(sql, values).rowcount != 1:
            return False
    elif connection.execute(_FREE, (*key, *expected)).rowcount != 1:
        return False
    connection.execute(_PROJECT_FREE, (at, *key))
    _record_end(connection, claim, how, by=by, reason=reason, at=at)
    return True


def _record_grant(
    connection: sqlite3.Connection, key: tuple[str, str], wish: ClaimRequest, at: str, about: dict[str, object]
) -> int:
    """History, agent, iMi's columns and the event of a grant that was just made; gives its epoch."""
    row = connection.execute("SELECT epoch FROM claims WHERE repo_name = ? AND worktree_name = ?", key).fetchone()
    epoch = int(row[0])
    connection.execute(
        "INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, task_id, host, claimed_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, epoch, wish.agent, wish.task, wish.process.host, at),
    )
    connection.execute(
        "UPDATE worktrees SET agent_id = ?, claimed_at = ?, released_at = NULL"
        " WHERE repo_name = ? AND worktree_name = ?",
        (wish.agent, at, *key),
    )
    if not is_reservation(wish.agent):
        if wish.task is not None:
            claim_history.begin_attempt(connection, key, epoch, wish.task, at)
        agents.mark_seen(connection, wish.agent, wish.process.host, at)
        data: dict[str, object] = {"epoch": epoch, "task": wish.task, **about}
        events.record(connection, "worktree.claimed", *key, agent_id=wish.agent, epoch=epoch, data=data)
    return epoch


def _record_end(
    connection: sqlite3.Connection, claim: Claim, how: str, *, by: str | None, reason: str | None, at: str
) -> None:
    """Write down how a claim ended, and tell it to the log; `by` counts when it was somebody else."""
    key = (claim.repo_name, claim.worktree_name)
    other = by if by != claim.agent_id else None
    connection.execute(
        "UPDATE claim_history SET released_at = ?, ended = ?, taken_by = ?, reason = ?"
        " WHERE repo_name = ? AND worktree_name = ? AND epoch = ? AND released_at IS NULL",
        (at, how, other, reason, *key, claim.epoch),
    )
    if claim.agent_id is None or is_reservation(claim.agent_id):
        return
    agents.mark_idle(connection, claim.agent_id)
    data: dict[str, object] = {"epoch": claim.epoch, "how": how, "task": claim.task_id}
    data.update((name, value) for name, value in (("by", other), ("reason", reason)) if value is not None)
    events.record(connection, "worktree.released", *key, agent_id=claim.agent_id, epoch=claim.epoch, data=data)
