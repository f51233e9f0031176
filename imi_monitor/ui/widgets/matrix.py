"""A table that compares each row with each column, with a cursor on one cell that is kept by name while the table changes.

Columns that do not fit are scrolled so that the cursor's column is visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.strip import Strip

from imi_monitor.model.text import safe
from imi_monitor.ui import cells
from imi_monitor.ui.widgets.cursor_list import CursorList

MIN_COLUMN, MAX_COLUMN = 5, 14  # cells of a column
_MAX_LABEL = 32  # cells of a row's name

CellKey = tuple[str, str]
"""The keys of a cell's row and column."""


class Matrix(CursorList):
    """`show` sets rows and columns (key and name) and the content of cells; an empty cell has no entry."""

    DEFAULT_CSS = "Matrix { height: auto; max-height: 60%; }"
    BINDINGS = [
        Binding("h,left", "move_column(-1)", "Left", show=False, tooltip="one column left"),
        Binding("l,right", "move_column(1)", "Right", show=False, tooltip="one column right"),
        Binding(
            "right_square_bracket", "next(1)", "Next", key_display="]", tooltip="go to the next pair that overlaps"
        ),
        Binding("left_square_bracket", "next(-1)", "Previous", key_display="[", tooltip="go to the previous one"),
    ]
    header_height = 1

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[tuple[str, str], ...] = ()
        self._columns: tuple[tuple[str, str], ...] = ()
        self._cells: Mapping[CellKey, Content] = {}
        self._cursor: CellKey | None = None

    @property
    def cursor(self) -> CellKey | None:
        return self._cursor

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def cursor_index(self) -> int | None:
        keys = [key for key, _ in self._rows]
        return keys.index(self._cursor[0]) if self._cursor is not None and self._cursor[0] in keys else None

    @property
    def _cursor_column(self) -> int:
        keys = [key for key, _ in self._columns]
        return keys.index(self._cursor[1]) if self._cursor is not None and self._cursor[1] in keys else 0

    def show(
        self,
        rows: Sequence[tuple[str, str]],
        columns: Sequence[tuple[str, str]],
        cells: Mapping[CellKey, Content],
        start: CellKey | None,
    ) -> None:
        """Draw this table from now on; the cursor goes to `start` when its cell is gone."""
        shown = (tuple(rows), tuple(columns), dict(cells))
        if shown == (self._rows, self._columns, self._cells):
            return
        resized = (len(self._rows), len(self._columns)) != (len(rows), len(columns))
        self._rows, self._columns, self._cells = shown
        row_keys, column_keys = {key for key, _ in rows}, {key for key, _ in columns}
        if self._cursor is None or self._cursor[0] not in row_keys or self._cursor[1] not in column_keys:
            self._set_cursor(start)
        self.fit_virtual_size()
        self.refresh(layout=resized)

    # -- the cursor -------------------------------------------------------------------------------------------------

    def _set_cursor(self, cursor: CellKey | None) -> None:
        if cursor != self._cursor:
            self._cursor = cursor
            if self.cursor_index is not None:
                self.reveal(self.cursor_index)
            self.refresh()
            self.post_message(self.CursorMoved(self))

    def move_cursor(self, index: int) -> None:
        if self._cursor is not None:
            self._set_cursor((self._rows[index][0], self._cursor[1]))

    def action_move_column(self, by: int) -> None:
        if self._cursor is not None:
            column = max(0, min(self._cursor_column + by, len(self._columns) - 1))
            self._set_cursor((self._cursor[0], self._columns[column][0]))

    def action_next(self, by: int) -> None:
        """Go to the next cell with content, row by row, and start again at the end."""
        order = [(row, column) for row, _ in self._rows for column, _ in self._columns]
        full = [cell for cell in order if cell in self._cells]
        if full and self._cursor is not None:
            here = order.index(self._cursor)
            behind = [cell for cell in full if (order.index(cell) - here) * by > 0]
            self._set_cursor((behind or full)[0 if by > 0 else -1])

    def on_click(self, event: events.Click) -> None:
        row, column = self.index_at(event.y), self._first_column + (event.x - self._label_width) // self._column_width
        if row is not None and event.x >= self._label_width and column < len(self._columns):
            self._set_cursor((self._rows[row][0], self._columns[column][0]))

    def on_resize(self, _event: events.Resize) -> None:
        self.fit_virtual_size()
        if self.cursor_index is not None:
            self.reveal(self.cursor_index)

    # -- drawing ----------------------------------------------------------------------------------------------------

    @staticmethod
    def least_width(rows: Sequence[tuple[str, str]], columns: Sequence[tuple[str, str]]) -> int:
        """The cells in which all columns are visible."""
        return _longest_label(rows) + MIN_COLUMN * len(columns) + 1

    @property
    def _room(self) -> int:
        return self.size.width - self.scrollbar_size_vertical

    @property
    def _label_width(self) -> int:
        return min(max(10, self._room // 3), _longest_label(self._rows))

    @property
    def _column_width(self) -> int:
        room = self._room - self._label_width
        return max(MIN_COLUMN, min(MAX_COLUMN, room // max(1, len(self._columns))))

    @property
    def _first_column(self) -> int:
        """The leftmost column drawn."""
        return max(0, self._cursor_column - self._columns_that_fit + 1)

    @property
    def _columns_that_fit(self) -> int:
        return max(1, (self._room - self._label_width) // self._column_width)

    def _visible_columns(self) -> list[tuple[int, tuple[str, str]]]:
        first = self._first_column
        return list(enumerate(self._columns))[first : first + self._columns_that_fit]

    def draw_header(self, line: int) -> Strip:
        """Names where there is room for them, else the numbers of the rows."""
        width = self._column_width
        numbers = {key: f"{index + 1}" for index, (key, _) in enumerate(self._rows)}
        parts = [cells.fixed("", self._label_width)]
        for index, (key, name) in self._visible_columns():
            text = safe(name, 60) if width >= 9 else numbers.get(key, name)
            style = "bold" if index == self._cursor_column else cells.MUTED
            parts.append(Content(" ").append(cells.fixed_name(text, width - 1, style)))
        return self._to_strip(Content("").join(parts) if self._rows else Content(""))

    def draw_line(self, index: int, line: int, *, on_cursor: bool) -> Strip:
        key, name = self._rows[index]
        label = f"{index + 1:>3} {safe(name, 60)}"
        parts = [cells.fixed_name(label, self._label_width, "bold" if on_cursor else "")]
        parts += [
            self._cell(key, other, here=on_cursor and at == self._cursor_column)
            for at, (other, _) in self._visible_columns()
        ]
        return self._to_strip(Content("").join(parts))

    def _to_strip(self, content: Content) -> Strip:
        width = self.size.width
        segments = self.to_segments(content, width, on_cursor=False)
        strip = Strip(segments, min(content.cell_length, width))
        return strip.adjust_cell_length(width, self.base_style(on_cursor=False).rich_style)

    def _cell(self, row: str, column: str, *, here: bool) -> Content:
        content = self._cells.get((row, column), Content("–" if row == column else "·").stylize(cells.MUTED))
        padded = Content(" ").append(content).truncate(self._column_width - 1)
        padded = padded.pad_right(max(0, self._column_width - 1 - padded.cell_length))
        if here:
            focused = "$block-cursor-foreground on $block-cursor-background"
            padded = padded.stylize(focused if self.has_focus else "underline")
        return padded.append(Content(" "))


def _longest_label(rows: Sequence[tuple[str, str]]) -> int:
    return min(_MAX_LABEL, max((len(name) for _, name in rows), default=0) + 5)
