"""The budget of a day: money and minutes at work of all runs of this machine. At 80 % an event, at 100 % an interrupt of all.

Nothing of the queue starts while it is used up. What the user says to a run then, and `--over-budget`, are the consent to the
same amount again.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import price
from imi_monitor.model.text import count
from imi_monitor.runs import run_interrupt
from imi_monitor.store import db, events, run_usage
from imi_monitor.store.run_usage import MINUTES, USD

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from imi_monitor.config import Settings
    from imi_monitor.runs.run_ingest import FollowedRun
    from imi_monitor.store.run_usage import Usage

_WARN = 0.8


@dataclass(frozen=True, slots=True)
class UsedBudget:
    """How much of an amount is used. `granted`: how often the user allowed it again; `budget` is with that."""

    unit: str
    used: float
    budget: float
    granted: int = 0

    @property
    def used_up(self) -> bool:
        return reaches(self.used, self.budget)

    def __str__(self) -> str:
        if self.unit == USD:
            return f"${self.used:.2f} of ${self.budget:.2f}"
        return f"{int(self.used)} of {count(int(self.budget), 'minute')}"


def reaches(used: float, amount: float) -> bool:
    """Whether so much is the whole amount; sums of cents may be a trace below it."""
    return round(used - amount, 6) >= 0


def amounts(settings: Settings) -> dict[str, float]:
    """Unit -> amount; empty: the days have no budget."""
    found: dict[str, float] = {}
    usd = price.amount(settings.text("runs.day_budget"))
    if usd is not None:
        found[USD] = usd
    if settings.number("runs.day_minutes"):
        found[MINUTES] = float(settings.number("runs.day_minutes"))
    return found


def read(connection: sqlite3.Connection, settings: Settings, unrecorded: float = 0.0) -> list[UsedBudget]:
    """Today's budgets; `unrecorded`: seconds at work that are not in the registry yet."""
    wanted = amounts(settings)
    return db.read(connection, _read, wanted, unrecorded) if wanted else []


def _read(connection: sqlite3.Connection, wanted: dict[str, float], unrecorded: float) -> list[UsedBudget]:
    day = run_usage.today()
    used = run_usage.of_day(connection, day)
    found = []
    for unit, amount in wanted.items():
        granted = run_usage.day_budget(connection, day, unit).granted
        spent = (used.of_unit(unit) or 0.0) + (unrecorded / 60 if unit == MINUTES else 0.0)
        found.append(UsedBudget(unit, spent, amount * (1 + granted), granted))
    return found


def list_used_up(connection: sqlite3.Connection, settings: Settings) -> list[UsedBudget]:
    return [one for one in read(connection, settings) if one.used_up]


def grant(connection: sqlite3.Connection, settings: Settings) -> list[str]:
    """Allow today's used up amounts once more, because the user wants more work; returns what was allowed, as sentences."""
    lines = []
    for one in list_used_up(connection, settings):
        db.transact(connection, run_usage.grant, run_usage.today(), one.unit, one.granted)
        lines.append(f"today's budget was used up ({one}): the same amount is allowed again")
    return lines


def sentence(used_up: list[UsedBudget]) -> str:
    return f"today's budget is used up: {', '.join(map(str, used_up))}"


def usage_line(connection: sqlite3.Connection, settings: Settings) -> str | None:
    """What today's runs have used, for a person; None: nothing."""
    used = db.read(connection, run_usage.of_day, run_usage.today())
    budgets = {one.unit: str(one) for one in read(connection, settings)}
    parts = [budgets.get(USD) or (f"${used.usd:.2f}" if used.usd is not None else "")]
    parts += [
        budgets.get(MINUTES) or (f"{count(int(used.seconds // 60), 'minute')} of work" if used.seconds >= 60 else "")
    ]
    parts += [f"{_tokens(used)} tokens of programs that report no money and have no price" if used.unpriced else ""]
    shown = ", ".join(filter(None, parts))
    return f"today  {shown}" if shown else None


def _tokens(used: Usage) -> str:
    from imi_monitor.model import amounts as written

    return written.count(used.unpriced)


def check(connection: sqlite3.Connection, settings: Settings, followed: Iterable[FollowedRun]) -> None:
    """Warn once at 80 % of each amount, interrupt once what works at 100 %."""
    alive = list(followed)
    for one in read(connection, settings, sum(each.worked for each in alive)):
        if one.used < _WARN * one.budget:
            continue
        if one.used_up:
            for each in (each for each in alive if not each.reader.turn_over):
                run_interrupt.interrupt_once(each, f"{run_usage.today()} {one.unit} {one.budget:g}")
        noted = one.budget * (2 if one.used_up else 1)  # one event for the warning, another one for the end
        db.transact(connection, _note, one, noted)


def _note(connection: sqlite3.Connection, one: UsedBudget, noted: float) -> None:
    """Record the event, if this amount has none yet."""
    if run_usage.warn(connection, run_usage.today(), one.unit, noted):
        data: dict[str, object] = {"unit": one.unit, "used": round(one.used, 4), "budget": round(one.budget, 4)}
        events.record(connection, "budget.used_up" if one.used_up else "budget.warned", data=data)
