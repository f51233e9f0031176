"""Panel 3: agents, the most urgent first; below them claims without a visible agent, and the lines for worktrees."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from textual.content import Content

from imi_monitor.model import attention, repository_names
from imi_monitor.model.run import workspace_name
from imi_monitor.model.snapshot import ClaimState, Key, Snapshot, Waiter
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, agent_row, cells
from imi_monitor.ui.panels.panel import FRAME, FRAME_WIDTH, Panel
from imi_monitor.ui.widgets.row_list import ListRow

_AGENT = "agent\0"
_FEW = 12  # rows for which the panel wants two lines each where one could be narrow

# state of a claim -> glyph, colour and word, the most urgent first
_CLAIMS = {
    "dead": ("✗", "$claim-dead", "dead"),
    "stale": ("◌", "$claim-stale", "stale"),
    "held": ("·", cells.MUTED, "holds"),
}


class AgentsPanel(Panel):
    number = 3
    presets = ("list_and_agents", "agents_only")
    label = "Agents"
    source = "agents"

    _stacked = False

    def lines_needed(self, snapshot: Snapshot, width: int) -> int:
        rows = len(snapshot.agents) + len(_claims_without_agent(snapshot)) + len(snapshot.waiting)
        room = width - FRAME_WIDTH
        two = room < agent_row.MIN_ONE_LINE or (room < agent_row.ROOMY and rows <= _FEW)
        height = 2 if two else 1
        return FRAME + (rows * height or self.message_lines(snapshot, width))

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        names = repository_names.of_snapshot(snapshot)
        shown = (snapshot.agents, _claims_without_agent(snapshot), snapshot.waiting, names, snapshot.sees_agents)
        return (*shown, self.lines.size.height)

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[ListRow]:
        agents = attention.by_attention(snapshot.agents)
        claims = sorted(_claims_without_agent(snapshot), key=_urgency)
        names = [agent.name for agent in agents] + [claim.agent for claim in claims]
        keys = [agent.key for agent in agents] + [claim.key for claim in claims]
        plan = agent_row.plan_columns(
            self.room,
            names,
            keys,
            repository_names.of_snapshot(snapshot),
            lines=self.lines.size.height,
            rows=len(names) + len(snapshot.waiting),
        )
        self._stacked = plan.stacked
        rows = [
            self.row(
                _AGENT + one.id,
                (one, plan, self.age(one.truth.since, now) if one.truth.since else ""),
                partial(agent_row.agent_lines, one, plan, now),
            )
            for one in agents
        ]
        for one in claims:
            ages = self._ages(one, now)
            key = f"{one.key.host}\0{one.key.repo}\0{one.key.worktree}"
            rows.append(self.row(key, (one, plan, ages), partial(_claim, one, plan, ages)))
        return rows + [
            ListRow(f"wait {one.key.repo} {one.key.worktree} {one.place}", _waiter(one, stacked=plan.stacked))
            for one in snapshot.waiting
        ]

    def _ages(self, one: ClaimState, now: datetime) -> tuple[str, str]:
        return self.age(one.claimed_at, now), self.age(one.heartbeat_at, now) if one.heartbeat_at else ""

    def empty_text(self, snapshot: Snapshot) -> str:
        if snapshot.registry.problem is not None:
            return f"{agent_cells.no_agents_text(snapshot)}; claims are unknown"
        return f"{agent_cells.no_agents_text(snapshot)}; no claims: `imi claim` claims the selected worktree"

    def height_of_row(self) -> int:
        return 2 if self._stacked else 1


def agent_of_row(row: str | None) -> str | None:
    """The id of the agent that a row shows; None when it shows a claim or a waiter."""
    return row.removeprefix(_AGENT) if row is not None and row.startswith(_AGENT) else None


def _claims_without_agent(snapshot: Snapshot) -> list[ClaimState]:
    """Claims whose owner is known and not among the visible agents."""
    seen = {(agent.key, agent.name) for agent in snapshot.agents}
    return [
        tree.claim
        for tree in snapshot.worktrees
        if tree.claim and tree.claim.agent and (tree.key, tree.claim.agent) not in seen
    ]


def _claim(one: ClaimState, plan: agent_row.AgentColumns, ages: tuple[str, str]) -> tuple[Content, ...]:
    """Owner, worktree, state and age; the holder's process and the task."""
    glyph, style, word = _CLAIMS.get(one.state, ("?", cells.MUTED, safe(one.state, 12)))
    since, beat = ages
    state = agent_row.state_cell(word, since, style)
    head = agent_row.row_head(Content.styled(glyph, style), one.agent, one.key, state, plan)
    process = f"{safe(one.process, 60)} " if one.process else ""
    details = [
        f"{process}pid {one.pid}" if one.pid else "",
        f"heard {beat} ago" if beat and beat != since else "",
        safe(one.task or "", 120),
    ]
    rest = Content.styled("  " + "  ".join(text for text in details if text), cells.MUTED)
    if plan.stacked:
        return head, rest.truncate(plan.room, ellipsis=True)
    return (head.append(rest).truncate(plan.room, ellipsis=True),)


def _waiter(one: Waiter, *, stacked: bool) -> tuple[Content, ...]:
    name = safe(workspace_name(one.key.repo, one.key.worktree), 60)
    text, place = f"… {safe(one.agent, 60)} waits for {name}", f"{_place(one.place)} in line"
    lines = (text, f"  {place}") if stacked else (f"{text}, {place}",)
    return tuple(Content.styled(line, cells.MUTED) for line in lines)


def _urgency(one: ClaimState) -> tuple[int, str, Key]:
    order = list(_CLAIMS)
    return order.index(one.state) if one.state in order else 0, one.agent, one.key


def _place(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"number {number}")


PANEL = AgentsPanel
