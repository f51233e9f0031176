"""A long sheet of rows of which only those on the screen are ever made: a diff, a log. The cursor is the reader's line.

Its owner says how many rows there are and draws row N when it is needed; a row that looks the same is not painted again.
"""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

DrawRow = Callable[[int, int], Content]
"""(row, width in cells) -> how it looks."""

_SIDE_STEP = 8


def _nothing(_row: int, _width: int) -> Content:
    return Content("")


class Sheet(ScrollView, can_focus=True):
    """Rows of one line each."""

    BINDINGS = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("space,pagedown,ctrl+d", "page(1)", "Page down", show=False),
        Binding("b,pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("g,home", "jump(0)", "First", show=False),
        Binding("G,end", "jump(-1)", "Last", show=False),
        Binding("h,left", "aside(-1)", "Left", show=False),
        Binding("l,right", "aside(1)", "Right", show=False),
    ]
    COMPONENT_CLASSES = {"sheet--cursor"}
    DEFAULT_CSS = """
    Sheet { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    Sheet > .sheet--cursor { background: $block-cursor-blurred-background; }
    Sheet:focus > .sheet--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    """

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, sheet: Sheet) -> None:
            super().__init__()
            self.sheet = sheet

        @property
        def control(self) -> Sheet:
            return self.sheet

    class Chosen(Moved):
        """Enter, or a click on the row with the cursor."""

    class Sideways(Moved):
        """The reader wants to see what is further left (`by` below 0) or right."""

        def __init__(self, sheet: Sheet, by: int) -> None:
            super().__init__(sheet)
            self.by = by

    def __init__(self, *, steady: bool = False, id: str | None = None) -> None:
        """`steady` keeps the cursor's line a third down the screen, for reading; else it goes to the edge, for choosing."""
        super().__init__(id=id)
        self._count = 0
        self._draw: DrawRow = _nothing
        self._steady = steady
        self._cursor = 0
        self._strips: LRUCache[tuple[int, bool, int], Strip] = LRUCache(500)

    @property
    def count(self) -> int:
        return self._count

    @property
    def cursor(self) -> int:
        return self._cursor

    def show(self, count: int, draw: DrawRow, *, cursor: int | None = None) -> None:
        """Draw these rows from now on. `cursor` is the row the reader's line is now: it stays where it is on the screen."""
        height, top = self.size.height, self.scroll_offset.y
        before = [self.render_line(y) for y in range(height)]
        shift = 0 if cursor is None else cursor - self._cursor
        resized, self._count, self._draw = count != self._count, count, draw
        self._cursor = max(0, min(count - 1, self._cursor + shift))
        self._strips.clear()
        if resized:
            self.virtual_size = Size(self.size.width, count)
        self._scroll(top + shift)
        for y in range(height):
            if before[y] != self.render_line(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def go(self, row: int) -> None:
        """Put the cursor on a row and bring that to the top, for a new beginning such as the next file."""
        if self._count:
            row = max(0, min(row, self._count - 1))
            self._scroll(row)
            self._put(row, reveal=False)

    def select(self, row: int) -> None:
        """Put the cursor on a row and scroll as far as it takes to see it; nobody is told."""
        if self._count and row != self._cursor:
            with self.prevent(self.Moved):
                self._put(max(0, min(row, self._count - 1)))

    def _scroll(self, top: int) -> None:
        self.scroll_to(y=max(0, min(top, self.max_scroll_y)), animate=False, force=True)

    def action_move(self, by: int) -> None:
        self._put(max(0, min(self._cursor + by, self._count - 1)))

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.size.height - 1))

    def action_jump(self, to: int) -> None:
        self._put(0 if to >= 0 else self._count - 1)

    def action_aside(self, by: int) -> None:
        self.post_message(self.Sideways(self, by * _SIDE_STEP))

    def key_enter(self) -> None:
        if self._count:
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        if 0 <= row < self._count:
            if row == self._cursor:
                self.post_message(self.Chosen(self))
            self._put(row)

    def on_resize(self, _event: events.Resize) -> None:
        self.virtual_size = Size(self.size.width, self._count)
        self._strips.clear()

    def on_focus(self) -> None:
        self._repaint_cursor()

    def on_blur(self) -> None:
        self._repaint_cursor()

    def notify_style_update(self) -> None:
        self._strips.clear()
        super().notify_style_update()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        top = round(new_value)
        if self.size.height and not top <= self._cursor < top + self.size.height:
            self._put(max(top, min(self._cursor, top + self.size.height - 1)), reveal=False)

    def render_line(self, y: int) -> Strip:
        row, width = y + self.scroll_offset.y, self.size.width
        if row >= self._count:
            return Strip.blank(width, self.rich_style)
        on_cursor = row == self._cursor
        key = (row, on_cursor, width)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._made(self._draw(row, width), on_cursor, width)
            self._strips[key] = strip
        return strip

    def _put(self, row: int, *, reveal: bool = True) -> None:
        if not self._count or row == self._cursor:
            return
        before, self._cursor = self._cursor, row
        for moved in (before, row):
            self._refresh_row(moved)
        if reveal:
            self.reveal(row)
        self.post_message(self.Moved(self))

    def reveal(self, row: int) -> None:
        """Scroll as far as it takes to see the row."""
        height, top = self.size.height, self.scroll_offset.y
        if self._steady:
            self._scroll(row - height // 3)
        elif not top <= row < top + height:
            self._scroll(row if row < top else row - height + 1)

    def _refresh_row(self, row: int) -> None:
        y = row - self.scroll_offset.y
        if 0 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _repaint_cursor(self) -> None:
        self._strips.clear()
        self._refresh_row(self._cursor)

    def _made(self, content: Content, on_cursor: bool, width: int) -> Strip:
        base = self.get_visual_style("sheet--cursor") if on_cursor else self.visual_style
        strips = Visual.to_strips(self, content.truncate(width, ellipsis=True), width, 1, base)
        return strips[0].adjust_cell_length(width, base.rich_style) if strips else Strip.blank(width, base.rich_style)
