"""Panel 1: the list of worktrees."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from imi_monitor.model import times
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, cells, worktree_row
from imi_monitor.ui.filters import WorktreeFilter
from imi_monitor.ui.panels.panel import FOREVER, LIST, Identity, Panel
from imi_monitor.ui.snapshot_facts import SnapshotFacts, parse_time
from imi_monitor.ui.widgets.row_list import ListRow
from imi_monitor.ui.worktree_order import GroupHeading, WorktreeOrder

MIN_ONE_LINE = 44  # cells below which a row has two lines
_GROUP = "group\0"


class LazyRowStart:
    """All of a row but its age: made when the row is first drawn."""

    __slots__ = ("_content", "_part", "_plan")

    def __init__(self, part: worktree_row.WorktreeRowData, plan: worktree_row.WorktreeColumns) -> None:
        self._part, self._plan = part, plan
        self._content: Content | None = None

    def __call__(self) -> Content:
        if self._content is None:
            self._content = worktree_row.row_start(self._part, self._plan)
        return self._content


class DrawnWorktree(NamedTuple):
    """A worktree's row, and until when it stays the same if the worktree does."""

    row: ListRow
    tree: Worktree
    inputs: tuple[object, ...]  # what the row shows beside the worktree's own fields
    since: datetime
    until: datetime
    start: LazyRowStart


class WorktreesPanel(Panel):
    number = 1
    slot = LIST
    grid_place = 10
    label = "Worktrees"
    empty_message = "no worktrees yet: n makes one"
    source = "worktrees"

    def __init__(self) -> None:
        super().__init__()
        self.filter = WorktreeFilter()
        self.order = WorktreeOrder()
        self.folded: frozenset[str] = frozenset()
        self.marks: frozenset[Key] = frozenset()
        self.facts: SnapshotFacts | None = None
        self.stacked = False  # rows have two lines
        self.listed: tuple[Worktree, ...] = ()  # the worktrees in the list, without those of folded groups
        self.total = 0
        self._plan: worktree_row.WorktreeColumns | None = None
        self._drawn: dict[int, DrawnWorktree] = {}  # by identity; few change between snapshots
        self._drawn_as: tuple[object, ...] = ()
        self._shared_inputs: tuple[object, ...] = ()  # inputs of all rows beside their worktrees
        self._measured: tuple[Snapshot | None, worktree_row.WorktreeColumns] = (
            None,
            worktree_row.WorktreeColumns(0, False),
        )

    def compose(self) -> ComposeResult:
        yield Static("", id="columns")
        yield self.lines

    def subject(self) -> str:
        if self.filter.problem:
            return self.filter.problem
        shown = len(self.listed)
        return f"{shown} of {self.total}" if self.filter and self.total else ""

    def corner(self) -> Content:
        """`attention ▾`: the order; a click selects the next one."""
        arrow = "▴" if self.order.backwards else "▾"
        group = f"{self.order.group} · " if self.order.group != "none" else ""
        return Content.styled(f"{group}{self.order.sort} {arrow}", cells.MUTED).stylize(
            Style.from_meta({"@click": "app.do('sort')"})
        )

    def height_of_row(self) -> int:
        return 2 if self.stacked else 1

    def empty_text(self, snapshot: Snapshot) -> str:
        if self.filter and snapshot.worktrees:
            return f"no worktree matches {safe(self.filter.text)!r}: esc clears the filter"
        return self.empty_message

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[ListRow]:
        facts = self.facts or SnapshotFacts(snapshot, now)
        kept = self.filter.apply(facts, snapshot.worktrees)
        arranged = self.order.arranged(facts, kept, self.folded)
        self.total = len(snapshot.worktrees)
        self.stacked = self.room < MIN_ONE_LINE or self.screen.has_class("-narrow")
        plan = self._planned(facts)
        self._head(plan)
        if self.filter:
            self.lasts_until(now + timedelta(seconds=1))  # `is:busy` depends on the time
        before, self._drawn = self._drawn if self._drawn_as == (plan, self.stacked) else {}, {}
        shared = (facts.conflicts, facts.agents, self.marks)
        unchanged, self._drawn_as, self._shared_inputs = self._shared_inputs == shared, (plan, self.stacked), shared
        rows, listed = [], []
        for one in arranged:
            if isinstance(one, GroupHeading):
                rows.append(self._heading(one))
                continue
            listed.append(one)
            known = before.get(id(one))
            if not (unchanged and known is not None and known.tree is one and known.since <= now < known.until):
                known = self._redraw(facts, one, plan, now, known)
            self._drawn[id(one)] = known
            rows.append(known.row)
        self.listed = tuple(listed)
        self.lasts_until(min((known.until for known in self._drawn.values()), default=FOREVER))
        return rows

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        me = self.facts.me if self.facts else ""
        shape = self.screen.has_class("-narrow"), self._is_tall
        return (Identity(snapshot), Identity(self.filter), self.order, self.folded, self.marks, me, shape)

    @property
    def _is_tall(self) -> bool:
        """Whether there is room for the titles of the columns."""
        return self.size.height > 8

    def _planned(self, facts: SnapshotFacts) -> worktree_row.WorktreeColumns:
        """The widths of the columns, computed once for each snapshot and width."""
        snapshot = facts.snapshot
        if self._measured[0] is not snapshot or self._measured[1].room != self.room:
            several = len(snapshot.repositories) > 1
            plan = worktree_row.plan_columns(self.room, snapshot.worktrees, several=several, agents=facts.agents)
            self._measured = (snapshot, plan)
        return self._measured[1]

    def _head(self, plan: worktree_row.WorktreeColumns) -> None:
        head = self.query_one("#columns", Static)
        head.display = not self.stacked and self._is_tall
        if head.display and plan != self._plan:
            self._plan = plan
            head.update(worktree_row.column_titles(plan), layout=False)

    def _redraw(
        self,
        facts: SnapshotFacts,
        tree: Worktree,
        plan: worktree_row.WorktreeColumns,
        now: datetime,
        known: DrawnWorktree | None,
    ) -> DrawnWorktree:
        """The row of a worktree after something changed or an age went on."""
        hits, marked = facts.conflicts_of(tree), bool(self.marks) and tree.key in self.marks
        agents = facts.agents_in(tree)
        spans = agent_cells.state_age(agents[0], now) if agents and self.stacked else ""
        minute = int(now.timestamp() // 60) if tree.activity and not self.stacked else 0  # of its sparkline
        inputs = (hits, marked, agents, spans, minute)
        # identity: comparing two worktrees field by field takes longer than drawing one
        same = known is not None and known.tree is tree and known.inputs == inputs
        if known is not None and same and known.since <= now < known.until:
            return known
        at = _changed_at(tree)
        part = worktree_row.WorktreeRowData(tree, cells.age(at, now) if at else "", hits, marked, now, agents)
        start = known.start if known is not None and same else LazyRowStart(part, plan)
        ends = [_until(at, now)]
        ends += [now.replace(second=0, microsecond=0) + timedelta(minutes=1)] if minute else []
        ends += [_until(agents[0].truth.since, now)] if spans else []
        return DrawnWorktree(self._row(start, part, plan), tree, inputs, now, min(ends), start)

    def _row(
        self, start: LazyRowStart, part: worktree_row.WorktreeRowData, plan: worktree_row.WorktreeColumns
    ) -> ListRow:
        key = row_key(part.tree)
        if self.stacked:
            return ListRow(key, partial(worktree_row.stacked_row, part, plan))
        return ListRow(key, lambda: (start(),), end=worktree_row.row_end(part.age, plan.age))

    def _heading(self, one: GroupHeading) -> ListRow:
        sign = "▸" if one.folded else "▾"
        text = Content.styled(f"{sign} {safe(one.group, 60)} ", "bold $primary").append(
            Content.styled(str(one.count), cells.MUTED)
        )
        return ListRow(_GROUP + one.group, (Content(""), text) if self.stacked else (text,), heading=True)


def row_key(tree: Worktree) -> str:
    return f"{tree.key.host}\0{tree.key.repo}\0{tree.key.worktree}"


def group_of_row(row: str | None) -> str | None:
    """The group of a heading's row; None for the row of a worktree."""
    return row.removeprefix(_GROUP) if row is not None and row.startswith(_GROUP) else None


def _until(at: str | None, now: datetime) -> datetime:
    """When the age of this time reads differently."""
    then = parse_time(at)
    return now + timedelta(
        seconds=86400.0 if then is None else times.seconds_until_age_changes((now - then).total_seconds())
    )


def _changed_at(tree: Worktree) -> str | None:
    """The time of the last change seen, else of the last commit."""
    if tree.last_change is not None:
        return tree.last_change.at
    commit = tree.git.last_commit if tree.git else None
    return commit.at if commit else None


PANEL = WorktreesPanel
