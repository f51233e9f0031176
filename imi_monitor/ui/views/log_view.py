"""The commits of the selected worktree's branch with their graph, its own first; enter shows the diff of one."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event
from typing import NamedTuple

from textual import on
from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions.status import log_action as action
from imi_monitor.model import amounts, columns, times
from imi_monitor.model.commit_graph import CommitGraph, CommitLogEntry, CommitLogPage
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.diff_view import DiffView, ShownCommit
from imi_monitor.ui.views.sheet_view import ItemsView
from imi_monitor.ui.widgets.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.model.snapshot import Key, Worktree
    from imi_monitor.ui.views.view import OpenContextAt

_NEAR_END = 30  # rows before the end where the next page is read
_MAX_REREAD = 2000  # commits read at once after the branch moved
_WIDE = 76


@dataclass(frozen=True, slots=True)
class LoadedCommits:
    """A page of commits, and behind which commits it starts."""

    start: tuple[int, int]
    page: CommitLogPage


class LogRow(NamedTuple):
    """A commit and its part of the graph."""

    entry: CommitLogEntry
    picture: str


class LogView(ItemsView[LoadedCommits, LogRow]):
    word = "log"
    opening_key = "L"
    label = "Log"
    help = "the commits of the selected worktree's branch, its own first, then those of the trunk"

    BINDINGS = [Binding("enter", "choose", "Show commit", tooltip="show the commit's diff")]
    page_size = 200  # commits read at once
    max_commits = 20_000  # commits kept

    def __init__(self, key: Key | None, open_context: OpenContextAt) -> None:
        super().__init__(key, open_context)
        self.commits: list[LogRow] = []
        self._graph = CommitGraph()
        self._page: CommitLogPage | None = None
        self._next_page = False  # read the next page, not the first one again
        self._items: list[LogRow | str] = []

    # -- reading ----------------------------------------------------------------------------------------------------

    def version(self, tree: Worktree) -> object:
        """Only commits and branches matter here, not files."""
        git = tree.git
        return (tree.branch, git.head, git.trunk, git.trunk_ahead, git.trunk_behind) if git else tree.branch

    def schedule_read(self, pause: float = 0.0) -> None:
        self._next_page = False
        super().schedule_read(pause)

    def read(self, context: Context, target: Target, tree: Worktree, stop: Event) -> LoadedCommits:
        if self._next_page and self._page is not None:
            start, size = self._page.seen, self.page_size
        else:
            start, size = (0, 0), max(self.page_size, min(_MAX_REREAD, len(self.commits)))
        return LoadedCommits(start, action.page(context, target, start, size))

    def received(self, result: LoadedCommits) -> None:
        page = result.page
        if result.start == (0, 0):
            self.commits, self._graph = [], CommitGraph()
        self._next_page, self._page = False, page
        self.commits += [LogRow(entry, self._graph.row(entry.sha, entry.parents)) for entry in page.entries]
        self._items = self._with_headings(page) if self.commits else []

    # -- drawing ----------------------------------------------------------------------------------------------------

    def items(self) -> list[LogRow | str]:
        return self._items

    def identity(self, item: LogRow) -> object:
        return item.entry.sha

    def _with_headings(self, page: CommitLogPage) -> list[LogRow | str]:
        """The commits, with headings above the branch's own and above those it shares with the trunk, and one at the end."""
        own = sum(one.entry.own for one in self.commits)
        rows: list[LogRow | str] = list(self.commits)
        if page.more:
            command = f"more: imi log {self.worktree_name} -n {2 * self.max_commits}"
            rows.append("more…" if len(self.commits) < self.max_commits else command)
        if page.trunk:
            trunk, all_own = safe(page.trunk, 60), own == len(self.commits)
            if not all_own:
                rows.insert(own, f"on {trunk} too")
            if own:
                many = " or more" if all_own and page.more else ""
                rows.insert(0, f"{count(own, 'commit')}{many} not on {trunk}")
        return rows

    def empty_text(self) -> Content | None:
        return None if self._page is None else Content.styled(" nothing is committed here yet", MUTED)

    def title_text(self) -> Content:
        tree = self.worktree
        head = Content.styled(f"Log {self.worktree_name}", "bold").append(self.problem_text())
        if tree is not None:
            head = head.append(Content.styled(f" · {safe(tree.branch or '(detached)', 60)}", MUTED))
        if self.commits and self._page:
            more = "+" if self._page.more else ""
            head = head.append(Content.styled(f" · {amounts.count(len(self.commits))}{more} commits", MUTED))
        return head

    def item_line(self, item: LogRow, width: int) -> Content:
        entry, wide = item.entry, width >= _WIDE
        tail = self._tail(entry, 16 if wide else 10).append(" ")
        left = Content.styled(f" {item.picture} ", "$text-primary" if entry.own else MUTED)
        if wide:
            left = left.append(Content.styled(f"{entry.sha[:8]} ", MUTED))
        room = max(10, width - tail.cell_length)
        left = left.append(Content.styled(_names(entry, room // 3), "$text-accent"))
        left = left.append(safe(entry.subject, 400) or "(no subject)")
        left = left.truncate(room, ellipsis=True)
        return left.pad_right(max(0, room - left.cell_length)).append(tail)

    def _tail(self, entry: CommitLogEntry, width: int) -> Content:
        author = cells.fixed(safe(entry.writer, 60), width, "" if entry.by else MUTED)
        return Content(" ").join(
            [Content(""), author, cells.fixed(times.age_of(entry.at, self.now), 4, MUTED, right=True)]
        )

    # -- keys -------------------------------------------------------------------------------------------------------

    @on(Sheet.CursorMoved)
    def _moved(self) -> None:
        page = self._page
        if page is None or not page.more or self.reading or len(self.commits) >= self.max_commits:
            return
        if self.sheet.cursor >= len(self.rows) - _NEAR_END:
            self._next_page = True
            self.start_read()

    def open_item(self, item: LogRow) -> None:
        entry = item.entry
        self.open_view(
            DiffView(self.key, self.open_context, commit=ShownCommit(entry.sha, entry.subject, entry.writer))
        )


def _names(entry: CommitLogEntry, room: int) -> str:
    """The branches and tags at this commit, as many as fit."""
    shown = ""
    for name in entry.refs:
        label = f"[{safe(name, 40)}] "
        if shown and columns.cell_width(shown + label) > room:
            break
        shown += columns.clip(label, max(8, room))
    return shown


VIEW = LogView
