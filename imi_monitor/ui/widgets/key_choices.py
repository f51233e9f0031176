"""A list of answers, each with its key: the key gives the answer at once, ↑ ↓ and enter pick one, a click too."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from imi_monitor.actions.action import KeyChoice
from imi_monitor.model.text import safe
from imi_monitor.ui.cells import MUTED

_MOST = 12


class KeyChoices(Widget, can_focus=True):
    """Keys pressed before the answers are shown do nothing: they would answer a question that was not read."""

    DEFAULT_CSS = "KeyChoices { height: auto; display: none; margin-bottom: 1; }"
    BINDINGS = [Binding("up", "move(-1)", "Up", show=False), Binding("down", "move(1)", "Down", show=False)]

    at = reactive(0)

    class AnswerPicked(Message):
        """Posted when an answer is chosen."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._choices: tuple[KeyChoice, ...] = ()
        self._offered_at = 0.0  # by the clock of messages

    @property
    def choices(self) -> tuple[KeyChoice, ...]:
        return self._choices

    def offer(self, choices: Sequence[KeyChoice]) -> None:
        """Show these answers; none hides the list."""
        shown = tuple(choices)[:_MOST]
        if shown != self._choices:
            self._choices, self.at = shown, 0
            self._offered_at = self.AnswerPicked("").time
            self.display = bool(shown)
            self.refresh(layout=True)

    def action_move(self, by: int) -> None:
        """Behind the last answer comes the next field."""
        if 0 <= self.at + by < len(self._choices):
            self.at += by
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def on_key(self, event: events.Key) -> None:
        """A key typed before the answers were shown is dropped, also if it comes only now."""
        chosen = next((one for one in self._choices if one.key == event.character), None)
        if event.key == "enter" and self._choices:
            chosen = self._choices[self.at]
        if chosen is not None or event.key == "enter":
            event.stop()
        if chosen is not None and event.time > self._offered_at:
            self.post_message(self.AnswerPicked(chosen.value))

    def on_click(self, event: events.Click) -> None:
        if 0 <= event.y < len(self._choices) and event.time > self._offered_at:
            self.at = event.y
            self.post_message(self.AnswerPicked(self._choices[self.at].value))

    def render(self) -> Content:
        lines = []
        for place, one in enumerate(self._choices):
            here = place == self.at and self.has_focus
            key = Content.styled(f" {one.key} ", "bold reverse" if here else "bold $accent")
            lines.append(key.append(Content.styled(f"  {safe(one.label, 200)}", "" if here else MUTED)))
        return Content("\n").join([line.truncate(max(8, self.size.width), ellipsis=True) for line in lines])
