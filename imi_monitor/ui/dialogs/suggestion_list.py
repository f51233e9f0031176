"""A text field with a list to choose from: what is typed is a value by itself, or searches the list."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from imi_monitor.actions.action import Suggestion, Suggestions
from imi_monitor.model import columns, fuzzy
from imi_monitor.ui import cells
from imi_monitor.ui.widgets.form_inputs import TextField
from imi_monitor.ui.widgets.row_list import ListRow, RowList

_MOST_LINES = 8
_MOST_LABEL = 24  # cells


class SearchField(TextField):
    """A text field whose arrow keys move in the list below it."""

    BINDINGS = [Binding("down", "move(1)", "Next", show=False), Binding("up", "move(-1)", "Previous", show=False)]

    class Moved(Message):
        """An arrow key."""

        def __init__(self, field: str, by: int) -> None:
            super().__init__()
            self.field = field
            self.by = by

    def action_move(self, by: int) -> None:
        self.post_message(self.Moved(self.id or "", by))


class SuggestionList(Vertical):
    """The suggestions that match, and below them where they are from."""

    DEFAULT_CSS = """
    SuggestionList { height: auto; }
    SuggestionList RowList { height: 0; }
    SuggestionList .suggestions-origin { height: auto; }
    """

    class Picked(Message):
        """The cursor has moved, or (`final`) a line was clicked or entered."""

        def __init__(self, final: bool) -> None:
            super().__init__()
            self.final = final

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._found: Suggestions | None = None
        self._shown: list[Suggestion] = []
        self._moved = False  # the user has chosen a line, also without typing anything

    def compose(self) -> ComposeResult:
        lines = RowList()
        lines.can_focus = False
        yield lines
        yield Static(Content.styled("looking…", cells.MUTED), classes="suggestions-origin")

    @property
    def lines(self) -> RowList:
        return self.query_one(RowList)

    def offer(self, found: Suggestions, typed: str) -> None:
        self._found = found
        self.query_one(".suggestions-origin", Static).update(Content.styled(found.origin, cells.MUTED))
        self.search(typed, keep=True)

    def search(self, typed: str, *, keep: bool = False) -> None:
        """Show the suggestions that match; with `keep` the cursor stays on its value."""
        if self._found is None:
            return
        before = self.lines.cursor if keep else None
        self._moved = self._moved and keep
        self._shown = _matching(self._found.offered, typed.strip())
        width = min(_MOST_LABEL, max((columns.cell_width(one.label) for one in self._shown), default=0))
        self.lines.styles.height = min(len(self._shown), _MOST_LINES)
        self.lines.show([ListRow(one.value, (_line(one, width),)) for one in self._shown])
        wanted = [one.value for one in self._shown if one.value == before] or [one.value for one in self._shown[:1]]
        if wanted:
            self.lines.select(wanted[0])

    def resolve(self, typed: str) -> str:
        """The value that is meant: the chosen line's, what was typed if it is a value, else the first match's."""
        at = self.lines.cursor
        if self._found is None or at is None or not self._shown:
            return typed
        if self._moved or (typed and not self._found.accepts(typed)):
            return at
        return typed

    def move(self, by: int) -> None:
        """Move the cursor; the first key chooses the first line where nothing was typed."""
        if self._shown:
            self.lines.action_move(by if self._moved or self.lines.cursor is None else max(0, by - 1))
            self._moved = True
            self.post_message(self.Picked(final=False))

    @on(RowList.RowChosen)
    def _chosen(self, message: RowList.RowChosen) -> None:
        message.stop()

    @on(RowList.CursorMoved)
    def _cursor_moved(self, message: RowList.CursorMoved) -> None:
        message.stop()

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked line, and go on with it at the second click."""
        if event.widget is self.lines and self._shown:
            self._moved = True
            self.post_message(self.Picked(final=event.chain > 1))


def _matching(offered: list[Suggestion], wanted: str) -> list[Suggestion]:
    """The suggestions that match, the best first; with a number or an address typed, those of that value."""
    if not wanted:
        return offered
    ranked = []
    for place, one in enumerate(offered):
        rank = fuzzy.match(wanted, f"{one.label} {one.help} {one.words}")
        if rank is not None:
            ranked.append((one.value != wanted.lstrip("#!"), int(rank), place, one))
    return [entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:3])]


def _line(one: Suggestion, width: int) -> Content:
    return Content("").join([cells.fixed(one.label, width, "bold"), Content("  "), Content(one.help)])
