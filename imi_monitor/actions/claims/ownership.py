"""Shared by the claim verbs: finding the worktree by one row instead of all, and sentences about its owner.

The sentences name the worktree, the owner, since when, and what to do next. Lean.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Request
from imi_monitor.actions.claims import claim_options
from imi_monitor.git import layout
from imi_monitor.model import contained_names, times
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import safe
from imi_monitor.store import claim_holder, claims, worktrees
from imi_monitor.store.claim_requests import ClaimTarget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claim_holder import Caller
    from imi_monitor.store.claims import Claim


def find(context: Context, request: Request) -> Target:
    """The worktree called NAME, as `find_worktree` returns it; reads only its own folder if a row has the name."""
    name = request.text("name") or ""
    return _find_by_row(context, name) or worktree_lookup.find_worktree(context, name)


def find_claimable(context: Context, request: Request) -> Target:
    """The worktree called NAME, else the workspace outside of git."""
    try:
        return find(context, request)
    except Refused as error:
        if error.code != "no-worktree":
            raise
        from imi_monitor.actions.claims import workspace_target

        found = workspace_target.find(context, request.text("name") or "")
        if found is None:
            raise
        return found


def _find_by_row(context: Context, name: str) -> Target | None:
    """The worktree whose row has exactly this name and whose place git confirms; None: all worktrees must be read."""
    repository = context.find_repository() if name and "/" not in name else None
    repo_name = context.repo_name(repository) if repository else None
    row = worktrees.get(context.connection, repo_name, name) if repo_name else None
    if repository is None or row is None or not row.active:
        return None
    if row.path == repository.main_path:
        return worktree_lookup.Target(repository, repo_name, name, row.path, None, row, True)
    if repository.main_path and os.path.basename(repository.main_path) == name:
        return None  # the name may mean the main worktree
    try:
        place = context.place_at(row.path)
    except GitError:
        return None
    if place is None or place.path != row.path or place.repository.common_dir != repository.common_dir:
        return None
    if os.path.lexists(os.path.join(place.admin_dir, "locked")):
        return None  # it may be in the trash
    branch, head = layout.read_head(place.admin_dir, repository.common_dir)
    linked = layout.LinkedWorktree(place.admin_dir, row.path, branch, head, None)
    return worktree_lookup.Target(repository, repo_name, name, row.path, linked, row, False)


def claim_target(context: Context, found: Target) -> ClaimTarget:
    """The worktree for `claim_requests`, with what registers it if plain git made it."""
    if found.repo_name is not None and (found.row is not None or not contained_names.in_git(found.repo_name)):
        return ClaimTarget(found.repo_name, found.name, path=found.path)
    return ClaimTarget(
        found.repo_name,
        found.name,
        path=found.path,
        registration=context.registration(found.repository),
        branch=found.branch or "",
        kind=found.kind,
    )


def claim_of(context: Context, found: Target) -> Claim | None:
    """The current claim; None when the repository is not registered."""
    return claims.current(context.connection, found.repo_name, found.name) if found.repo_name else None


def recover_reservation(context: Context, claim: Claim) -> bool:
    """Complete or revert a dead operation of imi that holds the worktree; False when none does."""
    if not claims.is_dead_reservation(claim):
        return False
    from imi_monitor.actions import recovery

    for line in recovery.recover(context):
        context.progress(line)
    return True


def held_by(claim: Claim) -> str:
    """`feat-x has been held by claude-1 for 5m, task T-7`, and whether it is dead or stale."""
    span = f" for {times.age_of(claim.claimed_at)}" if times.parse(claim.claimed_at) is not None else ""
    owner = f"{safe(claim.worktree_name)} has been held by {safe(claim.agent_id or '?')}{span}"
    if claims.is_reservation(claim.agent_id):
        owner = f"{safe(claim.worktree_name)} is in use by imi itself ({safe(claim.agent_id or '')[4:]})"
    task = f", task {safe(claim.task_id)}" if claim.task_id else ""
    state = claims.state(claim)
    if state == "dead":
        return f"{owner}{task}, but {death(claim)} (dead)"
    if state == "stale":
        silent = times.age(claims.silent_seconds(claim))
        return f"{owner}{task}, silent for {silent} with a ttl of {times.age(claim.ttl_seconds)} (stale)"
    return owner + task


def another_holder(claim: Claim) -> str:
    """The process or session that holds a claim whose owner has the caller's name."""
    if claim.pid is not None and host.is_alive(claim.host, claim.boot, claim.pid, claim.pid_started) is not False:
        name = host.process_name(claim.pid)
        return f"by its process {claim.pid}{f' ({safe(name)})' if name else ''} and not by this one"
    return f"from another session ({safe(claim_holder.shown_session(claim) or '?')})"


def is_anothers(claim: Claim, agent: str) -> bool:
    """Whether another agent, or another living holder with this agent's name, has the worktree."""
    if claim.agent_id != agent:
        return claim.agent_id is not None
    return claims.state(claim) != "dead" and not claim_holder.holds(claim, claim_options.caller(Request("", {})))


def since(moment: str | None) -> str:
    """` since 2026-11-18 14:02:11 UTC (5m ago)`; empty when unknown."""
    parsed = times.parse(moment)
    if parsed is None:
        return ""
    return f" since {parsed.strftime('%Y-%m-%d %H:%M:%S')} UTC ({times.age_of(moment)} ago)"


def not_yours(
    context: Context,
    found: Target,
    claim: Claim | None,
    agent: str,
    epoch: int | None,
    caller: Caller | None = None,
    *,
    free: str = "",
) -> Refused:
    """The refusal for an agent that does not hold this claim: it was taken (by which agent and why), is another's, or is free.

    `free` is the advice in the last case.
    """
    name = safe(found.name)
    data = claim_data(claim) if claim else None
    if claim is None or claim.agent_id is None:
        lost = _loss(context, claim, agent, epoch)
        return Refused(
            f"{lost or f'{name} is not claimed'}: {free or f'`imi claim {name}` claims it'}",
            code="not-claimed",
            data=data,
        )
    if claim.agent_id == agent:
        if caller is not None and not claim_holder.holds(claim, caller) and claims.state(claim) != "dead":
            return _anothers(context, claim, agent, epoch)
        return _outdated(context, claim, agent, epoch)
    lost = _loss(context, claim, agent, epoch)
    sentence = f"{lost}; {held_by(claim)}" if lost else f"{held_by(claim)}, not by {safe(agent)}"
    advice = advised(
        sentence,
        "ask the owner, or wait with `imi claim --wait SECONDS`",
        "ask the owner, or `imi claim` to wait in line",
    )
    return Refused(advice, code="not-owner", data=data)


def _anothers(context: Context, claim: Claim, agent: str, epoch: int | None) -> Refused:
    """The refusal for another process or session that has the owner's name."""
    lost = _loss(context, claim, agent, claim.epoch - 1 if epoch is None else epoch)
    sentence = f"{held_by(claim)}, {another_holder(claim)}"
    return Refused(
        advised(
            f"{f'{lost}; ' if lost else ''}{sentence}",
            "if you are that holder, prove it with --session ID, or wait with `imi claim --wait SECONDS`",
            "`imi claim` to wait in line",
        ),
        code="not-owner",
        data=claim_data(claim),
    )


def _outdated(context: Context, claim: Claim, agent: str, epoch: int | None) -> Refused:
    """The refusal for an owner that names another epoch, or whose recorded process is gone."""
    name, data = safe(claim.worktree_name), claim_data(claim)
    if claims.state(claim) == "dead":
        return Refused(
            f"your claim on {name} can be taken by any agent, because {death(claim)}: `imi claim {name}` renews it",
            code="claim-dead",
            data=data,
        )
    lost = _loss(context, claim, agent, epoch) or f"epoch {epoch} of {name} is not yours"
    return Refused(f"{lost}; your current claim has epoch {claim.epoch}: use that", code="wrong-epoch", data=data)


def death(claim: Claim) -> str:
    """The proof that the holder is dead."""
    if claim.boot and host.is_other_boot(claim.boot):
        return "this machine was restarted since"
    return f"its process {claim.pid} is gone"


def _loss(context: Context, claim: Claim | None, agent: str, epoch: int | None) -> str | None:
    """Return how an earlier claim of `agent` ended, if the agent did not release it."""
    if claim is None:
        return None
    from imi_monitor.store import claim_history

    lost = claim_history.last_grant(context.connection, *claim.key, agent, epoch)
    if lost is None or lost.released_at is None or lost.ended == "released":
        return None
    name, at = safe(claim.worktree_name), since(lost.released_at).replace(" since ", " at ")
    by = safe(lost.taken_by or "imi")
    why = f" because: {safe(lost.reason)}" if lost.reason else ""
    if lost.ended == "died":
        return f"your claim on {name} ended{at}, because its process was gone; {by} took it"
    if lost.taken_by is None:
        return f"your claim on {name} ended{at} ({safe(lost.ended or '?')})"
    return f"your claim on {name} was taken by {by}{at}{why}"


def claim_data(claim: Claim) -> dict[str, object]:
    """A claim for `--json`; null where unknown."""
    return {
        "repo_name": claim.repo_name,
        "worktree_name": claim.worktree_name,
        "agent_id": claim.agent_id,
        "state": claims.state(claim),
        "epoch": claim.epoch,
        "task_id": claim.task_id,
        "claimed_at": claim.claimed_at,
        "heartbeat_at": claim.heartbeat_at,
        "silent_seconds": claims.silent_seconds(claim),
        "ttl_seconds": claim.ttl_seconds,
        "host": claim.host,
        "pid": claim.pid,
        "session": claim_holder.shown_session(claim),
    }


def answer_data(context: Context, found: Target, claim: Claim) -> dict[str, object]:
    """The JSON answer of claim, heartbeat and release: iMi's names first, then ours."""
    return {
        "worktree_id": claims.worktree_id(context.connection, claim.repo_name, claim.worktree_name),
        "worktree_name": found.name,
        "yi_id": claim.agent_id,
        "path": found.path,
        **claim_data(claim),
    }
