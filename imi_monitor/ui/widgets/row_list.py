"""A list of lines that costs nothing: rows are drawn on demand, only changed rows are painted again, and the cursor stays on
its row's key, wherever that row moves.

DataTable paints everything when one cell changes (33 ms, 32 kB); this paints the cells that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import is_

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style

MakeLines = Callable[[], tuple[Content, ...]]


class ListRow:
    """One entry; its lines are drawn one below the other. They may be a function that makes them: rows that nobody sees are
    never made."""

    __slots__ = ("_lines", "_make", "end", "heading", "key")

    def __init__(
        self, key: str, lines: tuple[Content, ...] | MakeLines, *, heading: bool = False, end: Content | None = None
    ) -> None:
        self.key = key
        self.heading = heading  # stands above others; the cursor goes there only when it is led
        self.end = end  # behind the first line: what is new so often that it is drawn without the rest of it
        self._make = lines if callable(lines) else None
        self._lines = None if callable(lines) else lines

    @property
    def lines(self) -> tuple[Content, ...]:
        if self._lines is None:
            assert self._make is not None
            self._lines = self._make()
        return self._lines

    def looks_like(self, other: ListRow) -> bool:
        """Colours included: `Content == Content` would look at the text alone."""
        mine, theirs = (*self.lines, self.end), (*other.lines, other.end)
        return len(mine) == len(theirs) and all(map(_same, mine, theirs))


class RowList(ScrollView, can_focus=True):
    """Rows of equal height with a cursor."""

    BINDINGS = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("home", "jump(0)", "First", show=False),
        Binding("end,G", "jump(-1)", "Last", show=False),
    ]
    COMPONENT_CLASSES = {"row-list--cursor"}
    DEFAULT_CSS = """
    RowList { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    RowList > .row-list--cursor { background: $block-cursor-blurred-background; }
    RowList:focus > .row-list--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    """

    class Moved(Message):
        """The cursor is on another row; `key` None when there is none."""

        def __init__(self, lines: RowList, key: str | None) -> None:
            super().__init__()
            self.lines = lines
            self.key = key

        @property
        def control(self) -> RowList:
            return self.lines

    class Chosen(Moved):
        """Enter, or a double click."""

    class Menu(Moved):
        """The right button on a row, which has the cursor now."""

    def __init__(self, *, height: int = 1, follow_end: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[ListRow, ...] = ()
        self._places: dict[str, int] = {}
        self._cursor: str | None = None
        self._height = height
        self._follow_end = follow_end
        self._stuck = True  # its end is what is seen, and stays so when there is less room
        self._steered = False  # until somebody moves it, the cursor stays on the first row, whichever that is
        self._strips: LRUCache[tuple[ListRow, int, bool, int], Strip] = LRUCache(600)
        self._inks: dict[Style, dict[Style | str, RichStyle]] = {}
        self._starts: LRUCache[tuple[int, bool], tuple[Content, list[Segment]]] = LRUCache(600)

    @property
    def cursor(self) -> str | None:
        return self._cursor

    @property
    def rows(self) -> tuple[ListRow, ...]:
        return self._rows

    @property
    def room(self) -> int:
        """Cells a row may take: the scroll bar's place is kept free, so that nothing moves when it comes."""
        return self._room(self.size.width)

    def _room(self, width: int) -> int:
        return max(1, width - self.styles.scrollbar_size_vertical)

    def show(self, rows: Sequence[ListRow], height: int | None = None) -> None:
        """Draw these rows from now on; what looks the same is not painted again."""
        rows = tuple(rows)
        taller = height is not None and height != self._height
        if len(rows) == len(self._rows) and not taller and all(map(is_, rows, self._rows)):
            return
        before, at_end, anchor = self._rows, self._at_end(), self._anchor()
        old_place = self._places.get(self._cursor or "", 0)
        self._rows, self._height = rows, height or self._height
        if not taller and [row.key for row in before] == [row.key for row in rows]:
            self._repaint(before)
            return
        self._places = {row.key: index for index, row in enumerate(rows)}
        if not self._steered and not self._follow_end and rows:
            self._set_cursor(next((row.key for row in rows if not row.heading), rows[0].key), scroll=False)
        elif self._cursor not in self._places:
            self._set_cursor(rows[min(old_place, len(rows) - 1)].key if rows else None, scroll=False)
        self._reflow(anchor, to_end=self._follow_end and at_end)
        if taller and self._steered:
            self._show_cursor()

    def _repaint(self, before: Sequence[ListRow]) -> None:
        """The same rows at the same places: paint the cells that look different."""
        rows, top, (width, height) = list(self._rows), self.scroll_offset.y, self.size
        first = top // self._height
        changed: list[tuple[int, int, int]] = []  # y, from which cell on, up to which one
        for index in range(first, min(len(rows), first + height // self._height + 2)):
            old, new = before[index], rows[index]
            if old is new:
                continue
            if new.looks_like(old):
                rows[index] = old  # its strips are kept
                continue
            on_cursor, y = new.key == self._cursor, index * self._height - top
            for part in range(self._height):
                if 0 <= y + part < height:
                    was, becomes = self._strip(old, part, on_cursor, width), self._strip(new, part, on_cursor, width)
                    changed.append((y + part, *differing_cells(was, becomes)))
        self._rows = tuple(rows)
        self.refresh(*_regions(changed)) if changed else None

    def _anchor(self) -> tuple[str, int] | None:
        """A row that must not move on the screen, and where it is: the cursor's if it can be seen, else the topmost."""
        top, seen = self.scroll_offset.y // self._height, max(1, self.size.height // self._height)
        place = self._places.get(self._cursor or "", -1)
        if not top <= place < top + seen:
            place = top
        return (self._rows[place].key, place - top) if place < len(self._rows) else None

    def _reflow(self, anchor: tuple[str, int] | None, *, to_end: bool) -> None:
        """Rows came, went or changed places: what the eye rests on stays where it is."""
        self.virtual_size = Size(self.size.width, len(self._rows) * self._height)
        self.refresh()
        if to_end:
            self._to_end()
        elif not self._steered:
            self.scroll_to(y=0, animate=False, force=True)
        elif anchor is not None and anchor[0] in self._places:
            self.scroll_to(y=(self._places[anchor[0]] - anchor[1]) * self._height, animate=False, force=True)

    def _to_end(self) -> None:
        """Not `scroll_end`, which scrolls a frame later than what is to be seen there."""
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        if self.max_scroll_y:  # a scroll bar that is only just coming would not hear of it
            self.vertical_scrollbar.position = self.max_scroll_y

    def select(self, key: str) -> None:
        """Put the cursor on a row, if it is there."""
        if key in self._places:
            self._steered = True
            self._set_cursor(key)

    def action_move(self, by: int) -> None:
        self._go(self._places.get(self._cursor or "", -1 if by > 0 else 0) + by)

    def action_page(self, by: int) -> None:
        self._go(self._places.get(self._cursor or "", 0) + by * max(1, self.size.height // self._height - 1))

    def action_jump(self, to: int) -> None:
        self._go(to if to >= 0 else len(self._rows) - 1)

    def _go(self, place: int) -> None:
        if self._rows:
            self._steered = True
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
            self.refresh(Region(0, top, self._painted, self._height))

    @property
    def _painted(self) -> int:
        """Cells of a line that are its own: the scroll bar paints itself."""
        return max(1, self.size.width - self.scrollbar_size_vertical)

    def on_resize(self, _event: events.Resize) -> None:
        self.virtual_size = Size(self.size.width, len(self._rows) * self._height)
        self._strips.clear()
        if self._follow_end and self._stuck:
            self._to_end()
        self.call_after_refresh(self._show_cursor)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._stuck = self._at_end()

    def _show_cursor(self) -> None:
        place = self._places.get(self._cursor or "")
        if place is not None and not (self._follow_end and not self.has_focus):
            region = Region(0, place * self._height, 1, self._height)
            self.scroll_to_region(region, animate=False, force=True)

    def on_click(self, event: events.Click) -> None:
        index = (event.y + self.scroll_offset.y) // self._height
        if not 0 <= index < len(self._rows):
            return
        key = self._rows[index].key
        self._steered = True
        self._set_cursor(key)
        if event.button == 3:
            self.post_message(self.Menu(self, key))
        elif event.chain == 2:
            self.post_message(self.Chosen(self, key))

    def key_enter(self) -> None:
        if self._cursor is not None:
            self.post_message(self.Chosen(self, self._cursor))

    def notify_style_update(self) -> None:
        self._forget_strips()
        super().notify_style_update()

    def on_focus(self) -> None:
        self._repaint_cursor()

    def on_blur(self) -> None:
        self._repaint_cursor()

    def _forget_strips(self) -> None:
        self._inks.clear()
        self._strips.clear()
        self._starts.clear()

    def _repaint_cursor(self) -> None:
        self._forget_strips()
        if self._cursor in self._places:
            self._refresh_row(self._places[self._cursor])

    def render_line(self, y: int) -> Strip:
        index, part = divmod(y + self.scroll_offset.y, self._height)
        width = self.size.width
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[index]
        return self._strip(row, part, row.key == self._cursor, width)

    def _strip(self, row: ListRow, part: int, on_cursor: bool, width: int) -> Strip:
        key = (row, part, on_cursor, width)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._drawn(row, part, on_cursor, width)
        return strip

    def _drawn(self, row: ListRow, part: int, on_cursor: bool, width: int) -> Strip:
        base = self.get_visual_style("row-list--cursor") if on_cursor else self.visual_style
        content = row.lines[part] if part < len(row.lines) else Content("")
        room = self._room(width)
        if row.end is None or part:
            segments, cells = self._segments(content, room, on_cursor, base), min(content.cell_length, room)
        elif (cells := content.cell_length + row.end.cell_length) <= room:
            segments = [*self._start(content, on_cursor, base), *self._segments(row.end, room, on_cursor, base)]
        else:
            segments, cells = self._segments(content.append(row.end), room, on_cursor, base), room
        return Strip(segments, cells).adjust_cell_length(width, base.rich_style)

    def _start(self, content: Content, on_cursor: bool, base: Style) -> list[Segment]:
        """What stands in front of an end is kept as long as it is the very same."""
        key = (id(content), on_cursor)
        kept = self._starts.get(key)
        if kept is None or kept[0] is not content:
            kept = self._starts[key] = content, self._segments(content, content.cell_length, on_cursor, base)
        return kept[1]

    def _segments(self, content: Content, room: int, on_cursor: bool, base: Style) -> list[Segment]:
        if on_cursor and self.has_focus and self.app.native_ansi_color:
            content = Content(content.plain)  # of sixteen colours too few can be read on the cursor's
        shown = content.truncate(room, ellipsis=True)
        # one line that fits: without Textual's way to wrap, align and mark it, which takes three times as long
        return self._side_by_side(shown, base) or [
            Segment(text, (base + style).rich_style) for text, style in shown.render(base, "", self._get_style)
        ]

    def _side_by_side(self, content: Content, base: Style) -> list[Segment]:
        """Most lines are pieces of one style each: drawn without sorting them. Nothing, when some lie over others."""
        inks = self._inks.setdefault(base, {})
        text, at, segments = content.plain, 0, []
        for start, end, style in content.spans:
            if start < at or end == start:
                return []
            if start > at:
                segments.append(Segment(text[at:start], base.rich_style))
            ink = inks.get(style)
            if ink is None:
                ink = inks[style] = (base + self._get_style(style)).rich_style
            segments.append(Segment(text[start:end], ink))
            at = end
        if at < len(text):
            segments.append(Segment(text[at:], base.rich_style))
        return segments


def differing_cells(one: Strip, other: Strip) -> tuple[int, int]:
    """From which cell on and up to which one two lines of the same width differ; the same number twice if they do not."""
    first, second = one._segments, other._segments
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
    """The same cells of lines below each other are one rectangle; lines that look the same are none."""
    for (_, left, right), lines in groupby(enumerate(changed), lambda one: (one[1][0] - one[0], *one[1][1:])):
        rows = [y for _, (y, _, _) in lines]
        if left < right:
            yield Region(left, rows[0], right - left, len(rows))


def _same(one: Content | None, other: Content | None) -> bool:
    return one is other or (one is not None and other is not None and one.is_same(other))
