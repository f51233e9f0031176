"""The claim of each worktree: its owner, and the conditional UPDATEs that grant, free and reserve it.

At most one owner holds a worktree at any time, also across kill -9. Each grant raises the epoch; a later act names the
epoch it means and is refused when 0 rows change. History, agent, iMi's columns and the event are written in the same
transaction, so no reader sees one without the others.

A claim is dead when that is proven: another boot, no such process, a zombie. A claim that is only silent past its ttl
is stale: it is shown as stale and never freed automatically.

Functions that write run inside `db.transact`. Lean: agents run the claim verbs all day.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import names, times
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import agents, claim_history, events
from imi_monitor.store.claim_holder import Caller, stored_session
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_KEY = "WHERE repo_name = ? AND worktree_name = ?"
_GRANT = (
    "UPDATE claims SET agent_id = ?, epoch = epoch + 1, task_id = ?, claimed_at = ?, heartbeat_at = ?,"
    f" heartbeat_uptime = ?, ttl_seconds = ?, host = ?, boot = ?, pid = ?, pid_started = ?, session = ? {_KEY} AND "
)
# iMi's column must be free too: another program that shares the registry knows no other one.
_IF_FREE = (
    "agent_id IS NULL AND NOT EXISTS (SELECT 1 FROM worktrees AS seen WHERE seen.repo_name = claims.repo_name"
    " AND seen.worktree_name = claims.worktree_name AND seen.active = 1 AND seen.agent_id <> ?)"
)
_IF_UNCHANGED = "agent_id IS ? AND epoch = ?"
_FREE = (
    "UPDATE claims SET agent_id = NULL, task_id = NULL, claimed_at = NULL, heartbeat_at = NULL,"
    " heartbeat_uptime = NULL, ttl_seconds = NULL, host = NULL, boot = NULL, pid = NULL, pid_started = NULL, session = NULL"
    f" {_KEY} AND agent_id = ? AND epoch = ?"
)
_FREE_IMI_COLUMN = f"UPDATE worktrees SET agent_id = NULL, released_at = ? {_KEY}"


class Claim(Row):
    """The claim row of one worktree. `agent_id` None: free. `foreign`: only iMi's own column names the owner."""

    repo_name: str
    worktree_name: str
    agent_id: str | None
    epoch: int
    task_id: str | None
    claimed_at: str | None
    heartbeat_at: str | None
    heartbeat_uptime: float | None
    ttl_seconds: float | None
    host: str | None
    boot: str | None
    pid: int | None
    pid_started: str | None
    session: str | None

    def __init__(self, row: tuple[object, ...], *, foreign: bool = False) -> None:
        super().__init__(row)
        self.foreign = foreign

    @property
    def key(self) -> tuple[str, str]:
        return self.repo_name, self.worktree_name


class ClaimRequest:
    """A request for a claim: the owner, its process (pid None: no process to watch) and the rights it uses."""

    __slots__ = ("agent", "caller", "displaced", "force", "process", "reason", "session", "takeover", "task", "ttl")

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
        caller: Caller | None = None,
        session: str | None = None,
    ) -> None:
        self.agent = agent
        self.process = process
        self.task = task
        self.ttl = ttl
        self.takeover = takeover
        self.force = force
        self.reason = reason
        self.caller = caller or Caller(process.pid, {})
        self.session = stored_session(caller) if caller is not None else session
        self.displaced = displaced  # an owner named only by a presence lock, which `force` ignores


def state(claim: Claim) -> str:
    """free, held, stale (silent past its ttl; only shown) or dead (its process is proven gone)."""
    if claim.agent_id is None:
        return "free"
    if host.is_alive(claim.host, claim.boot, claim.pid, claim.pid_started) is False:
        return "dead"
    silent = silent_seconds(claim) if claim.ttl_seconds else None
    return "stale" if silent is not None and silent > (claim.ttl_seconds or 0) else "held"


def silent_seconds(claim: Claim) -> float | None:
    """Seconds since the last heartbeat, by the clock of this boot; None when unknown."""
    if claim.heartbeat_uptime is None or not claim.boot:
        return None
    if host.is_other_boot(claim.boot) is not False:
        return None
    return max(0.0, host.uptime() - claim.heartbeat_uptime)


def is_reservation(agent: str | None) -> bool:
    """True if the owner is imi itself in the middle of an operation."""
    return agent is not None and agent.startswith(names.OURS)


def is_dead_reservation(claim: Claim) -> bool:
    """True if an operation of imi holds the worktree and its process is dead: recovery frees it."""
    return is_reservation(claim.agent_id) and state(claim) == "dead"


def current(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> Claim:
    """The claim of one worktree; free with epoch 0 when it was never claimed."""
    key = (repo_name, worktree_name)
    row = connection.execute(f"SELECT {Claim.columns} FROM claims {_KEY}", key).fetchone()
    if row is not None and row[2] is not None:
        return Claim(row)
    epoch = 0 if row is None else row[3]
    # another program that shares the registry writes only iMi's column
    other = connection.execute(
        f"SELECT agent_id, claimed_at FROM worktrees {_KEY} AND active = 1 AND agent_id IS NOT NULL", key
    ).fetchone()
    if other is None:
        return Claim((*key, None, epoch, *(None,) * 10))
    return Claim((*key, other[0], epoch, None, other[1], *(None,) * 8), foreign=True)


def list_held(connection: sqlite3.Connection, repo_name: str | None = None) -> list[Claim]:
    """Every claim that has an owner, whatever its state, in one repository or in all."""
    only, values = ("", ()) if repo_name is None else (" AND repo_name = ?", (repo_name,))
    rows = connection.execute(f"SELECT {Claim.columns} FROM claims WHERE agent_id IS NOT NULL{only}", values)
    found = [Claim(row) for row in rows]
    ours = {claim.key for claim in found}
    rows = connection.execute(
        "SELECT repo_name, worktree_name, agent_id, claimed_at FROM worktrees"
        f" WHERE active = 1 AND agent_id IS NOT NULL{only}",
        values,
    )
    found += [Claim((*row[:3], 0, None, row[3], *(None,) * 8), foreign=True) for row in rows if row[:2] not in ours]
    return sorted(found, key=lambda claim: claim.key)


def worktree_id(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> str | None:
    """iMi's id of the worktree's row, which iMi's scripts expect in an answer; none of our tables refers to it."""
    row = connection.execute(f"SELECT id FROM worktrees {_KEY}", (repo_name, worktree_name)).fetchone()
    return None if row is None else str(row[0])


def grant(
    connection: sqlite3.Connection,
    repo_name: str,
    worktree_name: str,
    request: ClaimRequest,
    *,
    replaces: Claim | None = None,
    ended: str = "",
    details: dict[str, object] | None = None,
) -> int | None:
    """Grant the worktree if it is free, or if exactly the claim `replaces` is current; returns the new epoch.

    None: the condition did not hold and nothing changed. `ended` is how the replaced claim ended; `details` go into
    the event.
    """
    at, process, key = times.stamp(), request.process, (repo_name, worktree_name)
    values = (
        request.agent,
        request.task,
        at,
        at,
        host.uptime(),
        request.ttl,
        process.host,
        process.boot,
        process.pid,
        process.started,
        request.session,
        *key,
    )
    connection.execute("INSERT OR IGNORE INTO claims (repo_name, worktree_name) VALUES (?, ?)", key)
    if replaces is None:
        changed = connection.execute(_GRANT + _IF_FREE, (*values, request.agent)).rowcount
    else:
        before = None if replaces.foreign else replaces.agent_id
        changed = connection.execute(_GRANT + _IF_UNCHANGED, (*values, before, replaces.epoch)).rowcount
    if changed != 1:
        return None
    if replaces is not None and replaces.agent_id is not None:
        _record_end(connection, replaces, ended, by=request.agent, reason=request.reason, at=at)
    return _record_grant(connection, key, request, at, details or {})


def free(
    connection: sqlite3.Connection,
    claim: Claim,
    how: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    holder: str | None = None,
    epoch: int | None = None,
) -> bool:
    """Free the worktree if exactly this claim is current, or the one with the given `holder` and `epoch`.

    False: it is not current and nothing changed.
    """
    at = times.stamp()
    expected = (claim.agent_id if holder is None else holder, claim.epoch if epoch is None else epoch)
    if claim.foreign:  # no row of ours: iMi's column is the only record of the owner
        sql, values = _FREE_IMI_COLUMN + " AND agent_id = ?", (at, *claim.key, expected[0])
        if connection.execute(sql, values).rowcount != 1:
            return False
    elif connection.execute(_FREE, (*claim.key, *expected)).rowcount != 1:
        return False
    connection.execute(_FREE_IMI_COLUMN, (at, *claim.key))
    _record_end(connection, claim, how, by=by, reason=reason, at=at)
    return True


def reserve(connection: sqlite3.Connection, repo_name: str, worktree_name: str, *, expect_epoch: int, by: str) -> int:
    """Grant the worktree to an operation of imi, whatever its owner; returns the epoch.

    Refused when it was granted to another owner since `expect_epoch` was read.
    """
    import os

    before = current(connection, repo_name, worktree_name)
    request = ClaimRequest(names.OURS + by, host.identify_process(os.getpid()))
    epoch = None
    if before.epoch == expect_epoch:
        epoch = grant(connection, repo_name, worktree_name, request, replaces=before, ended="reserved")
    if epoch is None:
        raise _claim_changed(before)
    return epoch


def restore(connection: sqlite3.Connection, before: Claim, reserved_epoch: int) -> int:
    """Restore the claim that `reserve` replaced, under a new epoch; returns the epoch that is current now."""
    reserved = current(connection, *before.key)
    if reserved.epoch != reserved_epoch or not is_reservation(reserved.agent_id):
        raise _claim_changed(reserved)
    if before.agent_id is None:
        free(connection, reserved, "given_back")
        return reserved_epoch
    process = host.ProcessIdentity(before.host or host.hostname(), before.boot or "", before.pid, before.pid_started)
    request = ClaimRequest(
        before.agent_id, process, task=before.task_id, ttl=before.ttl_seconds, session=before.session
    )
    how = "given_back"
    epoch = grant(connection, *before.key, request, replaces=reserved, ended=how, details={"how": how})
    if epoch is None:
        raise _claim_changed(reserved)
    claim_history.move_attempts(connection, before.key, before.epoch, epoch)
    connection.execute(
        f"UPDATE claims SET claimed_at = ?, heartbeat_at = ?, heartbeat_uptime = ?, boot = ? {_KEY}",
        (before.claimed_at, before.heartbeat_at, before.heartbeat_uptime, before.boot, *before.key),
    )
    return epoch


def close(connection: sqlite3.Connection, repo_name: str, worktree_name: str, *, epoch: int, how: str, by: str) -> None:
    """End the claim of this epoch because the worktree is gone from its place; no change when it is free."""
    claim = current(connection, repo_name, worktree_name)
    if claim.epoch != epoch or (claim.agent_id is not None and not free(connection, claim, how, by=by)):
        raise _claim_changed(claim)


def raise_epoch(connection: sqlite3.Connection, repo_name: str, worktree_name: str, epoch: int) -> None:
    """Continue after the epochs that another registry granted for this worktree; a higher epoch stays."""
    connection.execute(
        "INSERT OR IGNORE INTO claims (repo_name, worktree_name) VALUES (?, ?)", (repo_name, worktree_name)
    )
    connection.execute(f"UPDATE claims SET epoch = max(epoch, ?) {_KEY}", (epoch, repo_name, worktree_name))


def rename_worktree(connection: sqlite3.Connection, repo_name: str, old: str, new: str) -> int:
    """Move claim, history and line to the worktree's new name; returns the current epoch.

    Epochs continue after those of an earlier worktree of that name, so that none is used twice.
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


def _record_grant(
    connection: sqlite3.Connection, key: tuple[str, str], request: ClaimRequest, at: str, details: dict[str, object]
) -> int:
    """Write history, iMi's columns, agent and event of a new grant; returns its epoch."""
    epoch = int(connection.execute(f"SELECT epoch FROM claims {_KEY}", key).fetchone()[0])
    claim_history.add_grant(connection, key, epoch, request.agent, request.task, request.process.host, at)
    connection.execute(
        f"UPDATE worktrees SET agent_id = ?, claimed_at = ?, released_at = NULL {_KEY}", (request.agent, at, *key)
    )
    if not is_reservation(request.agent):
        if request.task is not None:
            claim_history.begin_attempt(connection, key, epoch, request.task, at)
        agents.mark_seen(connection, request.agent, request.process.host, at)
        data: dict[str, object] = {"epoch": epoch, "task": request.task, **details}
        events.record(connection, "worktree.claimed", *key, agent_id=request.agent, epoch=epoch, data=data)
    return epoch


def _record_end(
    connection: sqlite3.Connection, claim: Claim, how: str, *, by: str | None, reason: str | None, at: str
) -> None:
    """Write history, agent and event of an ended claim; `by` is recorded when it is not the holder."""
    other = by if by != claim.agent_id or how in ("forced", "taken_over") else None
    claim_history.end_grant(connection, claim.key, claim.epoch, at, how, taken_by=other, reason=reason)
    if claim.agent_id is None or is_reservation(claim.agent_id):
        return
    agents.mark_idle(connection, claim.agent_id)
    data: dict[str, object] = {"epoch": claim.epoch, "how": how, "task": claim.task_id}
    data.update((name, value) for name, value in (("by", other), ("reason", reason)) if value is not None)
    events.record(connection, "worktree.released", *claim.key, agent_id=claim.agent_id, epoch=claim.epoch, data=data)


def _claim_changed(claim: Claim) -> Refused:
    owner = f"{safe(claim.agent_id)} has it now" if claim.agent_id else "it is unclaimed now"
    return Refused(
        f"the claim on {safe(claim.worktree_name)} changed during this operation ({owner}): check it and repeat",
        code="claim-changed",
    )
