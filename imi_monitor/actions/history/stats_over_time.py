"""`imi stats --by day`, `--by week` and `--format`: sums of ended sessions over time, and for other programs."""

from __future__ import annotations

from datetime import timedelta

from imi_monitor.actions import time_format
from imi_monitor.actions.action import Outcome
from imi_monitor.actions.history import sessions_action
from imi_monitor.model import metric_sums, times
from imi_monitor.model.columns import Column, table
from imi_monitor.model.metric_sums import NUMBERS, MetricSum
from imi_monitor.store import agents, db, metrics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.metrics import EndedSession

PERIODS = {"day": (1, 14), "week": (7, 84)}
"""The days of one line, and of all lines without `--since`."""
FORMATS = ("csv", "openmetrics")
_SHOWN_DAYS = 14  # in the lead's view
_COLUMNS = (
    Column("Sessions", right=True),
    Column("Worked", right=True),
    Column(""),
    Column("Failures", right=True),
    Column("Turns", right=True, rank=3),
    Column("Tools", right=True, rank=2),
    Column("Tokens", right=True, rank=1),
    Column("Cost", right=True),
)


def by_period(context: Context, request: Request, by: str) -> Outcome:
    """One line for each day or week, with those in which nothing ended."""
    step, days = PERIODS[by]
    wanted = sessions_action.session_filter(context, request)
    since = wanted.since or times.stamp(times.now() - timedelta(days=days))
    ends = db.read(
        context.connection,
        metrics.list_ends,
        since,
        repo_name=wanted.repo_name,
        worktree_name=wanted.worktree_name,
        agent=wanted.agent,
    )
    today = times.now().astimezone().date()
    last = today - timedelta(days=today.weekday() if by == "week" else 0)
    key_of = metric_sums.week_of if by == "week" else metric_sums.day_of
    sums = metric_sums.with_gaps(metric_sums.sum_up(ends, key_of), step, last.isoformat())
    return Outcome(_lines(by, sums), {"since": since, "by": by, "periods": [_data(one) for one in sums]})


def export(context: Context, request: Request, form: str, by: str | None) -> Outcome:
    """Ended sessions for another program: as a table, or as counters of everything that is known."""
    wanted = sessions_action.session_filter(context, request)
    since = wanted.since if form == "csv" else None  # counters only grow
    ends = db.read(
        context.connection,
        metrics.list_ends,
        since,
        repo_name=wanted.repo_name,
        worktree_name=wanted.worktree_name,
        agent=wanted.agent,
    )
    teams = {name: one.team or "" for name, one in db.read(context.connection, agents.list_descriptions).items()}
    if form == "csv":
        keys = _key(by or "day", teams)
        rows = [_data(one, by or "day") for one in metric_sums.sum_up(ends, keys)]
        return Outcome(metric_sums.csv_lines((by or "day", "sessions", *NUMBERS), rows), {"rows": rows})
    sums = metric_sums.sum_up(
        ends, lambda one: "\0".join((one.repo_name or "", one.agent_id, teams.get(one.agent_id, "")))
    )
    labelled = [(dict(zip(("repo", "agent", "team"), one.key.split("\0"), strict=True)), one) for one in sums]
    lines = metric_sums.openmetrics_lines(labelled)
    return Outcome(lines, {"text": "\n".join(lines) + "\n"})


def working_bars(context: Context, repo_name: str | None) -> str:
    """Return how long agents worked on each of the last days, as bars; empty if nothing is known."""
    since = times.stamp(times.now() - timedelta(days=_SHOWN_DAYS))
    ends = db.read(context.connection, metrics.list_ends, since, repo_name=repo_name)
    today = times.now().astimezone().date().isoformat()
    sums = metric_sums.with_gaps(metric_sums.sum_up(ends, metric_sums.day_of), 1, today)
    return metric_sums.bars([one.number("working_seconds") for one in sums]) if sums else ""


def _key(by: str, teams: dict[str, str]) -> Callable[[EndedSession], str]:
    keys: dict[str, Callable[[EndedSession], str]] = {
        "day": metric_sums.day_of,
        "week": metric_sums.week_of,
        "agent": lambda one: one.agent_id,
        "team": lambda one: teams.get(one.agent_id, ""),
        "worktree": lambda one: "/".join(filter(None, (one.repo_name, one.worktree_name))),
        "repo": lambda one: one.repo_name or "",
    }
    return keys[by]


def _lines(by: str, sums: list[MetricSum]) -> list[str]:
    from imi_monitor.actions.status.status_action import terminal_width

    if not any(one.sessions for one in sums):
        return ["no session has ended in this time"]
    most = [one.number("working_seconds") for one in sums]
    rows = [[one.key, *_row(one, bar)] for one, bar in zip(sums, metric_sums.bars(most), strict=True)]
    return table([Column(by.capitalize()), *_COLUMNS], rows, terminal_width())


def _row(one: MetricSum, bar: str) -> list[str]:
    tokens = [number for name in ("tokens_in", "tokens_out") if (number := one.number(name)) is not None]
    cost, worked = one.number("cost_usd"), one.number("working_seconds")
    whole = [one.number(name) for name in ("failures", "turns", "tools")]
    return [
        str(one.sessions or ""),
        time_format.span(worked) if one.sessions else "",
        bar,
        *("" if number is None or not one.sessions else f"{int(number):,}" for number in whole),
        f"{int(sum(tokens)):,}" if tokens else "",
        "" if cost is None else f"${cost:.2f}",
    ]


def _data(one: MetricSum, by: str = "period") -> dict[str, object]:
    return {by: one.key, "sessions": one.sessions, **dict(zip(NUMBERS, one.numbers, strict=True))}
