"""The consequences of a claim and of a release, as sentences for a dialog. Not imported by the verbs themselves."""

from __future__ import annotations

from imi_monitor.actions.claims import ownership
from imi_monitor.model import times
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import count, safe
from imi_monitor.store import claim_holder, claim_queue, claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claims import Claim, ClaimRequest


def of_claim(context: Context, found: Target, wanted: ClaimRequest) -> list[str]:
    """Return how the claim would be granted, for how long, and what is uncommitted in the worktree."""
    claim = ownership.claim_of(context, found)
    lines = [f"{safe(wanted.agent)} will hold {safe(found.name)} exclusively", *_earlier_claim(claim, wanted)]
    if wanted.ttl:
        lines.append(f"shown as stale after {times.age(wanted.ttl)} without a heartbeat")
    else:
        lines.append("no expiry: held until it is released")
    return [*lines, *_uncommitted(context, found)]


def of_waiting(context: Context, found: Target, claim: Claim) -> list[str]:
    """The place in line, the owner, and how the waiting ends."""
    waiters = claim_queue.list_waiters(context.connection, claim.repo_name, claim.worktree_name)
    ahead = sum(not one.gone for one in waiters)
    owner = f"{safe(claim.agent_id)} holds it" if claim.agent_id else "it is unclaimed: the first in line gets it"
    place = f"behind {count(ahead, 'agent')}" if ahead else "as the first"
    return [
        f"waits in line for {safe(found.name)} {place}; {owner}",
        "the claim follows as soon as it is your turn; `imi queue` shows the line, and leaves it",
        "quitting the dashboard leaves the line",
    ]


def of_release(context: Context, found: Target, claim: Claim, agent: str) -> list[str]:
    """Return sentences about a release: whose claim ends, who is next in line, and what is uncommitted."""
    held = f", held for {times.age_of(claim.claimed_at)}" if claim.claimed_at else ""
    lines = [f"{safe(found.name)} becomes unclaimed: {safe(claim.agent_id or '?')}'s claim ends{held}"]
    if ownership.is_anothers(claim, agent):
        lines.append(f"{safe(claim.agent_id or '?')} sees that {safe(agent)} took it, and the reason")
    first = claim_queue.first_ready(context.connection, claim.repo_name, claim.worktree_name)
    if first is not None:
        lines.append(f"{safe(first.agent_id)} is next in line for it")
    return [*lines, *_uncommitted(context, found)]


def _earlier_claim(claim: Claim | None, wanted: ClaimRequest) -> list[str]:
    if wanted.displaced is not None:
        return [f"taken by force from {safe(wanted.displaced)}, named by a presence lock"]
    if claim is None or claim.agent_id is None:
        return []
    if claim.agent_id == wanted.agent and claim_holder.holds(claim, wanted.caller):
        return [f"renews the claim held for {times.age_of(claim.claimed_at)} (epoch {claim.epoch})"]
    state = claims.state(claim)
    if state == "dead":
        return [f"{safe(claim.agent_id)} had it and is dead"]
    way = "taken over from" if state == "stale" and wanted.takeover else "taken by force from"
    return [f"{way} {safe(claim.agent_id)}, who sees the reason"]


def _uncommitted(context: Context, found: Target) -> list[str]:
    """The number of uncommitted files, which the next owner finds in the worktree."""
    from imi_monitor.git.git_status import read_status

    if found.admin_dir is None or found.missing:
        return []
    try:
        entries = len(read_status(context.git(found.repository, found.admin_dir, found.path)).entries)
    except GitError as error:
        return [f"uncommitted changes unknown: {error.sentence}"]
    return [f"{count(entries, 'uncommitted file')} in it"] if entries else ["nothing uncommitted in it"]
