"""What views share that read git themselves: asked in a thread, again when the worktree changed, never while nobody looks.

A change is followed by a short pause, so that a burst is one question; a question that takes long is asked less often. What
was read stays on the screen until there is something newer; what cannot be read is a sentence.

What views share whose body is one long sheet: what stands there instead of rows, and, where the rows are things, which one
the reader is at.

Two steps: `SheetView` for a body that knows its rows by itself, `ThingsView` for things with words between them.
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
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.view import Surroundings, View
from imi_monitor.ui.widgets.sheet import DrawRow, Sheet

T = TypeVar("T")
R = TypeVar("R")

_SETTLE = 0.15  # seconds after a change: a save is several of them
_SHORTEST = 0.5  # between two questions
_SHARE = 0.2  # of the time may go into asking
_AGES = 5.0  # seconds after which ages are drawn anew though nothing happened


class ReadingView(View, Generic[T]):
    """Subclasses write `ask` (in a thread), `arrived` and `redraw`."""

    needs_worktree = True
    follows = True  # asks again when the worktree changed

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.problem: str | None = None
        self.reading = False
        self._stamp: object = None
        self._shown: Snapshot | None = None
        self._shown_at = times.now()
        self._title: Content | None = None
        self._stop = Event()
        self._timer: Timer | None = None
        self._asked_at = 0.0
        self._cost = 0.0

    # -- for subclasses ---------------------------------------------------------------------------------------------

    def ask(self, context: Context, one: Target, tree: Worktree, stop: Event) -> T:
        """Read it. In a thread; `stop` is set when nobody wants the answer any more."""
        raise NotImplementedError

    def arrived(self, found: T) -> None:
        """The answer is there, or a part of it."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Title and rows from what is known; called with every snapshot, and when something arrived."""
        raise NotImplementedError

    def stamp(self, tree: Worktree) -> object:
        """Different when there is something new to read."""
        git = tree.git
        return (git.read_at, git.head, tree.last_change) if git else tree.last_change

    # -- the world moved on -----------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        if snapshot is self._shown and (now - self._shown_at).total_seconds() < _AGES:
            return
        self._shown, self._shown_at = snapshot, now
        tree = self.worktree
        if tree is None or tree.missing:
            self.problem = f"{self.called} is gone: its folder does not exist any more"
            self._stop.set()
            self._stamp = None
        else:
            stamp = self.stamp(tree)
            if stamp != self._stamp and (self.follows or self._stamp is None):
                self._stamp = stamp
                self.want(_SETTLE if self._asked_at else 0.0)
        self.redraw()

    def set_title(self, title: Content) -> None:
        """Painted only when it looks different: a terminal far away pays for every line."""
        if self._title is None or not self._title.is_same(title):
            self._title = title
            super().set_title(title)

    @property
    def called(self) -> str:
        return safe(self.key.worktree, 60) if self.key else "?"

    def want(self, pause: float = 0.0) -> None:
        """Ask, after a pause; what is being asked now is asked to its end first."""
        if self._timer is not None and pause:
            return  # it will be asked anyway: who never stops changing must not put it off for ever
        rest = self._asked_at + max(_SHORTEST, self._cost / _SHARE) - time.monotonic() if pause else 0.0
        self._forget_timer()
        self._timer = self.set_timer(max(pause, rest, 0.001), self._begin)

    def again(self) -> None:
        """Something else is wanted now: what is being asked is dropped."""
        self._stop.set()
        self.reading = False
        self._begin()

    def _begin(self) -> None:
        self._forget_timer()
        if self.reading:
            self.want(_SETTLE)
        elif self.worktree is not None and not self.worktree.missing:
            self._stop = Event()
            self._read(self.worktree, self._stop)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = None

    @work(exit_on_error=False)
    async def _read(self, tree: Worktree, stop: Event) -> None:
        self.reading, self._asked_at = True, time.monotonic()
        try:
            found = await asyncio.to_thread(self._in_thread, tree, stop)
        except (ImiError, OSError) as error:
            if not stop.is_set():
                self.problem = error.sentence if isinstance(error, ImiError) else str(error)
        else:
            if not stop.is_set():
                self.problem = None
                self.arrived(found)
        finally:
            if self._stop is stop:
                self.reading = False
                self._cost = time.monotonic() - self._asked_at
        if not stop.is_set() and self.is_attached:
            self.redraw()

    def _in_thread(self, tree: Worktree, stop: Event) -> T:
        with self.surroundings(tree.path) as context:
            context.cancelled = stop.is_set
            return self.ask(context, worktree_lookup.find_worktree(context, tree.key.worktree), tree, stop)

    def open(self, view: View) -> None:
        """Another view on top of this one, about the same moment."""
        self.app.push_screen(view)
        if self.snapshot is not None:
            self.call_after_refresh(view.take, self.snapshot, times.now())

    def on_unmount(self) -> None:
        self._stop.set()

    def trouble(self) -> Content:
        """What could not be read, for the title."""
        return Content.styled(f" ? {safe(self.problem, 200)} ", "$error") if self.problem else Content("")


class SheetView(ReadingView[T], Generic[T]):
    """Subclasses write `paint`, `headline` and `nothing`."""

    def body(self) -> ComposeResult:
        yield Sheet(id="rows")

    def on_mount(self) -> None:
        self.sheet.focus()

    @property
    def sheet(self) -> Sheet:
        return self.query_one("#rows", Sheet)

    def paint(self) -> None:
        """Bring the rows up to date, with `fill`."""
        raise NotImplementedError

    def headline(self) -> Content:
        raise NotImplementedError

    def nothing(self) -> Content | None:
        """What it means that there are no rows; None while nothing was read."""
        raise NotImplementedError

    def redraw(self) -> None:
        self.paint()
        self.set_title(self.headline())

    def fill(self, count: int, draw: DrawRow, *, cursor: int | None = None) -> None:
        """Show these rows, or a sentence where there are none."""
        if count:
            self.sheet.show(count, draw, cursor=cursor)
        else:
            self.sheet.show(1, self._instead)

    def _instead(self, _row: int, _width: int) -> Content:
        if self.problem:
            return Content.styled(f" ? {safe(self.problem, 400)}", "$error")
        return self.nothing() or Content.styled(" reading…", MUTED)


class ItemsView(SheetView[T], Generic[T, R]):
    """Rows are things, or words that stand between two parts. Subclasses write `listed`, `identity`, `line` and `choose`."""

    def __init__(self, key: Key | None, surroundings: Surroundings) -> None:
        super().__init__(key, surroundings)
        self.rows: list[R | str] = []
        self.now = times.now()

    def listed(self) -> list[R | str]:
        """The rows; the same list while nothing is different."""
        raise NotImplementedError

    def identity(self, thing: R) -> object:
        """By which the reader's row is found again."""
        raise NotImplementedError

    def line(self, thing: R, width: int) -> Content:
        raise NotImplementedError

    def choose(self, thing: R) -> None:
        """Enter, or a click on the row with the cursor."""
        raise NotImplementedError

    @property
    def chosen(self) -> R | None:
        row = self.rows[self.sheet.cursor] if self.sheet.cursor < len(self.rows) else None
        return None if isinstance(row, str) else row

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self.now = now
        super().show(snapshot, now)

    def paint(self) -> None:
        before, first, found = self.chosen, not self.rows, self.listed()
        at = self._place(found, before) if found is not self.rows and before is not None else None
        self.rows = found
        self.fill(len(found), self._draw, cursor=at)
        if first:
            self.sheet.select(next((index for index, row in enumerate(found) if not isinstance(row, str)), 0))

    def _place(self, rows: list[R | str], before: R) -> int | None:
        wanted = self.identity(before)
        things = ((index, row) for index, row in enumerate(rows) if not isinstance(row, str))
        return next((index for index, row in things if self.identity(row) == wanted), None)

    def _draw(self, index: int, width: int) -> Content:
        row = self.rows[index]
        if isinstance(row, str):
            return Content.styled(f"── {row} ".ljust(width, "─"), MUTED)
        return self.line(row, width)

    @on(Sheet.RowChosen)
    def action_choose(self) -> None:
        thing = self.chosen
        if thing is not None:
            self.choose(thing)
