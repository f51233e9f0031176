"""An agent's row: which columns fit into the width, and what stands in them. A narrow row has two lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import attention, columns, state_words
from imi_monitor.model.agent import Agent
from imi_monitor.model.columns import OptionalColumn
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import Key, Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, cells

MIN_ONE_LINE = 52  # cells below which a row has two lines
ROOMY = 80  # cells from which one line has room for what an agent does
_MIN_ACTIVITY = 36  # cells below which what it does gets a line of its own, if the list has room for two lines a row
_WORD, _AGE = 9, 4
_STATE = _WORD + _AGE
_OPTIONAL = (
    OptionalColumn("tokens", 8, spare=32),
    OptionalColumn("source", 11, spare=40),
    OptionalColumn("context", 5, spare=36),
    OptionalColumn("spark", 12, spare=36),
)


@dataclass(frozen=True, slots=True)
class AgentColumns:
    """The width of each column; 0 means that it is left out. `activity` takes what remains."""

    room: int
    repositories: RepositoryNames
    name: int
    tree: int
    activity: int
    source: int = 0
    tokens: int = 0
    context: int = 0
    spark: int = 0
    stacked: bool = False  # rows have two lines


def plan_columns(
    room: int,
    names: Sequence[str],
    keys: Sequence[Key | None],
    repositories: RepositoryNames,
    *,
    all_columns: bool = False,
    lines: int = 0,
    rows: int = 0,
) -> AgentColumns:
    """The columns for these agents: source and tokens where they fit, with `all_columns` also context and worktree activity.

    Rows have two lines where one is too narrow, and where so many rows fit into the `lines` of the list with two each.
    """
    name = _widest([safe(text, 40) for text in names], 12 if room < 70 else 16 if room < 110 else 24)
    tree = _widest([worktree_name(key, repositories) for key in keys], max(12, min(32, room // 4)))
    left = room - 2 - name - 1 - tree - 1 - _STATE - 2
    if room < MIN_ONE_LINE or (left < _MIN_ACTIVITY and rows * 2 <= lines):
        both = room - 2 - 1 - 1 - _STATE  # the worktrees need a part of it, the names get the rest
        name = min(_widest([safe(text, 40) for text in names], 24), max(11, both - tree))
        right = both - name  # the age stands at the right edge
        tree = max(4, right if room < MIN_ONE_LINE else min(tree, right))
        return AgentColumns(room, repositories, name, tree, room - 2, stacked=True)
    widths, left = columns.fit_optional(left, _OPTIONAL if all_columns else _OPTIONAL[:2])
    return AgentColumns(room, repositories, name, tree, left, **widths, stacked=False)


def worktree_name(key: Key | None, repositories: RepositoryNames) -> str:
    return "–" if key is None else safe(repositories.worktree(key), 60)


def row_head(glyph: Content, name: str, key: Key | None, state: Content, plan: AgentColumns) -> Content:
    """Glyph, name, worktree and state: the same columns for agents and for claims."""
    parts = [
        glyph,
        Content(" "),
        cells.fixed_name(safe(name, 40), plan.name, "bold"),
        Content(" "),
        cells.fixed_name(worktree_name(key, plan.repositories), plan.tree),
        Content(" "),
        state,
    ]
    return Content("").join(parts)


def state_cell(word: str, age: str, style: str) -> Content:
    """`asks      2m`."""
    return cells.fixed(word, _WORD, style).append(cells.fixed(age, _AGE, cells.MUTED, right=True))


def agent_lines(agent: Agent, plan: AgentColumns, now: datetime, tree: Worktree | None = None) -> tuple[Content, ...]:
    standing = attention.standing(agent)
    weight = " bold" if standing in (state_words.ASKS, state_words.INTRUDES) else ""
    state = state_cell(
        agent_cells.state_word(agent), agent_cells.state_age(agent, now), agent_cells.state_style(agent) + weight
    )
    first = row_head(agent_cells.glyph(agent), agent.name, agent.key, state, plan)
    activity = agent_cells.activity(agent)
    if plan.stacked:
        return first, Content("  ").append(activity).truncate(plan.room, ellipsis=True)
    spark = cells.sparkline(tree, plan.spark, now) if tree is not None and plan.spark else Content(" " * plan.spark)
    fields = [
        (spark, plan.spark),
        (cells.fixed(_context(agent), plan.context, cells.MUTED, right=True), plan.context),
        (cells.fixed(_tokens(agent), plan.tokens, cells.MUTED, right=True), plan.tokens),
        (cells.fixed(agent_cells.source_text(agent.truth), plan.source, cells.MUTED), plan.source),
    ]
    room, shown = plan.activity, [(field, width) for field, width in fields if width]
    while shown and not shown[0][0].plain.strip():  # an empty column gives its room to what the agent does
        room += shown.pop(0)[1] + 1
    parts = [first, Content("  "), cells.padded(activity, room), *(Content(" ").append(field) for field, _ in shown)]
    return (Content("").join(parts).truncate(plan.room, ellipsis=True),)


def _tokens(agent: Agent) -> str:
    used = attention.total_tokens(agent)
    return f"{agent_cells.token_count(used)} tok" if used else ""  # 0: no turn was counted yet


def _context(agent: Agent) -> str:
    share = attention.context_fill(agent)
    return "" if share is None else f"{share:.0%}"


def _widest(texts: Sequence[str], most: int) -> int:
    return max(6, min(most, max(map(columns.cell_width, texts), default=0)))
