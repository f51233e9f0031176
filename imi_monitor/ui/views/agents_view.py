"""The lead's view: the agents of all worktrees, grouped by urgency, with a summary of today's work."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Input, Static

from imi_monitor.actions import time_format
from imi_monitor.actions.history import stats_action, stats_over_time
from imi_monitor.model import attention, day_work, repository_names, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.day_work import TeamDay
from imi_monitor.model.errors import ImiError
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.model.state_words import DEAD
from imi_monitor.model.text import count, safe
from imi_monitor.store import agents, db
from imi_monitor.ui import agent_cells, agent_row, cells, filters
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.views.single_agent_view import ASKING, SingleAgentView
from imi_monitor.ui.widgets.parts_line import PartsLine
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row
from imi_monitor.ui.worktree_order import next_in

_HEADING = "group\0"
_TODAY_INTERVAL = 10.0  # seconds between two reads of today's work
_NEWEST_END = "newest death"  # stands above what works until it was looked at; the other deaths are at the end
_BY_STATE = (*(_NEWEST_END if word == DEAD else word for word in attention.STANDINGS), DEAD)
_GROUPINGS = ("state", "team", "worktree")


_NO_TEAM, _NO_WORKTREE = "without a team", "outside of worktrees"


@dataclass(frozen=True, slots=True)
class TodayReading:
    """What is known about today: the work of all homes, and the team of each agent that has one."""

    done: TeamDay
    teams: dict[str, str]
    bars: str  # how long agents worked on each of the last days


class AgentsView(FilteredView, SingleAgentView):
    word = "agents"
    opening_key = "A"
    key_bar = 45
    label = "Agents"
    help = "the lead's view: all agents by urgency: asks, works, ready, idle, done, dead"
    BINDINGS = [
        Binding("enter", "go", "Go", key_display="⏎", priority=True, tooltip="go to the agent's pane or worktree"),
        Binding("space", "peek", "Peek", id="peek", tooltip="show its last messages and tool calls, live"),
        Binding("E", "app.do('explain')", "Explain", id="explain", tooltip="show what its state rests on"),
        Binding("W", "answer", "Answer", id="answer", tooltip="answer the question of the agent"),
        ASKING,
        FILTER,
        Binding("b", "group", "Group", id="group", tooltip="group by state, by team or by worktree"),
        Binding(
            "full_stop",
            "app.do('seen')",
            "Mark all seen",
            show=False,  # the key bar has no room for it
            id="seen",
            tooltip="mark every death and failure as seen",
        ),
    ]

    def on_mount(self) -> None:
        self._today_query: BackgroundQuery[TodayReading] = BackgroundQuery(self, self._show_today)
        self._grouping = _GROUPINGS[0]
        self._teams: dict[str, str] = {}  # by the name of the agent
        self._today_read_at = -_TODAY_INTERVAL
        self.query_one(RowList).focus()

    def body(self) -> ComposeResult:
        yield self.filter_box("text, !not, @agent, is:asks")
        yield RowList(id="agents")
        line = Static("", id="agents-intent")
        line.display = False
        yield line
        yield PartsLine(Content.styled("today  looking…", MUTED), id="agents-today")

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
        names = repository_names.of_snapshot(snapshot)
        groups = _groups(found, self._grouping, self._teams, names)
        plan = agent_row.plan_columns(
            max(20, lines.room),
            [one.name for one in found],
            [one.key for one in found],
            names,
            all_columns=True,
            lines=lines.size.height,
            rows=len(found) + len(groups),
        )
        trees = {tree.key: tree for tree in snapshot.worktrees}
        rows = list(_rows(groups, trees, plan, now))
        self.set_title(self._title(found, snapshot))
        lines.show(rows or [message_row(self._why_empty(snapshot))], 2 if plan.stacked else 1)
        self._choose(lines.cursor)

    def _title(self, found: Sequence[Agent], snapshot: Snapshot) -> Content:
        shown = f"  {len(found)} of {len(snapshot.agents)}" if self.filter_text else ""
        by = "" if self._grouping == _GROUPINGS[0] else f"  by {self._grouping}"
        head = Content.styled("Agents", "bold").append(Content.styled(f"{shown}{by}", "$accent"))
        return head.append(Content.styled(f"  {_totals(found)}", MUTED))

    def _why_empty(self, snapshot: Snapshot) -> str:
        if self.filter_text:
            return f"no agent matches {safe(self.filter_text, 80)}: esc clears the filter"
        if not snapshot.has_read("agents"):
            return "looking for agents…"
        return agent_cells.no_agents_text(snapshot) + (": start one in any worktree" if snapshot.sees_agents else "")

    # -- today ------------------------------------------------------------------------------------------------------

    def _read_today(self, _stop: ShouldStop) -> TodayReading:
        """The work since midnight, in the only repository shown or in all that the homes know; and the teams."""
        snapshot = self.snapshot
        repos = snapshot.repositories if snapshot is not None else ()
        only = repos[0] if len(repos) == 1 else None
        with self.open_context(None) as context:
            here = db.read(context.connection, stats_action.today)
            described = db.read(context.connection, agents.list_descriptions)
            bars = stats_over_time.working_bars(context, only)
        own = day_work.add(one for one in here if only in (None, one.repo))
        identity = dict(snapshot.identities).get(only or "") if snapshot is not None else None
        homes = snapshot.homes if snapshot is not None else ()
        done = day_work.of_team(own, homes, lambda repo: only is None or repo == identity, times.now())
        return TodayReading(done, {name: one.team for name, one in described.items() if one.team}, bars)

    def _show_today(self, result: TodayReading | ImiError) -> None:
        line = cells.failure(result.sentence) if isinstance(result, ImiError) else today_line(result.done, result.bars)
        self.query_one("#agents-today", PartsLine).update(line, layout=False)
        if isinstance(result, TodayReading) and result.teams != self._teams:
            self._teams = result.teams
            self._draw(times.now())

    # -- groups -----------------------------------------------------------------------------------------------------

    def action_group(self) -> None:
        """Group by state, by team or by worktree."""
        self._grouping = next_in(_GROUPINGS, self._grouping)
        self._draw(times.now())

    # -- the cursor -------------------------------------------------------------------------------------------------

    @on(RowList.CursorMoved)
    def _moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self._choose(event.key)

    def _choose(self, row: str | None) -> None:
        self.agent_id = row if row and not row.startswith(_HEADING) else None
        chosen = next((one for one in self.agents if one.id == self.agent_id), None)
        tree = self.snapshot.worktree(chosen.key) if self.snapshot is not None and chosen and chosen.key else None
        intent = tree.intent if tree is not None else None
        line = Content("")
        if intent is not None:
            now = times.now()
            said = [one for one in (cells.intent(intent, now), cells.reached(intent, now)) if one.plain]
            line = Content("  ").join(said)
        shown = self.query_one("#agents-intent", Static)
        shown.display = intent is not None
        shown.update(line, layout=False)

    @on(RowList.RowChosen)
    async def _go(self, event: RowList.RowChosen) -> None:
        event.stop()
        await self.run_action("app.go_to_chosen")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "go" or not isinstance(self.focused, Input)  # there the key ends the input

    async def action_go(self) -> None:
        await self.run_action("app.go_to_chosen")

    async def action_answer(self) -> None:
        await self.run_action("app.answer_chosen")

    async def action_peek(self) -> None:
        await self.run_action("app.peek_at_chosen")

    # -- the filter -------------------------------------------------------------------------------------------------

    def filter_changed(self) -> None:
        self._draw(times.now())


def _groups(
    found: Sequence[Agent], by: str, teams: Mapping[str, str], repositories: RepositoryNames
) -> dict[str, list[Agent]]:
    """The agents of each group, in the order in which the groups are shown; without empty groups.

    By state the newest death that was not looked at has a group of its own, and the other deaths are at the end.
    """
    newest = attention.newest_unseen_end(found)
    groups: dict[str, list[Agent]] = {}
    for one in found:
        if by == "team":
            group = safe(teams.get(one.name) or teams.get(one.label or "") or _NO_TEAM, 40)
        elif by == "worktree":
            group = agent_row.worktree_name(one.key, repositories) if one.key else _NO_WORKTREE
        else:
            group = _NEWEST_END if one is newest and attention.word(one) == DEAD else attention.word(one)
        groups.setdefault(group, []).append(one)
    if by == "state":
        return {group: groups[group] for group in _BY_STATE if group in groups}
    return dict(sorted(groups.items(), key=lambda pair: (pair[0] in (_NO_TEAM, _NO_WORKTREE), pair[0])))


def _rows(
    groups: Mapping[str, Sequence[Agent]], trees: Mapping[Key, Worktree], plan: agent_row.AgentColumns, now: datetime
) -> Iterator[ListRow]:
    """Headings and agents, group by group."""
    for group, members in groups.items():
        heading = _heading(group, len(members), plan.room)
        yield ListRow(_HEADING + group, (Content(""), heading) if plan.stacked else (heading,), heading=True)
        for agent in members:
            tree = trees.get(agent.key) if agent.key is not None else None
            yield ListRow(agent.id, agent_row.agent_lines(agent, plan, now, tree))


def _heading(group: str, number: int, room: int) -> Content:
    head = Content.styled(f"{group} ", f"bold {_colour(group)}").append(Content.styled(f"{number} ", MUTED))
    return head.append(Content.styled("─" * max(0, room - head.cell_length), "$border-blurred"))


def _colour(group: str) -> str:
    return agent_cells.SIGNS[DEAD if group == _NEWEST_END else group][1] if group in _BY_STATE else ""


def today_line(done: TeamDay, bars: str = "") -> Content:
    """`today  12 sessions · worked 3h 20m · waited for you 14m · 2.1M tokens · 3 failed`; unknown values are left out.

    In a team: `today on 18 of 20 hosts, 1 silent  412 sessions · … · 2 hosts did not say`.
    """
    work = done.work
    parts = [(count(work.sessions, "session"), "")]
    parts += [(f"worked {time_format.span(work.working)}", "$agent-works")] if work.working else []
    parts += [(f"waited for you {time_format.span(work.waiting)}", "$agent-asks")] if work.waiting else []
    parts += [(f"{agent_cells.token_count(work.tokens)} tokens", "")] if work.tokens is not None else []
    parts += [(f"${work.cents / 100:.2f}", "")] if work.cents is not None else []
    parts += [(count(work.files, "file"), "")] if work.files else []
    parts += [(f"{work.failed} failed", "$agent-failed")] if work.failed else []
    parts += [(f"{count(done.unknown, 'host')} did not say", "$warning")] if done.unknown else []
    shown = Content.styled(" · ", MUTED).join([Content.styled(text, style or MUTED) for text, style in parts])
    line = Content.assemble(*_said_by(done), shown)
    if len(bars) < 2:
        return line
    return line.append(Content.styled(f" · {len(bars)} days ", MUTED)).append(Content.styled(bars, "$accent"))


def _said_by(done: TeamDay) -> Iterator[tuple[str, str]]:
    """Whose day it is: on how many hosts, if there are several, and how many of these gave no sign of life since."""
    if done.homes == 1:
        yield ("today  ", "bold")
        return
    yield ("today", "bold")
    yield (f" on {done.said} of {done.homes} hosts" if done.unknown else f" on {done.homes} hosts", MUTED)
    if done.silent:
        yield (f", {done.silent} silent", "$warning")
    yield ("  ", MUTED)


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
