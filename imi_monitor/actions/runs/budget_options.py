"""The budgets of a run as a request gives them, and the refusals that follow from budgets and attempts."""

from __future__ import annotations

from imi_monitor.actions.claims import claim_options
from imi_monitor.model import price
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.runs import day_budget, providers, run_budget
from imi_monitor.runs.provider import TASK
from imi_monitor.store import db, runs
from imi_monitor.store.run_usage import MINUTES, USD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.runs import RunRow


def given(context: Context, request: Request, program: str, way: str) -> dict[str, float]:
    """What --budget and --minutes give."""
    text, minutes = request.text("budget"), request.number("minutes")
    found = {} if not minutes else {MINUTES: float(minutes)}
    if text is None:
        return found
    usd = price.amount(text)
    if usd is None:
        raise UsageError(f"--budget {safe(text, 40)!r} is no amount of money: give it as 5.00", code="bad-option")
    if not _knows_cost(context, program, request.text("model"), way):
        where = "" if way == TASK else " in a window"
        raise UsageError(
            f"{program} does not report what it costs{where}: use --minutes, or set the price of its model in [runs.prices]",
            code="bad-option",
        )
    return {**found, USD: usd}


def usual(context: Context, program: str, way: str) -> dict[str, float]:
    """What the settings give to a run without a budget of its own."""
    minutes, usd = context.settings.number("runs.minutes"), price.amount(context.settings.text("runs.budget"))
    found = {MINUTES: float(minutes)} if minutes else {}
    return {**found, USD: usd} if usd is not None and _knows_cost(context, program, None, way) else found


def _knows_cost(context: Context, program: str, model: str | None, way: str) -> bool:
    """Whether its program reports money, which none does in a window, or there is a price.

    A model that is not named here may turn out to have none.
    """
    prices = context.settings.table("runs.prices")
    priced = bool(prices) and (model is None or price.of_model(prices, model) is not None)
    return priced or (way == TASK and providers.by_name(program).reports_cost)


def refuse_used_up(context: Context, request: Request) -> None:
    """Refuse a start while the budget of the day is used up; with --over-budget the same amount is allowed again."""
    used_up = day_budget.list_used_up(context.connection, context.settings)
    if used_up and not request.flag("over-budget"):
        raise Refused(
            f"{day_budget.sentence(used_up)}: --over-budget starts it anyway and allows that amount again",
            code="over-budget",
        )


def refuse_run_used_up(context: Context, row: RunRow) -> None:
    """Refuse another prompt to a run, or the resume of one, whose own budget is used up."""
    used_up = run_budget.list_used_up(context.connection, row)
    if used_up:
        raise Refused(
            f"{run_budget.sentence(row, used_up)}: --over-budget sends it anyway and allows that amount again",
            code="over-budget",
        )


def refuse_attempt(context: Context, request: Request) -> None:
    """Refuse one more start of a task that was started as often as its user allows."""
    task, most = claim_options.short_text(request, "task"), request.whole("attempt-limit")
    if most is None:
        return
    if task is None:
        raise UsageError("--attempt-limit needs --task, whose starts it counts", code="bad-option")
    before = db.read(context.connection, runs.count_of_task, task)
    if before >= most:
        raise Refused(
            f"{safe(task)} was started {count(before, 'time')} before, and --attempt-limit is {most}",
            code="attempt-limit",
        )
