"""`imi runs`: the agents that imi started, what they do, and what they ask."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.actions.runs import run_lookup
from imi_monitor.actions.status import status_action
from imi_monitor.fast.frozen_dataclass import asdict
from imi_monitor.model import state_words, times, usage_limit
from imi_monitor.model.agent import FAILED
from imi_monitor.model.columns import Column, table
from imi_monitor.model.run import QUEUED
from imi_monitor.model.styled_text import MUTED, NAME, styled
from imi_monitor.model.text import safe
from imi_monitor.runs import day_budget, run_stop
from imi_monitor.store import db, run_usage, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.run_usage import Usage
    from imi_monitor.store.runs import AskRow, RunRow

    _ShownRun = tuple[RunRow, list[AskRow], int | None, Usage]

_DEFAULT_LIMIT = 50
_COLUMNS = (
    Column("Run"),
    Column("Agent", least=8, name=True),
    Column("Worktree", least=8, name=True),
    Column("State"),
    Column("For", right=True),
    Column("Mode", rank=3),
    Column("Cost", right=True, rank=2),
    Column("What", least=20, rank=1),
)


class RunsAction(Action):
    words = ("runs",)
    group = "Agents"
    label = "Runs"
    help = "list the agents that imi started, newest first"
    more = (
        "States: queued, starting, works, asks, idle (its turn is over), limited (its program has reached its usage limit; the"
        " time says when it can go on), stalled (it works and has said nothing for two minutes), and its end: completed,"
        " failed, cancelled, or crashed (its process is gone without a result and nothing stopped it; `imi resume` takes it"
        " up again). Processes that an ended agent left behind are listed; `imi stop` ends them. The last line has what the"
        " runs of today have used."
    )
    options = (
        Option("open", "only those that are not over"),
        Option(
            "limit",
            f"the maximum number (default: {_DEFAULT_LIMIT}, and all that are open); 0 for all",
            value="N",
            number=True,
            aliases=("n",),
        ),
    )
    changes = False
    reads_only = True

    def run(self, context: Context, request: Request) -> Outcome:
        run_lookup.follow(context)
        limit = request.whole("limit")
        found = db.read(context.connection, _read, request.flag("open"), _DEFAULT_LIMIT if limit is None else limit)
        if not found:
            return Outcome([_nothing(context)], {"runs": []})
        left = run_stop.list_left_behind([one for one, *_ in found if not one.is_open])
        lines = table(_COLUMNS, [_row(*each) for each in found], status_action.terminal_width())
        data = [
            {
                **run_lookup.run_data(one, asks),
                "place": place,
                "left_behind": left.get(one.id, []),
                "used": asdict(used),
            }
            for one, asks, place, used in found
        ]
        used = day_budget.usage_line(context.connection, context.settings)
        more = [*_questions(found), *_resumes(found), *_left_lines(found, left), *([used] if used else [])]
        today = asdict(db.read(context.connection, run_usage.of_day, run_usage.today()))
        total = db.read(context.connection, runs.count_runs, only_open=request.flag("open"))
        more += [f"{len(found)} of {total} runs: `imi runs -n 0` lists all"] if total > len(found) else []
        return Outcome([*lines, *more], {"runs": data, "count": len(data), "total": total, "today": today})


def _nothing(context: Context) -> str:
    if db.read(context.connection, runs.count_runs):
        return "no run is open: `imi runs` lists those that are over"
    return "no agent was started yet: `imi start claude --prompt TEXT` starts one"


def _read(connection: sqlite3.Connection, only_open: bool, limit: int) -> list[_ShownRun]:
    rows = runs.list_runs(connection, only_open=only_open, limit=limit or None)
    if limit and not only_open:  # an old one that still works is not left out
        rows += [one for one in runs.list_runs(connection, only_open=True) if one.seq < rows[-1].seq] if rows else []
    return [
        (
            one,
            runs.list_asks(connection, one.seq),
            runs.place_in_queue(connection, one) if one.status == QUEUED else None,
            run_usage.of_run(connection, one.seq),
        )
        for one in rows
    ]


def _row(one: RunRow, asks: list[AskRow], place: int | None, used: Usage) -> list[str]:
    import json

    launch = json.loads(one.launch)
    mode = "dangerous" if launch["dangerous"] else str(launch["mode"])
    if launch.get("sandbox"):
        mode = f"{mode}, {launch['sandbox']}"
    told = not one.is_open or one.state == FAILED
    said = asks[0].text if asks else one.detail if told else None
    return [
        one.short,
        safe(one.agent_id, 40),
        styled(safe(one.worktree_name or "", 60), NAME),
        styled(_state(one, place), state_words.style_of(one.shown_state)),
        styled(times.age_of(one.ended_at or one.started_at or one.created_at), MUTED),
        mode,
        styled("" if used.usd is None else f"${used.usd:.2f}", MUTED),
        safe((said or one.prompt or "").split("\n")[0], 200),
    ]


def _state(one: RunRow, place: int | None) -> str:
    if place is not None:
        return f"queued, place {place}"
    return one.shown_state if one.usage_limit is None else usage_limit.words(one.usage_limit)


def _questions(found: list[_ShownRun]) -> list[str]:
    return [f"answer  imi answer {one.short} yes|no|TEXT" for one, asks, *_ in found if asks]


def _resumes(found: list[_ShownRun]) -> list[str]:
    """How each run goes on whose usage limit is over; a session that went on meanwhile is not offered again."""
    on = {one.session for one, *_ in found if one.is_open and one.usage_limit is None}
    over = [one for one, *_ in found if one.usage_limit is not None and usage_limit.is_over(one.usage_limit)]
    newest = {one.session: one for one in reversed(over) if one.session not in on}
    return [
        f"resume  imi say {one.short} go on" if one.is_open else f"resume  imi resume {one.short}"
        for one in newest.values()
    ]


def _left_lines(found: list[_ShownRun], left: dict[str, list[tuple[int, str]]]) -> list[str]:
    return [
        f"{one.short} left behind: {', '.join(f'{safe(name)} ({pid})' for pid, name in left[one.id])};"
        f" `imi stop {one.short}` ends them"
        for one, *_ in found
        if left.get(one.id)
    ]


ACTIONS = (RunsAction(),)
