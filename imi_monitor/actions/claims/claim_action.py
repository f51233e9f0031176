"""`imi claim`: claim a worktree for one agent. `store/claim_requests.py` decides; this module prepares and reports."""

from __future__ import annotations

import os

from imi_monitor import host, presence
from imi_monitor.actions.action import Action, Option, Outcome, Tool
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import claim_requests, claims
from imi_monitor.store.claims import ClaimRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.claims.claim_line import FindTarget
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.team.home_names import RemoteWorktree
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claim_requests import ClaimAnswer, ClaimTarget
    from imi_monitor.store.claims import Claim


_WHILE_OPEN = 30 * 86400.0  # seconds a dashboard waits at most; it leaves the line when it ends
_TAKEN = ("claimed", "queued", "presence-lock")  # refusals that --force overrides


class ClaimAction(Action):
    words = ("claim",)
    group = "Claims"
    label = "Claim"
    examples = (
        ("imi claim feat-user-auth --task T-42", "claim it for a task"),
        ("imi claim feat-user-auth --wait 600", "wait in line for at most ten minutes"),
    )
    help = "claim a worktree for one agent"
    more = (
        "HOST:NAME asks another machine of the team, which decides; the claim ends there by itself when this machine no longer"
        " renews it. "
        "The first agent that claims a worktree holds it; claiming again renews the claim. Another living process or terminal"
        " with the same agent name is another holder, unless it gives the --session of the claim. A claim ends by `imi release`,"
        " or by the next claim after the process given by --pid (or IMI_AGENT_PID) is proven dead. A claim without a"
        " heartbeat for longer than its --ttl is shown as stale and can be taken with --takeover. --force takes any claim;"
        " the earlier owner sees the reason."
    )
    key = "c"
    key_bar = 90
    requires = ("folder",)
    arguments = (claim_options.NAME,)
    options = (
        claim_options.AGENT,
        claim_options.SESSION,
        Option(
            "wait",
            "wait in line for at most this long if it is taken",
            value="SECONDS",
            number=True,
            overrides=("claimed", "queued", "claimed-elsewhere"),
            label="Wait in line",
            ticked=_WHILE_OPEN,
        ),
        Option(
            "ttl",
            "show the claim as stale after this long without a heartbeat",
            value="SECONDS",
            number=True,
            label="Expires (s)",
        ),
        Option("task", "the task this claim is for", value="TASK"),
        Option("pid", "the agent's process; once it is dead, the next agent can claim", value="PID", number=True),
        Option(
            "takeover", "take a stale claim from its owner", overrides=("stale",), label="Take over the stale claim"
        ),
        Option(
            "force",
            "take the claim from any owner (needs --reason)",
            overrides=_TAKEN,
            label="Take the claim from its owner",
        ),
        Option(
            "reason", "the reason, for the earlier owner and the log", value="TEXT", goes_with=("takeover", "force")
        ),
    )
    dialog_options = ("agent", "ttl", "task", "wait", "takeover", "force", "reason")
    background_option = "wait"
    tools = (
        Tool("claim", options=("task", "ttl")),
        Tool(
            "wait",
            help="wait in line for a claimed worktree until it is yours, for at most so many seconds",
            options=("wait", "task"),
            needs=("wait",),
        ),
    )
    for_other_homes = True
    hot = True

    def refuse(self, context: Context, request: Request) -> None:
        reason = claim_options.short_text(request, "reason")
        claim_options.short_text(request, "task")
        if request.flag("force") and reason is None:
            raise UsageError(
                advised(
                    "",
                    "--force needs --reason TEXT: the earlier owner sees it",
                    "Enter the reason: the earlier owner sees it",
                ),
                code="no-reason",
            )
        if reason is not None and not (request.flag("force") or request.flag("takeover")):
            raise UsageError("--reason needs --force or --takeover", code="bad-option")

    def consequences(self, context: Context, request: Request) -> list[str]:
        from imi_monitor.actions.claims import claim_consequences

        there = _in_other_home(context, request)
        if there is not None:
            from imi_monitor.actions.team import remote_claim

            return remote_claim.consequences(context, request, there)
        found, wanted = _prepare(context, request)
        target = ownership.claim_target(context, found)
        claim_requests.refuse_missing(context.connection, target)
        no = claim_requests.refusal(context.connection, target, wanted)
        if no is not None and not claims.is_dead_reservation(no.claim):
            if request.number("wait"):
                return claim_consequences.of_waiting(context, found, no.claim)
            raise refusal(found, no, wanted, None)
        return claim_consequences.of_claim(context, found, wanted)

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        there = _in_other_home(context, request)
        if there is not None:
            from imi_monitor.actions.team import remote_claim

            return remote_claim.claim(context, request, there)
        found, wanted = _prepare(context, request)
        seconds = request.number("wait")

        def find_target() -> ClaimTarget:
            return ownership.claim_target(context, ownership.find_claimable(context, request))

        target = ownership.claim_target(context, found)
        answer = _request(context, target, find_target, wanted, seconds or 0.0)
        if ownership.recover_reservation(context, answer.claim):
            answer = _request(context, target, find_target, wanted, seconds or 0.0)
        if not answer.granted:
            raise refusal(found, answer, wanted, seconds)
        lock = presence.presence_lock_path(found.repository, found.name)
        warning = presence.update_presence_lock(context.connection, lock, *answer.claim.key, context.database)
        data = {
            **ownership.answer_data(context, found, answer.claim),
            "how": answer.how,
            "previous_agent": _previous(answer),
        }
        return Outcome([_sentence(answer, wanted)], data, warnings=[warning] if warning else [])


def _in_other_home(context: Context, request: Request) -> RemoteWorktree | None:
    """The worktree of another machine that HOST:NAME means; if HOST is this machine, the request is about NAME then."""
    name = claim_options.elsewhere(context, request)
    if name is None:
        return None
    from imi_monitor.actions.team import home_names

    there = home_names.resolve(context, name)
    if isinstance(there, str):
        request.values["name"] = there
        return None
    return there


def _prepare(context: Context, request: Request) -> tuple[Target, ClaimRequest]:
    """The worktree, and the request with all that the command line, the settings and a presence lock say."""
    caller = claim_options.caller(request)
    wanted = ClaimRequest(
        claim_options.agent(context, request),
        _process(request, caller.pid),
        caller=caller,
        task=request.text("task"),
        takeover=request.flag("takeover"),
        force=request.flag("force"),
        reason=request.text("reason"),
    )
    found = ownership.find_claimable(context, request)
    refuse_foreign(found)
    wanted.ttl = _ttl(context, request)
    wanted.displaced = displaced_owner(context, found, wanted)
    return found, wanted


def refuse_foreign(found: Target) -> None:
    """Refuse another user's repository unless git accepts it: its owner's claims are in a registry that is not ours."""
    common_dir = found.repository.common_dir
    if os.stat(common_dir).st_uid != os.geteuid():
        from imi_monitor.git import safety

        safety.check_owner(common_dir, common_dir, None)


def _process(request: Request, pid: int | None) -> host.ProcessIdentity:
    """The process whose death ends the claim; without a pid no process is watched."""
    process = host.identify_process(pid)
    if pid is not None and process.started is None:
        source = "IMI_AGENT_PID" if request.number("pid") is None else "--pid"
        raise Refused(f"no process {pid} ({source}) runs here: give the agent's own pid, or none", code="no-process")
    return process


def _ttl(context: Context, request: Request) -> float | None:
    given = request.number("ttl")
    if given is None:
        given = float(context.settings.number("claims.ttl_seconds"))
    return given or None


def displaced_owner(context: Context, found: Target, wanted: ClaimRequest) -> str | None:
    """The other owner that only a presence lock names, if --force ignores it. Refused without --force."""
    lock = presence.presence_lock_path(found.repository, found.name)
    owner = presence.foreign_owner(lock, context.database)
    if owner is None or owner.agent == wanted.agent:
        return None
    if found.repo_name and claims.current(context.connection, found.repo_name, found.name).agent_id is not None:
        return None  # the registry has an owner, and the lock is rewritten from it
    if wanted.force:
        return owner.agent
    who = "an agent that the file does not name" if owner.agent == presence.UNREADABLE else safe(owner.agent)
    raise Refused(
        advised(
            f"{safe(found.name)} is claimed by {who}{ownership.since(owner.since)} according to the presence lock"
            f" {safe(lock or '')} that another program wrote: release it with that program, or take it",
            "with --force --reason TEXT",
            "from its owner",
            joint=" ",
        ),
        code="presence-lock",
        data={"worktree_name": found.name, "agent_id": owner.agent, "state": "held", "claimed_at": owner.since},
    )


def _request(
    context: Context, target: ClaimTarget, find_target: FindTarget, wanted: ClaimRequest, seconds: float
) -> ClaimAnswer:
    """Claim now, or wait in line for `seconds`."""
    if seconds <= 0:
        return claim_requests.request_claim(context.connection, target, wanted)
    from imi_monitor.actions.claims import claim_line

    return claim_line.wait_for_claim(context, target, find_target, wanted, seconds)


def _previous(answer: ClaimAnswer) -> str | None:
    return answer.before.agent_id if answer.before and answer.how != "renewed" else None


def _sentence(answer: ClaimAnswer, wanted: ClaimRequest) -> str:
    claim, before = answer.claim, safe(_previous(answer) or wanted.displaced or "")
    claimed = f"{safe(claim.worktree_name)} is claimed by {safe(wanted.agent)} (epoch {claim.epoch})"
    if answer.how == "renewed":
        return f"{safe(claim.worktree_name)} was yours already, {safe(wanted.agent)} (epoch {claim.epoch}): renewed"
    if answer.how == "after_death":
        return f"{claimed}; {before} had it and is dead"
    if answer.how == "taken_over":
        return f"{claimed}, taken over from {before}, whose claim was stale"
    if wanted.displaced is not None:
        return f"{claimed}, taken by force from {before}, named only by a presence lock"
    if before:
        return f"{claimed}, taken by force from {before}, who sees the reason"
    return advised(
        f"{safe(claim.worktree_name)} is claimed by {safe(wanted.agent)}", f"(epoch {claim.epoch})", joint=" "
    )


def refusal(found: Target, answer: ClaimAnswer, wanted: ClaimRequest, waited: float | None) -> Refused:
    """The owner, or the agent whose turn it is, and what the caller can do."""
    claim = answer.claim
    force = "take it with --force --reason TEXT"
    data = ownership.claim_data(claim)
    patience = f"waited {waited:g} s, but " if waited else ""
    if answer.how == "queued" and answer.ahead is not None and claims.state(claim) in ("free", "dead"):
        data["waiting"] = answer.ahead.agent_id
        return Refused(
            advised(
                f"{patience}{safe(found.name)} is unclaimed, but {safe(answer.ahead.agent_id)} is first in line for it",
                f"wait in line with --wait SECONDS, or {force}",
                "wait in line, or take it from its owner",
            ),
            code="queued",
            data=data,
        )
    stale = claims.state(claim) == "stale"
    ways = ["take it over with --takeover"] if stale else []
    if claim.agent_id == wanted.agent:
        ways.append("if you are that holder, prove it with --session ID")
    ways += [f"wait {'longer ' if waited else ''}with --wait SECONDS", f"or {force}"]
    offered = f"{'take it over, ' if stale else ''}wait in line, or take it from its owner"
    sentence = advised(f"{patience}{_held_by(claim, wanted)}", ", ".join(ways), offered)
    return Refused(sentence, code="claimed", data=data)


def _held_by(claim: Claim, wanted: ClaimRequest) -> str:
    held = ownership.held_by(claim)
    return f"{held}, {ownership.another_holder(claim)}" if claim.agent_id == wanted.agent else held


ACTIONS = (ClaimAction(),)
