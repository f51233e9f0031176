"""The fields of a dialog, made from an action's arguments and options: text, a choice of known values, or a tick.

Options that answer a refusal appear after that refusal; options that explain another one appear beside it. What was once
shown stays, so that nothing moves away under somebody's fingers.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from imi_monitor.actions.action import Action, Argument, Option
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe
from imi_monitor.ui.widgets.form_inputs import ChoiceInput, FormInput, TickBox


@dataclass(frozen=True, slots=True)
class FormField:
    """One thing to be asked."""

    name: str
    hint: str
    required: bool = False
    flag: bool = False
    number: bool = False
    chosen: bool = False  # its values are few and known
    overrides: tuple[str, ...] = ()
    goes_with: tuple[str, ...] = ()


def fields(action: Action, given: dict[str, object]) -> list[FormField]:
    """What the action wants to know and was not told yet."""
    asked = [_of_argument(action, one) for one in action.arguments if not one.optional and not one.rest]
    options = {one.name: one for one in action.options}
    return [
        one for one in [*asked, *(_of_option(options[name]) for name in action.dialog_options)] if one.name not in given
    ]


def _of_argument(action: Action, argument: Argument) -> FormField:
    chosen = type(action).choices is not Action.choices and argument.name == "type"
    return FormField(argument.name, argument.help, required=True, chosen=chosen)


def _of_option(option: Option) -> FormField:
    return FormField(
        option.name,
        option.help,
        flag=not option.value,
        number=option.number,
        overrides=option.overrides,
        goes_with=option.goes_with,
    )


class TextField(Input):
    """One line of text. Controls and invisible characters are dropped as they are pasted: no name holds any."""

    def __init__(self, hint: str, id: str) -> None:
        super().__init__(placeholder=hint, id=id, compact=True, select_on_focus=False)

    def validate_value(self, value: str) -> str:
        return "".join(char for char in value if char.isprintable())


class Form(Vertical):
    """Fields below each other; `values` gives what was filled in."""

    class Changed(Message):
        """Something else stands in a field."""

    class Submitted(Message):
        """Enter in a field."""

    def __init__(self, asked: list[FormField]) -> None:
        super().__init__(id="form")
        self._fields = asked
        self._open = {field.name for field in asked if not field.overrides and not field.goes_with}

    def compose(self) -> ComposeResult:
        for field in self._fields:
            row = Horizontal(classes="field", id=f"field-{field.name}")
            row.display = field.name in self._open
            with row:
                if not field.flag:
                    yield Static(Content(field.name), classes="label")
                yield self._widget(field)

    def _widget(self, field: FormField) -> Widget:
        name = f"ask-{field.name}"
        if field.flag:
            return TickBox(f"{field.name}: {field.hint}", id=name)
        return ChoiceInput(id=name) if field.chosen else TextField(field.hint, name)

    @property
    def asked(self) -> list[FormField]:
        return list(self._fields)

    @property
    def missing(self) -> FormField | None:
        """The first required field that is still empty."""
        return next((field for field in self._fields if field.required and not self._text(field)), None)

    def first(self) -> Widget | None:
        """Where typing starts: the first required field."""
        field = next((field for field in self._fields if field.required), None)
        return self.query_one(f"#ask-{field.name}") if field else None

    def values(self) -> dict[str, object]:
        """What was filled in, as a Request wants it; UsageError for a number that is none."""
        found: dict[str, object] = {}
        for field in self._fields:
            if field.name not in self._open:
                continue
            value = self._value(field)
            if value is not None:
                found[field.name] = value
        return found

    def offer(self, name: str, values: list[str]) -> None:
        self.query_one(f"#ask-{name}", ChoiceInput).offer(values)

    def answer(self, kinds: set[str]) -> None:
        """A refusal of these kinds stands: show what answers it."""
        self._open |= {field.name for field in self._fields if kinds & set(field.overrides)}
        self._unfold()

    def _unfold(self) -> None:
        ticked = {
            field.name for field in self._fields if field.flag and field.name in self._open and self._ticked(field)
        }
        self._open |= {field.name for field in self._fields if ticked & set(field.goes_with)}
        for field in self._fields:
            row = self.query_one(f"#field-{field.name}")
            needed = not field.goes_with or bool(ticked & set(field.goes_with))
            row.display = field.name in self._open and needed
            if not needed:
                self._open.discard(field.name)

    def _ticked(self, field: FormField) -> bool:
        return self.query_one(f"#ask-{field.name}", TickBox).value

    def _text(self, field: FormField) -> str:
        widget = self.query_one(f"#ask-{field.name}")
        return widget.value.strip() if isinstance(widget, (TextField, ChoiceInput)) else ""

    def _value(self, field: FormField) -> object:
        if field.flag:
            return True if self._ticked(field) else None
        text = self._text(field)
        if not text:
            return None
        return _number(field.name, text) if field.number else text

    @on(Input.Changed)
    @on(FormInput.ValueChanged)
    def _changed(self, event: Message) -> None:
        event.stop()
        if self.is_mounted:
            self._unfold()
        self.post_message(self.Changed())

    @on(Input.Submitted)
    @on(FormInput.ValueSubmitted)
    def _submitted(self, event: Message) -> None:
        event.stop()
        self.post_message(self.Submitted())


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise UsageError(f"{name} must be a number that is not negative, not {safe(text, 80)!r}", code="bad-option")
    return number
