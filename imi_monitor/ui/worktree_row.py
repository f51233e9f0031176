"""One worktree in one line (or two, where it is narrow): which columns there is room for, and what stands in them.

Columns keep their width, numbers and ages are right-aligned, and there is empty space rather than a zero.
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
from imi_monitor.model.snapshot import Key, Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import agent_cells, cells

_MARK = "▌"


@dataclass(frozen=True, slots=True)
class WorktreeColumns:
    """The width of every column; 0 is left out."""

    room: int
    several: bool
    name: int = 10
    owner: int = 0
    doing: int = 0
    hits: int = 0
    upstream: int = 0
    trunk: int = 0
    counts: int = 8
    spark: int = 0
    age: int = 4


class WorktreeRow(NamedTuple):
    """A worktree with what is not its own."""

    tree: Worktree
    age: str
    hits: int
    marked: bool
    now: datetime
    agents: tuple[Agent, ...] = ()  # who matters there, who needs a person first


def plan_columns(
    room: int, trees: Sequence[Worktree], *, several: bool, agents: Mapping[Key, tuple[Agent, ...]] | None = None
) -> WorktreeColumns:
    """What fits: name, counts and age always; then owner, trunk, collisions, what goes on, upstream, activity."""
    names = max((_cells(_name(tree, several)) for tree in trees), default=10)
    here = agents or {}
    owners = max((_owner_cells(tree, here.get(tree.key, ()) if here else ()) for tree in trees), default=5)
    upstream = any(tree.git is not None and tree.git.upstream for tree in trees)
    return _plan_widths(room, several, min(names, 40), min(owners, 20), upstream, bool(here))


@lru_cache(4096)
def _cells(outside: str) -> int:
    """How wide a name is shown; the same few hundred are measured with every snapshot."""
    return columns.cell_width(safe(outside))


def _owner_cells(tree: Worktree, agents: Sequence[Agent]) -> int:
    return columns.cell_width(agent_cells.owner_text(tree, agents)) if agents else _cells(tree.owner)


@lru_cache(64)
def _plan_widths(room: int, several: bool, names: int, owners: int, upstream: bool, inhabited: bool) -> WorktreeColumns:
    widths = {"name": max(8, min(names, room // 4 if room >= 60 else 14)), "counts": 8, "age": 4}
    distance = 6 if room >= 60 else 5
    remote = max(distance, len("upstream")) if room >= 76 else distance
    left = room - 3 - sum(widths.values()) - 2
    most = 12 if room < 76 else 18 if inhabited or room >= 100 else 12
    wishes = [("owner", max(5, min(owners, most))), ("hits", 3), ("trunk", distance), ("doing", 12)]
    wishes += [("upstream", remote)] if upstream else []
    wishes += [("spark", 8)]
    for name, width in wishes:
        # what an agent does or asks for wants more room than the name of a file
        spare = 12 if inhabited and name in ("upstream", "spark") else 0
        if left > width + spare:
            widths[name] = width
            left -= width + 1
    if "doing" in widths:
        more = min(left, max(0, names - widths["name"]))
        widths["name"] += more
        widths["doing"] += left - more
    elif left > 0:
        widths["name"] += left
    return WorktreeColumns(room, several, **widths)


def column_titles(plan: WorktreeColumns) -> Content:
    """The columns' names: the whole word, or a shorter one, but never a part of one."""
    parts = ["  ", cells.fit(" name", plan.name + 1)]
    titles = (
        ("owner", plan.owner),
        ("doing", plan.doing),
        ("", plan.hits),
        ("upstream,up", plan.upstream),
        ("trunk", plan.trunk),
        ("changes", plan.counts),
        ("activity", plan.spark),
    )
    for names, width in titles:
        if width:
            title = next((name for name in names.split(",") if len(name) <= width), "")
            parts.append(" " + cells.fit(title, width))
    return Content.styled("".join(parts) + " " + cells.fit("last", plan.age, right=True), "$text-disabled")


@lru_cache(256)
def row_end(age: str, width: int) -> Content:
    """What stands behind the start of a line: how long ago it changed, as that alone is new every few seconds."""
    return Content(" ").append(cells.fixed(age, width, cells.MUTED, right=True))


def row_start(part: WorktreeRow, plan: WorktreeColumns) -> Content:
    """What stands in front of the age."""
    tree, state = part.tree, None if part.tree.missing else part.tree.git  # what git said before says nothing now
    known = state is not None
    upstream = (state.ahead, state.behind) if state and state.upstream else (None, None)
    trunk = (state.trunk_ahead, state.trunk_behind) if state and not tree.is_main else (None, None)
    name = cells.fixed(safe(_name(tree, plan.several)), plan.name, "bold" if not tree.is_main else "")
    doing = cells.padded(agent_cells.worktree_activity(tree, part.agents), plan.doing) if plan.doing else None
    fields = [
        name,
        _owner_text(part, plan.owner) if plan.owner else None,
        doing,
        _hits(part.hits, plan.hits) if plan.hits else None,
        cells.arrows(*upstream, plan.upstream, known=known) if plan.upstream else None,
        _trunk(tree, trunk, plan.trunk, known=known) if plan.trunk else None,
        cells.file_counts(state, plan.counts),
        cells.sparkline(tree, plan.spark, part.now) if plan.spark else None,
    ]
    shown = [field for field in fields if field is not None]
    return Content(" ").join([_gutter(part), *shown])


def stacked_row(part: WorktreeRow, plan: WorktreeColumns) -> tuple[Content, ...]:
    """`◆ feat-api (claude-1)  ✓ 3 commits ahead` and below it `  • src/api.ts (2s ago)`."""
    tree, room = part.tree, plan.room
    wide = room >= 50
    state = cells.git_summary(tree)
    right = state if wide else Content.styled(part.age, cells.MUTED)
    word = cells.CLAIM_WORDS.get(tree.claim.state, "") if tree.claim else ""
    owner = f" ({agent_cells.owner_text(tree, part.agents)}{f', {word[2:]}' if word else ''})"
    name_room = max(6, room - 3 - right.cell_length - columns.cell_width(owner) - 1)
    name = columns.clip(safe(_name(tree, plan.several)), name_room)
    head = Content("").join(
        [_gutter(part), Content(" "), Content.styled(name, "bold"), Content.styled(owner, _claim_style(tree))]
    )
    first = cells.padded(head, max(1, room - right.cell_length - 1)).append(Content(" ")).append(right)
    return first.truncate(room), _second(part, room, state).truncate(room, ellipsis=True)


def _second(part: WorktreeRow, room: int, state: Content) -> Content:
    """What its agent does, else its task; where it collides; what changed last."""
    tree, wide = part.tree, room >= 50
    first = next(iter(part.agents), None)
    said = first is not None and (attention.needs_attention(first) or not attention.has_ended(first))
    hits = Content.styled(f"⚡{count(part.hits, 'collision')}" if part.hits else "", "$collision bold")
    if first is not None and attention.needs_attention(first):  # that is all one wants to know now
        told = _agent_text(first, part.now, room - 3 - (hits.cell_length + 2 if part.hits else 0))
        return Content("   ").append(Content("  ").join([told, hits] if part.hits else [told]))
    parts = [] if wide else [state]
    if first is not None and said:
        parts.append(_agent_text(first, part.now, room - 26 if wide else room - 14))
    parts += [hits] if part.hits else []
    if not said and tree.claim is not None and tree.claim.task:
        parts.append(Content(safe(tree.claim.task, 60)))
    if tree.last_change is not None:
        age = f" ({part.age} ago)" if wide else ""
        parts.append(Content.styled(f"• {cells.path_tail(safe(tree.last_change.path), 40)}{age}", cells.MUTED))
    elif wide and part.age and not said:
        parts.append(Content.styled(f"• last commit {part.age} ago", cells.MUTED))
    return Content("   ").append(Content("  ").join(parts))


def _agent_text(agent: Agent, now: datetime, room: int) -> Content:
    """What an agent does and for how long."""
    span = agent_cells.state_age(agent, now)
    span = f" {span}" if span else ""
    text = agent_cells.activity(agent, short=True).truncate(max(8, room - len(span)), ellipsis=True)
    return text.append(Content.styled(span, cells.MUTED))


def _gutter(part: WorktreeRow) -> Content:
    mark = Content.styled(_MARK, "bold $accent") if part.marked else Content(" ")
    return mark.append(agent_cells.worktree_glyph(part.tree, part.agents))


def _owner_text(part: WorktreeRow, width: int) -> Content:
    """`human` is muted, and so is who never claimed it; a claim that is not in order has its colour, and its word beside it."""
    style = cells.CLAIM_STYLES[""] if part.tree.claim is None else _claim_style(part.tree)
    return cells.fixed(agent_cells.owner_text(part.tree, part.agents, width), width, style)


def _trunk(tree: Worktree, distance: tuple[int | None, int | None], width: int, *, known: bool) -> Content:
    return cells.fixed("", width) if tree.is_main else cells.arrows(*distance, width, known=known)


def _hits(hits: int, width: int) -> Content:
    return cells.fixed(f"⚡{hits}" if hits else "", width, "$collision bold")


def _name(tree: Worktree, several: bool) -> str:
    """As it came from outside."""
    return f"{tree.key.repo}/{tree.key.worktree}" if several else tree.key.worktree


def _claim_style(tree: Worktree) -> str:
    state = tree.claim.state if tree.claim else ""
    return cells.CLAIM_STYLES.get(state, "")
