"""One dialog for every action, made from the action's own description: what it asks, what it will do, why it refuses.

No dialog knows more than its action. A refusal stays on the screen with all its reasons; where the action can be overridden,
the worktree's name has to be typed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from imi_monitor.actions.base import Action, Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe

Surroundings = Callable[[], Context]


class ActionDialog(ModalScreen[Outcome | None]):
    """Asks, acts in a thread, and gives the outcome; None when it was left without acting."""

    BINDINGS = [("escape", "leave", "Leave")]

    def __init__(self, action: Action, values: dict[str, object], surroundings: Surroundings) -> None:
        super().__init__()
        self._action = action
        self._values = values
        self._surroundings = surroundings
        self._refused = False
        self._busy = False

    def compose(self) -> ComposeResult:
        target = self._values.get("name")
        title = f"{self._action.label} {safe(str(target))}" if target else self._action.label
        with Vertical(classes="dialog" + (" -dangerous" if self._action.dangerous else "")):
            yield Static(Content(title), classes="title")
            with VerticalScroll(classes="lines"):
                yield Static(Content(self._action.help), id="said")
            for name, hint in self._asked():
                yield Input(placeholder=hint, id=f"ask-{name}")
            yield Input(placeholder=f"type {safe(str(target))} to do it all the same", id="override", classes="hidden")
            with Horizontal(classes="buttons"):
                yield Button("Leave", id="leave")
                yield Button(self._action.label, id="act", variant="error" if self._action.dangerous else "primary")

    def on_mount(self) -> None:
        self.query_one("#override", Input).display = False
        inputs = [box for box in self.query(Input) if box.display]
        # what cannot hurt has the focus: a field to fill, else leaving
        (inputs[0] if inputs else self.query_one("#leave" if self._action.dangerous else "#act", Button)).focus()

    def _asked(self) -> list[tuple[str, str]]:
        required = [(one.name, one.help) for one in self._action.arguments if not one.optional and not one.rest]
        options = {one.name: one.help for one in self._action.options}
        asked = [*required, *((name, options[name]) for name in self._action.asks)]
        return [(name, f"{name}: {hint}") for name, hint in asked if name not in self._values]

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self._try()

    @on(Button.Pressed, "#act")
    def _pressed(self) -> None:
        self._try()

    @on(Button.Pressed, "#leave")
    def action_leave(self) -> None:
        if not self._busy:
            self.dismiss(None)

    def _try(self) -> None:
        values = dict(self._values)
        for name, _ in self._asked():
            typed = self.query_one(f"#ask-{name}", Input).value.strip()
            if typed:
                values[name] = typed
        override = self.query_one("#override", Input)
        if override.display and override.value.strip() == self._values.get("name"):
            values |= {"force": True, "yes-really": override.value.strip()}
        if not self._busy:
            self._act(values)

    @work(exit_on_error=False)
    async def _act(self, values: dict[str, object]) -> None:
        self._busy = True
        self._say(["working…"])
        try:
            outcome = await asyncio.to_thread(self._run, values)
        except ImiError as error:
            self._say([error.sentence, *error.details], bad=True)
            self._offer_override()
            return
        finally:
            self._busy = False
        self.dismiss(outcome)

    def _run(self, values: dict[str, object]) -> Outcome:
        with self._surroundings() as context:
            context.progress = lambda line: self.app.call_from_thread(self._say, [line])
            return self._action.run(context, Request(self._action.words[0], values))

    def _say(self, lines: list[str], *, bad: bool = False) -> None:
        shown = [
            Content.styled(safe(line, 400), "$error" if bad and not index else "") for index, line in enumerate(lines)
        ]
        if self.is_attached:
            self.query_one("#said", Static).update(Content("\n").join(shown))

    def _offer_override(self) -> None:
        options = {option.name for option in self._action.options}
        if {"force", "yes-really"} <= options and self.is_attached:
            box = self.query_one("#override", Input)
            box.display = True
            self.query_one("#leave", Button).focus()


class Message(ModalScreen[None]):
    """Something to read; any key closes it."""

    BINDINGS = [("escape,enter,q,question_mark", "dismiss", "Close")]

    def __init__(self, title: str, lines: list[Content]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._title), classes="title")
            with VerticalScroll(classes="lines"):
                yield Static(Content("\n").join(self._lines))
