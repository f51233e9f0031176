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
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import HERE, Key, Snapshot, Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, cells, worktree_columns, worktree_row
from imi_monitor.ui.filters import WorktreeFilter
from imi_monitor.ui.panels.panel import FOREVER, FRAME, LIST, Identity, Panel
from imi_monitor.ui.snapshot_facts import SnapshotFacts, parse_time
from imi_monitor.ui.widgets.key_bar import ClickableLine
from imi_monitor.ui.widgets.row_list import ListRow
from imi_monitor.ui.worktree_columns import RowWidths, WorktreeColumns
from imi_monitor.ui.worktree_order import GroupHeading, WorktreeOrder

MIN_ONE_LINE = 60  # cells below which a row has two lines
_GROUP = "group\0"


class DrawnWorktree(NamedTuple):
    """A worktree's row, and until when it stays the same."""

    row: ListRow
    tree: Worktree
    signature: tuple[object, ...]  # everything the row shows
    until: datetime


class MeasuredWorktree(NamedTuple):
    """The widths of a worktree's row, and what they depend on."""

    tree: Worktree
    inputs: tuple[object, ...]
    widths: RowWidths


class WorktreesPanel(Panel):
    number = 1
    slot = LIST
    presets = ("list_and_agents", "list_only")
    label = "Worktrees"
    empty_message = "no worktrees yet: `imi feat NAME` makes one as soon as the repository has a commit"
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
        self._plan: WorktreeColumns | None = None
        self._drawn: dict[int, DrawnWorktree] = {}  # by identity; few worktrees change between snapshots
        self._shared_inputs: tuple[object, ...] = ()  # what all rows depend on
        self._drawn_at = FOREVER
        self._measured: tuple[Snapshot | None, WorktreeColumns] = (None, WorktreeColumns(0, RepositoryNames()))
        self._widths: dict[int, MeasuredWorktree] = {}  # by identity

    def compose(self) -> ComposeResult:
        yield ClickableLine("", id="columns")
        yield self.lines

    def lines_needed(self, snapshot: Snapshot, width: int) -> int:
        groups = len(self.order.groups_of(snapshot.worktrees))
        return FRAME + 1 + max(1, len(snapshot.worktrees) + groups)

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
        measured = {"disk": facts.disk_uses, "unread": facts.unread_changes}.get(self.order.measure)
        homes = [(home.label, home.state) for home in snapshot.homes]
        shared = (plan, self.stacked, facts.conflicts, facts.agents, self.marks, measured, homes)
        current = shared == self._shared_inputs and now >= self._drawn_at
        self._shared_inputs, self._drawn_at = shared, now
        before, self._drawn = self._drawn, {}
        rows, listed = [], []
        for one in arranged:
            if isinstance(one, GroupHeading):
                rows.append(self._heading(one))
                continue
            listed.append(one)
            drawn = before.get(id(one))
            if drawn is None or drawn.tree is not one or not current or now >= drawn.until:
                drawn = self._draw(facts, one, plan, now, drawn)
            self._drawn[id(one)] = drawn
            rows.append(drawn.row)
        self.listed = tuple(listed)
        self.lasts_until(min((drawn.until for drawn in self._drawn.values()), default=FOREVER))
        return rows

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        me = self.facts.me if self.facts else ""
        shape = self.screen.has_class("-narrow"), self._is_tall(len(snapshot.worktrees))
        return (Identity(snapshot), Identity(self.filter), self.order, self.folded, self.marks, me, shape)

    def _is_tall(self, trees: int) -> bool:
        """Whether there is room for the titles of the columns."""
        return self.size.height > min(8, trees)

    def _planned(self, facts: SnapshotFacts) -> WorktreeColumns:
        """The widths of the columns, computed once for each snapshot and width."""
        snapshot = facts.snapshot
        measure = self.order.measure
        before, plan = self._measured
        if before is not snapshot or plan.room != self.room or plan.measure != measure:
            names = facts.names
            upstream = any(tree.git is not None and tree.git.upstream for tree in snapshot.worktrees)
            widths = self._row_widths(facts)
            plan = worktree_columns.plan_columns(
                self.room, widths, names, upstream=upstream, measure=measure, host=facts.host_width
            )
            self._measured = (snapshot, plan)
        return self._measured[1]

    def _row_widths(self, facts: SnapshotFacts) -> list[RowWidths]:
        """The widths of all rows; those of unchanged worktrees were measured before."""
        before, self._widths = self._widths, {}
        for tree in facts.snapshot.worktrees:
            inputs = (facts.agents_in(tree), facts.conflicts_of(tree), facts.names)
            known = before.get(id(tree))
            if known is None or known.tree is not tree or known.inputs != inputs:
                agents, hits, _ = inputs
                widths = worktree_columns.row_widths(tree, agents, hits, facts.names)
                known = MeasuredWorktree(tree, inputs, widths)
            self._widths[id(tree)] = known
        return [known.widths for known in self._widths.values()]

    def _head(self, plan: WorktreeColumns) -> None:
        head = self.query_one("#columns", Static)
        head.display = not self.stacked and self._is_tall(self.total)
        if head.display and plan != self._plan:
            self._plan = plan
            head.update(worktree_columns.column_titles(plan), layout=False)

    def _draw(
        self, facts: SnapshotFacts, tree: Worktree, plan: WorktreeColumns, now: datetime, before: DrawnWorktree | None
    ) -> DrawnWorktree:
        """The worktree's row, or the row before if it shows the same."""
        changed_at, agents = _changed_at(tree), facts.agents_in(tree)
        until = [_age_until(changed_at, now)]
        state_age = agent_cells.state_age(agents[0], now) if agents and self.stacked else ""
        if state_age:
            until.append(_age_until(agents[0].truth.since, now))
        minute = int(now.timestamp() // 60) if tree.activity and not self.stacked else 0  # of the sparkline
        if minute:
            until.append(now.replace(second=0, microsecond=0) + timedelta(minutes=1))
        age = cells.age(changed_at, now) if changed_at else ""
        marked = tree.key in self.marks
        measured = worktree_row.measured(facts, tree, self.order.measure)
        home = facts.home_of(tree)
        shown_home = (facts.host_of(tree), home is not None, home is not None and home.state != HERE)
        ended = facts.ended_command(tree)
        data = worktree_row.WorktreeRowData(
            tree, age, facts.conflicts_of(tree), marked, now, agents, measured, *shown_home, ended
        )
        draw = worktree_row.stacked_row if self.stacked else worktree_row.single_row
        drawn_from = (age, data.hits, marked, agents, measured, state_age, minute, shown_home, ended)
        signature = (Identity(tree), plan, self.stacked, *drawn_from)
        same = before is not None and before.signature == signature
        row = before.row if before is not None and same else ListRow(row_key(tree), partial(draw, data, plan))
        return DrawnWorktree(row, tree, signature, min(until))

    def _heading(self, one: GroupHeading) -> ListRow:
        sign = "▸" if one.folded else "▾"
        group = self.facts.names.shown(one.group) if self.facts and self.order.group == "repository" else one.group
        text = Content.styled(f"{sign} {safe(group, 60)} ", "bold $primary").append(
            Content.styled(str(one.count), cells.MUTED)
        )
        return ListRow(_GROUP + one.group, (Content(""), text) if self.stacked else (text,), heading=True)


def row_key(tree: Worktree) -> str:
    return f"{tree.key.host}\0{tree.key.repo}\0{tree.key.worktree}"


def group_of_row(row: str | None) -> str | None:
    """The group of a heading's row; None for the row of a worktree."""
    return row.removeprefix(_GROUP) if row is not None and row.startswith(_GROUP) else None


def _age_until(at: str | None, now: datetime) -> datetime:
    """Return when the age of this time reads differently."""
    parsed = parse_time(at)
    if parsed is None:
        return FOREVER
    return now + timedelta(seconds=times.seconds_until_age_changes((now - parsed).total_seconds()))


def _changed_at(tree: Worktree) -> str | None:
    """The time of the last change seen, else of the last commit; of a run that of its newest file, else of its state."""
    if tree.run is not None:
        return tree.run.files[0].changed_at if tree.run.files else tree.run.since
    if tree.last_change is not None:
        return tree.last_change.at
    commit = tree.git.last_commit if tree.git else None
    return commit.at if commit else None


PANEL = WorktreesPanel
