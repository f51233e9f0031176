"""`imi claims` and `imi queue`: current and earlier claims, and the agents in line."""

from __future__ import annotations

from imi_monitor.actions.action import ALL_REPOSITORIES, OF_REPOSITORY, Action, Argument, Option, Outcome
from imi_monitor.actions.claims import ownership
from imi_monitor.actions.status import status_action
from imi_monitor.model import names, state_words, times
from imi_monitor.model.attempt import NEXT_TASK
from imi_monitor.model.columns import Column, table
from imi_monitor.model.contained_names import shown_repository
from imi_monitor.model.run import workspace_name
from imi_monitor.model.styled_text import MUTED, NAME, styled
from imi_monitor.model.text import safe
from imi_monitor.store import claim_history, claim_queue, claims, remote_claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.claim_history import ClaimGrant
    from imi_monitor.store.claim_queue import WaiterRow
    from imi_monitor.store.claims import Claim

_ENDINGS = {
    "died": "its process died",
    "forced": "taken by force by {by}",
    "given_back": "given back",
    "lease": "its machine did not renew it",
    NEXT_TASK: "continued with the next task",
    "released": "released{by_another}",
    "reserved": "ended by an operation of imi",
    "taken_over": "taken over by {by}",
    "worktree_missing": "released when {by} forgot the missing worktree",
    "worktree_removed": "released when {by} removed the worktree",
}


_NAME, _OWNER, _TASK = (
    Column("Worktree", least=10, name=True),
    Column("Owner", least=8, name=True),
    Column("Task", least=6, rank=3),
)
_REPO = Column("Repository", least=4, rank=4)
_CLAIM = (
    _NAME,
    _OWNER,
    Column("State"),
    Column("For", right=True),
    Column("Heartbeat", right=True, rank=2),
    _TASK,
    Column("In line", right=True, rank=1),
    _REPO,
)
_WAITER = (
    _NAME,
    Column("Place", right=True),
    Column("Agent", least=8, name=True),
    Column("Waits", right=True),
    Column("State", rank=1),
    Column("Behind", least=8, rank=2),
    _TASK,
    _REPO,
)
_GRANT = (
    _NAME,
    Column("Epoch", right=True, rank=5),
    _OWNER,
    Column("From", rank=1),
    Column("For", right=True),
    Column("End", least=8),
    Column("Reason", least=8, rank=2),
    _TASK,
    _REPO,
)


class ClaimsAction(Action):
    words = ("claims",)
    group = "Claims"
    label = "Claims"
    help = "list the owner of each claimed worktree; with --history, earlier owners"
    more = OF_REPOSITORY
    options = (
        Option("history", "earlier claims, of one worktree or of all", value="NAME", optional_value=True),
        Option("limit", "the maximum number of grants (default: 100)", value="N", number=True),
        ALL_REPOSITORIES,
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        if request.flag("history"):
            return _history(context, request)
        found = claims.list_held(context.connection, context.repo_filter(request))
        waiting = claim_queue.list_waiters(context.connection)
        entries = [_entry(claim, waiting) for claim in found]
        several = len({claim.repo_name for claim in found}) > 1
        rows = [_columns(claim, waiting, several) for claim in found]
        lines = table(_CLAIM, rows, status_action.terminal_width()) or ["nothing is claimed"]
        elsewhere = remote_claims.list_open(context.connection)
        lines += [
            f"on another machine: {safe(one.label)}:{safe(one.worktree_name)}  {safe(one.agent_id)},"
            f" certain for {times.age(one.seconds_left)}"
            for one in elsewhere
        ]
        data = [
            {
                "host": one.label,
                "repo": one.repo,
                "worktree_name": one.worktree_name,
                "agent_id": one.agent_id,
                "epoch": one.epoch,
                "seconds_left": round(one.seconds_left, 1),
            }
            for one in elsewhere
        ]
        return Outcome(lines, {"claims": entries, "count": len(entries), "elsewhere": data})


class QueueAction(Action):
    words = ("queue",)
    group = "Claims"
    label = "Queue"
    help = "list the agents that wait in line for a worktree"
    more = OF_REPOSITORY
    arguments = (Argument("name", "the worktree (default: all)", optional=True),)
    options = (ALL_REPOSITORIES,)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        repo_name: str | None
        name: str | None = None
        if request.text("name"):
            found = ownership.find_claimable(context, request)
            repo_name, name = found.repo_name or "", found.name
        else:
            repo_name = context.repo_filter(request)
        line = [waiter for waiter in claim_queue.list_waiters(context.connection, repo_name, name) if not waiter.gone]
        held = {claim.key: claim for claim in claims.list_held(context.connection, repo_name)}
        places: dict[tuple[str, str], int] = {}
        several = len({waiter.repo_name for waiter in line}) > 1
        entries, rows = [], []
        for waiter in line:
            key = (waiter.repo_name, waiter.worktree_name)
            places[key] = places.get(key, 0) + 1
            entries.append(_waiter_data(waiter, places[key], held.get(key)))
            rows.append(_waiter_columns(waiter, places[key], held.get(key), several))
        lines = table(_WAITER, rows, status_action.terminal_width()) or ["no agent waits"]
        return Outcome(lines, {"queue": entries, "count": len(entries)})


def _history(context: Context, request: Request) -> Outcome:
    repo_name: str | None
    name: str | None = None
    if request.text("history"):
        request.values["name"] = request.text("history")
        repo_name, name = _history_key(context, request)
    else:
        repo_name = context.repo_filter(request)
    limit = request.whole("limit") or 100
    grants = claim_history.list_grants(context.connection, repo_name, name, limit)
    by_epoch = {(grant.repo_name, grant.worktree_name, grant.epoch): grant for grant in grants}
    endings = [_ending(grant, by_epoch) for grant in grants]
    several = len({grant.repo_name for grant in grants}) > 1
    rows = [
        _grant_columns(*pair, several)
        for pair in zip(grants, endings, strict=True)
        if not claims.is_reservation(pair[0].agent_id)
    ]
    entries = [_grant_data(*pair) for pair in zip(grants, endings, strict=True)]
    lines = table(_GRANT, rows, status_action.terminal_width()) or ["there is no history yet"]
    return Outcome(lines, {"history": entries, "count": len(entries)})


def _ending(grant: ClaimGrant, by_epoch: dict[tuple[str, str, int], ClaimGrant]) -> str:
    """How the claim ended, in words. What an operation of imi did with it is the end of the operation's own grant."""
    last = grant
    if grant.ended == "reserved":
        last = by_epoch.get((grant.repo_name, grant.worktree_name, grant.epoch + 1), grant)
    if last.released_at is None:
        return "holds it" if last is grant else f"{safe(last.agent_id)} is at work"
    if last is not grant and last.ended == "given_back":
        return f"interrupted by {safe(last.agent_id)}, then given back"
    return end_text(last.ended or "ended", last.taken_by)


def end_text(ended: str, taken_by: str | None) -> str:
    """Return how a claim ended, and by whose act."""
    by = "imi" if (taken_by or "").startswith(names.OURS) else safe(taken_by or "another", 40)
    words = _ENDINGS.get(ended, safe(ended, 40))
    return words.format(by=by, by_another=f" by {by}" if taken_by else "")


def _history_key(context: Context, request: Request) -> tuple[str, str]:
    """(repository, worktree) of a worktree that exists, or of a removed one with this exact name in the history."""
    name = request.text("name") or ""
    repository = context.find_repository()
    repo_name = context.repo_name(repository) if repository else None
    if repo_name and claim_history.list_grants(context.connection, repo_name, name, 1):
        return repo_name, name
    found = ownership.find_claimable(context, request)
    return found.repo_name or "", found.name


def _entry(claim: Claim, waiting: list[WaiterRow]) -> dict[str, object]:
    return {**ownership.claim_data(claim), "waiting": _waiting(claim, waiting)}


def _columns(claim: Claim, waiting: list[WaiterRow], several: bool) -> list[str]:
    number = _waiting(claim, waiting)
    silent = claims.silent_seconds(claim)
    return [
        styled(safe(workspace_name(claim.repo_name, claim.worktree_name)), NAME),
        safe(claim.agent_id or ""),
        state_words.in_style(claims.state(claim)),
        styled(times.age_of(claim.claimed_at), MUTED),
        styled(f"{times.age(silent)} ago" if silent is not None else "", MUTED),
        safe(claim.task_id or "", 40),
        str(number) if number else "",
        safe(shown_repository(claim.repo_name)) if several else "",
    ]


def _waiting(claim: Claim, waiting: list[WaiterRow]) -> int:
    return sum((waiter.repo_name, waiter.worktree_name) == claim.key and not waiter.gone for waiter in waiting)


def _waiter_columns(waiter: WaiterRow, place: int, holder: Claim | None, several: bool) -> list[str]:
    suspended = "" if waiter.ready else state_words.SUSPENDED
    behind = f"{safe(holder.agent_id or '?')}, for {times.age_of(holder.claimed_at)}" if holder else "unclaimed"
    return [
        styled(safe(workspace_name(waiter.repo_name, waiter.worktree_name)), NAME),
        str(place),
        safe(waiter.agent_id),
        styled(times.age_of(waiter.enqueued_at), MUTED),
        state_words.in_style(suspended),
        styled(behind, MUTED),
        safe(waiter.task_id or "", 40),
        safe(shown_repository(waiter.repo_name)) if several else "",
    ]


def _waiter_data(waiter: WaiterRow, place: int, holder: Claim | None) -> dict[str, object]:
    return {
        "repo_name": waiter.repo_name,
        "worktree_name": waiter.worktree_name,
        "place": place,
        "agent_id": waiter.agent_id,
        "task_id": waiter.task_id,
        "pid": waiter.pid,
        "host": waiter.host,
        "enqueued_at": waiter.enqueued_at,
        "ready": waiter.ready,
        "held_by": holder.agent_id if holder else None,
        "held_since": holder.claimed_at if holder else None,
    }


def _grant_columns(grant: ClaimGrant, ending: str, several: bool) -> list[str]:
    begun = grant.claimed_at[:19].replace("T", " ")
    return [
        styled(safe(workspace_name(grant.repo_name, grant.worktree_name)), NAME),
        str(grant.epoch),
        safe(grant.agent_id),
        styled(begun, MUTED),
        times.age(_held_seconds(grant)),
        ending,
        styled(safe(grant.reason or "", 80), MUTED),
        safe(grant.task_id or "", 40),
        safe(shown_repository(grant.repo_name)) if several else "",
    ]


def _grant_data(grant: ClaimGrant, ending: str) -> dict[str, object]:
    return {**vars(grant), "held_seconds": _held_seconds(grant), "ending": ending}


def _held_seconds(grant: ClaimGrant) -> float | None:
    """Return the seconds from the grant to its end, or until now; None when unknown."""
    begun, ended = times.parse(grant.claimed_at), times.parse(grant.released_at)
    if begun is None or (ended is None and grant.released_at is not None):
        return None
    return max(0.0, ((ended or times.now()) - begun).total_seconds())


ACTIONS = (ClaimsAction(), QueueAction())
