"""A long list, such as a diff or a log, whose rows are made only when they are on the screen.

Its owner says how many rows there are and draws row N when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip

from imi_monitor.ui.widgets.cursor_list import CursorList

DrawRow = Callable[[int, int], Content]
"""(row, width in cells) -> the row's content."""

_SIDE_STEP = 8  # cells


class Sheet(CursorList):
    """Rows of one line each, by number."""

    BINDINGS = [
        Binding("space", "page(1)", "Page down", show=False, tooltip="one screen down"),
        Binding("b", "page(-1)", "Page up", show=False, tooltip="one screen up"),
        Binding("g", "jump(0)", "First", show=False, tooltip="to the first row"),
        Binding("h,left", "aside(-1)", "Left", show=False, tooltip="show what is further left"),
        Binding("l,right", "aside(1)", "Right", show=False, tooltip="show what is further right"),
    ]

    class SidewaysRequested(CursorList.CursorMoved):
        """A key to show what is `by` cells further right, or left where it is negative."""

        def __init__(self, sheet: Sheet, by: int) -> None:
            super().__init__(sheet)
            self.by = by

    def __init__(self, *, steady: bool = False, id: str | None = None) -> None:
        """`steady` keeps the cursor a third down the screen, for reading; else it moves to the edge, for choosing."""
        super().__init__(id=id)
        self._count = 0
        self._draw: DrawRow = lambda _row, _width: Content("")
        self._steady = steady
        self._cursor = 0
        self._strips: LRUCache[tuple[int, bool, int], Strip] = LRUCache(500)

    def draws_with(self, draw: DrawRow) -> bool:
        """Whether the rows are those of this function."""
        return self._draw == draw

    @property
    def row_count(self) -> int:
        return self._count

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def cursor_index(self) -> int | None:
        return self._cursor if self._count else None

    def show(self, count: int, draw: DrawRow, *, cursor: int | None = None) -> None:
        """Draw these rows from now on. `cursor` is the row the cursor's row became: it keeps its place on the screen."""
        height, top = self.size.height, self.scroll_offset.y
        before = [self._painted_line(y) for y in range(height)]
        shift = 0 if cursor is None else cursor - self._cursor
        resized, self._count, self._draw = count != self._count, count, draw
        self._cursor = max(0, min(count - 1, self._cursor + shift))
        self._strips.clear()
        if resized:
            self.fit_virtual_size()
        self.scroll_to_line(top + shift)
        for y in range(height):
            if before[y] != self.render_line(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def _painted_line(self, y: int) -> Strip | None:
        """A line as it was drawn; None if it is not kept: the old rows may be gone, so they cannot be drawn again."""
        index = self.index_at(y)
        if index is None:
            return self.render_line(y)
        return self._strips.get((index, index == self.cursor_index, self.size.width))

    def show_at_top(self, row: int) -> None:
        """Put the cursor on a row and scroll it to the top, for a new beginning such as the next file."""
        if self._count:
            row = max(0, min(row, self._count - 1))
            self.scroll_to_line(row)
            self._set_cursor(row, reveal=False)

    def select(self, row: int) -> None:
        """Put the cursor on a row and reveal it, without a message."""
        if self._count and row != self._cursor:
            with self.prevent(self.CursorMoved):
                self._set_cursor(max(0, min(row, self._count - 1)))

    def move_cursor(self, index: int) -> None:
        self._set_cursor(index)

    def action_aside(self, by: int) -> None:
        self.post_message(self.SidewaysRequested(self, by * _SIDE_STEP))

    def on_click(self, event: events.Click) -> None:
        row = self.index_at(event.y)
        if row is not None:
            if row == self._cursor:
                self.post_message(self.RowChosen(self))
            self._set_cursor(row)

    def on_resize(self, _event: events.Resize) -> None:
        self.fit_virtual_size()
        self._strips.clear()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Keep the cursor on the screen while the wheel or the scroll bar scrolls."""
        super().watch_scroll_y(old_value, new_value)
        top = round(new_value)
        if self.size.height and not top <= self._cursor < top + self.size.height:
            self._set_cursor(max(top, min(self._cursor, top + self.size.height - 1)), reveal=False)

    def reveal(self, index: int) -> None:
        if self._steady:
            self.scroll_to_line(index - self.size.height // 3)
        else:
            super().reveal(index)

    def forget_drawn(self) -> None:
        super().forget_drawn()
        self._strips.clear()

    def draw_line(self, index: int, line: int, *, on_cursor: bool) -> Strip:
        width = self.size.width
        key = (index, on_cursor, width)
        strip = self._strips.get(key)
        if strip is None:
            content = self._draw(index, width)
            segments = self.to_segments(content, width, on_cursor=on_cursor)
            strip = Strip(segments, min(content.cell_length, width))
            strip = strip.adjust_cell_length(width, self.base_style(on_cursor=on_cursor).rich_style)
            self._strips[key] = strip
        return strip

    def _set_cursor(self, row: int, *, reveal: bool = True) -> None:
        if not self._count or row == self._cursor:
            return
        before, self._cursor = self._cursor, row
        for moved in (before, row):
            self.refresh_row(moved)
        if reveal:
            self.reveal(row)
        self.post_message(self.CursorMoved(self))
