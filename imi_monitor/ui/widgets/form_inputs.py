"""One-line inputs of forms: TextField, ChoiceInput for one of a few values, TickBox for yes or no."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from imi_monitor.model import columns
from imi_monitor.model.text import safe
from imi_monitor.ui.cells import MUTED


class TextField(Input):
    """One line of text. Control and invisible characters are dropped: no name contains any."""

    def __init__(self, hint: str, id: str) -> None:
        super().__init__(placeholder=hint, id=id, compact=True, select_on_focus=False)
        self._hint = hint

    def on_resize(self) -> None:
        room = self.content_size.width
        shorter = (self._hint, self._hint.partition(" (")[0], self._hint.partition(";")[0])
        self.placeholder = next(
            (one for one in shorter if columns.cell_width(one) <= room), columns.clip(self._hint, room)
        )

    def validate_value(self, value: str) -> str:
        return "".join(char for char in value if char.isprintable())


class FormInput(Widget, can_focus=True):
    """Posts ValueChanged, and ValueSubmitted on enter."""

    BINDINGS = [Binding("enter", "submit", "Go on", show=False)]

    class ValueChanged(Message):
        """The input has another value."""

    class ValueSubmitted(Message):
        """Enter in the input."""

    def action_submit(self) -> None:
        self.post_message(self.ValueSubmitted())


class ChoiceInput(FormInput):
    """All values side by side, the chosen one marked: ← → choose, a click picks. Letters change nothing.

    The line scrolls sideways where the values do not fit. With `several`, space marks values: then the value is `one,two`.
    """

    DEFAULT_CSS = """
    ChoiceInput { height: 1; width: 1fr; background: $boost; }
    ChoiceInput:focus { background: $primary 25%; }
    """
    BINDINGS = [
        Binding("left", "step(-1)", "Previous", show=False),
        Binding("right", "step(1)", "Next", show=False),
        Binding("space", "mark", "Mark", show=False),
    ]

    at = reactive(0)

    def __init__(self, values: Sequence[str] = (), *, id: str | None = None, several: bool = False) -> None:
        super().__init__(id=id)
        self._values = tuple(values)
        self._several = several
        self._marked: frozenset[str] = frozenset()

    @property
    def value(self) -> str:
        marked = [one for one in self._values if one in self._marked]
        return ",".join(marked) or (self._values[self.at] if self._values else "")

    @property
    def values(self) -> tuple[str, ...]:
        return self._values

    def offer(self, values: Sequence[str]) -> None:
        """Set the values; the chosen one stays chosen if it is among them."""
        before = self.value
        self._values = tuple(values)
        self.at = self._values.index(before) if before in self._values else 0
        self.refresh()
        self.post_message(self.ValueChanged())

    def watch_at(self) -> None:
        self.post_message(self.ValueChanged())

    def action_step(self, by: int) -> None:
        if self._values:
            self.at = (self.at + by) % len(self._values)

    def action_mark(self) -> None:
        """Mark a value beside others; the first one stands for none of them."""
        if self._several and self.at > 0:
            self._marked ^= {self._values[self.at]}
            self.refresh()
            self.post_message(self.ValueChanged())

    def choose(self, value: str) -> None:
        """Mark one of the values."""
        self.at = self._values.index(value)

    def on_click(self, event: events.Click) -> None:
        for index, (start, end) in enumerate(self._places()):
            if start <= event.x < end:
                self.at = index

    def render(self) -> Content:
        if not self._values:
            return Content.styled("looking…", MUTED)
        chosen = "bold reverse" if self.has_focus else "bold $accent"
        parts = []
        for index, value in list(enumerate(self._values))[self._first() :]:
            text = safe(value, 40)
            here = index == self.at
            marked = value in self._marked
            sign = "✓" if marked else " "
            style = chosen if here else "bold $accent" if marked else MUTED
            parts.append(Content.styled(f"{'‹' if here and not marked else sign}{text}{'›' if here else ' '}", style))
        return Content("").join(parts)

    def _places(self) -> list[tuple[int, int]]:
        """The cells (start, end) of each value; empty for one that is scrolled out."""
        places, left = [], 0
        for index, value in enumerate(self._values):
            width = len(safe(value, 40)) + 2 if index >= self._first() else 0
            places.append((left, left + width))
            left += width
        return places

    def _first(self) -> int:
        """The first value drawn: the leftmost with which the chosen one still fits."""
        widths = [len(safe(value, 40)) + 2 for value in self._values]
        first = 0
        while first < self.at and sum(widths[first : self.at + 1]) > max(1, self.size.width):
            first += 1
        return first


class TickBox(FormInput):
    """`[x] label` or `[ ] label`: space and a click toggle it."""

    DEFAULT_CSS = """
    TickBox { height: 1; width: 1fr; }
    TickBox:focus { background: $block-cursor-background; color: $block-cursor-foreground; }
    """
    BINDINGS = [Binding("space", "tick", "Tick", show=False)]

    value = reactive(False)

    def __init__(self, label: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = label

    def watch_value(self) -> None:
        self.post_message(self.ValueChanged())

    def action_tick(self) -> None:
        self.value = not self.value

    def on_click(self, event: events.Click) -> None:
        self.action_tick()

    def render(self) -> Content:
        sign = Content.styled("[x] ", "bold $accent") if self.value else Content("[ ] ")
        return sign.append(Content(self._label))
