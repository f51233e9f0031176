"""Claim, wait and release in another home of the team: its registry decides, this machine asks and renews.

The claim is a lease. This machine counts its time from before the question, so that its agent stops before the other home gives
the worktree to another owner.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.actions.action import Outcome
from imi_monitor.actions.claims import claim_options
from imi_monitor.actions.team import home_names, published_homes
from imi_monitor.actions.team.home_names import RemoteWorktree
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import names, team_question, times
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.team_question import HeldClaim, HomeAnswer, HomeQuestion
from imi_monitor.model.text import safe
from imi_monitor.roster import KNOWN_PREFIXES
from imi_monitor.store import db, remote_claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.links.question_channel import QuestionChannel, ReadAnswer
    from imi_monitor.store.remote_claims import RemoteClaimRow

_ONLY_THERE = ("takeover", "force", "reason", "ttl")
ELSEWHERE = "claimed-elsewhere"


def names_home(context: Context, name: str) -> bool:
    """Whether a name means a worktree of another home: it has a colon, and no worktree here has it."""
    if home_names.SEPARATOR not in name:
        return False
    from imi_monitor.actions import worktree_lookup

    repository = context.find_repository()
    among = worktree_lookup.list_worktrees(context, repository) if repository is not None else []
    return all(one.name != name for one in among)


def claim(context: Context, request: Request, found: RemoteWorktree) -> Outcome:
    """Ask the home for the worktree, and wait in its line if the request says so."""
    agent, process = _asker(context, request, found)
    seconds = request.number("wait") or 0.0
    act = team_question.WAIT if seconds > 0 else team_question.CLAIM
    key = found.tree.key
    question = HomeQuestion(new_id(), act, found.own, key.repo, key.worktree, agent, request.text("task"))
    read = _ask(context, found, question, seconds)
    if read is None:
        raise _no_answer(found, seconds)
    answer = read.answer
    if not answer.granted:
        raise _refusal(found, answer, seconds)
    good_until = _good_until(context, found, read)
    if good_until is None:
        _give_back(context, found, answer.epoch)
        raise Refused(
            f"the answer of {safe(found.home.label, 60)} came too late: it is given back, ask again", code="late"
        )
    _record(context, found, answer, agent, process, request.text("task"), good_until)
    sentence = f"{safe(found.named)} is claimed by {safe(agent)} (epoch {answer.epoch})"
    if answer.how == "renewed":
        sentence = f"{safe(found.named)} was yours already, {safe(agent)} (epoch {answer.epoch}): renewed"
    renews = f"this machine renews it every {times.age(team_question.renewal(answer.lease))}"
    return Outcome(
        [f"{sentence}; {renews}"], {**_data(found), "how": answer.how, "agent_id": agent, "epoch": answer.epoch}
    )


def consequences(context: Context, request: Request, found: RemoteWorktree) -> list[str]:
    """Return what a claim there would do, by what the home published last."""
    agent, _ = _asker(context, request, found)
    held = found.tree.claim
    if held is not None and held.agent and not held.agent.startswith(f"{agent}@"):
        if not request.number("wait"):
            raise _held(found, held.agent, held.claimed_at, held.state)
        return [
            f"waits in line for {safe(found.named)}; {safe(held.agent, 60)} holds it",
            "quitting the dashboard leaves the line",
        ]
    return [
        f"asks {safe(found.home.label, 60)} for {safe(found.tree.key.worktree)}; that machine decides",
        f"{safe(agent, 60)} holds it while this machine renews it",
    ]


def release_consequences(context: Context, request: Request, name: str) -> list[str]:
    """Return what a release there would do."""
    held, agent = _own_claim(context, request, name)
    return [
        f"{safe(_named(held))} is unclaimed from then on: {safe(agent, 60)}'s claim ends, held for"
        f" {times.age_of(held.claimed_at)}"
    ]


def _own_claim(context: Context, request: Request, name: str) -> tuple[RemoteClaimRow, str]:
    """The claim that the request means, and its agent; Refused if it is another agent's."""
    held = _held_row(context, name)
    agent, epoch = claim_options.agent(context, request), claim_options.epoch(request)
    if held.agent_id != agent or (epoch is not None and epoch != held.epoch):
        raise Refused(
            f"{safe(_named(held))} is held by {safe(held.agent_id, 60)} (epoch {held.epoch}), not by {safe(agent, 60)}",
            code="not-owner",
        )
    return held, agent


def release(context: Context, request: Request, name: str) -> Outcome:
    """End a claim of this machine in another home."""
    held, agent = _own_claim(context, request, name)
    data = {**_row_data(held), "released": True}
    line = f"{safe(_named(held))} is unclaimed: {safe(agent, 60)} released it"
    try:
        result = _ask_release(context, held)
    except ImiError as error:
        return _released_here(context, held, line, data, error.sentence)
    if result is None:
        return _released_here(context, held, line, data, f"{safe(held.label, 60)} does not answer")
    db.transact(context.connection, remote_claims.end, held, result)
    if result == "lost":
        raise Refused(
            f"{safe(_named(held))} was not yours any more: {safe(held.label, 60)} had ended the claim", code="not-owner"
        )
    return Outcome([line], data)


def verify(context: Context, request: Request, name: str) -> Outcome:
    """Whether the agent holds the worktree at this moment, by this machine's clock; Refused if not."""
    agent, epoch = claim_options.agent(context, request), claim_options.epoch(request)
    held = _held_row(context, name)
    fits = held.agent_id == agent and epoch in (None, held.epoch)
    if not fits or held.seconds_left <= 0:
        why = f"is held by {safe(held.agent_id, 60)} (epoch {held.epoch})" if not fits else "was not renewed in time"
        data = {**_row_data(held), "mine": False}
        raise Refused(f"{safe(_named(held))} is not yours: it {why}", code="not-owner", data=data)
    left = times.age(held.seconds_left)
    line = f"{safe(_named(held))} is yours, {safe(agent, 60)} (epoch {held.epoch}), certain for {left}"
    return Outcome([line], {**_row_data(held), "mine": True})


def elsewhere(context: Context, name: str) -> ImiError:
    """The refusal of an act that cannot be asked of another home."""
    try:
        found = home_names.resolve(context, name)
    except ImiError as error:
        return error
    if isinstance(found, str):
        return Refused(f"this machine has no worktree {safe(found)!r}: `imi list` shows them", code="no-worktree")
    return Refused(
        f"{safe(found.tree.key.worktree)} is on {safe(found.home.label, 60)}: this can only be done there",
        code="elsewhere",
    )


def _asker(context: Context, request: Request, found: RemoteWorktree) -> tuple[str, host.ProcessIdentity]:
    """The agent and its process; Refused for what cannot be asked from here."""
    for option in _ONLY_THERE:
        if request.flag(option):
            raise Refused(
                f"--{option} is not for a worktree of another machine: do that on {safe(found.home.label, 60)}",
                code="only-there",
            )
    agent = claim_options.agent(context, request)
    problem = team_question.agent_problem(agent)
    if problem is not None:
        raise UsageError(f"agent {safe(agent, 60)!r} {problem}", code="bad-agent")
    process = host.identify_process(claim_options.pid(request))
    if process.pid is not None and process.started is None:
        raise Refused(f"no process {process.pid} runs here: give the agent's own pid, or none", code="no-process")
    return agent, process


def _ask(context: Context, found: RemoteWorktree, question: HomeQuestion, seconds: float) -> ReadAnswer | None:
    from imi_monitor.actions.signal_mark import SignalMark

    home_names.refuse_without_duties(context, found.own)
    shown: list[str] = []

    def report(answer: HomeAnswer) -> None:
        place = f"number {answer.place} in line" if answer.place else "in line"
        text = f"{place} for {safe(found.named)}, held by {safe(answer.owner or '?', 60)}"
        if shown != [text]:
            shown[:] = [text]
            context.progress(text)

    with SignalMark() as stop:

        async def ask(channel: QuestionChannel) -> ReadAnswer | None:
            patience = max(seconds, team_question.PATIENCE)
            stopped: Callable[[], bool] = lambda: bool(stop.signal) or context.cancelled()  # noqa: E731
            return await channel.wait(found.home.id, question, patience, stopped, report)

        read = _with_channel(context, ask)
        if stop.signal or context.cancelled():
            if read is not None and read.answer.granted:
                _give_back(context, found, read.answer.epoch)
            if stop.signal:
                raise KeyboardInterrupt
            raise Refused(f"gave up waiting for {safe(found.named)}", code="cancelled")
        return read


def _with_channel(
    context: Context, act: Callable[[QuestionChannel], Awaitable[ReadAnswer | None]]
) -> ReadAnswer | None:
    from imi_monitor.links.presence_keys import TeamKeys
    from imi_monitor.links.redis_link import RedisLink

    keys = TeamKeys(context.settings.text("team.name"))

    async def run(link: RedisLink) -> ReadAnswer | None:
        from imi_monitor.links.question_channel import QuestionChannel

        blocking = RedisLink(link.address, blocking=True)
        try:
            return await act(QuestionChannel(link, blocking, keys))
        finally:
            await blocking.close()

    return published_homes.with_redis(context, run)


def _record(
    context: Context,
    found: RemoteWorktree,
    answer: HomeAnswer,
    agent: str,
    process: host.ProcessIdentity,
    task: str | None,
    good_until: float,
) -> None:
    """Record the claim, so that it is renewed; one that cannot be recorded is given back."""
    key = (found.home.id, found.tree.key.repo, found.tree.key.worktree)
    about = {"epoch": answer.epoch, "task": task, "seconds": answer.lease, "good_until": good_until}
    try:
        db.transact(context.connection, remote_claims.put, key, found.home.label, agent, process, **about)  # type: ignore[arg-type]
    except ImiError:
        _give_back(context, found, answer.epoch)
        raise


def _give_back(context: Context, found: RemoteWorktree, epoch: int) -> None:
    """Release a grant that is not used; if that does not arrive, the lease ends."""
    key = found.tree.key
    _send_release(context, found.home.id, found.own, HeldClaim(key.repo, key.worktree, epoch))


def _ask_release(context: Context, held: RemoteClaimRow) -> str | None:
    own = published_homes.own_home(context)
    claim = HeldClaim(held.repo, held.worktree_name, held.epoch)
    read = _send_release(context, held.home, own, claim)
    return read.answer.results[0] if read is not None and read.answer.results else None


def _send_release(context: Context, home: str, own: str, claim: HeldClaim) -> ReadAnswer | None:
    question = HomeQuestion(new_id(), team_question.RELEASE, own, claims=(claim,))
    return _with_channel(context, lambda channel: channel.ask(home, question))


def _released_here(context: Context, held: RemoteClaimRow, line: str, data: dict[str, object], why: str) -> Outcome:
    """The claim ends here at once; its home ends it when the lease is over."""
    db.transact(context.connection, remote_claims.end, held, "released")
    return Outcome([line], data, warnings=[f"{why}: it ends the claim within {times.age(held.seconds)}"])


def _held_row(context: Context, name: str) -> RemoteClaimRow:
    """The claim of this machine that HOST:NAME means; errors about HOST come from the team's Redis."""
    word, rest = home_names.split(name)
    worktree = rest.rpartition("/")[2]
    for candidate in names.candidates(worktree, KNOWN_PREFIXES):
        rows = db.read(context.connection, remote_claims.list_named, candidate)
        found = [one for one in rows if word.casefold() in (one.label.casefold(), one.home) and one.ended is None]
        if len(found) == 1:
            return found[0]
    resolved = home_names.resolve(context, name)
    named = resolved if isinstance(resolved, str) else resolved.named
    raise Refused(
        f"no agent of this machine holds {safe(named)}: `imi claim {safe(named)}` asks for it", code="not-owner"
    )


def _named(held: RemoteClaimRow) -> str:
    return f"{held.label}{home_names.SEPARATOR}{held.worktree_name}"


def _good_until(context: Context, found: RemoteWorktree, read: ReadAnswer) -> float | None:
    """Until when the grant is certain. One that waited for long is renewed at once; None if its time is over."""
    lease = read.answer.lease
    if lease <= 0:
        return None
    good_until = read.since + lease - team_question.margin(lease)
    if host.uptime() < good_until - lease / 2:
        return good_until
    key = found.tree.key
    claims = (HeldClaim(key.repo, key.worktree, read.answer.epoch),)
    question = HomeQuestion(new_id(), team_question.RENEW, found.own, claims=claims)
    renewed = _with_channel(context, lambda channel: channel.ask(found.home.id, question))
    if renewed is None or renewed.answer.results != ("renewed",):
        return good_until if host.uptime() < good_until else None
    return renewed.since + lease - team_question.margin(lease)


def _no_answer(found: RemoteWorktree, seconds: float) -> Refused:
    label = safe(found.home.label, 60)
    if seconds:
        return Refused(
            f"waited {seconds:g} s for {safe(found.named)} without an answer: it is not yours", code="no-answer"
        )
    return Refused(
        f"{label} does not answer within {team_question.PATIENCE:g} s: {safe(found.tree.key.worktree)} is not claimed"
        " (is a dashboard or `imi serve` running there?)",
        code="no-answer",
    )


def _refusal(found: RemoteWorktree, answer: HomeAnswer, waited: float) -> Refused:
    label, name = safe(found.home.label, 60), safe(found.named)
    if answer.how in ("held", "queued"):
        if answer.how == "queued":
            why = f"{name} is unclaimed, but {safe(answer.owner or '?', 60)} is first in line for it"
            return Refused(
                advised(why, "wait with --wait SECONDS", "wait in line"),
                code=ELSEWHERE,
                data={**_data(found), "agent_id": None, "waiting": answer.owner},
            )
        return _held(found, answer.owner or "?", answer.since, answer.state or "held")
    why = {
        "no-worktree": f"{label} has no worktree {safe(found.tree.key.worktree)!r} any more",
        "ambiguous": f"{label} has several clones with a worktree {safe(found.tree.key.worktree)!r}: claim it there",
        "missing": f"{name} cannot be claimed: its folder does not exist any more",
        "newer": f"{label} runs another version of imi that does not know this question: upgrade the older one",
    }.get(answer.how, f"{label} could not grant {name}")
    return Refused(why, code=answer.how, data=_data(found))


def _held(found: RemoteWorktree, owner: str, since: str | None, state: str) -> Refused:
    span = f" for {times.age_of(since)}" if times.parse(since) is not None else ""
    return Refused(
        advised(
            f"{safe(found.named)} has been held by {safe(owner, 60)}{span}",
            "wait in line with --wait SECONDS",
            "wait in line",
        ),
        code=ELSEWHERE,
        data={**_data(found), "agent_id": owner, "claimed_at": since, "state": state},
    )


def _data(found: RemoteWorktree) -> dict[str, object]:
    key = found.tree.key
    return {"worktree_name": key.worktree, "repo": key.repo, "host": found.home.label, "home": found.home.id}


def _row_data(held: RemoteClaimRow) -> dict[str, object]:
    return {
        "worktree_name": held.worktree_name,
        "repo": held.repo,
        "host": held.label,
        "home": held.home,
        "agent_id": held.agent_id,
        "epoch": held.epoch,
        "task_id": held.task_id,
        "claimed_at": held.claimed_at,
        "seconds_left": round(held.seconds_left, 1),
    }
