"""`imi claim`: a worktree for one agent alone. The registry decides (store/claim_requests.py); here is what surrounds it."""

from __future__ import annotations

import os

from imi_monitor import host, presence
from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import claim_requests, claims, worktrees
from imi_monitor.store.claims import ClaimRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claim_requests import ClaimAnswer
    from imi_monitor.store.claims import Claim


_TAKEN = ("claimed", "queued", "presence-lock")  # what force answers


class ClaimAction(Action):
    words = ("claim",)
    label = "Claim"
    help = "Claim a worktree for one agent alone."
    more = (
        "Whoever claims first has it; claiming again renews it. A claim ends by `imi release`, or when the process"
        " given by --pid (or IMI_AGENT_PID) is proven dead and somebody asks for it. A claim that is silent for longer"
        " than its --ttl is shown as stale and may be taken with --takeover. --force takes any claim; the old owner is"
        " told why."
    )
    key = "c"
    arguments = (claim_options.NAME,)
    options = (
        claim_options.AGENT,
        Option("wait", "stand in line for so long if it is taken", value="SECONDS", number=True),
        Option("ttl", "shown as stale after so long without a heartbeat", value="SECONDS", number=True),
        Option("task", "the task this is for", value="TASK"),
        Option("pid", "the agent's process; when it is dead, the claim is free for the next", value="PID", number=True),
        Option("takeover", "take it if its owner is stale", overrides=("stale",)),
        Option("force", "take it from whoever has it (needs --reason)", overrides=_TAKEN),
        Option("reason", "why, for the old owner and the log", value="TEXT", goes_with=("takeover", "force")),
    )
    dialog_options = ("agent", "ttl", "task", "takeover", "force", "reason")
    hot = True

    def refuse(self, context: Context, request: Request) -> None:
        reason = claim_options.short_text(request, "reason")
        claim_options.short_text(request, "task")
        if request.flag("force") and reason is None:
            raise UsageError("--force needs --reason TEXT: the old owner is told why", code="no-reason")
        if reason is not None and not (request.flag("force") or request.flag("takeover")):
            raise UsageError("--reason goes with --force or --takeover, which take it from another", code="bad-option")

    def consequences(self, context: Context, request: Request) -> list[str]:
        from imi_monitor.actions.claims import claim_consequences

        wish, found = _wish(context, request), ownership.find(context, request)
        wish.ttl = _ttl(context, request)
        refuse_missing(found)
        wish.displaced = _other_program(context, found, presence.presence_lock_path(found.repository, found.name), wish)
        known = found.repo_name if found.row is not None else None
        no = claim_requests.refusal(context.connection, known, found.name, wish) if known else None
        if no is not None and not (claims.is_reservation(no.claim.agent_id) and claims.state(no.claim) == "dead"):
            raise _refusal(found, no, None)
        return claim_consequences.claiming(context, found, wish)

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        wish = _wish(context, request)
        found = ownership.find(context, request)
        wish.ttl = _ttl(context, request)
        lock = presence.presence_lock_path(found.repository, found.name)
        wish.displaced = _other_program(context, found, lock, wish)
        answer = _ask(context, found, wish, request.number("wait") or 0.0)
        if not answer.granted:
            raise _refusal(found, answer, request.number("wait"))
        claim = answer.claim
        warning = presence.update_presence_lock(
            context.connection, lock, claim.repo_name, claim.worktree_name, context.database
        )
        data = {**ownership.done_data(context, found, claim), "how": answer.how, "previous_agent": _previous(answer)}
        return Outcome([_sentence(answer, wish)], data, warnings=[warning] if warning else [])


def _wish(context: Context, request: Request) -> ClaimRequest:
    return ClaimRequest(
        claim_options.agent(context, request),
        host.identify_process(_pid(request)),
        task=request.text("task"),
        takeover=request.flag("takeover"),
        force=request.flag("force"),
        reason=request.text("reason"),
    )


def _pid(request: Request) -> int | None:
    """The process whose death ends the claim: `--pid`, else IMI_AGENT_PID. `imi` itself is nobody's agent."""
    given, said = request.number("pid"), "--pid"
    if given is None:
        text, said = os.environ.get("IMI_AGENT_PID"), "IMI_AGENT_PID"
        if not text:
            return None
        given = float(text) if text.isdecimal() and text.isascii() and len(text) < 11 else 0.0
    pid = int(given)
    if pid != given or not 0 < pid < 1 << 31:
        raise UsageError(f"{said} must be the number of a process", code="bad-pid")
    if host.start_time(pid) is None:
        raise Refused(
            f"there is no living process {pid} ({said}) here: give the agent's own, or none", code="no-process"
        )
    return pid


def _ttl(context: Context, request: Request) -> float | None:
    given = request.number("ttl")
    if given is None:
        given = float(context.settings.number("claims.ttl_seconds"))
    return given or None


def _other_program(context: Context, found: Target, lock: str | None, wish: ClaimRequest) -> str | None:
    """Whom only a presence lock names: he has it, unless it is we, or force goes past him (then his name)."""
    owner = presence.foreign_owner(lock, context.database)
    if owner is None or owner.agent == wish.agent:
        return None
    if found.repo_name and claims.current(context.connection, found.repo_name, found.name).agent_id is not None:
        return None  # the registry knows who has it; the lock will say so again
    if wish.force:
        return owner.agent
    who = "somebody (the file does not say who)" if owner.agent == presence.UNREADABLE else safe(owner.agent)
    raise Refused(
        f"{safe(found.name)} is claimed by {who}{ownership.since(owner.since)}, says the presence lock"
        f" {safe(lock or '')} that another program wrote: let that program release it,"
        " or take it with --force --reason TEXT",
        code="presence-lock",
        data={"worktree_name": found.name, "agent_id": owner.agent, "state": "held", "claimed_at": owner.since},
    )


def _ask(context: Context, found: Target, wish: ClaimRequest, seconds: float) -> ClaimAnswer:
    """Take it now or, with time to wait, stand in line for it."""
    answer = _ask_once(context, found, wish, seconds)
    return _ask_once(context, found, wish, seconds) if settle(context, answer.claim) else answer


def settle(context: Context, claim: Claim) -> bool:
    """An act of imi itself that died half-way has the slot: finish it or take it back; False when that is not so."""
    if not (claims.is_reservation(claim.agent_id) and claims.state(claim) == "dead"):
        return False
    from imi_monitor.actions import recovery

    for line in recovery.recover(context):
        context.progress(line)
    return True


def _ask_once(context: Context, found: Target, wish: ClaimRequest, seconds: float) -> ClaimAnswer:
    if seconds <= 0:
        known = found.repo_name if found.row is not None else None
        refused = claim_requests.refusal(context.connection, known, found.name, wish) if known else None
        return refused or claim_requests.commit_claim(context.connection, wish, take_now, context, found, wish)
    from imi_monitor.actions.claims import claim_line

    return claim_line.ask(context, found, wish, seconds)


def take_now(connection: sqlite3.Connection, context: Context, found: Target, wish: ClaimRequest) -> ClaimAnswer:
    """The claim itself, in one transaction; a worktree made by plain git gets its row in the same."""
    refuse_missing(found)
    if found.repo_name is None or found.row is None:
        found.repo_name = context.register(found.repository, connection)
        worktrees.register(
            connection, found.repo_name, found.name, branch=found.branch or "", kind=found.kind, path=found.path
        )
    return claim_requests.claim(connection, found.repo_name, found.name, wish)


def refuse_missing(found: Target) -> None:
    """Looked at under the registry's write lock, so that a removal cannot come between the look and the grant."""
    if found.missing:
        raise Refused(
            f"{safe(found.name)} cannot be claimed: its folder {safe(found.path)} does not exist"
            " (`imi undo` brings back what was removed, `imi repair` finds what was moved)",
            code="missing",
        )


def _previous(answer: ClaimAnswer) -> str | None:
    return answer.before.agent_id if answer.before and answer.how != "renewed" else None


def _sentence(answer: ClaimAnswer, wish: ClaimRequest) -> str:
    claim, before = answer.claim, safe(_previous(answer) or wish.displaced or "")
    yours = f"{safe(claim.worktree_name)} is claimed by {safe(wish.agent)} (epoch {claim.epoch})"
    if answer.how == "renewed":
        return f"{safe(claim.worktree_name)} was yours already, {safe(wish.agent)} (epoch {claim.epoch}): renewed"
    if answer.how == "after_death":
        return f"{yours}; {before} had it and is dead"
    if answer.how == "taken_over":
        return f"{yours}, taken over from {before}, who was silent"
    if wish.displaced is not None:
        return f"{yours}, taken by force from {before}, whom only a presence lock named"
    if before:
        return f"{yours}, taken by force from {before}, who will be told"
    return yours


def _refusal(found: Target, answer: ClaimAnswer, waited: float | None) -> Refused:
    """Who has it or whose turn it is, and what the claimer can do."""
    claim = answer.claim
    force = "take it with --force --reason TEXT"
    data = ownership.claim_data(claim)
    patience = f"waited {waited:g} s, but " if waited else ""
    if answer.how == "queued" and answer.ahead is not None and claims.state(claim) in ("free", "dead"):
        data["waiting"] = answer.ahead.agent_id
        return Refused(
            f"{patience}{safe(found.name)} is free, but {safe(answer.ahead.agent_id)} is first in line for it: "
            f"stand in line with --wait SECONDS, or {force}",
            code="queued",
            data=data,
        )
    stale = claims.state(claim) == "stale"
    ways = ["take it over with --takeover"] if stale else []
    ways += [f"wait {'longer ' if waited else ''}with --wait SECONDS", f"or {force}"]
    return Refused(f"{patience}{ownership.held_by(claim)}: {', '.join(ways)}", code="claimed", data=data)


ACTIONS = (ClaimAction(),)
