"""A worktree's row: what stands in its columns. A narrow row has two lines.

Columns keep their width, numbers and ages are right-aligned, and a zero is empty space.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from textual.content import Content

from imi_monitor.model import attention, columns
from imi_monitor.model.agent import Agent
from imi_monitor.model.event_text import EndedCommand
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import agent_cells, cells
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from imi_monitor.ui.worktree_columns import WorktreeColumns

_MARK = "▌"
_UNCONFIRMED = "$foreground 50%"  # readable on the cursor too
_LEAST_PATH = 10  # cells
_LEAST_ACTIVITY = 26  # cells of what an agent does beside the words of the git state


class WorktreeRowData(NamedTuple):
    """A worktree and what its row shows beside the worktree's own fields."""

    tree: Worktree
    age: str
    hits: int
    marked: bool
    now: datetime
    agents: tuple[Agent, ...] = ()  # the relevant ones, the most urgent first
    measured: str = ""  # its disk use or unread changes; empty while the list does not show them
    host: str = ""  # the home it is in, while there are several
    remote: bool = False  # in another home
    unconfirmed: bool = False  # of a home that does not answer: what is shown may be outdated
    ended: EndedCommand | None = None  # the last program that a user ran there


def measured(facts: SnapshotFacts, tree: Worktree, measure: str) -> str:
    """Return what the column of this measure shows for a worktree; empty without one."""
    if not measure or tree.missing:
        return ""
    if measure == "disk":
        return cells.disk_size(facts.disk_uses.get(tree.key))
    return cells.unread_count(facts.unread_changes.get(tree.key))


def single_row(row: WorktreeRowData, plan: WorktreeColumns) -> tuple[Content, ...]:
    """The row in one line."""
    tree, state = row.tree, None if row.tree.missing else row.tree.git  # an earlier git state no longer holds
    known = state is not None
    upstream = (state.ahead, state.behind) if state and state.upstream else (None, None)
    trunk = (state.trunk_ahead, state.trunk_behind) if state and not tree.is_main else (None, None)
    name = cells.fixed_name(safe(plan.names.without_host(tree.key)), plan.name, "bold" if not tree.is_main else "")
    commit = state.last_commit if state else None
    activity = agent_cells.worktree_activity(tree, row.agents, task=not plan.task)
    if row.ended is not None and (not activity.plain or _says_more(row, row.ended)):
        activity = _ended_command(tree, row.ended)
    host = cells.fixed_name(row.host, plan.host, "" if row.remote else cells.MUTED) if plan.host else None
    fields = [
        name,
        host,
        _owner(row, plan.owner) if plan.owner else None,
        cells.padded(activity, plan.activity) if plan.activity else None,
        cells.padded(cells.collision_count(row.hits), plan.hits) if plan.hits else None,
        cells.padded(cells.pull_request(tree.pull), plan.pull) if plan.pull else None,
        cells.fixed_name(_branch(tree), plan.branch, cells.MUTED) if plan.branch else None,
        cells.fixed(safe((tree.claim and tree.claim.task) or "", 300), plan.task) if plan.task else None,
        cells.fixed(safe(commit.subject if commit else "", 300), plan.commit, cells.MUTED) if plan.commit else None,
        _distance(tree, upstream, plan.upstream, known=known) if plan.upstream else None,
        _distance(tree, trunk, plan.trunk, known=known, trunk=True) if plan.trunk else None,
        cells.padded(cells.run_wall(tree.run), plan.counts) if tree.run else cells.file_counts(state, plan.counts),
        cells.fixed(row.measured, width, right=True) if (width := plan.disk or plan.unread) else None,
        cells.sparkline(tree, plan.spark, row.now) if plan.spark else None,
        cells.fixed(row.age, plan.age, cells.MUTED, right=True),
    ]
    return (_dimmed(row, Content(" ").join([_gutter(row), *(field for field in fields if field is not None)])),)


def stacked_row(row: WorktreeRowData, plan: WorktreeColumns) -> tuple[Content, ...]:
    """`◆ feat-api (claude-1)  ✓ 3 commits ahead` and below it `  • src/api.ts (2s ago)`."""
    tree, room = row.tree, plan.room
    wide = room >= 50
    state = cells.git_summary(tree) if tree.run is None else cells.run_summary(tree.run)
    right = state if wide else Content.styled(row.age, cells.MUTED)
    word = cells.CLAIM_WORDS.get(tree.claim.state, "") if tree.claim else ""
    text = agent_cells.owner_text(tree, row.agents, room // 3)
    owner = f" {text}" if text.lstrip("▢▩ ").startswith("(") else f" ({text}{f', {word[2:]}' if word else ''})"
    name_room = max(6, room - 3 - right.cell_length - columns.cell_width(owner) - 1)
    name = columns.clip_middle(safe(plan.names.worktree(tree.key)), name_room)
    head = Content("").join(
        [_gutter(row), Content(" "), Content.styled(name, "bold"), Content.styled(owner, _claim_style(tree))]
    )
    first = cells.padded(head, max(1, room - right.cell_length - 1)).append(Content(" ")).append(right)
    second = _second_line(row, plan, state).truncate(room, ellipsis=True)
    return _dimmed(row, first.truncate(room)), _dimmed(row, second)


def _dimmed(row: WorktreeRowData, line: Content) -> Content:
    return Content.styled(line.plain, _UNCONFIRMED) if row.unconfirmed else line


def _second_line(row: WorktreeRowData, plan: WorktreeColumns, state: Content) -> Content:
    """The activity of the first agent, else the claim's task; collisions; the file that changed last.

    Collisions are never cut: the agent's activity takes the cells that the others leave.
    """
    tree, room, wide = row.tree, plan.room - 3, plan.room >= 50
    first = next(iter(row.agents), None)
    urgent = first is not None and attention.needs_attention(first)
    shown = first is not None and (urgent or not attention.has_ended(first))
    hits = cells.collision_count(row.hits)
    if row.hits and wide:
        hits = Content.styled(f"⚡{count(row.hits, 'collision')}", "$collision bold")
    if first is not None and urgent:  # nothing else matters now
        text = _agent_text(first, row.now, room - (hits.cell_length + 2 if row.hits else 0))
        return _joined([text, hits] if row.hits else [text])
    words = "read" if row.measured == cells.ALL_READ else plan.measure_words
    behind = [hits] if row.hits else []
    behind += [Content(f"{row.measured} {words}")] if row.measured else []
    behind += [cells.pull_request(tree.pull)] if tree.pull is not None else []
    if not shown and row.ended is not None:
        behind.append(_ended_command(tree, row.ended))
    if not shown and tree.claim is not None and tree.claim.task:
        behind.append(Content(safe(tree.claim.task, 60)))
    parts = [] if wide else [state]
    if first is not None and shown:
        age = f" ({row.age} ago)" if wide else ""
        file = _LEAST_PATH + 4 + len(age) if wide and tree.last_change is not None else 0
        left = room - file - _width(behind)
        if not wide and left - _width(parts) < _LEAST_ACTIVITY:
            parts = [_brief(tree, state)]
        parts.append(_agent_text(first, row.now, left - _width(parts)))
    return _joined(_with_last_change(row, [*parts, *behind], room, wide=wide, shown=shown))


def _with_last_change(
    row: WorktreeRowData, parts: list[Content], room: int, *, wide: bool, shown: bool
) -> list[Content]:
    """The parts, and behind them the file that changed last or the age of the last commit, where there is room for it."""
    tree, left = row.tree, room - _width(parts)
    if tree.last_change is not None:
        age = f" ({row.age} ago)" if wide else ""
        space = left - 2 - len(age)
        if space < _LEAST_PATH:  # less would show no file
            return parts
        path = cells.path_tail(safe(tree.last_change.path), min(40, space))
        return [*parts, Content.styled(f"• {path}{age}", cells.MUTED)]
    if tree.run is not None and not shown:
        return [*parts, cells.activity(tree)]
    last = Content.styled(f"• last commit {row.age} ago", cells.MUTED)
    return [*parts, last] if wide and row.age and not shown and last.cell_length <= left else parts


def _joined(parts: Sequence[Content]) -> Content:
    return Content("   ").append(Content("  ").join(parts))


def _width(parts: Sequence[Content]) -> int:
    """The cells of these parts, each with the gap behind it."""
    return sum(part.cell_length + 2 for part in parts)


def _brief(tree: Worktree, state: Content) -> Content:
    """The git state in signs, where its words leave no room for what an agent does."""
    git = None if tree.missing or tree.run is not None else tree.git
    if git is None or cells.problem(tree).plain:
        return state
    signs = cells.changes(git)
    return signs if signs.plain else cells.distance(git.trunk_ahead, git.trunk_behind)


def _ended_command(tree: Worktree, ended: EndedCommand) -> Content:
    """`✓ tests 1.2 s`; muted when a file changed since, because it may end in another way now."""
    style = cells.MUTED if _is_outdated(tree, ended) else "$success" if ended.succeeded else "$error"
    return Content.styled(ended.words, style)


def _is_outdated(tree: Worktree, ended: EndedCommand) -> bool:
    return tree.last_change is not None and tree.last_change.at > ended.at


def _says_more(row: WorktreeRowData, ended: EndedCommand) -> bool:
    """Whether the end of a program says more than the last change: it is newer, and no agent works there."""
    tree = row.tree
    return not (row.agents or tree.claim or _is_outdated(tree, ended) or cells.problem(tree).plain)


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


def _distance(
    tree: Worktree, distance: tuple[int | None, int | None], width: int, *, known: bool, trunk: bool = False
) -> Content:
    """Empty for what has none: a run without a worktree, and the trunk from itself."""
    none = tree.run is not None or (trunk and tree.is_main)
    return cells.fixed("", width) if none else cells.arrows(*distance, width, known=known)


def _branch(tree: Worktree) -> str:
    return "" if tree.run is not None else safe(tree.branch or "(detached)")


def _claim_style(tree: Worktree) -> str:
    return cells.CLAIM_STYLES.get(tree.claim.state if tree.claim else "", "")
