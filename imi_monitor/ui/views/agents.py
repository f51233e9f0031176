"""The lead's view: every agent of every worktree, grouped by who needs a person, with what was done today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Input

from imi_monitor.model import attention, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import agent_cells, agent_filter, agent_line
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.form import Line
from imi_monitor.ui.views.of_agent import OfAgentView
from imi_monitor.ui.widgets.lines import Lines, Row

_HEADING = "group\0"
_STYLES = {"Needs you": "bold $warning", "Working": "bold $accent", "Dead": "bold $error"}


class AgentsView(OfAgentView):
    word = "agents"
    key_shown = "A"
    label = "All agents"
    help = "the lead's view: every agent by who needs you, works, is idle, done or dead"
    BINDINGS = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("space", "peek", "Peek"),
        Binding("enter", "go", "Go there", show=False),
    ]

    def on_mount(self) -> None:
        self.query_one(Lines).focus()

    def body(self) -> ComposeResult:
        yield Line("filter: text, !not, @agent, is:asking", "agents-filter")
        yield Lines(id="agents")

    # -- drawing ----------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self._draw(now)

    def again(self) -> None:
        """The cursor goes where it is about now."""
        if self.agent_id is not None:
            self.query_one(Lines).select(self.agent_id)

    def _draw(self, now: datetime) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        found = [agent for agent in self.agents if agent_filter.matches(agent, self._wanted)]
        lines = self.query_one(Lines)
        plan = agent_line.plan(
            max(20, lines.room), [one.name for one in found], [one.key for one in found],
            several=len(snapshot.repositories) > 1, lead=True,
        )  # fmt: skip
        trees = {tree.key: tree for tree in snapshot.worktrees}
        rows = list(_rows(found, trees, plan, now))
        self.set_title(self._title(found, snapshot))
        lines.show(rows or [self._nothing(snapshot)], 2 if plan.stacked else 1)
        self._chosen_is(lines.cursor)

    def _title(self, found: Sequence[Agent], snapshot: Snapshot) -> Content:
        told = f"{len(found)} of {len(snapshot.agents)}" if self._wanted else ""
        head = Content.styled("Agents", "bold").append(Content.styled(f"  {told}" if told else "", "$accent"))
        return head.append(Content.styled(f"  {_sum(found)}", MUTED))

    def _nothing(self, snapshot: Snapshot) -> Row:
        if self._wanted:
            why = f"no agent fits {safe(self._wanted, 80)}: esc clears the filter"
        elif any(health.source == "agents" and health.read_at for health in snapshot.health):
            why = "no agent is seen in any worktree: start one, and it is here"
        else:
            why = "looking for agents…"
        return Row("", (Content.styled(why, MUTED),))

    # -- the cursor -------------------------------------------------------------------------------------------------

    @on(Lines.Moved)
    def _moved(self, event: Lines.Moved) -> None:
        event.stop()
        self._chosen_is(event.key)

    def _chosen_is(self, row: str | None) -> None:
        self.agent_id = row if row and not row.startswith(_HEADING) else None

    @on(Lines.Chosen)
    async def _go(self, event: Lines.Chosen) -> None:
        event.stop()
        await self.run_action("app.go_to_chosen")

    def action_go(self) -> None:
        self.query_one(Lines).key_enter()

    async def action_peek(self) -> None:
        await self.run_action("app.peek_at_chosen")

    # -- the filter -------------------------------------------------------------------------------------------------

    @property
    def _wanted(self) -> str:
        return self.query_one("#agents-filter", Input).value.strip()

    def action_filter(self) -> None:
        box = self.query_one("#agents-filter", Input)
        box.add_class("-open")
        box.focus()

    @on(Input.Changed, "#agents-filter")
    def _filtered(self, event: Input.Changed) -> None:
        event.stop()
        self._draw(times.now())

    @on(Input.Submitted, "#agents-filter")
    def _filter_done(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(Lines).focus()

    def action_leave(self) -> None:
        """One step out: the filter first."""
        box = self.query_one("#agents-filter", Input)
        if box.has_class("-open"):
            box.value = ""
            box.remove_class("-open")
            self.query_one(Lines).focus()
        else:
            super().action_leave()


def _rows(found: Sequence[Agent], trees: dict[Key, Worktree], plan: agent_line.Plan, now: datetime) -> Iterator[Row]:
    """Headings and agents, group by group; a group without anybody is left out."""
    for group in attention.GROUPS:
        members = [agent for agent in found if attention.group(agent) == group]
        if members:
            heading = Content.styled(group, _STYLES.get(group, "bold")).append(Content.styled(f" {len(members)}", MUTED))
            yield Row(_HEADING + group, (Content(""), heading) if plan.stacked else (heading,), heading=True)
        for agent in members:
            tree = trees.get(agent.key) if agent.key is not None else None
            yield Row(agent.id, agent_line.lines(agent, plan, now, tree))


def _sum(found: Sequence[Agent]) -> str:
    """`5 agents in 4 worktrees · 97k tokens · $1.37`: of those shown."""
    places = len({agent.key for agent in found if agent.key is not None})
    told = [f"{count(len(found), 'agent')} in {count(places, 'worktree')}"]
    tokens = [number for number in map(attention.tokens, found) if number is not None]
    if tokens:
        told.append(f"{agent_cells.token_count(sum(tokens))} tokens")
    costs = [agent.facts.cost_usd for agent in found if agent.facts.cost_usd is not None]
    return " · ".join([*told, *([f"${sum(costs):.2f}"] if costs else [])])
