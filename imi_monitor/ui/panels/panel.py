"""What all panels share: a numbered frame around lines, and the habit of drawing only what is new."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime, timedelta

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.style import Style

from imi_monitor.model import times
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.ui.snapshot_facts import parse_time
from imi_monitor.ui.widgets.row_list import ListRow, RowList

FOREVER = datetime.max.replace(tzinfo=UTC)
LIST, DETAIL = (
    "list",
    "detail",
)  # the slots of a panel: the list is always shown, details share one place at middle width


class Panel(Container):
    """One panel. Subclasses say what it is called and which rows a snapshot gives."""

    class OtherRoom(Message):
        """It was drawn for another size than it has now."""

    number = 0  # its key, and its place among the tabs
    slot = DETAIL
    grid_place = 0  # its rank in the wide layout, whose grid is filled row by row
    grid_place_few: int | None = None  # its rank while few worktrees leave room below the list; None: the same
    name_shown = ""
    empty = "nothing here"  # why there is nothing, when there is nothing
    source = ""  # who has to have looked before that is known
    follows_end = False

    def __init__(self) -> None:
        super().__init__(id=f"panel-{self.number}", classes=f"panel -{self.slot}")
        self.lines = RowList(follow_end=self.follows_end)
        self.tabs: tuple[tuple[int, str], ...] = ()  # the panels that share its place now
        self._made: dict[str, tuple[Hashable, ListRow]] = {}
        self._before: dict[str, tuple[Hashable, ListRow]] = {}
        self._drawn_of: tuple[object, ...] | None = None
        self._since = self.until = FOREVER  # between these moments what was drawn reads the same
        self._titled: tuple[object, ...] = ()

    @classmethod
    def rank_in_grid(cls, *, few: bool) -> int:
        """The panel's rank in the wide grid; `few` while the list of worktrees needs little height."""
        return cls.grid_place if cls.grid_place_few is None or not few else cls.grid_place_few

    def compose(self) -> ComposeResult:
        yield self.lines

    @property
    def room(self) -> int:
        """Cells a line may take."""
        return max(10, self.lines.room)

    def show(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> None:
        """Draw the snapshot, if this panel can be seen at all."""
        if not self.display or not self.lines.size.width:
            return
        of = (self.is_known(snapshot), self.room, *self.drawn_of(snapshot, selected))
        if of != self._drawn_of or not self._since <= now < self.until:
            self._drawn_of, self._since, self.until = of, now, FOREVER
            self._before, self._made = self._made, {}
            rows = self.rows(snapshot, selected, now)
            self.lines.show(rows or (self._empty_row(snapshot),), self.height_of_row())
        self._draw_title()

    def drawn_of(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        """What the rows are made from: as long as that is the same, and no age in them goes on, they are not made anew."""
        return (Identity(snapshot), selected)

    def age(self, at: str | None, now: datetime) -> str:
        """The age of a stored moment; when it goes on, the rows are made anew."""
        then = parse_time(at)
        if then is None:
            return times.age(None)
        seconds = (now - then).total_seconds()
        self.lasts_until(now + timedelta(seconds=times.seconds_until_age_changes(seconds)))
        return times.age(seconds)

    def lasts_until(self, end: datetime) -> None:
        """What is drawn now will look different then."""
        self.until = min(self.until, end)

    def row(self, key: str, signature: Hashable, make: Callable[[], tuple[Content, ...]]) -> ListRow:
        """The row made before if its signature is the same, else a new one: most rows of most snapshots are not new."""
        known = self._before.get(key)
        row = known[1] if known is not None and known[0] == signature else ListRow(key, make)
        self._made[key] = (signature, row)
        return row

    def _empty_row(self, snapshot: Snapshot) -> ListRow:
        text = self.empty_text(snapshot) if self.is_known(snapshot) else "looking…"
        return ListRow("", (Content.styled(text, "$text-muted"),))

    def is_known(self, snapshot: Snapshot) -> bool:
        """Whether nothing is shown because nothing is there."""
        return not self.source or snapshot.has_read(self.source)

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[ListRow]:
        raise NotImplementedError

    def empty_text(self, snapshot: Snapshot) -> str:
        return self.empty

    def height_of_row(self) -> int:
        return 1

    def render_lines(self, crop: Region) -> list[Strip]:
        """What is behind the lines is the same from the frame's top to its bottom, and drawn once."""
        drawn = self._styles_cache._cache
        if not drawn and self.outer_size.height > 3:
            super().render_lines(Region(0, 1, self.outer_size.width, 1))
            drawn.update(dict.fromkeys(range(2, self.outer_size.height - 1), drawn[1]))
        return super().render_lines(crop)

    # -- the title --------------------------------------------------------------------------------------------------

    def subject(self) -> str:
        """What the panel is about just now, behind its name."""
        return ""

    def corner(self) -> Content:
        """What stands at the right end of the title line."""
        return Content("")

    def on_mount(self) -> None:
        self._draw_title()

    def on_resize(self) -> None:
        self._draw_title()
        if self._drawn_of is not None:
            self.post_message(self.OtherRoom())

    def _draw_title(self) -> None:
        corner, subject = self.corner(), "" if self.tabs else self.subject()
        state = (subject, corner.plain, self.tabs, self.size.width, self.has_focus_within)
        if state != self._titled:
            self._titled = state
            self.border_title = self._title(subject, corner)

    def _title(self, subject: str, corner: Content) -> Content:
        """`2 Git · feat-api ───── corner`, or with tabs `2 Git · feat-api │ 3 Agents │ …`."""
        name = Content(f"{self.number} {self.name_shown}{f' · {subject}' if subject else ''}").stylize("bold")
        room = self.size.width - 6  # corners, blanks and one stroke of the frame
        left = self._with_tabs(name, room) if self.tabs else name
        gap = room - left.cell_length - corner.cell_length
        if not corner.plain or gap < 3:
            return left.truncate(max(1, room), ellipsis=True) if room > 0 else left
        frame = "$border" if self.has_focus_within else "$border-blurred"
        return Content("").join([left, Content.styled(f" {'─' * (gap - 2)} ", frame), corner])

    def _with_tabs(self, name: Content, room: int) -> Content:
        """The panels in this place side by side; where it is narrow the others by their number alone."""
        for short in (False, True):
            tabs = [
                name if number == self.number else _tab(number, "" if short else label) for number, label in self.tabs
            ]
            shown = Content.styled(" │ ", "$border-blurred").join(tabs)
            if shown.cell_length <= room:
                break
        return shown

    def on_click(self) -> None:
        """A click on the frame or its title."""
        self.lines.focus()

    def on_descendant_focus(self) -> None:
        self._draw_title()

    def on_descendant_blur(self) -> None:
        self._draw_title()


class Identity:
    """Equal to the very same thing only: comparing two worktrees field by field costs more than drawing one."""

    __slots__ = ("thing",)

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


def _tab(number: int, label: str) -> Content:
    return Content.styled(f"{number} {label}".rstrip(), "$text-muted").stylize(
        Style.from_meta({"@click": f"screen.panel({number})"})
    )
