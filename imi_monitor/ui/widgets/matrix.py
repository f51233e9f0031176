"""A table of everybody against everybody with a cursor on one cell: ← ↓ ↑ → or h j k l, kept by name while things change.

Only the part around the cursor is drawn, so that it may be larger than the screen in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from imi_monitor.model.text import safe
from imi_monitor.ui import cells

LEAST, MOST = 5, 14  # cells a column takes
_LABEL = 24  # cells a row's name takes at most


class Matrix(Widget, can_focus=True):
    """`show` gives rows, columns (key and name) and what stands in the cells; an empty cell has no entry."""

    DEFAULT_CSS = "Matrix { height: auto; max-height: 50%; }"
    BINDINGS = [
        Binding("h,left", "move(0,-1)", "Left", show=False),
        Binding("l,right", "move(0,1)", "Right", show=False),
        Binding("j,down", "move(1,0)", "Down", show=False),
        Binding("k,up", "move(-1,0)", "Up", show=False),
        Binding("right_square_bracket", "next(1)", "Next", key_display="]"),
        Binding("left_square_bracket", "next(-1)", "Previous", key_display="["),
    ]

    class Moved(Message):
        """The cursor is on another cell."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[tuple[str, str], ...] = ()
        self._columns: tuple[tuple[str, str], ...] = ()
        self._cells: Mapping[tuple[str, str], Content] = {}
        self._cursor: tuple[str, str] | None = None

    @property
    def cursor(self) -> tuple[str, str] | None:
        """(row, column) by key."""
        return self._cursor

    def show(
        self,
        rows: Sequence[tuple[str, str]],
        columns: Sequence[tuple[str, str]],
        cells: Mapping[tuple[str, str], Content],
        start: tuple[str, str] | None,
    ) -> None:
        """Draw this from now on; `start` is where the cursor goes when its cell is gone."""
        news = (tuple(rows), tuple(columns), dict(cells))
        if news == (self._rows, self._columns, self._cells):
            return
        resized = (len(self._rows), len(self._columns)) != (len(rows), len(columns))
        self._rows, self._columns, self._cells = news
        known = {key for key, _ in rows}, {key for key, _ in columns}
        if self._cursor is None or self._cursor[0] not in known[0] or self._cursor[1] not in known[1]:
            self._put(start)
        self.refresh(layout=resized)

    def _put(self, cursor: tuple[str, str] | None) -> None:
        if cursor != self._cursor:
            self._cursor = cursor
            self.refresh()
            self.post_message(self.Moved())

    def action_move(self, down: int, right: int) -> None:
        if self._cursor is None:
            return
        row, column = self._at()
        row = max(0, min(row + down, len(self._rows) - 1))
        column = max(0, min(column + right, len(self._columns) - 1))
        self._put((self._rows[row][0], self._columns[column][0]))

    def action_next(self, by: int) -> None:
        """The next cell with something in it, row by row and round."""
        order = [(row, column) for row, _ in self._rows for column, _ in self._columns]
        full = [cell for cell in order if cell in self._cells]
        if full and self._cursor is not None:
            here = order.index(self._cursor)
            behind = [cell for cell in full if (order.index(cell) - here) * by > 0]
            self._put((behind or full)[0 if by > 0 else -1])

    def _at(self) -> tuple[int, int]:
        row, column = self._cursor or ("", "")
        return [key for key, _ in self._rows].index(row), [key for key, _ in self._columns].index(column)

    # -- drawing ----------------------------------------------------------------------------------------------------

    def get_content_height(self, *_: object) -> int:
        return len(self._rows) + 1

    @property
    def _label(self) -> int:
        return min(_LABEL, max(10, self.size.width // 3), max((len(name) for _, name in self._rows), default=0) + 5)

    @property
    def _width(self) -> int:
        room = self.size.width - self._label
        return max(LEAST, min(MOST, room // max(1, len(self._columns))))

    def _window(self) -> tuple[int, int]:
        """The first row and the first column drawn: the cursor is always among those that fit."""
        if self._cursor is None:
            return 0, 0
        row, column = self._at()
        high, wide = max(1, self.size.height - 1), max(1, (self.size.width - self._label) // self._width)
        return max(0, row - high + 1), max(0, column - wide + 1)

    def render(self) -> Content:
        if not self._rows or self._cursor is None:
            return Content("")
        top, left = self._window()
        row, column = self._at()
        wide = max(1, (self.size.width - self._label) // self._width)
        columns = list(enumerate(self._columns))[left : left + wide]
        lines = [self._head(columns, column)]
        for index, (key, name) in list(enumerate(self._rows))[top : top + max(1, self.size.height - 1)]:
            style = "bold" if index == row else ""
            label = f"{index + 1:>3} {safe(name, 60)}"
            parts = [cells.fixed(label, self._label, style)]
            parts += [self._cell(key, other, here=(index, at) == (row, column)) for at, (other, _) in columns]
            lines.append(Content("").join(parts))
        return Content("\n").join(lines)

    def _head(self, columns: Sequence[tuple[int, tuple[str, str]]], chosen: int) -> Content:
        """Names where there is room for them, else the numbers of the rows."""
        width = self._width
        numbers = {key: f"{index + 1}" for index, (key, _) in enumerate(self._rows)}
        parts = [cells.fixed("", self._label)]
        for index, (key, name) in columns:
            text = safe(name, 60) if width >= 9 else numbers.get(key, name)
            style = "bold" if index == chosen else cells.MUTED
            parts.append(cells.fixed(f" {text}", width, style))
        return Content("").join(parts)

    def _cell(self, row: str, column: str, *, here: bool) -> Content:
        content = self._cells.get((row, column), Content("–" if row == column else "·").stylize(cells.MUTED))
        padded = Content(" ").append(content).truncate(self._width - 1)
        padded = padded.pad_right(max(0, self._width - 1 - padded.cell_length))
        return (
            padded.stylize("$block-cursor-foreground on $block-cursor-background" if self.has_focus else "underline")
            if here
            else padded
        ).append(Content(" "))

    def on_click(self, event: events.Click) -> None:
        top, left = self._window()
        row, column = top + event.y - 1, left + (event.x - self._label) // self._width
        if event.y and event.x >= self._label and row < len(self._rows) and column < len(self._columns):
            self._put((self._rows[row][0], self._columns[column][0]))
