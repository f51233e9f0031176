"""What the claim verbs share: finding the worktree without reading all of them, and saying who holds it and since when.

Lean. The sentences are the product: they name the worktree, the owner, since when, and what to do.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.claims.claim_options import agent
from imi_monitor.git import layout
from imi_monitor.model import times
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import safe
from imi_monitor.store import claims, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claims import Claim

__all__ = ["agent", "claim_data", "claim_of", "death", "done_data", "find", "held_by", "not_yours", "since"]


def find(context: Context, request: Request) -> Target:
    """The worktree called NAME, as `target.find` gives it; one file tree is read instead of all if a row names it."""
    name = request.text("name") or ""
    return _registered(context, name) or worktree_lookup.find_worktree(context, name)


def _registered(context: Context, name: str) -> Target | None:
    """The worktree whose row has exactly this name and whose place git confirms; None leaves it to the thorough way."""
    repository = context.find_repository() if name and "/" not in name else None
    repo_name = context.repo_name(repository) if repository else None
    row = worktrees.get(context.connection, repo_name, name) if repo_name else None
    if repository is None or row is None or not row.active:
        return None
    if row.path == repository.main_path:
        return worktree_lookup.Target(repository, repo_name, name, row.path, None, row, True)
    if repository.main_path and os.path.basename(repository.main_path) == name:
        return None  # the main worktree may mean the same name
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


def claim_of(context: Context, found: Target) -> Claim | None:
    """The claim as it stands; None when the repository is not even registered, so that nobody ever claimed it."""
    return claims.current(context.connection, found.repo_name, found.name) if found.repo_name else None


def held_by(claim: Claim) -> str:
    """`feat-x is held by claude-1 since 2026-11-18 14:02:11 UTC (5m ago), task T-7`, with what is wrong with it."""
    who = f"{safe(claim.worktree_name)} is held by {safe(claim.agent_id or '?')}{since(claim.claimed_at)}"
    if claims.is_reservation(claim.agent_id):
        who = f"{safe(claim.worktree_name)} is being worked on by imi itself ({safe(claim.agent_id or '')[4:]})"
    task = f", task {safe(claim.task_id)}" if claim.task_id else ""
    state = claims.state(claim)
    if state == "dead":
        return f"{who}{task}, but {death(claim)} (dead)"
    if state == "stale":
        silent = times.age(claims.silent_seconds(claim))
        return f"{who}{task}, silent for {silent} with a ttl of {times.age(claim.ttl_seconds)} (stale)"
    return who + task


def since(moment: str | None) -> str:
    """` since 2026-11-18 14:02:11 UTC (5m ago)`; nothing when it is not known."""
    known = times.parse(moment)
    if known is None:
        return ""
    return f" since {known.strftime('%Y-%m-%d %H:%M:%S')} UTC ({times.age_of(moment)} ago)"


def not_yours(context: Context, found: Target, claim: Claim | None, who: str, number: int | None) -> Refused:
    """Why `who` cannot act on this claim: it was taken from him (by whom and why), it is another's, or nobody's."""
    name = safe(found.name)
    data = claim_data(claim) if claim else None
    if claim is None or claim.agent_id is None:
        told = _told(context, claim, who, number)
        sentence = told or f"{name} is not claimed by anybody"
        return Refused(f"{sentence}: `imi claim {name}` claims it", code="not-claimed", data=data)
    if claim.agent_id == who:
        return _yours_no_more(context, claim, who, number)
    told = _told(context, claim, who, number)
    sentence = f"{told}; {held_by(claim)}" if told else f"{held_by(claim)}, not by {safe(who)}"
    return Refused(sentence + ": ask them, or wait with `imi claim --wait SECONDS`", code="not-owner", data=data)


def _yours_no_more(context: Context, claim: Claim, who: str, number: int | None) -> Refused:
    """The agent has the claim, but not with this epoch, or its recorded process is gone."""
    name, data = safe(claim.worktree_name), claim_data(claim)
    if claims.state(claim) == "dead":
        return Refused(
            f"your claim on {name} is free for anybody to take, because {death(claim)}: `imi claim {name}` renews it",
            code="claim-dead",
            data=data,
        )
    told = _told(context, claim, who, number) or f"epoch {number} of {name} is not yours"
    return Refused(f"{told}; your claim of now has epoch {claim.epoch}: name that one", code="wrong-epoch", data=data)


def death(claim: Claim) -> str:
    """How we know that the holder is dead."""
    if claim.boot and claim.boot.partition("/")[0] != host.boot().partition("/")[0]:
        return "this machine was restarted since"
    return f"its process {claim.pid} is gone"


def _told(context: Context, claim: Claim | None, who: str, number: int | None) -> str | None:
    """How an earlier claim of `who` ended, if it was not by giving it back himself."""
    if claim is None:
        return None
    from imi_monitor.store import claim_history

    lost = claim_history.last_grant(context.connection, claim.repo_name, claim.worktree_name, who, number)
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
    """A claim for `--json`; what is not known is null."""
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
    }


def done_data(context: Context, found: Target, claim: Claim) -> dict[str, object]:
    """What claim, heartbeat and release answer: iMi's names first, then ours."""
    return {
        "worktree_id": claims.worktree_id(context.connection, claim.repo_name, claim.worktree_name),
        "worktree_name": found.name,
        "yi_id": claim.agent_id,
        "path": found.path,
        **claim_data(claim),
    }
