"""One agent in one line (or two, where it is narrow): which columns there is room for, and what stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import attention, columns
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import Key, Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, cells

STACKED = 52  # below this many cells an agent takes two lines
_WORD, _AGE = 9, 4
STATE = _WORD + _AGE
# column, its width, and how much is left for what it does before this one has a place beside it
_BESIDE = (("source", 11, 20), ("tokens", 8, 20), ("context", 5, 36), ("spark", 12, 36))


@dataclass(frozen=True, slots=True)
class AgentColumns:
    """The width of every column; 0 is left out. `what` takes the rest."""

    room: int
    several: bool
    name: int
    tree: int
    what: int
    source: int = 0
    tokens: int = 0
    context: int = 0
    spark: int = 0

    @property
    def stacked(self) -> bool:
        return self.room < STACKED


def plan_columns(
    room: int, names: Sequence[str], keys: Sequence[Key | None], *, several: bool, lead: bool = False
) -> AgentColumns:
    """Names take what they need up to a bound. Beside what is done come source and tokens; for a `lead` also how full the
    context is and how busy the worktree was."""
    most = 12 if room < 70 else 16 if room < 110 else 24
    name = _widest([safe(text, 40) for text in names], most)
    tree = _widest([worktree_name(key, several) for key in keys], most)
    if room < STACKED:
        name = min(name, 11)
        return AgentColumns(room, several, name, max(4, room - 2 - name - 1 - 1 - STATE), room - 2)
    left = room - 2 - name - 1 - tree - 1 - STATE - 2
    beside = {}
    for column, width, least in _BESIDE if lead else _BESIDE[:2]:
        if left - width - 1 >= least:
            beside[column] = width
            left -= width + 1
    return AgentColumns(room, several, name, tree, left, **beside)


def worktree_name(key: Key | None, several: bool) -> str:
    return "–" if key is None else safe(f"{key.repo}/{key.worktree}" if several else key.worktree, 60)


def row_head(glyph: Content, name: str, key: Key | None, state: Content, plan: AgentColumns) -> Content:
    """Who, where, how it stands: the same columns for agents and for claims."""
    parts = [
        glyph,
        Content(" "),
        cells.fixed(safe(name, 40), plan.name, "bold"),
        Content(" "),
        cells.fixed(worktree_name(key, plan.several), plan.tree),
        Content(" "),
        state,
    ]
    return Content("").join(parts)


def state_cell(word: str, span: str, style: str) -> Content:
    """`waits     2m`."""
    return cells.fixed(word, _WORD, style).append(cells.fixed(span, _AGE, cells.MUTED, right=True))


def agent_lines(one: Agent, plan: AgentColumns, now: datetime, tree: Worktree | None = None) -> tuple[Content, ...]:
    stands = attention.standing(one)
    loud = " bold" if stands in (attention.ASKS, attention.INTRUDES) else ""
    word = "waits" if stands == attention.ASKS else agent_cells.state_word(one)
    told = state_cell(word, agent_cells.state_age(one, now), agent_cells.state_style(one) + loud)
    first = row_head(agent_cells.glyph(one), one.name, one.key, told, plan)
    what = agent_cells.activity(one)
    if plan.stacked:
        return first, Content("  ").append(what).truncate(plan.room, ellipsis=True)
    parts = [first, Content("  "), cells.padded(what, plan.what)]
    if plan.spark:
        parts += [Content(" "), Content(" " * plan.spark) if tree is None else cells.sparkline(tree, plan.spark, now)]
    if plan.context:
        parts += [Content(" "), cells.fixed(_context(one), plan.context, cells.MUTED, right=True)]
    if plan.tokens:
        parts += [Content(" "), cells.fixed(_tokens(one), plan.tokens, cells.MUTED, right=True)]
    if plan.source:
        parts += [Content(" "), cells.fixed(agent_cells.source_text(one.truth), plan.source, cells.MUTED)]
    return (Content("").join(parts).truncate(plan.room, ellipsis=True),)


def _tokens(one: Agent) -> str:
    told = agent_cells.token_count(attention.total_tokens(one))
    return f"{told} tok" if told else ""


def _context(one: Agent) -> str:
    share = attention.context_fill(one)
    return "" if share is None else f"{share:.0%}"


def _widest(texts: Sequence[str], most: int) -> int:
    return max(6, min(most, max(map(columns.cell_width, texts), default=0)))
