"""Panel 1: every worktree, the one that needs a person on top."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.app import ComposeResult
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, cells, tree_line
from imi_monitor.ui.facts import Facts
from imi_monitor.ui.filtering import Filter
from imi_monitor.ui.ordering import Heading, Order
from imi_monitor.ui.panels.base import Panel, Same
from imi_monitor.ui.widgets.lines import Row

NARROW = 44  # below this many cells a worktree takes two lines
_GROUP = "group\0"


class WorktreesPanel(Panel):
    name_shown = "Worktrees"
    empty = "no worktrees yet: n makes one"
    source = "worktrees"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.filter = Filter()
        self.order = Order()
        self.folded: frozenset[str] = frozenset()
        self.marks: frozenset[Key] = frozenset()
        self.facts: Facts | None = None
        self.stacked = False  # two lines a worktree, as in a narrow pane
        self.listed: tuple[Worktree, ...] = ()  # what is in the list now, folded groups left out
        self.total = 0
        self._plan: tree_line.Plan | None = None
        self._measured: tuple[Snapshot | None, tree_line.Plan] = (None, tree_line.Plan(0, False))

    def compose(self) -> ComposeResult:
        yield Static("", id="columns")
        yield self.lines

    def subject(self) -> str:
        if self.filter.problem:
            return self.filter.problem
        shown = len(self.listed)
        return f"{shown} of {self.total}" if self.filter and self.total else ""

    def corner(self) -> Content:
        """`attention ▾`: the order; a click takes the next one."""
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
        return self.empty

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        facts = self.facts or Facts(snapshot, now)
        kept = self.filter.apply(facts, snapshot.worktrees)
        arranged = self.order.arranged(facts, kept, self.folded)
        self.listed = tuple(one for one in arranged if isinstance(one, Worktree))
        self.total = len(snapshot.worktrees)
        self.stacked = self.room < NARROW or self.screen.has_class("-narrow")
        plan = self._planned(facts)
        self._head(plan)
        return [
            self._heading(one) if isinstance(one, Heading) else self._tree(facts, one, plan, now) for one in arranged
        ]

    def _planned(self, facts: Facts) -> tree_line.Plan:
        """The columns' widths, which only another snapshot or another width can change."""
        snapshot = facts.snapshot
        if self._measured[0] is not snapshot or self._measured[1].room != self.room:
            several = len(snapshot.repositories) > 1
            plan = tree_line.plan(self.room, snapshot.worktrees, several=several, agents=facts.agents)
            self._measured = (snapshot, plan)
        return self._measured[1]

    def _head(self, plan: tree_line.Plan) -> None:
        head = self.query_one("#columns", Static)
        head.display = not self.stacked and self.size.height > 8
        if head.display and plan != self._plan:
            self._plan = plan
            head.update(tree_line.head(plan), layout=False)

    def _tree(self, facts: Facts, tree: Worktree, plan: tree_line.Plan, now: datetime) -> Row:
        minute = int(now.timestamp() // 60) if tree.activity and not self.stacked else 0
        age, hits, marked = _age(tree, now), facts.hits.get(tree.key, 0), tree.key in self.marks
        agents = facts.agents_in(tree)
        spans = agent_cells.span(agents[0], now) if agents and self.stacked else ""
        signature = (Same(tree), age, hits, marked, plan, self.stacked, minute, agents, spans)

        def make() -> tuple[Content, ...]:
            part = tree_line.Part(tree, age, hits, marked, now, agents)
            return tree_line.stacked(part, plan) if self.stacked else (tree_line.one_line(part, plan),)

        return self.row(key_of(tree), signature, make)

    def _heading(self, one: Heading) -> Row:
        sign = "▸" if one.folded else "▾"
        text = Content.styled(f"{sign} {safe(one.group, 60)} ", "bold $primary").append(
            Content.styled(str(one.count), cells.MUTED)
        )
        return Row(_GROUP + one.group, (Content(""), text) if self.stacked else (text,), heading=True)


def key_of(tree: Worktree) -> str:
    return f"{tree.key.host}\0{tree.key.repo}\0{tree.key.worktree}"


def group_of(row: str | None) -> str | None:
    """The group whose heading a row is; None when it is a worktree."""
    return row.removeprefix(_GROUP) if row is not None and row.startswith(_GROUP) else None


def _age(tree: Worktree, now: datetime) -> str:
    """Of the last change seen, else of the last commit."""
    if tree.last_change is not None:
        return cells.age(tree.last_change.at, now)
    commit = tree.git.last_commit if tree.git else None
    return cells.age(commit.at, now) if commit else ""
