"""A list of lines that costs nothing: rows are drawn on demand, only changed rows are painted again, and the cursor stays on
its row's key, wherever that row moves.

DataTable paints everything when one cell changes (33 ms, 32 kB); this paints the cells that changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual


@dataclass(frozen=True, slots=True)
class Row:
    """One entry; `lines` are drawn one below the other. Two equal rows look the same."""

    key: str
    lines: tuple[Content, ...]


class Lines(ScrollView, can_focus=True):
    """Rows of equal height with a cursor."""

    BINDINGS = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("home", "jump(0)", "First", show=False),
        Binding("end,G", "jump(-1)", "Last", show=False),
    ]
    COMPONENT_CLASSES = {"lines--cursor", "lines--row"}
    DEFAULT_CSS = """
    Lines { height: 1fr; scrollbar-size-vertical: 1; }
    Lines > .lines--cursor { background: $block-cursor-blurred-background; }
    Lines:focus > .lines--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    """

    class Moved(Message):
        """The cursor is on another row; `key` None when there is none."""

        def __init__(self, lines: Lines, key: str | None) -> None:
            super().__init__()
            self.lines = lines
            self.key = key

        @property
        def control(self) -> Lines:
            return self.lines

    class Chosen(Moved):
        """Enter, or a click on the row with the cursor."""

    def __init__(self, *, height: int = 1, follow_end: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[Row, ...] = ()
        self._places: dict[str, int] = {}
        self._cursor: str | None = None
        self._height = height
        self._follow_end = follow_end
        self._strips: LRUCache[tuple[int, int, bool, int], Strip] = LRUCache(1000)

    @property
    def cursor(self) -> str | None:
        return self._cursor

    @property
    def rows(self) -> tuple[Row, ...]:
        return self._rows

    def show(self, rows: Sequence[Row], height: int | None = None) -> None:
        """Draw these rows from now on; what looks the same is not painted again."""
        rows = tuple(rows)
        if height is not None and height != self._height:
            self._height, self._rows = height, ()
        if rows == self._rows:
            return
        before, at_end = self._rows, self._at_end()
        old_place = self._places.get(self._cursor or "", 0)
        self._rows = rows
        self._places = {row.key: index for index, row in enumerate(rows)}
        self._strips.clear()
        if self._cursor not in self._places:
            self._set_cursor(rows[min(old_place, len(rows) - 1)].key if rows else None, scroll=False)
        if len(before) != len(rows):
            self.virtual_size = Size(self.size.width, len(rows) * self._height)
            self.refresh()
            if self._follow_end and at_end:
                self.scroll_end(animate=False)
            return
        for index, (old, new) in enumerate(zip(before, rows, strict=True)):
            if old != new:
                self._refresh_row(index)

    def select(self, key: str) -> None:
        """Put the cursor on a row, if it is there."""
        if key in self._places:
            self._set_cursor(key)

    def action_move(self, by: int) -> None:
        self._go(self._places.get(self._cursor or "", -1 if by > 0 else 0) + by)

    def action_page(self, by: int) -> None:
        self._go(self._places.get(self._cursor or "", 0) + by * max(1, self.size.height // self._height - 1))

    def action_jump(self, to: int) -> None:
        self._go(to if to >= 0 else len(self._rows) - 1)

    def _go(self, place: int) -> None:
        if self._rows:
            self._set_cursor(self._rows[max(0, min(place, len(self._rows) - 1))].key)

    def _set_cursor(self, key: str | None, *, scroll: bool = True) -> None:
        if key == self._cursor:
            return
        before, self._cursor = self._cursor, key
        for moved in (before, key):
            if moved in self._places:
                self._refresh_row(self._places[moved])
        if scroll and key is not None:
            place = self._places[key] * self._height
            self.scroll_to_region(Region(0, place, 1, self._height), animate=False, force=True)
        self.post_message(self.Moved(self, key))

    def _at_end(self) -> bool:
        return self.scroll_offset.y >= self.max_scroll_y - 1

    def _refresh_row(self, index: int) -> None:
        top = index * self._height - self.scroll_offset.y
        if -self._height < top < self.size.height:
            self.refresh(Region(0, top, self.size.width, self._height))

    def on_resize(self, _event: events.Resize) -> None:
        self.virtual_size = Size(self.size.width, len(self._rows) * self._height)
        self._strips.clear()

    def on_click(self, event: events.Click) -> None:
        index = (event.y + self.scroll_offset.y) // self._height
        if 0 <= index < len(self._rows):
            key = self._rows[index].key
            if key == self._cursor:
                self.post_message(self.Chosen(self, key))
            self._set_cursor(key)

    def key_enter(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Chosen(self, self._cursor))

    def notify_style_update(self) -> None:
        self._strips.clear()
        super().notify_style_update()

    def on_focus(self) -> None:
        self._repaint_cursor()

    def on_blur(self) -> None:
        self._repaint_cursor()

    def _repaint_cursor(self) -> None:
        self._strips.clear()
        if self._cursor in self._places:
            self._refresh_row(self._places[self._cursor])

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        index, part = divmod(line, self._height)
        width = self.size.width
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[index]
        on_cursor = row.key == self._cursor
        key = (index, part, on_cursor, width)
        strip = self._strips.get(key)
        if strip is None:
            content = row.lines[part] if part < len(row.lines) else Content("")
            strip = self._draw(content, on_cursor, width)
            self._strips[key] = strip
        return strip

    def _draw(self, content: Content, on_cursor: bool, width: int) -> Strip:
        base = self.get_visual_style("lines--cursor") if on_cursor else self.visual_style
        strips = Visual.to_strips(self, content.truncate(width, ellipsis=True), width, 1, base)
        return strips[0].adjust_cell_length(width, base.rich_style) if strips else Strip.blank(width, base.rich_style)
