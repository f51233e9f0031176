"""What claiming or releasing a worktree will mean, in sentences: for whoever has to decide. Not loaded by the acts."""

from __future__ import annotations

from imi_monitor.actions.claims import ownership
from imi_monitor.model import times
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import count, safe
from imi_monitor.store import claim_queue, claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claims import Claim, ClaimRequest


def claiming(context: Context, found: Target, wish: ClaimRequest) -> list[str]:
    """How the claim would be granted, to whom, and what he finds there."""
    claim = ownership.claim_of(context, found)
    who = safe(wish.agent)
    lines = [f"{safe(found.name)} is {who}'s from then on, and nobody else's", *_before(claim, wish)]
    if wish.ttl:
        lines.append(f"shown as stale after {times.age(wish.ttl)} without a heartbeat")
    else:
        lines.append("it stands until it is released: no ttl")
    return [*lines, *_uncommitted(context, found)]


def releasing(context: Context, found: Target, claim: Claim, who: str) -> list[str]:
    """Who gives what back, and who gets it then."""
    held = f", held for {times.age_of(claim.claimed_at)}" if claim.claimed_at else ""
    lines = [f"{safe(found.name)} is free for anybody: {safe(claim.agent_id or '?')}'s claim ends{held}"]
    if claim.agent_id != who:
        lines.append(f"{safe(claim.agent_id or '?')} is told that {safe(who)} took it, and why")
    first = claim_queue.first_ready(context.connection, claim.repo_name, claim.worktree_name)
    if first is not None:
        lines.append(f"{safe(first.agent_id)} is next in line for it")
    return [*lines, *_uncommitted(context, found)]


def _before(claim: Claim | None, wish: ClaimRequest) -> list[str]:
    if wish.displaced is not None:
        return [f"taken by force from {safe(wish.displaced)}, whom a presence lock names"]
    if claim is None or claim.agent_id is None:
        return []
    if claim.agent_id == wish.agent:
        return [f"renews the claim held since {times.age_of(claim.claimed_at)} ago (epoch {claim.epoch})"]
    state = claims.state(claim)
    if state == "dead":
        return [f"{safe(claim.agent_id)} had it and is dead"]
    way = "taken over from" if state == "stale" and wish.takeover else "taken by force from"
    return [f"{way} {safe(claim.agent_id)}, who is told why"]


def _uncommitted(context: Context, found: Target) -> list[str]:
    """Whose unfinished work lies there matters to the next one."""
    from imi_monitor.git.git_status import read_status

    if found.admin_dir is None or found.missing:
        return []
    try:
        entries = len(read_status(context.git(found.repository, found.admin_dir, found.path)).entries)
    except GitError as error:
        return [f"cannot tell what is uncommitted in it: {error.sentence}"]
    return [f"{count(entries, 'uncommitted file')} in it"] if entries else ["nothing uncommitted in it"]
