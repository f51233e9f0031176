"""A list of rows that keeps its cursor on a row's key, wherever that row moves, and paints only the cells that changed.

DataTable paints everything when one cell changes (33 ms, 32 kB).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import is_

from textual import events
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip

from imi_monitor.ui import key_hints
from imi_monitor.ui.widgets.cursor_list import CursorList

MakeLines = Callable[[], tuple[Content, ...]]
_SCREENS_KEPT = (
    2  # of painted lines; each line takes 2 KB with Textual's caches, and lines that scrolled away stay in memory
)


class ListRow:
    """One row: its key and its lines, or a function that makes them when the row is first drawn."""

    __slots__ = ("_lines", "_make", "heading", "key", "wraps")

    def __init__(
        self, key: str, lines: tuple[Content, ...] | MakeLines, *, heading: bool = False, wraps: bool = False
    ) -> None:
        self.key = key
        self.wraps = wraps
        self.heading = heading  # stands above other rows; the cursor does not start on it
        self._make: MakeLines | None = (
            lines if callable(lines) else None
        )  # until the lines are made: it holds what they show
        self._lines = None if callable(lines) else lines

    @property
    def lines(self) -> tuple[Content, ...]:
        if self._lines is None:
            assert self._make is not None
            self._lines, self._make = self._make(), None
        return self._lines

    def looks_like(self, other: ListRow) -> bool:
        """Whether text and styles are equal; `Content.__eq__` compares the text alone."""
        return len(self.lines) == len(other.lines) and all(map(Content.is_same, self.lines, other.lines))


def message_row(text: Content | str) -> ListRow:
    """A row that says why a list is empty; it is wrapped when it is the only one."""
    line = Content.styled(key_hints.in_keys(text), "$foreground 60%") if isinstance(text, str) else text
    return ListRow("", (line,), wraps=True)


class RowList(CursorList):
    """Rows with keys. `follow_end` keeps the last row on the screen while rows are added, unless it was scrolled away."""

    class MenuRequested(CursorList.CursorMoved):
        """A right click on a row, which has the cursor now."""

    def __init__(self, *, height: int = 1, follow_end: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.row_height = height
        self._rows: tuple[ListRow, ...] = ()
        self._places: dict[str, int] = {}
        self._cursor: str | None = None
        self._follow_end = follow_end
        self._was_at_end = True
        self._moved_by_user = False  # until then the cursor stays on the first row, whichever that is
        self._strips: LRUCache[tuple[ListRow, int, bool, int], Strip] = LRUCache(1)

    @property
    def cursor(self) -> str | None:
        """The key of the cursor's row."""
        return self._cursor

    @property
    def cursor_index(self) -> int | None:
        return self._places.get(self._cursor) if self._cursor is not None else None

    @property
    def rows(self) -> tuple[ListRow, ...]:
        return self._rows

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def room(self) -> int:
        """Cells a row may take: the scroll bar's place is kept free, so that nothing moves when it appears."""
        return self._room_in(self.size.width)

    def _room_in(self, width: int) -> int:
        return max(1, width - self.styles.scrollbar_size_vertical)

    # -- rows -------------------------------------------------------------------------------------------------------

    def show(self, rows: Sequence[ListRow], height: int | None = None) -> None:
        """Draw these rows from now on; a row that looks the same as before is not painted again."""
        rows = self._wrapped(rows, height or self.row_height)
        resized = height is not None and height != self.row_height
        if len(rows) == len(self._rows) and not resized and all(map(is_, rows, self._rows)):
            return
        before, at_end, anchor = self._rows, self._is_at_end(), self._anchor()
        old_index = self.cursor_index or 0
        self._rows, self.row_height = rows, height or self.row_height
        if not resized and [row.key for row in before] == [row.key for row in rows]:
            self._repaint_changed(before)
            return
        self._places = {row.key: index for index, row in enumerate(rows)}
        if not self._moved_by_user and not self._follow_end and rows:
            self._set_cursor(next((row.key for row in rows if not row.heading), rows[0].key), scroll=False)
        elif self._cursor not in self._places:
            self._set_cursor(rows[min(old_index, len(rows) - 1)].key if rows else None, scroll=False)
        self._reflow(anchor, to_end=self._follow_end and at_end)
        if resized and self._moved_by_user:
            self._show_cursor()

    def _wrapped(self, rows: Sequence[ListRow], height: int) -> tuple[ListRow, ...]:
        """The rows; a message alone in as many rows as it needs."""
        if len(rows) != 1 or not rows[0].wraps or not self.size.width:
            return tuple(rows)
        lines = rows[0].lines[0].wrap(self.room)
        parts = [tuple(lines[at : at + height]) for at in range(0, len(lines), height)]
        return tuple(ListRow(rows[0].key, part) for part in parts)

    def _repaint_changed(self, before: Sequence[ListRow]) -> None:
        """Paint the cells that look different; the keys and their order are the same as before."""
        rows, top, (width, height) = list(self._rows), self.scroll_offset.y, self.size
        first = top // self.row_height
        changed: list[tuple[int, int, int]] = []  # y, first cell, end
        for index in range(first, min(len(rows), first + height // self.row_height + 2)):
            old, new = before[index], rows[index]
            if old is new:
                continue
            if new.looks_like(old):
                rows[index] = old  # its strips are cached
                continue
            on_cursor, y = new.key == self._cursor, index * self.row_height - top
            for line in range(self.row_height):
                if 0 <= y + line < height:
                    was, becomes = self._strip(old, line, on_cursor, width), self._strip(new, line, on_cursor, width)
                    changed.append((y + line, *differing_cells(was, becomes)))
        self._rows = tuple(rows)
        if changed:
            self.refresh(*_regions(changed))

    def _anchor(self) -> tuple[str, int] | None:
        """The row that keeps its place on the screen and that place: the cursor's row if it is visible, else the topmost."""
        top, visible = self.scroll_offset.y // self.row_height, max(1, self.visible_rows)
        index = -1 if self.cursor_index is None else self.cursor_index
        if not top <= index < top + visible:
            index = top
        return (self._rows[index].key, index - top) if index < len(self._rows) else None

    def _reflow(self, anchor: tuple[str, int] | None, *, to_end: bool) -> None:
        """Lay out rows that were added, removed or reordered, and keep the anchor in its place."""
        self.fit_virtual_size()
        self.refresh()
        if to_end:
            self._scroll_to_end()
        elif not self._moved_by_user:
            self.scroll_to(y=0, animate=False, force=True)
        elif anchor is not None and anchor[0] in self._places:
            self.scroll_to(y=(self._places[anchor[0]] - anchor[1]) * self.row_height, animate=False, force=True)

    def _scroll_to_end(self) -> None:
        """`scroll_end` would scroll one frame later than the rows are drawn."""
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        if self.max_scroll_y:  # a scroll bar that is about to appear does not receive the change
            self.vertical_scrollbar.position = self.max_scroll_y

    # -- the cursor -------------------------------------------------------------------------------------------------

    def select(self, key: str) -> None:
        """Put the cursor on the row with this key, if there is one."""
        if key in self._places:
            self._moved_by_user = True
            self._set_cursor(key)

    def move_cursor(self, index: int) -> None:
        self.select(self._rows[index].key)

    def key_enter(self) -> None:
        if self._cursor:  # the row of a message has no key
            self.post_message(self.RowChosen(self, self._cursor))

    def _set_cursor(self, key: str | None, *, scroll: bool = True) -> None:
        if key == self._cursor:
            return
        before, self._cursor = self._cursor, key
        for moved in (before, key):
            if moved in self._places:
                self.refresh_row(self._places[moved])
        if scroll and key is not None:
            self.reveal(self._places[key])
        self.post_message(self.CursorMoved(self, key))

    def _is_at_end(self) -> bool:
        return self.scroll_offset.y >= self.max_scroll_y - 1

    def _show_cursor(self) -> None:
        index = self.cursor_index
        if index is not None and not (self._follow_end and not self.has_focus):
            self.reveal(index)

    def on_resize(self, _event: events.Resize) -> None:
        self.fit_virtual_size()
        self._strips.clear()
        self._strips.maxsize = _SCREENS_KEPT * max(1, self.size.height)
        if self._follow_end and self._was_at_end:
            self._scroll_to_end()
        self.call_after_refresh(self._show_cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._was_at_end = self._is_at_end()

    def on_click(self, event: events.Click) -> None:
        index = self.index_at(event.y)
        if index is None:
            return
        key = self._rows[index].key
        self.select(key)
        if event.button == 3:
            self.post_message(self.MenuRequested(self, key))
        elif event.chain == 2 and key:
            self.post_message(self.RowChosen(self, key))

    # -- drawing ----------------------------------------------------------------------------------------------------

    def forget_drawn(self) -> None:
        super().forget_drawn()
        self._strips.clear()

    def draw_line(self, index: int, line: int, *, on_cursor: bool) -> Strip:
        return self._strip(self._rows[index], line, on_cursor, self.size.width)

    def _strip(self, row: ListRow, line: int, on_cursor: bool, width: int) -> Strip:
        on_cursor = on_cursor and bool(row.key)  # a message is not chosen
        key = (row, line, on_cursor, width)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._draw(row, line, on_cursor, width)
        return strip

    def _draw(self, row: ListRow, line: int, on_cursor: bool, width: int) -> Strip:
        content = row.lines[line] if line < len(row.lines) else Content("")
        room = self._room_in(width)
        segments = self.to_segments(content, room, on_cursor=on_cursor)
        strip = Strip(segments, min(content.cell_length, room))
        return strip.adjust_cell_length(width, self.base_style(on_cursor=on_cursor).rich_style)


def differing_cells(one: Strip, other: Strip) -> tuple[int, int]:
    """The range of cells in which two lines of one width differ; it is empty when they are equal."""
    first, second = list(one), list(other)
    left = start = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine != theirs:
            break
        left += mine.cell_length
        start += 1
    right = one.cell_length
    for mine, theirs in zip(reversed(first[start:]), reversed(second[start:]), strict=False):
        if mine != theirs:
            break
        right -= mine.cell_length
    return left, max(left, right)


def _regions(changed: Iterable[tuple[int, int, int]]) -> Iterator[Region]:
    """Rectangles that cover the changed cells; equal ranges of consecutive lines become one."""
    for (_, left, right), lines in groupby(enumerate(changed), lambda one: (one[1][0] - one[0], *one[1][1:])):
        rows = [y for _, (y, _, _) in lines]
        if left < right:
            yield Region(left, rows[0], right - left, len(rows))
