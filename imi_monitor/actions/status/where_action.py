"""`imi where`: the worktree around the caller, who the caller is, and whether the worktree is its own."""

from __future__ import annotations

import os

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Outcome, Tool
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model.text import safe
from imi_monitor.store import claim_holder, claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claims import Claim

_RUN = (("run", "IMI_RUN_ID"), ("run_folder", "IMI_RUN_DIR"))


class WhereAction(Action):
    words = ("where",)
    group = "Status"
    label = "Where am I"
    help = "show the worktree around you, your name, and whether the worktree is claimed by you"
    options = (claim_options.AGENT,)
    tools = (
        Tool("where_am_i", help="show the worktree you are in, your name, and whether you or another agent holds it"),
    )
    changes = False
    needs_registry = False
    tolerates = ("ui", "notify", "commands")

    def run(self, context: Context, request: Request) -> Outcome:
        agent = claim_options.agent(context, request)
        found = _around(context)
        data: dict[str, object] = {"agent_id": agent, "cwd": context.cwd, "repo": None, "worktree_name": None}
        data |= {name: os.environ.get(variable) for name, variable in _RUN}
        me = f"you are {safe(agent)}"
        if found is None:
            return Outcome([me, f"{safe(context.cwd)} is outside of any git repository"], data)
        claim = ownership.claim_of(context, found)
        mine = _is_mine(claim, agent, request)
        data |= {
            "repo": found.repo_name or found.repository.home,
            "worktree_name": found.name,
            "path": found.path,
            "branch": found.branch,
            "type": found.kind,
            "is_trunk": found.is_main,
            "owner": claim.agent_id if claim else None,
            "state": claims.state(claim) if claim else "free",
            "epoch": claim.epoch if claim else None,
            "mine": mine,
        }
        branch = f", branch {safe(found.branch)}" if found.branch else ""
        return Outcome([me, f"in {safe(found.name)}{branch}, at {safe(found.path)}", _owner(found, claim, mine)], data)


def _around(context: Context) -> Target | None:
    place = context.place()
    if place is None:
        return None
    path = os.path.realpath(place.path) if place.path else None
    among = worktree_lookup.list_worktrees(context, place.repository)
    return next((one for one in among if path and os.path.realpath(one.path) == path), None)


def _is_mine(claim: Claim | None, agent: str, request: Request) -> bool:
    if claim is None or claim.agent_id != agent:
        return False
    return claims.state(claim) in ("held", "stale") and claim_holder.holds(claim, claim_options.caller(request))


def _owner(found: Target, claim: Claim | None, mine: bool) -> str:
    if found.is_main:
        return "it is the trunk's worktree: work in one of your own, `imi feat NAME` makes it"
    if claim is None or claim.agent_id is None:
        return f"no agent has claimed it: `imi claim {safe(found.name)}`"
    return f"it is yours (epoch {claim.epoch})" if mine else ownership.held_by(claim)


ACTIONS = (WhereAction(),)
