"""A worktree's row: which columns fit into the width, and what stands in them. A narrow row has two lines.

Columns keep their width, numbers and ages are right-aligned, and a zero is empty space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from textual.content import Content

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import attention, columns
from imi_monitor.model.agent import Agent
from imi_monitor.model.columns import OptionalColumn
from imi_monitor.model.snapshot import Key, Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import agent_cells, cells

_MARK = "▌"
_TITLES = (  # several names: the longest that fits
    (("owner",), "owner"),
    (("doing",), "activity"),
    (("",), "hits"),
    (("upstream", "up"), "upstream"),
    (("trunk",), "trunk"),
    (("changes",), "counts"),
    (("disk",), "disk"),
    (("activity",), "spark"),
)


@dataclass(frozen=True, slots=True)
class WorktreeColumns:
    """The width of each column; 0 means that it is left out."""

    room: int
    several: bool  # several repositories are shown: names need their repository
    name: int = 10
    owner: int = 0
    activity: int = 0
    hits: int = 0
    upstream: int = 0
    trunk: int = 0
    counts: int = 8
    disk: int = 0
    spark: int = 0
    age: int = 4


class WorktreeRowData(NamedTuple):
    """A worktree and what its row shows beside the worktree's own fields."""

    tree: Worktree
    age: str
    hits: int
    marked: bool
    now: datetime
    agents: tuple[Agent, ...] = ()  # the relevant ones, the most urgent first
    disk: str = ""  # what it uses; empty while the list does not show it


def plan_columns(
    room: int,
    trees: Sequence[Worktree],
    *,
    several: bool,
    agents: Mapping[Key, tuple[Agent, ...]] | None = None,
    disk: bool = False,
) -> WorktreeColumns:
    """The columns that fit: always name, counts and age, and disk use if asked for; then owner, collisions, trunk, activity,
    upstream, sparkline."""
    names = max((_width(_name(tree, several)) for tree in trees), default=10)
    here = agents or {}
    owners = max((_owner_width(tree, here.get(tree.key, ()) if here else ()) for tree in trees), default=5)
    upstream = any(tree.git is not None and tree.git.upstream for tree in trees)
    return _plan_widths(room, several, min(names, 40), min(owners, 20), upstream, bool(here), disk)


@lru_cache(4096)
def _width(name: str) -> int:
    """The cells a name takes; each snapshot measures the same few hundred."""
    return columns.cell_width(safe(name))


def _owner_width(tree: Worktree, agents: Sequence[Agent]) -> int:
    return columns.cell_width(agent_cells.owner_text(tree, agents)) if agents else _width(tree.owner)


@lru_cache(64)
def _plan_widths(
    room: int, several: bool, names: int, owners: int, upstream: bool, with_agents: bool, disk: bool
) -> WorktreeColumns:
    fixed = {"name": max(8, min(names, room // 4 if room >= 60 else 14)), "counts": 8, "age": 4}
    fixed |= {"disk": 5} if disk else {}
    distance = 6 if room >= 60 else 5
    longest_owner = 18 if room >= 100 or (with_agents and room >= 76) else 12
    spare = 12 if with_agents else 0  # an agent's activity needs more room than a file's name
    wanted = [
        OptionalColumn("owner", max(5, min(owners, longest_owner))),
        OptionalColumn("hits", 3),
        OptionalColumn("trunk", distance),
        OptionalColumn("activity", 12),
    ]
    if upstream:
        wanted.append(OptionalColumn("upstream", max(distance, len("upstream")) if room >= 76 else distance, spare))
    wanted.append(OptionalColumn("spark", 8, spare))
    optional, left = columns.fit_optional(room - 3 - sum(fixed.values()) - (len(fixed) - 1), wanted)
    widths = fixed | optional
    if "activity" in widths:
        more = min(left, max(0, names - widths["name"]))
        widths["name"] += more
        widths["activity"] += left - more
    elif left > 0:
        widths["name"] += left
    return WorktreeColumns(room, several, **widths)


def column_titles(plan: WorktreeColumns) -> Content:
    """The names of the columns: the whole word or a shorter one, never part of one."""
    parts = ["  ", cells.fit(" name", plan.name + 1)]
    for names, column in _TITLES:
        width = getattr(plan, column)
        if width:
            parts.append(" " + cells.fit(next((name for name in names if len(name) <= width), ""), width))
    return Content.styled("".join(parts) + " " + cells.fit("last", plan.age, right=True), "$text-disabled")


def single_row(row: WorktreeRowData, plan: WorktreeColumns) -> tuple[Content, ...]:
    """The row in one line."""
    tree, state = row.tree, None if row.tree.missing else row.tree.git  # an earlier git state no longer holds
    known = state is not None
    upstream = (state.ahead, state.behind) if state and state.upstream else (None, None)
    trunk = (state.trunk_ahead, state.trunk_behind) if state and not tree.is_main else (None, None)
    name = cells.fixed(safe(_name(tree, plan.several)), plan.name, "bold" if not tree.is_main else "")
    activity = agent_cells.worktree_activity(tree, row.agents)
    fields = [
        name,
        _owner(row, plan.owner) if plan.owner else None,
        cells.padded(activity, plan.activity) if plan.activity else None,
        _hits(row.hits, plan.hits) if plan.hits else None,
        cells.arrows(*upstream, plan.upstream, known=known) if plan.upstream else None,
        _trunk(tree, trunk, plan.trunk, known=known) if plan.trunk else None,
        cells.file_counts(state, plan.counts),
        cells.fixed(row.disk, plan.disk, right=True) if plan.disk else None,
        cells.sparkline(tree, plan.spark, row.now) if plan.spark else None,
        cells.fixed(row.age, plan.age, cells.MUTED, right=True),
    ]
    return (Content(" ").join([_gutter(row), *(field for field in fields if field is not None)]),)


def stacked_row(row: WorktreeRowData, plan: WorktreeColumns) -> tuple[Content, ...]:
    """`◆ feat-api (claude-1)  ✓ 3 commits ahead` and below it `  • src/api.ts (2s ago)`."""
    tree, room = row.tree, plan.room
    wide = room >= 50
    state = cells.git_summary(tree)
    right = state if wide else Content.styled(row.age, cells.MUTED)
    word = cells.CLAIM_WORDS.get(tree.claim.state, "") if tree.claim else ""
    owner = f" ({agent_cells.owner_text(tree, row.agents)}{f', {word[2:]}' if word else ''})"
    name_room = max(6, room - 3 - right.cell_length - columns.cell_width(owner) - 1)
    name = columns.clip(safe(_name(tree, plan.several)), name_room)
    head = Content("").join(
        [_gutter(row), Content(" "), Content.styled(name, "bold"), Content.styled(owner, _claim_style(tree))]
    )
    first = cells.padded(head, max(1, room - right.cell_length - 1)).append(Content(" ")).append(right)
    return first.truncate(room), _second_line(row, room, state).truncate(room, ellipsis=True)


def _second_line(row: WorktreeRowData, room: int, state: Content) -> Content:
    """The activity of the first agent, else the claim's task; collisions; the file that changed last."""
    tree, wide = row.tree, room >= 50
    first = next(iter(row.agents), None)
    urgent = first is not None and attention.needs_attention(first)
    shown = first is not None and (urgent or not attention.has_ended(first))
    hits = Content.styled(f"⚡{count(row.hits, 'collision')}" if row.hits else "", "$collision bold")
    if first is not None and urgent:  # nothing else matters now
        text = _agent_text(first, row.now, room - 3 - (hits.cell_length + 2 if row.hits else 0))
        return Content("   ").append(Content("  ").join([text, hits] if row.hits else [text]))
    parts = [] if wide else [state]
    if first is not None and shown:
        parts.append(_agent_text(first, row.now, room - 26 if wide else room - 14))
    parts += [hits] if row.hits else []
    parts += [Content(f"{row.disk} on disk")] if row.disk else []
    if not shown and tree.claim is not None and tree.claim.task:
        parts.append(Content(safe(tree.claim.task, 60)))
    if tree.last_change is not None:
        age = f" ({row.age} ago)" if wide else ""
        parts.append(Content.styled(f"• {cells.path_tail(safe(tree.last_change.path), 40)}{age}", cells.MUTED))
    elif wide and row.age and not shown:
        parts.append(Content.styled(f"• last commit {row.age} ago", cells.MUTED))
    return Content("   ").append(Content("  ").join(parts))


def _agent_text(agent: Agent, now: datetime, room: int) -> Content:
    """An agent's activity and the age of its state."""
    age = agent_cells.state_age(agent, now)
    age = f" {age}" if age else ""
    text = agent_cells.activity(agent, short=True).truncate(max(8, room - len(age)), ellipsis=True)
    return text.append(Content.styled(age, cells.MUTED))


def _gutter(row: WorktreeRowData) -> Content:
    mark = Content.styled(_MARK, "bold $accent") if row.marked else Content(" ")
    return mark.append(agent_cells.worktree_glyph(row.tree, row.agents))


def _owner(row: WorktreeRowData, width: int) -> Content:
    """Muted without a claim; a claim that is stale or dead has its colour, and its word in the next column."""
    style = cells.CLAIM_STYLES[""] if row.tree.claim is None else _claim_style(row.tree)
    return cells.fixed(agent_cells.owner_text(row.tree, row.agents, width), width, style)


def _trunk(tree: Worktree, distance: tuple[int | None, int | None], width: int, *, known: bool) -> Content:
    return cells.fixed("", width) if tree.is_main else cells.arrows(*distance, width, known=known)


def _hits(hits: int, width: int) -> Content:
    return cells.fixed(f"⚡{hits}" if hits else "", width, "$collision bold")


def _name(tree: Worktree, several: bool) -> str:
    """The name as git has it: not yet safe to show."""
    return f"{tree.key.repo}/{tree.key.worktree}" if several else tree.key.worktree


def _claim_style(tree: Worktree) -> str:
    return cells.CLAIM_STYLES.get(tree.claim.state if tree.claim else "", "")
