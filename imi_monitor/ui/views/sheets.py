"""What views share whose body is one long sheet: what stands there instead of rows, and, where the rows are things, which one
the reader is at.

Two steps: `SheetView` for a body that knows its rows by itself, `ThingsView` for things with words between them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.base import Surroundings
from imi_monitor.ui.views.reading import ReadingView
from imi_monitor.ui.widgets.sheet import Draw, Sheet

T = TypeVar("T")
R = TypeVar("R")


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

    def fill(self, count: int, draw: Draw, *, cursor: int | None = None) -> None:
        """Show these rows, or a sentence where there are none."""
        if count:
            self.sheet.show(count, draw, cursor=cursor)
        else:
            self.sheet.show(1, self._instead)

    def _instead(self, _row: int, _width: int) -> Content:
        if self.problem:
            return Content.styled(f" ? {safe(self.problem, 400)}", "$error")
        return self.nothing() or Content.styled(" reading…", MUTED)


class ThingsView(SheetView[T], Generic[T, R]):
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

    @on(Sheet.Chosen)
    def action_choose(self) -> None:
        thing = self.chosen
        if thing is not None:
            self.choose(thing)
