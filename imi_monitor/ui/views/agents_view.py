"""The lead's view: the agents of all worktrees, grouped by urgency, with a summary of today's work."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Input, Static

from imi_monitor.actions import time_format
from imi_monitor.actions.history import stats_action
from imi_monitor.actions.history.stats_action import StatsGroup
from imi_monitor.model import attention, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.session_status import add_known
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import agent_cells, agent_row, cells, filters
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.views.single_agent_view import WAITING, SingleAgentView
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

_HEADING = "group\0"
_TODAY_INTERVAL = 10.0  # seconds between two reads of today's work
_STYLES = {"Needs you": "bold $agent-asks", "Working": "bold $agent-works", "Dead": "bold $agent-dead"}


class AgentsView(FilteredView, SingleAgentView):
    word = "agents"
    opening_key = "A"
    key_bar = 45
    label = "Agents"
    help = "the lead's view: all agents by urgency: needs you, working, idle, done, dead"
    BINDINGS = [
        Binding("enter", "go", "Go there", key_display="⏎", priority=True),
        Binding("space", "peek", "Peek", id="peek"),
        Binding("E", "app.do('explain')", "Explain", id="explain"),
        WAITING,
        FILTER,
    ]

    def on_mount(self) -> None:
        self._today_query: BackgroundQuery[StatsGroup] = BackgroundQuery(self, self._show_today)
        self._today_read_at = -_TODAY_INTERVAL
        self.query_one(RowList).focus()

    def body(self) -> ComposeResult:
        yield self.filter_box("text, !not, @agent, is:asking")
        yield RowList(id="agents")
        yield Static(Content.styled("today  looking…", MUTED), id="agents-today")

    # -- drawing ----------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self._draw(now)
        if time.monotonic() - self._today_read_at >= _TODAY_INTERVAL and not self._today_query.busy:
            self._today_read_at = time.monotonic()
            self._today_query.start(self._read_today)

    def agent_changed(self) -> None:
        """Put the cursor on the agent."""
        if self.agent_id is not None:
            self.query_one(RowList).select(self.agent_id)

    def _draw(self, now: datetime) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        found = [agent for agent in self.agents if filters.agent_matches(agent, self.filter_text)]
        lines = self.query_one(RowList)
        plan = agent_row.plan_columns(
            max(20, lines.room),
            [one.name for one in found],
            [one.key for one in found],
            several=len(snapshot.repositories) > 1,
            all_columns=True,
        )
        trees = {tree.key: tree for tree in snapshot.worktrees}
        rows = list(_rows(found, trees, plan, now))
        self.set_title(self._title(found, snapshot))
        lines.show(rows or [message_row(self._why_empty(snapshot))], 2 if plan.stacked else 1)
        self._choose(lines.cursor)

    def _title(self, found: Sequence[Agent], snapshot: Snapshot) -> Content:
        shown = f"  {len(found)} of {len(snapshot.agents)}" if self.filter_text else ""
        head = Content.styled("Agents", "bold").append(Content.styled(shown, "$accent"))
        return head.append(Content.styled(f"  {_totals(found)}", MUTED))

    def _why_empty(self, snapshot: Snapshot) -> str:
        if self.filter_text:
            return f"no agent matches {safe(self.filter_text, 80)}: esc clears the filter"
        if not snapshot.has_read("agents"):
            return "looking for agents…"
        return agent_cells.no_agents_text(snapshot) + (": start one in any worktree" if snapshot.sees_agents else "")

    # -- today ------------------------------------------------------------------------------------------------------

    def _read_today(self, _stop: ShouldStop) -> StatsGroup:
        """The work since midnight, in the only repository shown or in all that the registry knows."""
        repos = self.snapshot.repositories if self.snapshot is not None else ()
        with self.open_context(None) as context:
            return stats_action.today(context, repos[0] if len(repos) == 1 else None)

    def _show_today(self, result: StatsGroup | ImiError) -> None:
        line = cells.failure(result.sentence) if isinstance(result, ImiError) else today_line(result)
        self.query_one("#agents-today", Static).update(line, layout=False)

    # -- the cursor -------------------------------------------------------------------------------------------------

    @on(RowList.CursorMoved)
    def _moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self._choose(event.key)

    def _choose(self, row: str | None) -> None:
        self.agent_id = row if row and not row.startswith(_HEADING) else None

    @on(RowList.RowChosen)
    async def _go(self, event: RowList.RowChosen) -> None:
        event.stop()
        await self.run_action("app.go_to_chosen")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "go" or not isinstance(self.focused, Input)  # there the key ends the input

    async def action_go(self) -> None:
        await self.run_action("app.go_to_chosen")

    async def action_peek(self) -> None:
        await self.run_action("app.peek_at_chosen")

    # -- the filter -------------------------------------------------------------------------------------------------

    def filter_changed(self) -> None:
        self._draw(times.now())


def _rows(
    found: Sequence[Agent], trees: dict[Key, Worktree], plan: agent_row.AgentColumns, now: datetime
) -> Iterator[ListRow]:
    """Headings and agents, group by group; empty groups are left out."""
    for group in attention.GROUPS:
        members = [agent for agent in found if attention.group(agent) == group]
        if members:
            heading = _heading(group, len(members), plan.room)
            yield ListRow(_HEADING + group, (Content(""), heading) if plan.stacked else (heading,), heading=True)
        for agent in members:
            tree = trees.get(agent.key) if agent.key is not None else None
            yield ListRow(agent.id, agent_row.agent_lines(agent, plan, now, tree))


def _heading(group: str, number: int, room: int) -> Content:
    head = Content.styled(f"{group} ", _STYLES.get(group, "bold")).append(Content.styled(f"{number} ", MUTED))
    return head.append(Content.styled("─" * max(0, room - head.cell_length), "$border-blurred"))


def today_line(done: StatsGroup) -> Content:
    """`today  12 sessions · worked 3h 20m · waited for you 14m · 2.1M tokens · 3 failed`; unknown values are left out."""
    spent, tokens = done.spent, add_known(done.tokens_in, done.tokens_out)
    failed = spent.failed + done.interrupted
    parts = [(count(done.sessions, "session"), "")]
    parts += [(f"worked {time_format.span(spent.working)}", "$agent-works")] if spent.working else []
    parts += [(f"waited for you {time_format.span(spent.waiting)}", "$agent-asks")] if spent.waiting else []
    parts += [(f"{agent_cells.token_count(int(tokens))} tokens", "")] if tokens is not None else []
    parts += [(f"${done.cost_usd:.2f}", "")] if done.cost_usd is not None else []
    parts += [(count(len(done.files), "file"), "")] if done.files else []
    parts += [(f"{failed} failed", "$agent-failed")] if failed else []
    shown = Content.styled(" · ", MUTED).join([Content.styled(text, style or MUTED) for text, style in parts])
    return Content.styled("today  ", "bold").append(shown)


def _totals(found: Sequence[Agent]) -> str:
    """`5 agents in 4 worktrees · 97k tokens · $1.37`: the totals of the agents shown."""
    places = len({agent.key for agent in found if agent.key is not None})
    totals = [f"{count(len(found), 'agent')} in {count(places, 'worktree')}"]
    tokens = [number for number in map(attention.total_tokens, found) if number is not None]
    if tokens:
        totals.append(f"{agent_cells.token_count(sum(tokens))} tokens")
    costs = [agent.facts.cost_usd for agent in found if agent.facts.cost_usd is not None]
    return " · ".join([*totals, *([f"${sum(costs):.2f}"] if costs else [])])


VIEW = AgentsView
