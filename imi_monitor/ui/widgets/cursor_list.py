"""The base of RowList, Sheet and Matrix: a scrolling list of rows with a cursor on one of them.

Rows are drawn when the screen needs them. Subclasses hold the rows: how many there are, which one has the cursor, and how line N
of a row looks.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.binding import Binding
from textual.content import Content, Span
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

from imi_monitor.ui.textual_internals import style_resolver


class CursorList(ScrollView, can_focus=True, inherit_bindings=False):
    """Rows of equal height with a cursor. Keys that it has no use for, such as ← and →, are its view's."""

    BINDINGS = [
        Binding("j,down", "move(1)", "Down", show=False, tooltip="one row down"),
        Binding("k,up", "move(-1)", "Up", show=False, tooltip="one row up"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False, tooltip="one screen down"),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False, tooltip="one screen up"),
        Binding("home", "jump(0)", "First", show=False, tooltip="to the first row"),
        Binding("end,G", "jump(-1)", "Last", show=False, tooltip="to the last row"),
    ]
    COMPONENT_CLASSES = {"list--cursor"}
    DEFAULT_CSS = """
    CursorList { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    CursorList > .list--cursor { background: $block-cursor-blurred-background; }
    CursorList:focus > .list--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    """

    class CursorMoved(Message):
        """The cursor is on another row; `key` names the row, None when there is none or rows have no keys."""

        def __init__(self, widget: CursorList, key: str | None = None) -> None:
            super().__init__()
            self.widget = widget
            self.key = key

        @property
        def control(self) -> CursorList:
            return self.widget

    class RowChosen(CursorMoved):
        """Enter on a row, or a click that chooses it."""

    row_height = 1
    header_height = 0  # lines above the rows, which do not scroll

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._renderer = LineRenderer(style_resolver(self))

    # -- for subclasses ---------------------------------------------------------------------------------------------

    @property
    def row_count(self) -> int:
        raise NotImplementedError

    @property
    def cursor_index(self) -> int | None:
        """The place of the cursor's row; None when no row has it."""
        raise NotImplementedError

    def move_cursor(self, index: int) -> None:
        """Put the cursor on an existing row, scroll to it and post CursorMoved."""
        raise NotImplementedError

    def draw_line(self, index: int, line: int, *, on_cursor: bool) -> Strip:
        """Line `line` of row `index`, as wide as the widget."""
        raise NotImplementedError

    def draw_header(self, line: int) -> Strip:
        return Strip.blank(self.size.width, self.rich_style)

    def forget_drawn(self) -> None:
        """Drop cached lines: a style or the focus changed."""
        self._renderer.forget_styles()

    # -- moving -----------------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        index = self.cursor_index
        self._move_within(by + (index if index is not None else -1 if by > 0 else 0))

    def action_page(self, by: int) -> None:
        self._move_within((self.cursor_index or 0) + by * max(1, self.visible_rows - 1))

    def action_jump(self, to: int) -> None:
        self._move_within(to if to >= 0 else self.row_count - 1)

    def _move_within(self, index: int) -> None:
        if self.row_count:
            self.move_cursor(max(0, min(index, self.row_count - 1)))

    def key_enter(self) -> None:
        if self.row_count:
            self.post_message(self.RowChosen(self))

    # -- scrolling --------------------------------------------------------------------------------------------------

    @property
    def visible_rows(self) -> int:
        """How many rows the widget has room for."""
        return max(0, self.size.height - self.header_height) // self.row_height

    def index_at(self, y: int) -> int | None:
        """The row drawn at this line of the widget."""
        index = (y - self.header_height + self.scroll_offset.y) // self.row_height
        return index if y >= self.header_height and 0 <= index < self.row_count else None

    def fit_virtual_size(self) -> None:
        self.virtual_size = Size(self.size.width, self.header_height + self.row_count * self.row_height)

    def scroll_to_line(self, y: int) -> None:
        self.scroll_to(y=max(0, min(y, self.max_scroll_y)), animate=False, force=True)

    def reveal(self, index: int) -> None:
        """Scroll no further than needed to show the row."""
        top, room = self.scroll_offset.y, self.size.height - self.header_height
        first = index * self.row_height
        if first < top:
            self.scroll_to_line(first)
        elif first + self.row_height > top + room:
            self.scroll_to_line(first + self.row_height - room)

    # -- drawing ----------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        if y < self.header_height:
            return self.draw_header(y)
        index, line = divmod(y - self.header_height + self.scroll_offset.y, self.row_height)
        if index >= self.row_count:
            return Strip.blank(self.size.width, self.rich_style)
        return self.draw_line(index, line, on_cursor=index == self.cursor_index)

    def refresh_row(self, index: int) -> None:
        """Paint a row again, if it is on the screen."""
        top = index * self.row_height - self.scroll_offset.y + self.header_height
        if -self.row_height < top < self.size.height:
            width = max(1, self.size.width - self.scrollbar_size_vertical)  # the scroll bar paints itself
            self.refresh(Region(0, top, width, self.row_height))

    def on_focus(self) -> None:
        self._repaint_cursor()

    def on_blur(self) -> None:
        self._repaint_cursor()

    def _repaint_cursor(self) -> None:
        self.forget_drawn()
        if self.cursor_index is not None:
            self.refresh_row(self.cursor_index)

    def notify_style_update(self) -> None:
        self.forget_drawn()
        super().notify_style_update()

    def base_style(self, *, on_cursor: bool) -> Style:
        return self.get_visual_style("list--cursor") if on_cursor else self.visual_style

    def to_segments(self, content: Content, room: int, *, on_cursor: bool) -> list[Segment]:
        """One line of content, cut to `room` cells."""
        if on_cursor and self.has_focus and self.app.native_ansi_color:
            # few of the sixteen colours are readable on the cursor's background; the spans still separate what changes
            content = Content(content.plain, [Span(span.start, span.end, "") for span in content.spans])
        return self._renderer.segments(content.truncate(room, ellipsis=True), self.base_style(on_cursor=on_cursor))


class LineRenderer:
    """Turns one line of content into segments.

    Content that needs no wrapping or alignment is drawn without Textual's visual protocol, which takes three times as long.
    """

    def __init__(self, get_style: Callable[[Style | str], Style]) -> None:
        self._get_style = get_style
        self._rich_styles: dict[Style, dict[Style | str, RichStyle]] = {}

    def forget_styles(self) -> None:
        self._rich_styles.clear()

    def segments(self, content: Content, base: Style) -> list[Segment]:
        if any(before.end > after.start for before, after in pairwise(content.spans)):
            return [
                Segment(text, (base + style).rich_style) for text, style in content.render(base, "", self._get_style)
            ]
        return self._flat_segments(content, base)

    def _flat_segments(self, content: Content, base: Style) -> list[Segment]:
        """The segments of content whose spans do not overlap."""
        styles = self._rich_styles.setdefault(base, {})
        text, at, segments = content.plain, 0, []
        for start, end, style in content.spans:
            if start > at:
                segments.append(Segment(text[at:start], base.rich_style))
            rich_style = styles.get(style)
            if rich_style is None:
                rich_style = styles[style] = (base + self._get_style(style)).rich_style
            if end > start:
                segments.append(Segment(text[start:end], rich_style))
            at = end
        if at < len(text):
            segments.append(Segment(text[at:], base.rich_style))
        return segments
