"""`imi runs`: the agents that imi started, what they do, and what they ask."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.actions.runs import run_lookup
from imi_monitor.actions.status import status_action
from imi_monitor.model import state_words, times
from imi_monitor.model.columns import Column, table
from imi_monitor.model.run import QUEUED
from imi_monitor.model.styled_text import MUTED, NAME, styled
from imi_monitor.model.text import safe
from imi_monitor.runs import run_stop
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.runs import AskRow, RunRow

_DEFAULT_LIMIT = 50
_COLUMNS = (
    Column("Run"),
    Column("Agent", least=8, name=True),
    Column("Worktree", least=8, name=True),
    Column("State"),
    Column("For", right=True),
    Column("Mode", rank=3),
    Column("What", least=20, rank=1),
)


class RunsAction(Action):
    words = ("runs",)
    group = "Agents"
    label = "Runs"
    help = "list the agents that imi started, newest first"
    more = (
        "States: queued, starting, works, asks, idle (its turn is over), stalled (it works and has said nothing for two"
        " minutes), and its end: completed, failed, cancelled, or crashed (its process is gone without a result and"
        " nothing stopped it; `imi resume` takes it up again). Processes that an ended agent left behind are listed;"
        " `imi stop` ends them."
    )
    options = (
        Option("open", "only those that are not over"),
        Option("limit", f"the maximum number (default: {_DEFAULT_LIMIT})", value="N", number=True, aliases=("n",)),
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        run_lookup.follow(context)
        limit = request.whole("limit") or _DEFAULT_LIMIT
        found = db.read(context.connection, _read, request.flag("open"), limit)
        if not found:
            return Outcome(["no agent was started yet: `imi start claude --prompt TEXT` starts one"], {"runs": []})
        left = run_stop.list_left_behind([one for one, _, _ in found if not one.is_open])
        lines = table(_COLUMNS, [_row(*each) for each in found], status_action.terminal_width())
        data = [
            {**run_lookup.run_data(one, asks), "place": place, "left_behind": left.get(one.id, [])}
            for one, asks, place in found
        ]
        return Outcome([*lines, *_questions(found), *_left_lines(found, left)], {"runs": data})


def _read(connection: sqlite3.Connection, only_open: bool, limit: int) -> list[tuple[RunRow, list[AskRow], int | None]]:
    rows = runs.list_runs(connection, only_open=only_open, limit=limit)
    return [
        (
            one,
            runs.list_asks(connection, one.seq),
            runs.place_in_queue(connection, one) if one.status == QUEUED else None,
        )
        for one in rows
    ]


def _row(one: RunRow, asks: list[AskRow], place: int | None) -> list[str]:
    import json

    launch = json.loads(one.launch)
    mode = "dangerous" if launch["dangerous"] else str(launch["mode"])
    said = asks[0].text if asks else one.detail if not one.is_open else None
    return [
        one.short,
        safe(one.agent_id, 40),
        styled(safe(one.worktree_name or "", 60), NAME),
        styled(one.shown_state if place is None else f"queued, place {place}", state_words.style_of(one.shown_state)),
        styled(times.age_of(one.ended_at or one.started_at or one.created_at), MUTED),
        mode,
        safe((said or one.prompt or "").split("\n")[0], 200),
    ]


def _questions(found: list[tuple[RunRow, list[AskRow], int | None]]) -> list[str]:
    return [f"answer  imi answer {one.short} yes|no|TEXT" for one, asks, _ in found if asks]


def _left_lines(
    found: list[tuple[RunRow, list[AskRow], int | None]], left: dict[str, list[tuple[int, str]]]
) -> list[str]:
    return [
        f"{one.short} left behind: {', '.join(f'{safe(name)} ({pid})' for pid, name in left[one.id])};"
        f" `imi stop {one.short}` ends them"
        for one, _, _ in found
        if left.get(one.id)
    ]


ACTIONS = (RunsAction(),)
