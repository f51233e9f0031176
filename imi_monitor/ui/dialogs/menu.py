"""A list to choose from: the palette, the help, the menu of a row, what to copy, which theme.

An entry that is not available is dimmed; choosing it shows the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events, on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from imi_monitor.model import columns, fuzzy
from imi_monitor.ui import cells
from imi_monitor.ui.textual_internals import DismissedOnce, is_alive
from imi_monitor.ui.widgets.row_list import ListRow, RowList

_LABEL_WIDTH, KEY_WIDTH = 26, 10  # at most
_NARROW, _NARROW_LABEL_WIDTH = (
    80,
    15,
)  # a narrow terminal, and the labels of a long menu there, so that its help has room
_LONG = 20  # entries
_LEAST_WIDTH, _MOST_WIDTH = 40, 128  # of the menu
_FRAME_WIDTH = 6  # border, padding, scroll bar


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """One entry; `value` is returned when it is chosen. An entry without a value is a heading or a remark."""

    value: str
    label: str
    help: str = ""
    key: str = ""
    why_not: str = ""


class MenuSearch(Input):
    """The search field. While it is empty, `?` closes the help instead of being typed."""

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        return (key != "question_mark" or bool(self.value)) and super().check_consume_key(key, character)


class Menu(ModalScreen[str | None], DismissedOnce[str | None]):
    """Returns the value of the chosen entry; None if it was closed.

    With `search`, typed text filters the entries; without, a key chooses the entry that shows it. `preview` is called with
    the value under the cursor.
    """

    BINDINGS = [
        Binding("escape", "leave", "Leave"),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("question_mark", "shut", show=False, priority=True),
    ]

    def __init__(
        self,
        title: str,
        entries: Sequence[MenuEntry],
        *,
        search: bool = True,
        hint: str = "type to search, ⏎ runs it",
        at: str = "",
        preview: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._entries = tuple(entries)
        self._search = search
        self._hint = hint
        self._at = at
        self._widths = (
            min(KEY_WIDTH, max((columns.cell_width(entry.key) for entry in entries), default=0) + 2),
            _LABEL_WIDTH,
        )
        self._preview = preview

    def compose(self) -> ComposeResult:
        with Vertical(classes="menu"):
            yield Static(Content(self._title), classes="menu-title")
            if self._search:
                yield MenuSearch(placeholder=self._hint, classes="menu-search", compact=True)
            yield RowList(id="menu-lines")
            yield Static(classes="menu-whole")

    @property
    def lines(self) -> RowList:
        return self.query_one("#menu-lines", RowList)

    def _fit_labels(self) -> None:
        """Leave the help of each entry more room in a narrow terminal."""
        longest = max((columns.cell_width(entry.label) for entry in self._entries if entry.help), default=0) + 1
        narrow = self.app.size.width < _NARROW and len(self._entries) > _LONG
        most = _NARROW_LABEL_WIDTH if narrow else _LABEL_WIDTH
        self._widths = (self._widths[0], min(most, longest))

    def on_mount(self) -> None:
        self._fit_labels()
        longest = max((columns.cell_width(entry.why_not or entry.help) for entry in self._entries), default=0)
        widest = max(
            sum(self._widths) + 1 + longest, *(columns.cell_width(entry.label) for entry in self._entries), _LEAST_WIDTH
        )
        self.query_one(".menu").styles.width = min(_MOST_WIDTH, widest + _FRAME_WIDTH)
        self.lines.styles.height = min(len(self._entries), max(3, self.app.size.height - 11))
        (self.query_one(Input) if self._search else self.lines).focus()
        self.call_after_refresh(self._show, "")

    def on_resize(self) -> None:
        self._fit_labels()
        self.call_after_refresh(self._show, self.query_one(Input).value if self._search else "")

    def _explain(self) -> None:
        """Show the help of the entry under the cursor below the list, where the list cuts it off."""
        room = self.lines.size.width - sum(self._widths) - 2
        whole = self.query_one(".menu-whole", Static)
        whole.display = any(columns.cell_width(entry.why_not or entry.help) > room for entry in self._entries)
        entry = self._entry(self.lines.cursor)
        whole.update(Content(entry.why_not or entry.help if entry else ""))

    def _show(self, wanted: str) -> None:
        if not is_alive(self):  # closed before it was drawn
            return
        found = matching_entries(self._entries, wanted)
        self.lines.show(
            [ListRow(entry.value or f"-{n}", (self._line(entry),)) for n, entry in enumerate(found)]
            or [ListRow("", (Content.styled("no entry matches", cells.MUTED),))]
        )
        first = self._at or next((entry.value for entry in found if entry.value), "")
        if first and (wanted or self.lines.cursor is None or not self._entry(self.lines.cursor)):
            self.lines.select(first)
        self._explain()

    def _line(self, entry: MenuEntry) -> Content:
        if not entry.value and not entry.key:
            return Content.styled(entry.label, "bold $primary")
        off = bool(entry.why_not)
        style = "$text-disabled" if off else ""
        parts = [
            cells.fixed(entry.key, self._widths[0], style or "bold $footer-key-foreground"),
            cells.fixed(entry.label, self._widths[1], style),
            Content(" "),
            Content.styled(entry.why_not or entry.help, style or cells.MUTED),
        ]
        return Content("").join(parts)

    def _entry(self, value: str | None) -> MenuEntry | None:
        return next((entry for entry in self._entries if entry.value and entry.value == value), None)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._at = ""
        self._show(event.value)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.choose(self.lines.cursor)

    @on(RowList.RowChosen)
    def _chosen(self, message: RowList.RowChosen) -> None:
        message.stop()
        self.choose(message.key)

    @on(RowList.CursorMoved)
    def _moved(self, message: RowList.CursorMoved) -> None:
        message.stop()
        self._explain()
        entry = self._entry(message.key)
        if entry is not None and self._preview is not None:
            self._preview(entry.value)

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked entry; a click beside the menu closes it."""
        if event.widget is self:
            self.dismiss(None)
        elif event.widget is self.lines:
            self.choose(self.lines.cursor)

    def on_key(self, event: events.Key) -> None:
        if self._search:
            return
        pressed = next((entry for entry in self._entries if event.character and entry.key == event.character), None)
        if pressed is not None:
            event.stop()
            self.choose(pressed.value)
        elif event.key == "q":
            self.dismiss(None)

    def choose(self, value: str | None) -> None:
        entry = self._entry(value)
        if entry is not None and entry.why_not:
            self.notify(entry.why_not, severity="warning", markup=False)
        elif entry is not None:
            self.dismiss(entry.value)

    def action_move(self, by: int) -> None:
        self.lines.action_move(by)

    def action_page(self, by: int) -> None:
        self.lines.action_page(by)

    def action_shut(self) -> None:
        """Close the menu, unless `?` is part of a search."""
        if self._search and self.query_one(Input).value:
            raise SkipAction
        self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)


def matching_entries(entries: Sequence[MenuEntry], wanted: str) -> list[MenuEntry]:
    """Return the matching entries: by label first, then by help; without a search all, with their headings."""
    if not wanted.strip():
        return list(entries)
    ranked: list[tuple[int, int, MenuEntry]] = []
    for place, entry in enumerate(entries):
        if entry.value:
            rank = _rank(entry, wanted.strip())
            if rank is not None:
                ranked.append((rank, place, entry))
    return [entry for _, _, entry in sorted(ranked, key=lambda one: one[:2])]


def _rank(entry: MenuEntry, wanted: str) -> int | None:
    if wanted == entry.key:
        return -1
    by_label = fuzzy.match(wanted, entry.label)
    if by_label is not None and by_label < fuzzy.MatchQuality.LETTERS:
        return int(by_label)
    if wanted.casefold() in entry.help.casefold():
        return 3
    return 4 if by_label is not None else None
