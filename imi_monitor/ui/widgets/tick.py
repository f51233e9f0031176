"""Yes or no on one line: `[x]` or `[ ]`, told by the sign and not by its colour. Space ticks, a click too; enter goes on."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget


class Tick(Widget, can_focus=True):
    """`label` is said beside it."""

    DEFAULT_CSS = "Tick { height: 1; width: 1fr; } Tick:focus { background: $surface-lighten-1; }"
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
