"""One of a few known values, on one line: ← → (or h l) choose, a letter jumps, a click picks. Enter goes on.

Yes or no on one line: `[x]` or `[ ]`, told by the sign and not by its colour. Space ticks, a click too; enter goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from imi_monitor.model.text import safe
from imi_monitor.ui.cells import MUTED


class ChoiceInput(Widget, can_focus=True):
    """Draws all values side by side, the chosen one marked; scrolls sideways where there is no room for all."""

    DEFAULT_CSS = """
    ChoiceInput { height: 1; width: 1fr; background: $boost; }
    ChoiceInput:focus { background: $surface-lighten-1; }
    """
    BINDINGS = [
        Binding("left,h", "step(-1)", "Previous", show=False),
        Binding("right,l", "step(1)", "Next", show=False),
        Binding("enter", "submit", "Go on", show=False),
    ]

    at = reactive(0)

    class Changed(Message):
        """Another value is chosen."""

    class Submitted(Message):
        """Enter on the chosen value."""

    def __init__(self, values: Sequence[str] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._values = tuple(values)

    @property
    def value(self) -> str:
        return self._values[self.at] if self._values else ""

    @property
    def values(self) -> tuple[str, ...]:
        return self._values

    def offer(self, values: Sequence[str]) -> None:
        """These are the values from now on; the chosen one stays if it is among them."""
        before = self.value
        self._values = tuple(values)
        self.at = self._values.index(before) if before in self._values else 0
        self.refresh()
        self.post_message(self.Changed())

    def pick(self, value: str) -> None:
        if value in self._values:
            self.at = self._values.index(value)

    def watch_at(self) -> None:
        self.post_message(self.Changed())

    def action_step(self, by: int) -> None:
        if self._values:
            self.at = (self.at + by) % len(self._values)

    def action_submit(self) -> None:
        self.post_message(self.Submitted())

    def on_key(self, event: events.Key) -> None:
        letter = event.character
        if letter is None or not letter.isalnum() or letter in "hl" or not self._values:
            return
        order = [*range(self.at + 1, len(self._values)), *range(self.at + 1)]
        hit = next((index for index in order if self._values[index].startswith(letter)), None)
        if hit is not None:
            self.at = hit
            event.stop()

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
            parts.append(Content.styled(f"‹{text}›", chosen) if here else Content.styled(f" {text} ", MUTED))
        return Content("").join(parts)

    def _places(self) -> list[tuple[int, int]]:
        """Where each value is drawn; those scrolled out are nowhere."""
        places, left = [], 0
        for index, value in enumerate(self._values):
            width = len(safe(value, 40)) + 2 if index >= self._first() else 0
            places.append((left, left + width))
            left += width
        return places

    def _first(self) -> int:
        """The first value drawn: as far to the left as the chosen one still fits."""
        widths = [len(safe(value, 40)) + 2 for value in self._values]
        first = 0
        while first < self.at and sum(widths[first : self.at + 1]) > max(1, self.size.width):
            first += 1
        return first


class TickBox(Widget, can_focus=True):
    """`label` is said beside it."""

    DEFAULT_CSS = "TickBox { height: 1; width: 1fr; } TickBox:focus { background: $surface-lighten-1; }"
    BINDINGS = [Binding("space", "tick", "Tick", show=False), Binding("enter", "submit", "Go on", show=False)]

    value = reactive(False)

    class Changed(Message):
        """Ticked or not any more."""

    class Submitted(Message):
        """Enter on it."""

    def __init__(self, label: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = label

    def watch_value(self) -> None:
        self.post_message(self.Changed())

    def action_tick(self) -> None:
        self.value = not self.value

    def action_submit(self) -> None:
        self.post_message(self.Submitted())

    def on_click(self, event: events.Click) -> None:
        self.action_tick()

    def render(self) -> Content:
        sign = Content.styled("[x] ", "bold $accent") if self.value else Content("[ ] ")
        return sign.append(Content(self._label))
