"""Claim, renew and release: each request is decided in one transaction.

Rights are checked in this order: the line, then a free worktree, then the rights the request names (owner, takeover,
force). Only `claims.grant` decides; what is read before it only chooses what to try.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import agents, claim_history, claim_holder, claim_queue, claims, db, repositories, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec

    from imi_monitor.store.claim_holder import Caller
    from imi_monitor.store.claim_queue import WaiterRow
    from imi_monitor.store.claims import Claim, ClaimRequest
    from imi_monitor.store.repositories import RepositoryRegistration

    P = ParamSpec("P")

_KEY = "WHERE repo_name = ? AND worktree_name = ?"
_EVENT_KEYS = {"forced": "forced_from", "taken_over": "takeover_from", "after_death": "died_before"}


class ClaimTarget:
    """The worktree a claim is for. A worktree without a row is registered in the transaction that claims it."""

    __slots__ = ("branch", "kind", "name", "path", "registration", "repo_name")

    def __init__(
        self,
        repo_name: str | None,
        name: str,
        *,
        path: str | None = None,
        registration: RepositoryRegistration | None = None,
        branch: str = "",
        kind: str = "",
    ) -> None:
        self.repo_name = repo_name
        self.name = name
        self.path = path  # checked to exist; None: not checked
        self.registration = registration  # None: repository and worktree have rows
        self.branch = branch
        self.kind = kind


class ClaimAnswer:
    """The answer to a claim request.

    Granted: `how` is claimed, renewed, after_death, taken_over or forced. Refused: `how` is held or queued; `ahead` is
    the waiter whose turn it is and `seq` our number if we joined the line.
    """

    __slots__ = ("ahead", "before", "claim", "how", "seq")

    def __init__(self, how: str, claim: Claim, before: Claim | None = None, ahead: WaiterRow | None = None) -> None:
        self.how = how
        self.claim = claim
        self.before = before
        self.ahead = ahead
        self.seq = 0

    @property
    def granted(self) -> bool:
        return self.how not in ("held", "queued")


class ClaimPreview:
    """The answer as far as reading tells: `grantable`; `free` for any agent; and the waiter `ahead` of us then."""

    __slots__ = ("ahead", "claim", "free", "grantable")

    def __init__(self, claim: Claim, grantable: bool, free: bool, ahead: WaiterRow | None) -> None:
        self.claim = claim
        self.grantable = grantable
        self.free = free
        self.ahead = ahead


def request_claim(connection: sqlite3.Connection, target: ClaimTarget, request: ClaimRequest) -> ClaimAnswer:
    """Claim the worktree if that is possible now; a grant is on disk when this returns.

    A certain refusal is found by reading, without waiting for writers.
    """
    refused = refusal(connection, target, request)
    return refused or _commit(connection, request, claim_target, target, request)


def request_or_join(
    connection: sqlite3.Connection, target: ClaimTarget, request: ClaimRequest, until: float
) -> ClaimAnswer:
    """Claim the worktree, or join its line in the same transaction, until the uptime `until`.

    Earlier places of this process are left: a copy of the registry may have them.
    """

    def claim_or_join(inner: sqlite3.Connection) -> ClaimAnswer:
        claim_queue.leave_all(inner, target.repo_name or "", target.name, host.identify_process(os.getpid()))
        answer = claim_target(inner, target, request)
        return answer if answer.granted else _join(inner, answer, request, until)

    return _commit(connection, request, claim_or_join)


def request_from_line(
    connection: sqlite3.Connection, target: ClaimTarget, request: ClaimRequest, seq: int, until: float
) -> ClaimAnswer:
    """Claim as the waiter `seq`. After `until` this is the last attempt and leaves the line.

    A waiter that another process deleted, because it took it for dead, joins the line again.
    """
    key = (target.repo_name or "", target.name)

    def claim_in_turn(inner: sqlite3.Connection) -> ClaimAnswer:
        refuse_missing(inner, target)
        answer = claim(inner, *key, request, seq=seq)
        answer.seq = seq
        if host.uptime() >= until:
            claim_queue.leave(inner, seq)
        elif not answer.granted and not claim_queue.is_waiting(inner, seq):
            return _join(inner, answer, request, until)
        return answer

    return _commit(connection, request, claim_in_turn)


def claim_target(connection: sqlite3.Connection, target: ClaimTarget, request: ClaimRequest) -> ClaimAnswer:
    """Register the worktree if it has no row, and claim it. Call it inside a transaction."""
    refuse_missing(connection, target)
    if target.registration is not None:
        target.repo_name = repositories.register(connection, target.registration)
        worktrees.register(
            connection, target.repo_name, target.name, branch=target.branch, kind=target.kind, path=target.path or ""
        )
    return claim(connection, target.repo_name or "", target.name, request)


def refuse_missing(connection: sqlite3.Connection, target: ClaimTarget) -> None:
    """Refused if the folder does not exist; checked under the registry's write lock, which a removal takes as well."""
    if target.path is None or os.path.isdir(target.path):
        return
    from imi_monitor.model.advice import missing_folder
    from imi_monitor.store import trash

    removed = next((one.id for one in trash.list_kept(connection) if one.path == target.path), None)
    if removed is not None:  # while this claim was prepared
        raise Refused(f"{safe(target.name)} was removed: `imi undo {removed}` restores it", code="missing")
    raise Refused(missing_folder(target.name, target.path), code="missing")


def claim(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, request: ClaimRequest, *, seq: int | None = None
) -> ClaimAnswer:
    """Claim a registered worktree inside a transaction; `seq` is our number if we wait in line."""
    key = (repo_name, worktree_name)
    ahead = claim_queue.first_ready(connection, *key, before=seq)
    before = None
    if ahead is None and claims.grant(connection, *key, request, details=_event_details(request, None)) is not None:
        how = "claimed"
    else:
        before = claims.current(connection, *key)
        by_right = _claim_with_rights(connection, request, before, ahead)
        if by_right is None:
            return ClaimAnswer("queued" if ahead else "held", before, ahead=ahead)
        how = by_right
    claim_queue.remove_gone(connection, *key)
    if seq is not None:
        claim_queue.leave(connection, seq)
    return ClaimAnswer(how, claims.current(connection, *key), before)


def preview(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, request: ClaimRequest, seq: int | None = None
) -> ClaimPreview:
    """Whether `claim` would grant the request now, to the waiter `seq` or to a newcomer. Reads only."""
    claim = claims.current(connection, repo_name, worktree_name)
    state = claims.state(claim)
    if state == "free" or (state == "dead" and not claims.is_reservation(claim.agent_id)):
        ahead = claim_queue.first_ready(connection, repo_name, worktree_name, before=seq)
        return ClaimPreview(claim, ahead is None or request.force or _is_holder(claim, request), True, ahead)
    has_right = request.force or _is_holder(claim, request) or (state == "stale" and request.takeover)
    if not has_right and host.home_of(claim.host) is not None:
        from imi_monitor.store import leases  # only claims of other homes have one

        has_right = leases.is_over(connection, claim)
    lost_place = seq is not None and not claim_queue.is_waiting(connection, seq)
    return ClaimPreview(claim, has_right or lost_place, False, None)


def refusal(connection: sqlite3.Connection, target: ClaimTarget, request: ClaimRequest) -> ClaimAnswer | None:
    """The answer if it is certainly a refusal, found by reading; None: only `request_claim` can tell."""
    seen = preview(connection, target.repo_name or "", target.name, request)
    return None if seen.grantable else ClaimAnswer("queued" if seen.ahead else "held", seen.claim, ahead=seen.ahead)


def heartbeat(
    connection: sqlite3.Connection,
    repo_name: str,
    worktree_name: str,
    agent: str,
    epoch: int | None,
    caller: Caller | None = None,
) -> tuple[bool, Claim]:
    """Record a heartbeat of the owner, and if `caller` is given only of the holder; (whether it was accepted, the current claim).

    A claim that is proven dead accepts none: a program that still sends them then is not the agent.
    """
    claim = claims.current(connection, repo_name, worktree_name)
    if claims.state(claim) == "dead" or not _is_one_holder(claim, agent, caller):
        return False, claim
    at = times.stamp()
    expected = claim.epoch if epoch is None else epoch
    changed = connection.execute(
        f"UPDATE claims SET heartbeat_at = ?, heartbeat_uptime = ? {_KEY} AND agent_id = ? AND epoch = ?",
        (at, host.uptime(), repo_name, worktree_name, agent, expected),
    ).rowcount
    if changed != 1:
        return False, claim
    _update_owner_columns(connection, claim, host.hostname(), at)
    return True, claims.current(connection, repo_name, worktree_name)


def release(
    connection: sqlite3.Connection,
    repo_name: str,
    worktree_name: str,
    agent: str,
    epoch: int,
    *,
    force: bool = False,
    reason: str | None = None,
    outcome: str | None = None,
    caller: Caller | None = None,
) -> tuple[bool, Claim]:
    """Release the claim of this epoch, or with `force` end any owner's; (whether it ended, the claim before).

    If `caller` is given, another process with the owner's name counts as another owner.

    `outcome` is what the owner reports for the claim's last attempt.
    """
    claim = claims.current(connection, repo_name, worktree_name)
    if claim.agent_id is None:
        return False, claim
    its_own = claim.agent_id == agent and _is_one_holder(claim, agent, caller)
    if claim.agent_id == agent and not its_own and not force:
        return False, claim
    how = "released" if its_own else "forced"
    holder = claim.agent_id if force else agent
    freed = claims.free(connection, claim, how, by=agent, reason=reason, holder=holder, epoch=epoch)
    if freed:
        claim_queue.remove_gone(connection, repo_name, worktree_name)
        if outcome is not None:
            claim_history.record_outcome(connection, claim, outcome, reason)
    return freed, claim


def _commit(
    connection: sqlite3.Connection,
    request: ClaimRequest,
    work: Callable[Concatenate[sqlite3.Connection, P], ClaimAnswer],
    *args: P.args,
    **kwargs: P.kwargs,
) -> ClaimAnswer:
    """Run `work`, which ends in `claim`, as one transaction; a grant is on disk when this returns.

    The disk is waited for after the lock is free again: of 32 agents that claim at once the last would wait for all. An
    agent that sees the claim before it is on disk is only refused. If the disk fails, the claim is released; a request
    that may take a claim from its owner is synced under the lock, because a release would not restore that owner.
    """
    if request.force or request.takeover:
        return db.transact(connection, work, *args, **kwargs)
    answer = db.transact_unsynced(connection, work, *args, **kwargs)
    if answer.granted:
        try:
            db.sync_to_disk(connection)
        except RegistryError:
            _release_unsynced(connection, answer)
            raise
    return answer


def _release_unsynced(connection: sqlite3.Connection, answer: ClaimAnswer) -> None:
    claim = answer.claim
    if answer.how == "renewed" or claim.agent_id is None:
        return  # the agent held it before
    try:
        db.transact_unsynced_with_ballast(connection, release, *claim.key, claim.agent_id, claim.epoch)
    except RegistryError:
        return  # the disk is broken: the claim ends with its process


def _join(connection: sqlite3.Connection, answer: ClaimAnswer, request: ClaimRequest, until: float) -> ClaimAnswer:
    """The refusal with our new number in the line."""
    me, left = host.identify_process(os.getpid()), until - host.uptime()
    answer.seq = claim_queue.join(connection, *answer.claim.key, request.agent, me, task=request.task, seconds=left)
    return answer


def _claim_with_rights(
    connection: sqlite3.Connection, request: ClaimRequest, before: Claim, ahead: WaiterRow | None
) -> str | None:
    """Claim a worktree that is not free or has a line, by the rights of the request; how, or None if refused.

    A dead operation of imi is no dead agent: recovery restores the claim that the operation replaced.
    """
    if _is_holder(before, request) and not before.foreign:
        return "renewed" if _renew(connection, before, request) else None
    if host.home_of(before.host) is not None and ahead is None and not request.force:
        return _claim_after_lease(connection, request, before)
    state = claims.state(before)
    if state == "dead" and ahead is None and not claims.is_reservation(before.agent_id):
        how, ended = "after_death", "died"
    elif state == "stale" and request.takeover:  # no waiter is passed by: none of them could have claimed it
        how, ended = "taken_over", "taken_over"
    elif request.force:
        how, ended = "forced", "forced"
    else:
        return None
    details = _event_details(request, how, before.agent_id, ahead)
    granted = claims.grant(connection, *before.key, request, replaces=before, ended=ended, details=details)
    return how if granted is not None else None


def _claim_after_lease(connection: sqlite3.Connection, request: ClaimRequest, before: Claim) -> str | None:
    """Claim a worktree whose owner in another home has not renewed its lease; None if it has."""
    from imi_monitor.store import leases  # only claims of other homes have one

    if not leases.end_if_over(connection, before):
        return None
    details = _event_details(request, None)
    return "claimed" if claims.grant(connection, *before.key, request, details=details) is not None else None


def _event_details(
    request: ClaimRequest, how: str | None, before: str | None = None, ahead: WaiterRow | None = None
) -> dict[str, object]:
    """The data of a grant's event beyond owner and epoch."""
    details: dict[str, object] = {}
    if how is not None and before is not None:
        details[_EVENT_KEYS[how]] = before
    if request.displaced is not None:
        details["forced_from"] = request.displaced
    if ahead is not None and how == "forced":
        details["passed_by"] = ahead.agent_id
    if details and request.reason is not None:
        details["reason"] = request.reason
    return details


def _renew(connection: sqlite3.Connection, claim: Claim, request: ClaimRequest) -> bool:
    """Renew the owner's claim: same epoch, new heartbeat, and the task, ttl and process that the request names."""
    process = request.process
    if process.pid is None and host.is_alive(claim.host, claim.boot, claim.pid, claim.pid_started) is not False:
        process = _watched_process(claim, process)
    at = times.stamp()
    changed = connection.execute(
        "UPDATE claims SET task_id = ?, ttl_seconds = ?, heartbeat_at = ?, heartbeat_uptime = ?, host = ?, boot = ?,"
        f" pid = ?, pid_started = ?, session = ? {_KEY} AND agent_id = ? AND epoch = ?",
        (
            request.task or claim.task_id,
            claim.ttl_seconds if request.ttl is None else request.ttl,
            at,
            host.uptime(),
            process.host,
            process.boot,
            process.pid,
            process.started,
            claim_holder.renewed_session(claim, request.caller),
            *claim.key,
            claim.agent_id,
            claim.epoch,
        ),
    ).rowcount
    if changed == 1:
        if request.task is not None and request.task != claim.task_id:
            claim_history.begin_attempt(connection, claim.key, claim.epoch, request.task, at)
        _update_owner_columns(connection, claim, request.process.host, at)
    return changed == 1


def _watched_process(claim: Claim, caller: host.ProcessIdentity) -> host.ProcessIdentity:
    """The process of the claim, which a renewal that names none keeps, with the machine on which it runs."""
    if claim.pid is None:
        return caller
    return host.ProcessIdentity(claim.host or caller.host, claim.boot or caller.boot, claim.pid, claim.pid_started)


def _is_holder(claim: Claim, request: ClaimRequest) -> bool:
    return claim.agent_id == request.agent and claim_holder.holds(claim, request.caller)


def _is_one_holder(claim: Claim, agent: str, caller: Caller | None) -> bool:
    """False if `caller` is another process with the owner's name; None: imi itself acts for the owner."""
    return claim.agent_id != agent or caller is None or claim_holder.holds(claim, caller)


def _update_owner_columns(connection: sqlite3.Connection, claim: Claim, host_name: str, at: str) -> None:
    """Keep the agent's row and iMi's columns true: iMi's INSERT OR REPLACE may have deleted their values."""
    agents.mark_seen(connection, claim.agent_id or "?", host_name, at, None)
    connection.execute(
        f"UPDATE worktrees SET agent_id = ?, claimed_at = ?, released_at = NULL {_KEY} AND agent_id IS NOT ?",
        (claim.agent_id, claim.claimed_at, *claim.key, claim.agent_id),
    )
