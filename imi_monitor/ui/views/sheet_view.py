"""The base of views that read git in a thread and show the result in a Sheet (diff, files, log).

They read again after the worktree changed: a short pause collects a burst of changes, and a slow read is repeated less often.
The last result stays on the screen until a new one is there; what cannot be read becomes a sentence.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from threading import Event
from typing import Generic, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.timer import Timer

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.context import Context
from imi_monitor.actions.worktree_lookup import Target
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui.background_query import unexpected_error
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.textual_internals import is_alive
from imi_monitor.ui.views.view import OpenContextAt, View
from imi_monitor.ui.widgets.sheet import DrawRow, Sheet

T = TypeVar("T")
R = TypeVar("R")

_PAUSE = 0.15  # seconds after a change: saving a file is several changes
_MIN_INTERVAL = 0.5  # seconds between two reads
_MAX_SHARE = 0.2  # of the time that reading may take
_MOST_PROBLEM_LINES = 8
_AGE_INTERVAL = 5.0  # seconds after which ages are drawn again without a change


class SheetView(View, Generic[T]):
    """Subclasses read a T in a thread, receive it, and draw title and rows from it."""

    needs_worktree = True
    follows_changes = True  # read again when the worktree changed

    def __init__(self, key: Key | None, open_context: OpenContextAt) -> None:
        super().__init__(key, open_context)
        self.problem: str | None = None
        self.reading = False
        self._version: object = None
        self._shown: Snapshot | None = None
        self._shown_at = times.now()
        self._title: Content | None = None
        self._stop = Event()
        self._timer: Timer | None = None
        self._read_at = 0.0
        self._read_seconds = 0.0

    # -- for subclasses ---------------------------------------------------------------------------------------------

    def read(self, context: Context, target: Target, tree: Worktree, stop: Event) -> T:
        """Read the data. Runs in a thread; `stop` is set when the result is no longer wanted."""
        raise NotImplementedError

    def received(self, result: T) -> None:
        """Keep the result or a part of it."""
        raise NotImplementedError

    def version(self, tree: Worktree) -> object:
        """A value that differs when there is something new to read."""
        git = tree.git
        return (git.read_at, git.head, tree.last_change) if git else tree.last_change

    def draw_rows(self) -> None:
        """Bring the rows up to date with `show_rows`."""
        raise NotImplementedError

    def title_text(self) -> Content:
        raise NotImplementedError

    def empty_text(self) -> Content | None:
        """Return what is shown without rows; None until the first result."""
        raise NotImplementedError

    # -- widgets ----------------------------------------------------------------------------------------------------

    def body(self) -> ComposeResult:
        yield Sheet(id="rows")

    def on_mount(self) -> None:
        self.sheet.focus()

    @property
    def sheet(self) -> Sheet:
        return self.query_one("#rows", Sheet)

    @property
    def worktree_name(self) -> str:
        return safe(self.key.worktree, 60) if self.key else "?"

    # -- drawing ----------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        if snapshot is self._shown and (now - self._shown_at).total_seconds() < _AGE_INTERVAL:
            return
        self._shown, self._shown_at = snapshot, now
        tree = self.worktree
        if tree is None or tree.missing:
            self.problem = f"{self.worktree_name} is gone: its folder does not exist any more"
            self._stop.set()
            self._version = None
        else:
            version = self.version(tree)
            if version != self._version and (self.follows_changes or self._version is None):
                self._version = version
                self.schedule_read(_PAUSE if self._read_at else 0.0)
        self.redraw()

    def redraw(self) -> None:
        """Draw title and rows from what is known."""
        self.draw_rows()
        self.set_title(self.title_text())

    def set_title(self, title: Content) -> None:
        """Paint the title only when it looks different: over a slow connection each line costs."""
        if self._title is None or not self._title.is_same(title):
            self._title = title
            super().set_title(title)

    def show_rows(self, count: int, draw: DrawRow, *, cursor: int | None = None) -> None:
        """Show these rows, or one with the problem or the empty text."""
        if count:
            self.sheet.show(count, draw, cursor=cursor)
        else:
            self.sheet.show(_MOST_PROBLEM_LINES if self.problem else 1, self._instead_of_rows)

    def _instead_of_rows(self, row: int, width: int) -> Content:
        if self.problem:
            lines = Content.styled(safe(self.problem, 400), "$error").wrap(max(10, width - 4))
            mark = " ? " if row == 0 else "   "
            return Content.styled(mark, "$error").append(lines[row]) if row < len(lines) else Content("")
        return self.empty_text() or Content.styled(" reading…", MUTED)

    def problem_text(self) -> Content:
        """Return what could not be read, for the title; only a mark where the rows say it."""
        words = f" ? {safe(self.problem or '', 200)} " if not self.sheet.draws_with(self._instead_of_rows) else " ? "
        return Content.styled(words, "$error") if self.problem else Content("")

    def open_view(self, view: View) -> None:
        """Open another view on top of this one, with the same snapshot."""
        self.app.push_screen(view)
        if self.snapshot is not None:
            self.call_after_refresh(view.show_snapshot, self.snapshot, times.now())

    # -- reading ----------------------------------------------------------------------------------------------------

    def schedule_read(self, pause: float = 0.0) -> None:
        """Read after a pause. A running read finishes first; a pending one is not put off by further changes."""
        if self._timer is not None and pause:
            return
        interval = max(_MIN_INTERVAL, self._read_seconds / _MAX_SHARE)
        wait = self._read_at + interval - time.monotonic() if pause else 0.0
        self._stop_timer()
        self._timer = self.set_timer(max(pause, wait, 0.001), self.start_read)

    def read_now(self) -> None:
        """Read at once, because something else is wanted; the result of a running read is dropped."""
        self._stop.set()
        self.reading = False
        self.start_read()

    def start_read(self) -> None:
        self._stop_timer()
        if self.reading:
            self.schedule_read(_PAUSE)
        elif self.worktree is not None and not self.worktree.missing:
            self._stop = Event()
            self._run_read(self.worktree, self._stop)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = None

    @work
    async def _run_read(self, tree: Worktree, stop: Event) -> None:
        self.reading, self._read_at = True, time.monotonic()
        problem: str | None = None
        result: T | None = None
        try:
            result = await asyncio.to_thread(self._read_in_thread, tree, stop)
        except (ImiError, OSError) as error:
            problem = error.sentence if isinstance(error, ImiError) else str(error)
        except Exception as error:  # noqa: BLE001  shown instead of the rows
            problem = unexpected_error(error).sentence
        if self._stop is stop:
            self.reading = False
            self._read_seconds = time.monotonic() - self._read_at
        if self.is_awaited(stop):
            self.problem = problem
            if result is not None:
                self.received(result)
            self.redraw()

    def is_awaited(self, stop: Event) -> bool:
        """Whether the result of the read with this event can still be shown: wanted, and the view is not being closed."""
        return not stop.is_set() and is_alive(self)

    def _read_in_thread(self, tree: Worktree, stop: Event) -> T:
        with self.open_context(tree.path) as context:
            context.cancelled, context.needs_registry = stop.is_set, False
            return self.read(context, worktree_lookup.find_worktree(context, tree.key.worktree), tree, stop)

    def on_unmount(self) -> None:
        self._stop.set()


class ItemsView(SheetView[T], Generic[T, R]):
    """Rows are items of type R, or headings between them. The cursor stays on its item when the rows change."""

    def __init__(self, key: Key | None, open_context: OpenContextAt) -> None:
        super().__init__(key, open_context)
        self.rows: list[R | str] = []
        self.now = times.now()

    def items(self) -> list[R | str]:
        """The rows; the identical list while nothing changed."""
        raise NotImplementedError

    def identity(self, item: R) -> object:
        """The value by which an item is found again."""
        raise NotImplementedError

    def item_line(self, item: R, width: int) -> Content:
        raise NotImplementedError

    def open_item(self, item: R) -> None:
        """Enter, or a click on the row with the cursor."""
        raise NotImplementedError

    @property
    def chosen(self) -> R | None:
        """The item under the cursor."""
        row = self.rows[self.sheet.cursor] if self.sheet.cursor < len(self.rows) else None
        return None if isinstance(row, str) else row

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self.now = now
        super().show(snapshot, now)

    def draw_rows(self) -> None:
        before, first, rows = self.chosen, not self.rows, self.items()
        at = self._index_of(rows, before) if rows is not self.rows and before is not None else None
        self.rows = rows
        self.show_rows(len(rows), self._draw, cursor=at)
        if first:
            self.sheet.select(next((index for index, row in enumerate(rows) if not isinstance(row, str)), 0))

    def _index_of(self, rows: list[R | str], item: R) -> int | None:
        wanted = self.identity(item)
        items = ((index, row) for index, row in enumerate(rows) if not isinstance(row, str))
        return next((index for index, row in items if self.identity(row) == wanted), None)

    def _draw(self, index: int, width: int) -> Content:
        row = self.rows[index]
        if isinstance(row, str):
            return Content.styled(f"── {row} ".ljust(width, "─"), MUTED)
        return self.item_line(row, width)

    @on(Sheet.RowChosen)
    def action_choose(self) -> None:
        item = self.chosen
        if item is not None:
            self.open_item(item)
