"""`imi verify-lock`: is this worktree mine? 0 yes, 1 no, 2 it cannot be told. Never yes by default."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Outcome
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import safe
from imi_monitor.store import claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claims import Claim


class UnknownOwner(ImiError):
    """Whose it is cannot be told; everything counts as claimed by somebody else then."""

    exit_status = 2


class VerifyAction(Action):
    words = ("verify-lock", "check-lock")
    label = "Verify"
    help = "Ask whether a worktree is yours: exit status 0 yes, 1 no, 2 unknown."
    more = (
        "Yes only if the registry says that the claim is yours, with the epoch you name if you name one, and its"
        " process is not proven dead. Free, another's and taken from you are 1. An unreadable registry, a damaged"
        " repository or a worktree that nobody knows are 2."
    )
    arguments = (claim_options.NAME,)
    options = (claim_options.AGENT, claim_options.EPOCH)
    changes = False
    hot = True

    def run(self, context: Context, request: Request) -> Outcome:
        who, number = claim_options.agent(context, request), claim_options.epoch(request)
        try:
            found, claim = _look(context, request)
        except (ImiError, OSError) as error:
            raise _unknown(error) from error
        if claim is None or not _is_mine(claim, who, number):
            raise _not_mine(context, found, claim, who, number)
        line = f"{safe(found.name)} is yours, {safe(who)} (epoch {claim.epoch})"
        return Outcome([line], {**ownership.done_data(context, found, claim), "mine": True})


def _look(context: Context, request: Request) -> tuple[Target, Claim | None]:
    found = ownership.find(context, request)
    return found, ownership.claim_of(context, found)


def _is_mine(claim: Claim, who: str, number: int | None) -> bool:
    if claim.agent_id != who or (number is not None and number != claim.epoch):
        return False
    return claims.state(claim) in ("held", "stale")


def _not_mine(context: Context, found: Target, claim: Claim | None, who: str, number: int | None) -> Refused:
    """As every other refusal, and with the state in the answer even if nobody ever claimed the worktree."""
    refused = ownership.not_yours(context, found, claim, who, number)
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
        return UnknownOwner(f"cannot tell whose it is: {safe(str(error))}", code="unknown", data={"state": "unknown"})
    data = {**(error.data or {}), "state": "unknown", "mine": None}
    return UnknownOwner(f"cannot tell whose it is: {error.sentence}", code=error.code, details=error.details, data=data)


ACTIONS = (VerifyAction(),)
