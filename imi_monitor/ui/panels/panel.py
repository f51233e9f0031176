"""The base of panels: a numbered frame around a list of rows, which is drawn again only when its inputs changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime, timedelta

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.style import Style

from imi_monitor.model import times
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.ui import key_hints
from imi_monitor.ui.snapshot_facts import parse_time
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

FOREVER = datetime.max.replace(tzinfo=UTC)
FRAME, FRAME_WIDTH = 2, 4  # lines of a panel's frame; columns of frame, padding and scroll bar
LIST = "list"  # slot of the panel that is always shown
DETAIL = "detail"  # slot of the panels that share one place at middle width


class Panel(Container):
    """Subclasses declare the panel and make its rows from a snapshot."""

    class PanelResized(Message):
        """The rows were drawn for another size."""

    number = 0  # its key, and its place among the tabs
    slot = DETAIL
    column: int | None = 0  # its column, the last one where there are fewer; None: where most lines are free
    presets: tuple[str, ...] = ()  # the layouts beside "all_panels" that show it
    label = ""
    empty_message = "nothing here"
    source = ""  # the source whose reading fills the panel; until then the panel says that it waits
    follows_end = False

    def __init__(self) -> None:
        super().__init__(id=f"panel-{self.number}", classes=f"panel -{self.slot}")
        self.lines = RowList(follow_end=self.follows_end)
        self.tabs: tuple[tuple[int, str], ...] = ()  # number and label of the panels that share its place now
        self._rows_made: dict[str, tuple[Hashable, ListRow]] = {}
        self._rows_before: dict[str, tuple[Hashable, ListRow]] = {}
        self._inputs: tuple[object, ...] | None = None
        self._since = self.until = FOREVER  # between these times the rows stay the same, ages included
        self._title_state: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield self.lines

    @property
    def room(self) -> int:
        """Cells a line may take."""
        return max(10, self.lines.room)

    def lines_needed(self, snapshot: Snapshot, width: int) -> int:
        """The lines that show all of the snapshot in so many columns, frame included.

        They do not depend on the selection: else panels would change their size as the cursor moves.
        """
        raise NotImplementedError

    def has_more(self, snapshot: Snapshot) -> bool:
        """Whether it could show more than in the lines it needs."""
        return False

    def show(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> None:
        """Draw the snapshot, if the panel is visible."""
        if not self.display or not self.lines.size.width:
            return
        inputs = (self.has_been_read(snapshot), self.room, *self.row_inputs(snapshot, selected))
        if inputs != self._inputs or not self._since <= now < self.until:
            self._inputs, self._since, self.until = inputs, now, FOREVER
            self._rows_before, self._rows_made = self._rows_made, {}
            rows = self.rows(snapshot, selected, now)
            self.lines.show(rows or (self._empty_row(snapshot),), self.height_of_row())
        self._draw_title()

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        """Return what the rows are made from: they are made again when it changes, or when an age in them does."""
        return (Identity(snapshot), selected)

    def age(self, at: str | None, now: datetime) -> str:
        """The age of a stored time; the rows are made again when it reads differently."""
        parsed = parse_time(at)
        if parsed is None:
            return times.age(None)
        seconds = (now - parsed).total_seconds()
        self.lasts_until(now + timedelta(seconds=times.seconds_until_age_changes(seconds)))
        return times.age(seconds)

    def lasts_until(self, end: datetime) -> None:
        """Have the rows computed again at this time, because an age in them changes then."""
        self.until = min(self.until, end)

    def row(self, key: str, signature: Hashable, make: Callable[[], tuple[Content, ...]]) -> ListRow:
        """The row made before if its signature is equal, else a new one."""
        known = self._rows_before.get(key)
        row = known[1] if known is not None and known[0] == signature else ListRow(key, make)
        self._rows_made[key] = (signature, row)
        return row

    def _empty_row(self, snapshot: Snapshot) -> ListRow:
        return message_row(self._message(snapshot))

    def _message(self, snapshot: Snapshot) -> str:
        return self.empty_text(snapshot) if self.has_been_read(snapshot) else "looking…"

    def message_lines(self, snapshot: Snapshot, width: int) -> int:
        """The lines that its message takes in so many columns."""
        return len(Content(key_hints.in_keys(self._message(snapshot))).wrap(max(10, width - FRAME_WIDTH)))

    def has_been_read(self, snapshot: Snapshot) -> bool:
        """Whether the panel's source has read; an empty panel is really empty then."""
        return not self.source or snapshot.has_read(self.source)

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[ListRow]:
        raise NotImplementedError

    def empty_text(self, snapshot: Snapshot) -> str:
        return self.empty_message

    def height_of_row(self) -> int:
        return 1

    # -- the title --------------------------------------------------------------------------------------------------

    def subject(self) -> str:
        """Return what the panel is about, behind its label in the title."""
        return ""

    def corner(self) -> Content:
        """The right end of the title line."""
        return Content("")

    def on_mount(self) -> None:
        self._draw_title()

    def on_resize(self) -> None:
        self._draw_title()
        if self._inputs is not None:
            self.post_message(self.PanelResized())

    def _draw_title(self) -> None:
        corner, subject = self.corner(), "" if self.tabs else self.subject()
        state = (subject, corner.plain, self.tabs, self.size.width, self.has_focus_within)
        if state != self._title_state:
            self._title_state = state
            self.border_title = self._title(subject, corner)

    def _title(self, subject: str, corner: Content) -> Content:
        """`2 Git · feat-api ───── corner`, or with tabs `2 Git · feat-api │ 3 Agents │ …`."""
        name = Content(f"{self.number} {self.label}{f' · {subject}' if subject else ''}").stylize("bold")
        room = self.size.width - 6  # corners, blanks and one stroke of the frame
        left = self._with_tabs(name, room) if self.tabs else name
        gap = room - left.cell_length - corner.cell_length
        if not corner.plain or gap < 3:
            return left.truncate(max(1, room), ellipsis=True) if room > 0 else left
        frame = "$border" if self.has_focus_within else "$border-blurred"
        return Content("").join([left, Content.styled(f" {'─' * (gap - 2)} ", frame), corner])

    def _with_tabs(self, name: Content, room: int) -> Content:
        """The panels that share this place, side by side; the others by their number alone where it is narrow."""
        for short in (False, True):
            tabs = [
                name if number == self.number else _tab(number, "" if short else label) for number, label in self.tabs
            ]
            shown = Content.styled(" │ ", "$border-blurred").join(tabs)
            if shown.cell_length <= room:
                break
        return shown

    def on_click(self) -> None:
        """A click on the frame or the title."""
        self.lines.focus()

    def on_descendant_focus(self) -> None:
        self._draw_title()

    def on_descendant_blur(self) -> None:
        self._draw_title()


class Identity:
    """Equal only to the identical object: comparing two worktrees field by field takes longer than drawing one."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _tab(number: int, label: str) -> Content:
    return Content.styled(f"{number} {label}".rstrip(), "$text-muted").stylize(
        Style.from_meta({"@click": f"screen.panel({number})"})
    )
