"""`imi heartbeat`: the owner of a claim shows that it is active, so that the claim does not become stale."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Outcome, Tool
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model import times
from imi_monitor.model.text import safe
from imi_monitor.store import claim_requests, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context


class HeartbeatAction(Action):
    words = ("heartbeat",)
    group = "Claims"
    label = "Heartbeat"
    help = "send a heartbeat for a claimed worktree"
    more = (
        "Only the owner's heartbeat counts. If the claim was taken meanwhile, the answer names the new owner and the reason,"
        " with exit status 1: stop working in the worktree then."
    )
    arguments = (claim_options.NAME,)
    options = (claim_options.AGENT, claim_options.SESSION, claim_options.EPOCH)
    tools = (Tool("heartbeat", options=("epoch",)),)
    hot = True
    tolerates = ("ui", "notify", "commands")

    def run(self, context: Context, request: Request) -> Outcome:
        agent, epoch = claim_options.agent(context, request), claim_options.epoch(request)
        caller = claim_options.caller(request)
        there = claim_options.elsewhere(context, request)
        if there is not None:  # this machine renews it; what the agent needs to know is whether it still holds it
            from imi_monitor.actions.team import remote_claim

            return remote_claim.verify(context, request, there)
        found = ownership.find_claimable(context, request)
        if found.repo_name is None:
            raise ownership.not_yours(context, found, None, agent, epoch)
        accepted, claim = db.transact_unsynced(
            context.connection, claim_requests.heartbeat, found.repo_name, found.name, agent, epoch, caller
        )
        if not accepted:
            raise ownership.not_yours(context, found, claim, agent, epoch, caller)
        ttl = f", stale after {times.age(claim.ttl_seconds)} of silence" if claim.ttl_seconds else ""
        line = f"{safe(found.name)} is yours, {safe(agent)} (epoch {claim.epoch}{ttl})"
        return Outcome([line], ownership.answer_data(context, found, claim))


ACTIONS = (HeartbeatAction(),)
