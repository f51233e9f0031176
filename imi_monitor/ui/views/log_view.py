"""View `L`: the commits of the selected worktree's branch, its own first, with their graph; enter shows what one did."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event
from typing import NamedTuple

from textual import on
from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions.status import log_action as action
from imi_monitor.model import columns, times
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
    from imi_monitor.ui.views.view import Surroundings

_PAGE = 200
_NEAR_END = 30  # rows before the end at which the next page is read
_MOST = 20_000  # commits kept
_AGAIN = 2000  # commits read again at once when the branch moved
_WIDE = 76


@dataclass(frozen=True, slots=True)
class LoadedCommits:
    """A page, and behind which commits it was asked for."""

    start: tuple[int, int]
    page: CommitLogPage


class LogRow(NamedTuple):
    """A commit, and its place in the graph."""

    entry: CommitLogEntry
    picture: str


class LogView(ItemsView[LoadedCommits, LogRow]):
    word = "log"
    opening_key = "L"
    label = "Log"
    help = "the commits of the selected worktree's branch, its own first, then those of the trunk"

    BINDINGS = [Binding("enter", "choose", "What it did")]

    def __init__(self, key: Key | None, surroundings: Surroundings) -> None:
        super().__init__(key, surroundings)
        self._commits: list[LogRow] = []
        self._graph = CommitGraph()
        self._page: CommitLogPage | None = None
        self._more = False  # the next page is wanted, not the first one again
        self._parts: list[LogRow | str] = []

    # -- reading ----------------------------------------------------------------------------------------------------

    def stamp(self, tree: Worktree) -> object:
        """Commits move, files do not matter here."""
        git = tree.git
        return (tree.branch, git.head, git.trunk, git.trunk_ahead, git.trunk_behind) if git else tree.branch

    def want(self, pause: float = 0.0) -> None:
        self._more = False
        super().want(pause)

    def ask(self, context: Context, one: Target, tree: Worktree, stop: Event) -> LoadedCommits:
        if self._more and self._page is not None:
            start, size = self._page.seen, _PAGE
        else:
            start, size = (0, 0), max(_PAGE, min(_AGAIN, len(self._commits)))
        return LoadedCommits(start, action.page(context, one, start, size))

    def arrived(self, found: LoadedCommits) -> None:
        page = found.page
        if found.start == (0, 0):
            self._commits, self._graph = [], CommitGraph()
        self._more, self._page = False, page
        self._commits += [LogRow(entry, self._graph.row(entry.sha, entry.parents)) for entry in page.entries]
        self._parts = self._divided(page) if self._commits else []

    # -- drawing ----------------------------------------------------------------------------------------------------

    def listed(self) -> list[LogRow | str]:
        return self._parts

    def identity(self, thing: LogRow) -> object:
        return thing.entry.sha

    def _divided(self, page: CommitLogPage) -> list[LogRow | str]:
        """The commits, with words between the branch's own and those it stands on, and at the end."""
        own = sum(one.entry.own for one in self._commits)
        rows: list[LogRow | str] = list(self._commits)
        if page.more:
            rows.append("more…" if len(self._commits) < _MOST else f"more: imi log {self.called} -n {2 * _MOST}")
        if page.trunk:
            trunk, all_own = safe(page.trunk, 60), own == len(self._commits)
            if not all_own:
                rows.insert(own, f"on {trunk} too")
            if own:
                many = " or more" if all_own and page.more else ""
                rows.insert(0, f"{count(own, 'commit')}{many} not on {trunk}")
        return rows

    def nothing(self) -> Content | None:
        return None if self._page is None else Content.styled(" nothing is committed here yet", MUTED)

    def headline(self) -> Content:
        tree = self.worktree
        head = Content.styled(f"Log {self.called}", "bold").append(self.trouble())
        if tree is not None:
            head = head.append(Content.styled(f" · {safe(tree.branch or '(detached)', 60)}", MUTED))
        if self._commits and self._page:
            more = "+" if self._page.more else ""
            head = head.append(Content.styled(f" · {len(self._commits):,}{more} commits", MUTED))
        return head

    def line(self, thing: LogRow, width: int) -> Content:
        entry, wide = thing.entry, width >= _WIDE
        tail = self._tail(entry, 16 if wide else 10).append(" ")
        left = Content.styled(f" {thing.picture} ", "$text-primary" if entry.own else MUTED)
        if wide:
            left = left.append(Content.styled(f"{entry.sha[:8]} ", MUTED))
        room = max(10, width - tail.cell_length)
        left = left.append(Content.styled(_names(entry, room // 3), "$text-accent"))
        left = left.append(safe(entry.subject, 400) or "(no subject)")
        left = left.truncate(room, ellipsis=True)
        return left.pad_right(max(0, room - left.cell_length)).append(tail)

    def _tail(self, entry: CommitLogEntry, width: int) -> Content:
        who = cells.fixed(safe(entry.who, 60), width, "" if entry.by else MUTED)
        return Content(" ").join(
            [Content(""), who, cells.fixed(times.age_of(entry.at, self.now), 4, MUTED, right=True)]
        )

    # -- keys -------------------------------------------------------------------------------------------------------

    @on(Sheet.CursorMoved)
    def _moved(self) -> None:
        page = self._page
        if page is None or not page.more or self.reading or len(self._commits) >= _MOST:
            return
        if self.sheet.cursor >= len(self.rows) - _NEAR_END:
            self._more = True
            self._begin()

    def choose(self, thing: LogRow) -> None:
        entry = thing.entry
        self.open(DiffView(self.key, self.surroundings, commit=ShownCommit(entry.sha, entry.subject, entry.who)))


def _names(entry: CommitLogEntry, room: int) -> str:
    """The branches and tags that stand here, as many as fit; what was done is more than where."""
    shown = ""
    for name in entry.refs:
        label = f"[{safe(name, 40)}] "
        if shown and columns.cell_width(shown + label) > room:
            break
        shown += columns.clip(label, max(8, room))
    return shown


VIEW = LogView
