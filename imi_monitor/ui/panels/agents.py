"""Panel 3: who works where and who waits for a person; below them claims without a seen agent, and who stands in line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from textual.content import Content

from imi_monitor.model import attention, columns
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import ClaimState, Key, Snapshot, Waiting
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, cells
from imi_monitor.ui.panels.base import Panel
from imi_monitor.ui.widgets.lines import Row

STACKED = 52  # below this many cells an agent takes two lines
_STATE, _TOKENS, _SOURCE, _LEAST = 13, 8, 11, 20
_AGENT = "agent\0"

# state of a claim -> glyph, colour, the word, in the order in which they need a person
_CLAIMS = {
    "dead": ("✗", "$error", "dead"),
    "stale": ("◌", "$warning", "silent"),
    "held": ("·", cells.MUTED, "holds"),
}


@dataclass(frozen=True, slots=True)
class Widths:
    """Of the columns; 0 is left out. `what` takes the rest."""

    room: int
    name: int
    tree: int
    what: int
    tokens: int = 0
    source: int = 0

    @property
    def stacked(self) -> bool:
        return self.room < STACKED


class AgentsPanel(Panel):
    name_shown = "Agents"
    empty = "no agents, no claims: c claims the selected worktree"

    _stacked = False

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        agents = attention.ordered(snapshot.agents)
        several = len(snapshot.repositories) > 1
        claims = sorted(_unseen(snapshot), key=_rank)
        names = [agent.name for agent in agents] + [claim.agent for claim in claims]
        keys = [agent.key for agent in agents] + [claim.key for claim in claims]
        trees = [_tree(key, several) for key in keys]
        widths = plan(self.room, names, trees)
        self._stacked = widths.stacked
        rows = [
            self.row(_AGENT + one.id, (one, widths, several, agent_cells.span(one, now)),
                     lambda one=one: _agent(one, widths, several, now))  # type: ignore[misc]
            for one in agents
        ]  # fmt: skip
        rows += [
            self.row(f"{one.key.repo}\0{one.key.worktree}", (one, widths, several, _ages(one, now)),
                     lambda one=one: _claim(one, widths, several, now))  # type: ignore[misc]
            for one in claims
        ]  # fmt: skip
        return rows + [
            Row(f"wait {one.key.repo} {one.key.worktree} {one.place}", _in_line(one)) for one in snapshot.waiting
        ]

    def height_of_row(self) -> int:
        return 2 if self._stacked else 1


def agent_of(row: str | None) -> str | None:
    """The id of the agent that a row is about; None when it is about a claim or a place in line."""
    return row.removeprefix(_AGENT) if row is not None and row.startswith(_AGENT) else None


def plan(room: int, names: Sequence[str], trees: Sequence[str]) -> Widths:
    """Names take what they need up to a bound; tokens and source come where what is done has room enough."""
    widest = [max((columns.cells(safe(text, 40)) for text in texts), default=0) for texts in (names, trees)]
    most = 12 if room < 70 else 16 if room < 110 else 24
    name, tree = (max(6, min(wide, most)) for wide in widest)
    if room < STACKED:
        name = min(name, 11)
        return Widths(room, name, max(4, room - 2 - name - 1 - 1 - _STATE), room - 2)
    left = room - 2 - name - 1 - tree - 1 - _STATE - 2
    source = _SOURCE if left - _SOURCE - 1 >= _LEAST else 0
    left -= source + 1 if source else 0
    tokens = _TOKENS if left - _TOKENS - 1 >= _LEAST else 0
    left -= tokens + 1 if tokens else 0
    return Widths(room, name, tree, left, tokens, source)


def _unseen(snapshot: Snapshot) -> list[ClaimState]:
    """Claims whose agent is not among those that are seen."""
    seen = {(agent.key, agent.name) for agent in snapshot.agents}
    return [tree.claim for tree in snapshot.worktrees if tree.claim and (tree.key, tree.claim.agent) not in seen]


def _tree(key: Key | None, several: bool) -> str:
    return "–" if key is None else f"{key.repo}/{key.worktree}" if several else key.worktree


def _head(glyph: Content, name: str, where: str, state: Content, widths: Widths) -> list[Content]:
    return [glyph, Content(" "), cells.text(safe(name, 40), widths.name, "bold"), Content(" "),
            cells.text(safe(where, 60), widths.tree), Content(" "), state]  # fmt: skip


def _agent(one: Agent, widths: Widths, several: bool, now: datetime) -> tuple[Content, ...]:
    colour = agent_cells.style(one)
    loud = " bold" if attention.standing(one) in (attention.ASKS, attention.INTRUDES) else ""
    word = "waits" if attention.standing(one) == attention.ASKS else agent_cells.word(one)
    state = cells.text(word, _STATE - 4, colour + loud).append(
        cells.text(agent_cells.span(one, now), 4, cells.MUTED, right=True)
    )
    head = _head(agent_cells.glyph(one), one.name, _tree(one.key, several), state, widths)
    what = agent_cells.doing(one)
    if widths.stacked:
        return Content("").join(head), Content("  ").append(what).truncate(widths.room, ellipsis=True)
    rest = [Content("  "), cells.padded(what, widths.what)]
    if widths.tokens:
        rest += [Content(" "), cells.text(_tokens(one), widths.tokens, cells.MUTED, right=True)]
    if widths.source:
        rest += [Content(" "), cells.text(agent_cells.source(one.truth), widths.source, cells.MUTED)]
    return (Content("").join([*head, *rest]).truncate(widths.room, ellipsis=True),)


def _tokens(one: Agent) -> str:
    told = agent_cells.token_count(attention.tokens(one))
    return f"{told} tok" if told else ""


def _claim(one: ClaimState, widths: Widths, several: bool, now: datetime) -> tuple[Content, ...]:
    """Who, where, since when; its process and its task."""
    glyph, style, word = _CLAIMS.get(one.state, ("?", cells.MUTED, safe(one.state, 12)))
    since, beat = _ages(one, now)
    state = cells.text(word, _STATE - 4, style).append(cells.text(since, 4, cells.MUTED, right=True))
    head = _head(Content.styled(glyph, style), one.agent, _tree(one.key, several), state, widths)
    process = f"{safe(one.process, 60)} " if one.process else ""
    told = [
        f"{process}pid {one.pid}" if one.pid else "",
        f"heard {beat} ago" if beat and beat != since else "",
        safe(one.task or "", 120),
    ]
    rest = Content.styled("  " + "  ".join(text for text in told if text), cells.MUTED)
    if widths.stacked:
        return Content("").join(head), rest.truncate(widths.room, ellipsis=True)
    return (Content("").join([*head, rest]).truncate(widths.room, ellipsis=True),)


def _in_line(one: Waiting) -> tuple[Content, ...]:
    text = f"… {safe(one.agent, 60)} waits for {safe(one.key.worktree, 60)}, {_place(one.place)} in line"
    return (Content.styled(text, cells.MUTED),)


def _ages(one: ClaimState, now: datetime) -> tuple[str, str]:
    return cells.age(one.claimed_at, now), cells.age(one.heartbeat_at, now) if one.heartbeat_at else ""


def _rank(one: ClaimState) -> tuple[int, str, Key]:
    order = list(_CLAIMS)
    return order.index(one.state) if one.state in order else 0, one.agent, one.key


def _place(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"number {number}")
