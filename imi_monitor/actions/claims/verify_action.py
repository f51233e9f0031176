"""`imi verify-lock`: is this worktree mine? Exit status 0 yes, 1 no, 2 unknown. Never yes by default."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Outcome, Tool
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import safe
from imi_monitor.store import claim_holder, claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claim_holder import Caller
    from imi_monitor.store.claims import Claim


class UnknownOwner(ImiError):
    """The owner is unknown; the worktree counts as claimed by another agent then."""

    exit_status = 2


class VerifyAction(Action):
    words = ("verify-lock", "check-lock")
    group = "Claims"
    label = "Verify"
    help = "check whether a worktree is yours: exit status 0 yes, 1 no, 2 unknown"
    more = (
        "Yes only if the registry lists your claim, with the epoch you name if you name one, and its process is not proven"
        " dead. An unclaimed worktree, another's claim and a claim taken from you give 1. An unreadable registry, a damaged"
        " repository and an unknown worktree give 2."
    )
    arguments = (claim_options.NAME,)
    options = (claim_options.AGENT, claim_options.SESSION, claim_options.EPOCH)
    changes = False
    answers_by_status = True
    tools = (Tool("verify", help="check whether a worktree is still yours", options=("epoch",)),)
    hot = True
    tolerates = ("ui", "notify", "commands")

    def run(self, context: Context, request: Request) -> Outcome:
        agent, epoch = claim_options.agent(context, request), claim_options.epoch(request)
        caller = claim_options.caller(request)
        there = claim_options.elsewhere(context, request)
        if there is not None:
            from imi_monitor.actions.team import remote_claim

            return remote_claim.verify(context, request, there)
        try:
            found = ownership.find_claimable(context, request)
            claim = ownership.claim_of(context, found)
        except (ImiError, OSError) as error:
            raise _unknown(error) from error
        if claim is None or not _is_mine(claim, agent, epoch, caller):
            raise _not_mine(context, found, claim, agent, epoch, caller)
        line = f"{safe(found.name)} is yours, {safe(agent)} (epoch {claim.epoch})"
        return Outcome([line], {**ownership.answer_data(context, found, claim), "mine": True})


def _is_mine(claim: Claim, agent: str, epoch: int | None, caller: Caller) -> bool:
    if claim.agent_id != agent or (epoch is not None and epoch != claim.epoch):
        return False
    return claims.state(claim) in ("held", "stale") and claim_holder.holds(claim, caller)


def _not_mine(
    context: Context, found: Target, claim: Claim | None, agent: str, epoch: int | None, caller: Caller
) -> Refused:
    """The usual refusal, with the state in its data even if the worktree was never claimed."""
    refused = ownership.not_yours(context, found, claim, agent, epoch, caller)
    refused.data = {
        "worktree_name": found.name,
        "state": "free",
        "agent_id": None,
        **(refused.data or {}),
        "mine": False,
    }
    return refused


def _unknown(error: ImiError | OSError) -> UnknownOwner:
    if isinstance(error, OSError):
        return UnknownOwner(f"the owner is unknown: {safe(str(error))}", code="unknown", data={"state": "unknown"})
    data = {**(error.data or {}), "state": "unknown", "mine": None}
    return UnknownOwner(f"the owner is unknown: {error.sentence}", code=error.code, details=error.details, data=data)


ACTIONS = (VerifyAction(),)
