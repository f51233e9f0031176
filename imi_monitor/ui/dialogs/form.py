"""The fields of a dialog, made from an action's arguments and options: text, a choice of known values, or a tick box.

Options that override a refusal appear after that refusal; options that belong to another one appear when it is ticked. A
field that was shown stays, so that nothing moves while a person types.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from imi_monitor.actions.action import Action, Argument, Option, Suggestions, WritingAids
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe
from imi_monitor.ui.dialogs.suggestion_list import SearchField, SuggestionList
from imi_monitor.ui.widgets.form_inputs import ChoiceInput, FormInput, TextField, TickBox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

NONE = "none"  # of the listed values


@dataclass(frozen=True, slots=True)
class FormField:
    """One argument or option that the dialog asks for."""

    name: str
    label: str
    hint: str
    required: bool = False
    first: bool = False  # to type in first, although the preview needs no value
    flag: bool = False
    ticked: float | str | None = None  # the value that a ticked box gives
    number: bool = False
    chosen: bool = False  # one of few known values
    suggested: bool = False  # with a list to choose from below it
    multiline: bool = False  # an editor of several lines
    listed: bool = False  # chosen, or none
    overrides: tuple[str, ...] = ()  # shown after a refusal of one of these kinds
    goes_with: tuple[str, ...] = ()  # shown while one of these flags is ticked


def fields(action: Action, given: dict[str, object]) -> list[FormField]:
    """Return the fields for what the action takes and was not given yet."""
    required = [_argument_field(action, one) for one in action.arguments if not one.optional and not one.rest]
    offered = {one.name: _argument_field(action, one) for one in action.arguments}
    offered |= {one.name: _option_field(one) for one in action.options}
    found = [*required, *(offered[name] for name in action.dialog_options)]
    return [field for field in found if field.name not in given]


def _argument_field(action: Action, argument: Argument) -> FormField:
    chosen = type(action).choices is not Action.choices and argument.name in ("type", "program")
    needed = not argument.rest
    return FormField(
        argument.name,
        argument.label,
        argument.help,
        required=needed,
        first=argument.rest,
        chosen=chosen,
        suggested=argument.suggested,
        multiline=argument.multiline,
    )


def _option_field(option: Option) -> FormField:
    return FormField(
        option.name,
        option.label,
        option.help,
        required=option.needed,
        flag=not option.value or option.ticked is not None,
        ticked=option.ticked,
        number=option.number,
        overrides=option.overrides,
        goes_with=option.goes_with,
        multiline=option.multiline,
        chosen=option.listed,
        listed=option.listed,
    )


ARROWS = (Binding("down,right", "app.focus_next", ""), Binding("up,left", "app.focus_previous", ""))
"""The keys that move the focus, where the widget with the focus has no use for them."""


class Form(Vertical):
    """Fields below each other; the arrow keys lead from one to the next."""

    BINDINGS = [*ARROWS]

    class Changed(Message):
        """A field has another value."""

    class Submitted(Message):
        """Enter was pressed in a field."""

    def __init__(self, fields: list[FormField]) -> None:
        super().__init__(id="form")
        self.fields = fields
        self._shown = {field.name for field in fields if not field.overrides and not field.goes_with}

    def compose(self) -> ComposeResult:
        for field in self.fields:
            row = Horizontal(classes="field -tall" if field.multiline else "field", id=f"field-{field.name}")
            row.display = field.name in self._shown
            with row:
                if not field.flag:
                    yield Static(Content(field.label), classes="label")
                yield self._make_input(field)
            if field.suggested:
                yield SuggestionList(f"suggest-{field.name}")
            if field.multiline:
                yield self._prompt_widgets().FileMatches(id=f"files-{field.name}")

    @staticmethod
    def _prompt_widgets() -> ModuleType:
        from imi_monitor.ui.widgets import prompt_field  # imports Textual's editor, which few dialogs need

        return prompt_field

    def _make_input(self, field: FormField) -> Widget:
        name = f"ask-{field.name}"
        if field.multiline:
            made: Widget = self._prompt_widgets().PromptField(
                f"{field.hint}; alt+⏎ a new line, ↑ an earlier one, @ a file", name
            )
            return made
        if field.flag:
            return TickBox(field.label, id=name)
        if field.suggested:
            return SearchField(field.hint, name)
        return ChoiceInput(id=name, several=field.listed) if field.chosen else TextField(field.hint, name)

    def _input(self, field: FormField) -> Widget:
        return self.query_one(f"#ask-{field.name}")

    @property
    def missing(self) -> FormField | None:
        """The first required field that is empty."""
        asked = (field for field in self.fields if field.required and field.name in self._shown)
        return next((field for field in asked if not self._text(field)), None)

    def first(self) -> Widget | None:
        """Return the input of the first required field to type in, else of the first required one."""
        wanted = (field for field in self.fields if (field.required or field.first) and field.name in self._shown)
        required = sorted(wanted, key=lambda field: field.chosen)
        return self._input(required[0]) if required else None

    def focus_field(self, field: FormField) -> None:
        self._input(field).focus()

    def values(self) -> dict[str, object]:
        """Return the values of the visible fields, without empty ones; UsageError for a number that is none."""
        values = {field.name: self._value(field) for field in self.fields if field.name in self._shown}
        return {name: value for name, value in values.items() if value is not None}

    def offer(self, name: str, values: list[str]) -> None:
        """Set the values a field can have."""
        listed = any(field.name == name and field.listed for field in self.fields)
        self.query_one(f"#ask-{name}", ChoiceInput).offer([NONE, *values] if listed else values)

    def aid(self, name: str, found: WritingAids) -> None:
        """Set what the editor of a field offers."""
        self.query_one(f"#ask-{name}", self._prompt_widgets().PromptField).aid(found.earlier, found.files)

    def suggest(self, name: str, found: Suggestions) -> None:
        """Set what is offered for a field."""
        self._suggestions(name).offer(found, self.query_one(f"#ask-{name}", Input).value)
        self.post_message(self.Changed())

    def _suggestions(self, name: str) -> SuggestionList:
        return self.query_one(f"#suggest-{name}", SuggestionList)

    def show_overrides(self, kinds: set[str]) -> None:
        """Show the fields that override refusals of these kinds."""
        self._shown |= {field.name for field in self.fields if kinds & set(field.overrides)}
        self._update_rows()

    def focus_way_out(self, kinds: set[str]) -> None:
        """Focus the first field that overrides a refusal of these kinds."""
        field = next((field for field in self.fields if kinds & set(field.overrides)), None)
        if field is not None:
            self.focus_field(field)

    def _update_rows(self) -> None:
        ticked = {field.name for field in self.fields if field.name in self._shown and self._is_ticked(field)}
        self._shown |= {field.name for field in self.fields if ticked & set(field.goes_with)}
        for field in self.fields:
            needed = not field.goes_with or bool(ticked & set(field.goes_with))
            self.query_one(f"#field-{field.name}").display = field.name in self._shown and needed
            if not needed:
                self._shown.discard(field.name)
        self.set_class(not self._shown, "-empty")

    def _take_type_from_name(self) -> None:
        """Choose the type that a name begins with: `fix/login`, `fix: login`."""
        inputs = {field.name: self._input(field) for field in self.fields if field.name in ("type", "name")}
        kind, name = inputs.get("type"), inputs.get("name")
        if isinstance(kind, ChoiceInput) and isinstance(name, TextField):
            prefix, separator, rest = _split_type(name.value)
            if separator and prefix in kind.values:
                kind.choose(prefix)
                name.value = rest.lstrip()

    def _is_ticked(self, field: FormField) -> bool:
        """Whether a box is ticked, or one of listed values is chosen."""
        widget = self._input(field)
        if field.listed:
            return bool(self._text(field))
        return isinstance(widget, TickBox) and widget.value

    def _text(self, field: FormField) -> str:
        widget = self._input(field)
        if field.multiline:
            return str(widget.value).strip()  # type: ignore[attr-defined]
        text = widget.value.strip() if isinstance(widget, (TextField, ChoiceInput)) else ""
        if field.listed and text == NONE:
            return ""
        return self._suggestions(field.name).resolve(text) if field.suggested else text

    def _value(self, field: FormField) -> object:
        if field.flag:
            return (field.ticked or True) if self._is_ticked(field) else None
        text = self._text(field)
        return (_parse_number(field.name, text) if field.number else text) if text else None

    @on(SearchField.Moved)
    def _suggestion_moved(self, event: SearchField.Moved) -> None:
        event.stop()
        self._suggestions(event.field.removeprefix("ask-")).move(event.by)

    @on(SuggestionList.Picked)
    def _suggestion_picked(self, event: SuggestionList.Picked) -> None:
        event.stop()
        self.post_message(self.Submitted() if event.final else self.Changed())

    @on(Input.Changed)
    @on(FormInput.ValueChanged)
    def _input_changed(self, event: Message) -> None:
        event.stop()
        if isinstance(event, Input.Changed) and isinstance(event.input, SearchField) and self.is_mounted:
            self._suggestions((event.input.id or "").removeprefix("ask-")).search(event.value)
        if self.is_mounted:
            self._take_type_from_name()
            self._update_rows()
        self.post_message(self.Changed())

    def on_text_area_changed(self, event: Message) -> None:
        event.stop()
        self.post_message(self.Changed())

    def on_prompt_field_prompt_submitted(self, event: Message) -> None:
        self._input_submitted(event)

    def on_prompt_field_file_mentioned(self, event: Message) -> None:
        """Show the files below the editor whose text names one."""
        event.stop()
        widgets = self._prompt_widgets()
        assert isinstance(event, widgets.PromptField.FileMentioned)
        shown = self.query_one(f"#files-{event.field.removeprefix('ask-')}", widgets.FileMatches)
        shown.show(event.found, event.at)

    @on(Input.Submitted)
    @on(FormInput.ValueSubmitted)
    def _input_submitted(self, event: Message) -> None:
        event.stop()
        self.post_message(self.Submitted())


def _split_type(text: str) -> tuple[str, str, str]:
    """Return what is before the first `/` or `:`, that sign, and the rest."""
    sign = next((char for char in text if char in "/:"), "")
    return text.partition(sign) if sign else (text, "", "")


def _parse_number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise UsageError(f"{name} must be a whole number, 0 or more, not {safe(text, 80)!r}", code="bad-option")
    return number
