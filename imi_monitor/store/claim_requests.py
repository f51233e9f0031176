"""Claiming, renewing and giving back, as whole decisions: each of these functions is one transaction.

The order of the questions in `take` is the order of rights: the line first, then a free slot, then what the claimer
asks for beyond that. Only `granting.seize` decides; everything read before it only chooses what is tried.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.errors import RegistryError
from imi_monitor.store import agents, claim_history, claim_queue, claims, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec

    P = ParamSpec("P")

    from imi_monitor.store.claim_queue import Waiter
    from imi_monitor.store.claims import Claim, ClaimRequest

_KEY = "WHERE repo_name = ? AND worktree_name = ?"


class ClaimAnswer:
    """What came of asking. Granted: `how` is claimed, renewed, after_death, taken_over or forced. Refused: `how` is
    held or queued; `ahead` is whose turn it is.
    """

    __slots__ = ("ahead", "before", "claim", "how")

    def __init__(self, how: str, claim: Claim, before: Claim | None = None, ahead: Waiter | None = None) -> None:
        self.how = how
        self.claim = claim
        self.before = before
        self.ahead = ahead

    @property
    def granted(self) -> bool:
        return self.how not in ("held", "queued")


def claim(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, wish: ClaimRequest, *, seq: int | None = None
) -> ClaimAnswer:
    """Claim the worktree if that is our right now; `seq` is our number if we stand in line."""
    key = (repo_name, worktree_name)
    ahead = claim_queue.first_ready(connection, *key, before=seq)
    how = None
    if ahead is None and claims.grant(connection, *key, wish, about=_event_details(wish, None)) is not None:
        how, before = "claimed", None
    else:
        before = claims.current(connection, *key)
        how = _claim_taken_slot(connection, wish, before, ahead)
    if how is None:
        return ClaimAnswer("queued" if ahead else "held", before or claims.current(connection, *key), ahead=ahead)
    claim_queue.remove_gone(connection, *key)
    if seq is not None:
        claim_queue.leave(connection, seq)
    return ClaimAnswer(how, claims.current(connection, *key), before)


def commit_claim(
    connection: sqlite3.Connection,
    wish: ClaimRequest,
    work: Callable[Concatenate[sqlite3.Connection, P], ClaimAnswer],
    *args: P.args,
    **kwargs: P.kwargs,
) -> ClaimAnswer:
    """Run `work`, which ends in `take`, as one transaction; a grant is on disk when this returns.

    The disk is waited for when the lock is free again: of 32 who claim at once the last would wait for all of them. Who
    sees the claim before it is on disk is only kept from claiming. Should the disk refuse it, it is given back; who may
    take from another waits with the lock, as giving back would not give it to whom it was taken from.
    """
    if wish.force or wish.takeover:
        return db.transact(connection, work, *args, **kwargs)
    answer = db.transact_unsynced(connection, work, *args, **kwargs)
    if answer.granted:
        try:
            db.sync_to_disk(connection)
        except RegistryError:
            _release_after_failed_sync(connection, answer)
            raise
    return answer


def _release_after_failed_sync(connection: sqlite3.Connection, answer: ClaimAnswer) -> None:
    claim = answer.claim
    if answer.how == "renewed" or claim.agent_id is None:
        return  # it was ours before
    try:
        db.transact_unsynced(connection, release, claim.repo_name, claim.worktree_name, claim.agent_id, claim.epoch)
    except RegistryError:
        return  # the disk is broken: the claim ends with its process then


class ClaimPreview:
    """What can be seen without writing: whether it is worth asking (`ours`), whether the slot is `free` for somebody,
    and whose turn it is then (`ahead`)."""

    __slots__ = ("ahead", "claim", "free", "ours")

    def __init__(self, claim: Claim, ours: bool, free: bool, ahead: Waiter | None) -> None:
        self.claim = claim
        self.ours = ours
        self.free = free
        self.ahead = ahead


def preview(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, wish: ClaimRequest, seq: int | None = None
) -> ClaimPreview:
    """Whether `take` would grant it as things are, to the waiter number `seq` or to somebody who just came."""
    claim = claims.current(connection, repo_name, worktree_name)
    state = claims.state(claim)
    if state == "free" or (state == "dead" and not claims.is_reservation(claim.agent_id)):
        ahead = claim_queue.first_ready(connection, repo_name, worktree_name, before=seq)
        return ClaimPreview(claim, ahead is None or wish.force or claim.agent_id == wish.agent, True, ahead)
    ours = claim.agent_id == wish.agent or wish.force or (state == "stale" and wish.takeover)
    lost_place = seq is not None and not claim_queue.is_waiting(connection, seq)
    return ClaimPreview(claim, ours or lost_place, False, None)


def refusal(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, wish: ClaimRequest
) -> ClaimAnswer | None:
    """The answer of `take` if it is no for certain, without waiting for those who write; None: ask `take`."""
    seen = preview(connection, repo_name, worktree_name, wish)
    if seen.ours:
        return None
    return ClaimAnswer("queued" if seen.ahead else "held", seen.claim, ahead=seen.ahead)


def _claim_taken_slot(
    connection: sqlite3.Connection, wish: ClaimRequest, before: Claim, ahead: Waiter | None
) -> str | None:
    """The rights of somebody who finds the slot taken, or others in line: how it was granted, None if it was not.

    A removal that died half-way is no dead agent: recovery gives its slot back to whoever had it before.
    """
    if before.agent_id == wish.agent and not before.foreign:
        return "renewed" if _renew(connection, before, wish) else None
    state = claims.state(before)
    if state == "dead" and ahead is None and not claims.is_reservation(before.agent_id):
        how, ended = "after_death", "died"
    elif state == "stale" and wish.takeover:  # whoever waits could not have had it: nobody is passed by
        how, ended = "taken_over", "taken_over"
    elif wish.force:
        how, ended = "forced", "forced"
    else:
        return None
    about = _event_details(wish, how, before.agent_id, ahead)
    seized = claims.grant(
        connection, before.repo_name, before.worktree_name, wish, instead_of=before, ended=ended, about=about
    )
    return how if seized is not None else None


def _event_details(
    wish: ClaimRequest, how: str | None, before: str | None = None, ahead: Waiter | None = None
) -> dict[str, object]:
    """What the event of a grant says beyond who and when."""
    keys = {"forced": "forced_from", "taken_over": "takeover_from", "after_death": "died_before"}
    about: dict[str, object] = {}
    if how is not None and before is not None:
        about[keys[how]] = before
    if wish.displaced is not None:
        about["forced_from"] = wish.displaced
    if ahead is not None and how == "forced":
        about["passed_by"] = ahead.agent_id
    if about and wish.reason is not None:
        about["reason"] = wish.reason
    return about


def _renew(connection: sqlite3.Connection, claim: Claim, wish: ClaimRequest) -> bool:
    """The owner claims again: same epoch, new sign of life, and what was said anew (task, ttl, process)."""
    process = wish.process
    watched = process.pid is None and host.is_alive(claim.host, claim.boot, claim.pid, claim.pid_started) is not False
    pid, started = (claim.pid, claim.pid_started) if watched else (process.pid, process.started)
    at = times.stamp()
    changed = connection.execute(
        "UPDATE claims SET task_id = ?, ttl_seconds = ?, heartbeat_at = ?, heartbeat_uptime = ?, host = ?, boot = ?,"
        f" pid = ?, pid_started = ? {_KEY} AND agent_id = ? AND epoch = ?",
        (
            wish.task or claim.task_id,
            claim.ttl_seconds if wish.ttl is None else wish.ttl,
            at,
            host.uptime(),
            process.host,
            process.boot,
            pid,
            started,
            claim.repo_name,
            claim.worktree_name,
            claim.agent_id,
            claim.epoch,
        ),
    ).rowcount
    if changed == 1:
        if wish.task is not None and wish.task != claim.task_id:
            claim_history.begin_attempt(connection, (claim.repo_name, claim.worktree_name), claim.epoch, wish.task, at)
        _update_owner_columns(connection, claim, process.host, at)
    return changed == 1


def heartbeat(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, agent: str, epoch: int | None
) -> tuple[bool, Claim]:
    """A sign of life of the owner; (whether it counted, the claim as it stands).

    It does not count for a claim that is proven dead: whoever still sends heartbeats then is not the agent.
    """
    claim = claims.current(connection, repo_name, worktree_name)
    if claims.state(claim) == "dead":
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
) -> tuple[bool, Claim]:
    """Give the claim of this epoch back, or with `force` take it from whoever has it; (whether, the claim before).

    `outcome` is what came of its task, by whoever gives it back.
    """
    claim = claims.current(connection, repo_name, worktree_name)
    if claim.agent_id is None:
        return False, claim
    how = "released" if claim.agent_id == agent else "forced"
    holder = claim.agent_id if force else agent
    freed = claims.free_slot(connection, claim, how, by=agent, reason=reason, holder=holder, epoch=epoch)
    if freed:
        claim_queue.remove_gone(connection, repo_name, worktree_name)
        if outcome is not None:
            claim_history.record_outcome(connection, claim, outcome)
    return freed, claim


def _update_owner_columns(connection: sqlite3.Connection, claim: Claim, host_name: str, at: str) -> None:
    """Keep agent and iMi's columns true; iMi's own INSERT OR REPLACE may have wiped them meanwhile."""
    agents.mark_seen(connection, claim.agent_id or "?", host_name, at, None)
    connection.execute(
        f"UPDATE worktrees SET agent_id = ?, claimed_at = ?, released_at = NULL {_KEY} AND agent_id IS NOT ?",
        (claim.agent_id, claim.claimed_at, claim.repo_name, claim.worktree_name, claim.agent_id),
    )
