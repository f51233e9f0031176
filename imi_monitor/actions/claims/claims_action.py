"""`imi claims` and `imi queue`: current and earlier claims, and the agents in line."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import ownership
from imi_monitor.model import times
from imi_monitor.model.text import count, safe
from imi_monitor.store import claim_history, claim_queue, claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.claim_history import ClaimGrant
    from imi_monitor.store.claim_queue import WaiterRow
    from imi_monitor.store.claims import Claim

ENDINGS = {
    "died": "died",
    "forced": "taken by force",
    "given_back": "given back",
    "released": "released",
    "reserved": "ended by imi",
    "taken_over": "taken over",
}


class ClaimsAction(Action):
    words = ("claims",)
    group = "Claims"
    label = "Claims"
    help = "list the owner of each claimed worktree; with --history, earlier owners"
    more = "Shows all repositories of the registry, or the one given with --repo."
    options = (
        Option("history", "earlier claims, of one worktree or of all", value="NAME", optional_value=True),
        Option("limit", "the maximum number of grants (default: 100)", value="N", number=True),
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        if request.flag("history"):
            return _history(context, request)
        found = claims.list_held(context.connection, context.repo_filter())
        waiting = claim_queue.list_waiters(context.connection)
        entries = [_entry(claim, waiting) for claim in found]
        lines = _table([_columns(claim, waiting) for claim in found]) or ["nothing is claimed"]
        return Outcome(lines, {"claims": entries, "count": len(entries)})


class QueueAction(Action):
    words = ("queue",)
    group = "Claims"
    label = "Queue"
    help = "list the agents that wait in line for a worktree"
    arguments = (Argument("name", "the worktree (default: all)", optional=True),)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        repo_name, name = context.repo_filter(), None
        if request.text("name"):
            found = ownership.find(context, request)
            repo_name, name = found.repo_name or "", found.name
        line = [waiter for waiter in claim_queue.list_waiters(context.connection, repo_name, name) if not waiter.gone]
        held = {claim.key: claim for claim in claims.list_held(context.connection, repo_name)}
        places: dict[tuple[str, str], int] = {}
        entries, rows = [], []
        for waiter in line:
            key = (waiter.repo_name, waiter.worktree_name)
            places[key] = places.get(key, 0) + 1
            entries.append(_waiter_data(waiter, places[key], held.get(key)))
            rows.append(_waiter_columns(waiter, places[key], held.get(key)))
        return Outcome(_table(rows) or ["no agent waits"], {"queue": entries, "count": len(entries)})


def _history(context: Context, request: Request) -> Outcome:
    repo_name, name = context.repo_filter(), None
    if request.text("history"):
        request.values["name"] = request.text("history")
        repo_name, name = _history_key(context, request)
    limit = request.whole("limit") or 100
    grants = claim_history.list_grants(context.connection, repo_name, name, limit)
    lines = _table([_grant_columns(grant) for grant in grants]) or ["there is no history yet"]
    return Outcome(lines, {"history": [_grant_data(grant) for grant in grants], "count": len(grants)})


def _history_key(context: Context, request: Request) -> tuple[str, str]:
    """(repository, worktree) of a worktree that exists, or of a removed one with this exact name in the history."""
    name = request.text("name") or ""
    repository = context.find_repository()
    repo_name = context.repo_name(repository) if repository else None
    if repo_name and claim_history.list_grants(context.connection, repo_name, name, 1):
        return repo_name, name
    found = ownership.find(context, request)
    return found.repo_name or "", found.name


def _entry(claim: Claim, waiting: list[WaiterRow]) -> dict[str, object]:
    return {**ownership.claim_data(claim), "waiting": _waiting(claim, waiting)}


def _columns(claim: Claim, waiting: list[WaiterRow]) -> list[str]:
    number = _waiting(claim, waiting)
    silent = claims.silent_seconds(claim)
    return [
        safe(claim.worktree_name),
        safe(claim.agent_id or ""),
        claims.state(claim),
        times.age_of(claim.claimed_at),
        f"heard {times.age(silent)} ago" if silent is not None else "",
        safe(claim.task_id or "", 40),
        f"{count(number, 'waits', 'wait')}" if number else "",
        safe(claim.repo_name),
    ]


def _waiting(claim: Claim, waiting: list[WaiterRow]) -> int:
    return sum((waiter.repo_name, waiter.worktree_name) == claim.key and not waiter.gone for waiter in waiting)


def _waiter_columns(waiter: WaiterRow, place: int, holder: Claim | None) -> list[str]:
    suspended = "" if waiter.ready else "suspended"
    behind = f"{safe(holder.agent_id or '?')} has it for {times.age_of(holder.claimed_at)}" if holder else "it is free"
    return [
        safe(waiter.worktree_name),
        str(place),
        safe(waiter.agent_id),
        f"waits {times.age_of(waiter.enqueued_at)}",
        suspended,
        behind,
        safe(waiter.task_id or "", 40),
        safe(waiter.repo_name),
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


def _grant_columns(grant: ClaimGrant) -> list[str]:
    ended = "holds it" if grant.released_at is None else ENDINGS.get(grant.ended or "", safe(grant.ended or "ended"))
    by = f"by {safe(grant.taken_by)}" if grant.taken_by else ""
    begun = grant.claimed_at[:19].replace("T", " ")
    return [
        safe(grant.worktree_name),
        str(grant.epoch),
        safe(grant.agent_id),
        begun,
        times.age(_held_seconds(grant)),
        ended,
        by,
        safe(grant.reason or "", 80),
        safe(grant.task_id or "", 40),
        safe(grant.repo_name),
    ]


def _grant_data(grant: ClaimGrant) -> dict[str, object]:
    return {**vars(grant), "held_seconds": _held_seconds(grant)}


def _held_seconds(grant: ClaimGrant) -> float | None:
    """From the grant to its end, or until now; None when unknown."""
    begun, ended = times.parse(grant.claimed_at), times.parse(grant.released_at)
    if begun is None or (ended is None and grant.released_at is not None):
        return None
    return max(0.0, ((ended or times.now()) - begun).total_seconds())


def _table(rows: list[list[str]]) -> list[str]:
    """The rows as lines, each column as wide as its widest cell, without empty columns."""
    kept = [index for index in range(len(rows[0]) if rows else 0) if any(row[index] for row in rows)]
    widths = {index: max(len(row[index]) for row in rows) for index in kept}
    return ["  ".join(row[index].ljust(widths[index]) for index in kept).rstrip() for row in rows]


ACTIONS = (ClaimsAction(), QueueAction())
