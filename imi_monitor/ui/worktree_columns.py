"""Which columns the list of worktrees has room for, and how wide each one is.

A column is as wide as the longest text in it. Where that is too much, the less important columns are left out, and names, owners
and activities share what remains: none of them is cut while another one has cells to spare.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from textual.content import Content
from textual.style import Style

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import columns
from imi_monitor.model.agent import Agent
from imi_monitor.model.columns import OptionalColumn
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, cells

_GUTTER = 3  # mark, glyph and a blank
_MIN_FOR_DETAILS = 120  # cells from which branch, task and last commit have columns
_MOST_HOST = 16  # cells of the column of hosts
_TITLES = (  # several names: the longest that fits
    (("host",), "host"),
    (("owner",), "owner"),
    (("doing",), "activity"),
    (("",), "hits"),
    (("pull request", "PR"), "pull"),
    (("branch",), "branch"),
    (("task",), "task"),
    (("last commit",), "commit"),
    (("upstream", "up"), "upstream"),
    (("trunk",), "trunk"),
    (("changes",), "counts"),
    (("disk",), "disk"),
    (("unread",), "unread"),
    (("activity",), "spark"),
)

_MEASURED = {"disk": 5, "unread": 8}  # cells

_ORDERS = {  # what a click on a title sorts by
    "owner": "owner",
    "activity": "attention",
    "trunk": "ahead",
    "counts": "dirty",
    "disk": "disk",
    "unread": "unread",
    "spark": "change",
}


@dataclass(frozen=True, slots=True)
class WorktreeColumns:
    """The width of each column; 0 means that it is left out."""

    room: int
    names: RepositoryNames
    name: int = 10
    host: int = 0
    owner: int = 0
    activity: int = 0
    hits: int = 0
    pull: int = 0
    branch: int = 0
    task: int = 0
    commit: int = 0
    upstream: int = 0
    trunk: int = 0
    counts: int = 8
    disk: int = 0
    unread: int = 0
    spark: int = 0
    age: int = 4

    @property
    def measure(self) -> str:
        return "disk" if self.disk else "unread" if self.unread else ""

    @property
    def measure_words(self) -> str:
        """The words behind the measure in a row of two lines."""
        return "on disk" if self.disk else "unread"


class RowWidths(NamedTuple):
    """The cells that the texts of a row, or of all rows, take."""

    name: int = 10
    owner: int = 5
    activity: int = 0
    hits: int = 0
    pull: int = 0
    branch: int = 0
    task: int = 0
    commit: int = 0
    upstream: int = 0
    trunk: int = 0
    counts: int = 0
    spark: int = 0
    short_owner: int = 5


def row_widths(tree: Worktree, agents: Sequence[Agent], hits: int, names: RepositoryNames) -> RowWidths:
    """The widths of one worktree's row."""
    state = None if tree.missing else tree.git
    commit = state.last_commit if state else None
    return RowWidths(
        _width(names.without_host(tree.key)),
        columns.cell_width(agent_cells.owner_text(tree, agents)),
        agent_cells.worktree_activity(tree, agents).cell_length,
        cells.collision_count(hits).cell_length,
        cells.pull_request(tree.pull).cell_length,
        _width(tree.branch or ""),
        _width(tree.claim.task or "") if tree.claim else 0,
        _width(commit.subject) if commit else 0,
        cells.distance(state.ahead, state.behind).cell_length if state and state.upstream else 0,
        cells.distance(state.trunk_ahead, state.trunk_behind).cell_length if state and not tree.is_main else 0,
        cells.changes(state).cell_length if state else 0,
        8 if tree.activity else 0,
        columns.cell_width(agent_cells.owner_text(tree, agents, 0)),
    )


def plan_columns(
    room: int,
    rows: Iterable[RowWidths],
    names: RepositoryNames,
    *,
    upstream: bool = True,
    measure: str = "",
    host: int = 0,
) -> WorktreeColumns:
    """The columns for these rows: always name, changes and age, and the measure if there is one; `host`: the longest label."""
    widest = tuple(map(max, zip(*(RowWidths(), *rows), strict=True)))
    return _plan(room, names, RowWidths(*widest), upstream, measure, min(host, _MOST_HOST))


@lru_cache(64)
def _plan(
    room: int, names: RepositoryNames, longest: RowWidths, upstream: bool, measure: str, host: int
) -> WorktreeColumns:
    owners = -(-longest.owner // 4) * 4  # in steps, so that one claim more seldom moves the other columns
    short = min(owners, -(-longest.short_owner // 4) * 4)  # `(claude-1)`: what agents do needs the room more
    activity = -(-longest.activity // 8) * 8
    fixed = {"name": 8, "counts": max(7, longest.counts), "age": 4} | ({measure: _MEASURED[measure]} if measure else {})
    fixed |= {"host": max(4, host)} if host else {}
    wanted = [
        OptionalColumn("owner", max(5, min(owners, 9))),
        OptionalColumn("activity", 12),
        *([OptionalColumn("hits", max(3, longest.hits))] if longest.hits else []),
        OptionalColumn("trunk", max(5, longest.trunk)),
    ]
    optional, left = columns.fit_optional(room - _GUTTER - sum(fixed.values()) - (len(fixed) - 1), wanted)
    widths = fixed | optional
    steps = (
        *(("name", min(longest.name, 20)), ("owner", min(short, 14)), ("activity", min(activity, 28))),
        *(("name", min(longest.name, 40)), ("owner", min(short, 24)), ("activity", min(activity, 56))),
        ("owner", min(owners, 24)),
    )
    for column, goal in steps:
        left -= _grow(widths, column, goal, left)
    for column, exact in (("activity", longest.activity), ("owner", longest.owner)):
        if column in widths:  # a name is not cut for cells that only round a width
            widths[column] -= _grow(widths, "name", longest.name, max(0, widths[column] - max(exact, 9)))
    details = [OptionalColumn("upstream", max(5, longest.upstream))] if upstream else []
    details += [OptionalColumn("spark", 8, spare=4)] if longest.spark else []
    if room >= _MIN_FOR_DETAILS:
        details += [
            *([OptionalColumn("pull", longest.pull)] if longest.pull else []),
            OptionalColumn("branch", min(longest.branch, 32)),
            *([OptionalColumn("task", max(4, min(longest.task, 32)))] if longest.task else []),
            OptionalColumn("commit", max(11, min(longest.commit, 24))),
        ]
    more, left = columns.fit_optional(left, details)
    widths |= more
    for column in ("activity", "branch", "task", "commit", "name"):
        left -= _grow(widths, column, getattr(longest, column), left)
    widths["activity" if "activity" in widths else "name"] += max(0, left)
    return WorktreeColumns(room, names, **widths)


def _grow(widths: dict[str, int], column: str, goal: int, left: int) -> int:
    """Widen a column that is there, up to the goal; return the cells it takes."""
    more = max(0, min(left, goal - widths[column])) if column in widths else 0
    if more:
        widths[column] += more
    return more


def column_titles(plan: WorktreeColumns) -> Content:
    """The names of the columns: the whole word or a shorter one, never part of one. A click sorts by the column."""
    parts = [Content("  "), _title(cells.fit(" name", plan.name + 1), "name")]
    for names, column in _TITLES:
        width = getattr(plan, column)
        if width:
            text = " " + cells.fit(next((name for name in names if len(name) <= width), ""), width)
            parts.append(_title(text, _ORDERS.get(column, "")))
    parts.append(_title(" " + cells.fit("last", plan.age, right=True), "change"))
    return Content("").join(parts).stylize(cells.MUTED)


def _title(text: str, order: str) -> Content:
    clicked = Style.from_meta({"@click": f"app.sort_by('{order}')"}) if order else ""
    return Content.styled(text, clicked)


@lru_cache(4096)
def _width(text: str) -> int:
    """The cells a text takes; each snapshot measures the same few hundred."""
    return columns.cell_width(safe(text, 300))
