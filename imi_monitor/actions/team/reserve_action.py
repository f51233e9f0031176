"""`imi reserve`: say to the team that a branch or a task is taken, before any machine has a worktree for it."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import claim_options
from imi_monitor.actions.team import published_homes
from imi_monitor.model import names, times
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import db, reservations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.links.redis_link import RedisLink
    from imi_monitor.links.reservation_store import Reservation, ReservationStore

    T = TypeVar("T")

KINDS = ("branch", "task")
_SECONDS, _LONGEST, _MOST_NAME = 3600, 7 * 86400, 200
_ADVISORY = "advisory: the team sees it, and git does not know it"
_COLUMNS = (
    Column("Kind"),
    Column("Name", least=10, name=True),
    Column("Agent", least=8),
    Column("Host", least=6),
    Column("Ends", right=True),
    Column("Epoch", right=True, rank=1),
)


class ReserveAction(Action):
    words = ("reserve",)
    group = "Claims"
    label = "Reserve"
    help = "reserve a branch or task that no machine has yet, or list the team's reservations"
    more = """Advisory: it is shown to those who ask, and stops nothing. A worktree that exists is claimed instead
    (`imi claim`). It ends by itself; reserving again renews it. After a loss of the Redis' data two may have it until the
    earlier one would have ended: what decides about a branch is the push (`git push --force-with-lease`)."""
    examples = (
        ("imi reserve branch feat/login", "for an hour"),
        ("imi reserve task T-42 --for 86400", "for a day"),
        ("imi reserve", "list them"),
    )
    arguments = (
        Argument("kind", "branch or task", optional=True, choices=KINDS),
        Argument("what", "the branch's name or the task's id", optional=True),
    )
    options = (
        claim_options.AGENT,
        Option("for", "how long (default: 3600)", value="SECONDS", number=True),
        Option("release", "end your own reservation"),
    )

    def refuse(self, context: Context, request: Request) -> None:
        kind, name = request.text("kind"), request.text("what")
        if kind is None:
            return
        if kind not in KINDS:
            raise UsageError(f"imi reserve takes branch or task, not {safe(kind, 40)!r}", code="bad-kind")
        if name is None:
            raise UsageError(f"name the {kind}: imi reserve {kind} NAME", code="missing")
        problem = names.branch_problem(name) if kind == "branch" else names.label_problem(name, _MOST_NAME)
        if problem or ":" in name[:1]:
            raise UsageError(f"{kind} {safe(name, 80)!r} {problem or 'begins with a colon'}", code="bad-name")
        seconds = request.number("for")
        if seconds is not None and not 1 <= seconds <= _LONGEST:
            raise UsageError(f"--for takes 1 to {_LONGEST} seconds, not {seconds:g}", code="bad-option")

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        kind, name = request.text("kind"), request.text("what")
        if kind is None or name is None:
            return _listed(context)
        agent, home = claim_options.agent(context, request), published_homes.own_home(context)
        if request.flag("release"):
            return _release(context, kind, name, home, agent)
        seconds = int(request.number("for") or _SECONDS)
        floor = db.read(context.connection, reservations.highest_epoch, kind, name)
        began = host.uptime()

        async def reserve(store: ReservationStore) -> tuple[Reservation, bool]:
            named = host.hostname()
            return await store.reserve(kind, name, home=home, agent=agent, host=named, seconds=seconds, floor=floor)

        found, replicated = _with_store(context, reserve)
        own = found.how in ("reserved", "renewed")
        until = began + seconds if own else None
        db.transact(context.connection, reservations.record, kind, name, found.epoch, agent if own else None, until)
        if not own:
            raise _taken(found)
        span = f"for {safe(agent, 60)} for {times.age(seconds)} (epoch {found.epoch})"
        line = f"{kind} {safe(name, 200)} is {found.how} {span}; {_ADVISORY}"
        warnings = [] if replicated else ["no replica of the Redis has it yet: a failure of the server may lose it"]
        return Outcome([line], _data(found), warnings=warnings)


def _release(context: Context, kind: str, name: str, home: str, agent: str) -> Outcome:
    async def release(store: ReservationStore) -> bool:
        return await store.release(kind, name, home=home, agent=agent)

    if not _with_store(context, release):
        raise Refused(f"{kind} {safe(name, 200)} is not reserved for {safe(agent, 60)} here", code="not-owner")
    db.transact(context.connection, reservations.record, kind, name, 0, None, None)
    return Outcome([f"{kind} {safe(name, 200)} is free for any agent"], {"kind": kind, "name": name, "released": True})


def _listed(context: Context) -> Outcome:
    async def read(store: ReservationStore) -> list[Reservation]:
        return await store.list_all()

    from imi_monitor.actions.status.status_action import terminal_width

    found = _with_store(context, read)
    rows = [[one.kind, one.name, one.agent, one.host, times.age(one.seconds), str(one.epoch)] for one in found]
    lines = table(_COLUMNS, rows, terminal_width()) or ["nothing is reserved"]
    return Outcome(lines, {"reservations": [_data(one) for one in found], "count": len(found)})


def _with_store(context: Context, act: Callable[[ReservationStore], Awaitable[T]]) -> T:
    """The result of `act` on the team's reservations."""
    from imi_monitor.links.presence_keys import TeamKeys

    keys = TeamKeys(context.settings.text("team.name"))

    async def run(link: RedisLink) -> T:
        from imi_monitor.links.reservation_store import ReservationStore

        return await act(ReservationStore(link, keys))

    return published_homes.with_redis(context, run)


def _taken(found: Reservation) -> Refused:
    if found.how == "foreign":
        return Refused(
            "the team's Redis has a value of another program under a key of imi: choose another team.name",
            code="foreign",
        )
    who = f"{found.agent}@{found.host}" if found.host else found.agent
    return Refused(
        f"{found.kind} {safe(found.name, 200)} is reserved for {who} for {times.age(found.seconds)} more (advisory)",
        code="reserved",
        data=_data(found),
    )


def _data(found: Reservation) -> dict[str, object]:
    return {
        "kind": found.kind,
        "name": found.name,
        "agent_id": found.agent,
        "host": found.host,
        "epoch": found.epoch,
        "seconds_left": found.seconds,
        "advisory": True,
    }


ACTIONS = (ReserveAction(),)
