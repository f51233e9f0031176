"""The fields of a dialog: which there are, which are shown, what they give, and how they answer keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import Input, Static

from imi_monitor.actions.action import Action, Argument, Option, Suggestion, Suggestions, WritingAids
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import UsageError
from imi_monitor.ui.dialogs.form import Form, FormField, fields
from imi_monitor.ui.dialogs.suggestion_list import SuggestionList
from imi_monitor.ui.widgets.form_inputs import ChoiceInput, TextField, TickBox
from imi_monitor.ui.widgets.prompt_field import FileMatches, PromptField
from tests.ui.pilot_kit import wait_until


class FormApp(App[None]):
    """Shows one form and records its messages, and those of its inputs that came out of it."""

    CSS = "#form, .field { height: auto; } .label { width: auto; }"

    def __init__(self, *shown: FormField) -> None:
        super().__init__()
        self.form = Form(list(shown))
        self.changed = self.submitted = 0
        self.others: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.form

    def on_form_changed(self) -> None:
        self.changed += 1

    def on_form_submitted(self) -> None:
        self.submitted += 1

    def _note(self, message: Message) -> None:
        self.others.append(type(message).__name__)

    on_input_changed = on_input_submitted = on_form_input_value_changed = on_form_input_value_submitted = _note
    on_suggestion_list_picked = on_search_field_moved = on_text_area_changed = _note
    on_prompt_field_prompt_submitted = on_prompt_field_file_mentioned = _note

    @property
    def visible_fields(self) -> list[str]:
        return [one.name for one in self.form.fields if self.query_one(f"#field-{one.name}").display]

    @property
    def focus(self) -> str | None:
        return self.focused.id if self.focused is not None else None


def show_form(play: Callable[[FormApp, Pilot[None]], Awaitable[None]], *shown: FormField) -> None:
    async def main() -> None:
        app = FormApp(*shown)
        async with app.run_test(size=(80, 30)) as pilot:
            await pilot.pause()
            await play(app, pilot)

    asyncio.run(main())


def field(name: str, **more: Any) -> FormField:
    return FormField(name, name.capitalize(), f"the {name}", **more)


# -- which fields there are --------------------------------------------------------------------------------------------


class Plain(Action):
    arguments = (
        Argument("name", "which"),
        Argument("type", "a kind", label="Kind of it"),
        Argument("after", "later", optional=True),
        Argument("text", "words", rest=True, suggested=True, multiline=True),
    )
    options = (
        Option("reason", "why", value="TEXT", needed=True, overrides=("held",), goes_with=("force",), multiline=True),
        Option("force", "all the same"),
        Option("sandbox", "a wall", value="LEVEL", ticked="write"),
        Option("wait", "seconds", value="N", number=True),
        Option("program", "which programs", value="P", listed=True),
        Option("unused", "not in the dialog"),
    )
    dialog_options = ("force", "reason", "after", "text", "sandbox", "wait", "program")


class Choosing(Plain):
    def choices(self, context: Context, name: str) -> list[str]:
        return []


def test_the_fields_are_what_the_action_takes_and_was_not_given() -> None:
    reason = FormField(
        "reason", "Reason", "why", required=True, overrides=("held",), goes_with=("force",), multiline=True
    )
    text = FormField("text", "Text", "words", first=True, suggested=True, multiline=True)
    assert fields(Plain(), {"name": "feat-x", "wait": 5}) == [
        FormField("type", "Kind of it", "a kind", required=True),
        FormField("force", "Force", "all the same", flag=True),
        reason,
        FormField("after", "After", "later", required=True),
        text,
        FormField("sandbox", "Sandbox", "a wall", flag=True, ticked="write"),
        FormField("program", "Program", "which programs", chosen=True, listed=True),
    ]
    found = {one.name: one for one in fields(Choosing(), {})}
    assert list(found) == ["name", "type", "force", "reason", "after", "text", "sandbox", "wait", "program"]
    assert [name for name, one in found.items() if one.chosen] == ["type", "program"], "a name is typed"
    assert found["wait"] == FormField("wait", "Wait", "seconds", number=True)


# -- how they look -----------------------------------------------------------------------------------------------------


def test_each_kind_of_field_has_its_input_and_its_label() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        kinds = {
            one.name: type(app.query_one(f"#ask-{one.name}")) for one in app.form.fields if one.name != "suggested"
        }
        assert kinds == {"text": TextField, "flag": TickBox, "chosen": ChoiceInput, "prompt": PromptField}
        assert isinstance(app.query_one("#ask-suggested"), Input) and len(app.query(SuggestionList)) == 1
        labels = {
            one.name: [str(label.content) for label in app.query(f"#field-{one.name} > .label").results(Static)]
            for one in app.form.fields
        }
        assert labels == {
            "text": ["Text"],
            "flag": [],
            "chosen": ["Chosen"],
            "suggested": ["Suggested"],
            "prompt": ["Prompt"],
        }
        assert [one.id for one in app.query("Form > .field.-tall")] == ["field-prompt"]
        assert len(app.query("Form > .field")) == 5
        assert [one.id for one in app.query(FileMatches)] == ["files-prompt"]
        assert (
            app.query_one("#ask-prompt", PromptField).placeholder
            == "the prompt; alt+⏎ a new line, ↑ an earlier one, @ a file"
        )
        assert app.query_one("#ask-text", Input).placeholder == "the text"

    show_form(
        play,
        field("text"),
        field("flag", flag=True),
        field("chosen", chosen=True),
        field("suggested", suggested=True),
        field("prompt", multiline=True),
    )


# -- which are shown ---------------------------------------------------------------------------------------------------


def test_fields_appear_after_the_refusal_they_override_and_stay() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        assert app.visible_fields == ["note"]
        assert app.form.values() == {} and app.form.missing is None
        app.form.show_overrides({"other"})
        assert app.visible_fields == ["note"]
        app.form.focus_way_out({"other"})
        assert app.focus != "ask-force"
        app.form.show_overrides({"held", "other"})
        assert app.visible_fields == ["note", "force", "wait"]
        app.form.focus_way_out({"held"})
        await wait_until(pilot, lambda: app.focus == "ask-force")
        app.form.show_overrides(set())
        assert app.visible_fields == ["note", "force", "wait"]

    show_form(
        play,
        field("note"),
        field("force", flag=True, overrides=("held", "stale"), required=True),
        field("wait", flag=True, overrides=("held",)),
    )


def test_a_form_begins_without_the_fields_for_later() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        assert app.visible_fields == ["note"]

    show_form(play, field("note"), field("reason", overrides=("held",)), field("more", goes_with=("note",)))


def test_a_field_that_goes_with_a_box_is_there_while_it_is_ticked() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.query_one("#ask-reason", Input).value = "kept"
        await pilot.pause()
        assert app.visible_fields == ["force", "program", "plain"] and app.form.values() == {}
        app.query_one("#ask-force", TickBox).value = True
        await wait_until(pilot, lambda: app.visible_fields == ["force", "reason", "program", "plain"])
        assert app.form.values() == {"force": True, "reason": "kept"}
        app.query_one("#ask-force", TickBox).value = False
        await wait_until(pilot, lambda: app.visible_fields == ["force", "program", "plain"])
        assert app.form.values() == {}
        app.form.offer("program", ["claude", "codex"])
        await pilot.pause()
        assert app.visible_fields == ["force", "program", "plain"], "none is chosen"
        app.query_one("#ask-program", ChoiceInput).choose("codex")
        await wait_until(pilot, lambda: app.visible_fields == ["force", "program", "prompt", "plain"])
        app.query_one("#ask-plain", Input).value = "a text is no tick"
        await pilot.pause()
        assert app.visible_fields == ["force", "program", "prompt", "plain"]

    show_form(
        play,
        field("force", flag=True),
        field("reason", goes_with=("force",)),
        field("program", chosen=True, listed=True),
        field("prompt", goes_with=("program",)),
        field("plain"),
        field("more", goes_with=("plain",)),
    )


def test_a_hidden_box_shows_nothing() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.query_one("#ask-force", TickBox).value = True
        await pilot.pause()
        assert app.visible_fields == []
        app.form.show_overrides({"held"})
        assert app.visible_fields == ["force", "reason"]

    show_form(play, field("force", flag=True, overrides=("held",)), field("reason", goes_with=("force",)))


# -- what they give ----------------------------------------------------------------------------------------------------


def test_values_are_those_of_filled_fields_without_spaces_around() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.form.offer("program", ["claude", "codex"])
        app.form.offer("type", ["feat", "fix"])
        assert app.query_one("#ask-program", ChoiceInput).values == ("none", "claude", "codex")
        assert app.query_one("#ask-type", ChoiceInput).values == ("feat", "fix")
        assert app.form.values() == {"type": "feat"}
        app.query_one("#ask-text", Input).value = "  two words "
        app.query_one("#ask-loud", TickBox).value = True
        app.query_one("#ask-wall", TickBox).value = True
        app.query_one("#ask-wait", Input).value = " 5 "
        app.query_one("#ask-prompt", PromptField).text = "\n one\ntwo \n"
        app.query_one("#ask-program", ChoiceInput).choose("codex")
        assert app.form.values() == {
            "text": "two words",
            "loud": True,
            "wall": "write",
            "wait": 5.0,
            "type": "feat",
            "program": "codex",
            "prompt": "one\ntwo",
        }
        app.query_one("#ask-text", Input).value = "none"
        assert app.form.values()["text"] == "none", "a word like any other"

    show_form(
        play,
        field("text"),
        field("loud", flag=True),
        field("wall", flag=True, ticked="write"),
        field("wait", number=True),
        field("type", chosen=True),
        field("program", chosen=True, listed=True),
        field("prompt", multiline=True),
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("0", 0.0), ("1", 1.0), ("2.5", 2.5), ("999999999999", 999999999999.0)],
        *[(text, None) for text in ("-1", "-0.5", "1e12", "x", "nan", "inf")],
    ],
)
def test_a_number_is_at_least_zero_and_not_beyond_all_measure(text: str, number: float | None) -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.query_one("#ask-wait", Input).value = text
        if number is None:
            with pytest.raises(UsageError) as caught:
                app.form.values()
            assert caught.value.sentence == f"wait must be a whole number, 0 or more, not {text!r}"
            assert caught.value.code == "bad-option"
        else:
            assert app.form.values() == {"wait": number}

    show_form(play, field("wait", number=True))


def test_the_first_empty_required_field_is_missing_and_the_first_to_type_in_comes_before_choices() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        form = app.form
        assert form.missing is form.fields[1], "not the optional one"
        assert getattr(form.first(), "id", None) == "ask-name"
        form.focus_field(form.fields[0])
        await wait_until(pilot, lambda: app.focus == "ask-note")
        form.offer("type", ["feat"])
        assert form.missing is form.fields[2]
        app.query_one("#ask-name", Input).value = "  "
        assert form.missing is form.fields[2]
        app.query_one("#ask-name", Input).value = "x"
        assert form.missing is None, "a hidden one is not asked for"

    show_form(
        play,
        field("note"),
        field("type", required=True, chosen=True),
        field("name", required=True),
        field("reason", required=True, overrides=("held",)),
    )


@pytest.mark.parametrize(
    ("shown", "first"),
    [
        ((field("note"),), None),
        ((field("note"), field("text", first=True)), "ask-text"),
        ((field("type", required=True, chosen=True),), "ask-type"),
        ((field("hidden", required=True, overrides=("held",)), field("text", first=True)), "ask-text"),
        ((field("hidden", first=True, goes_with=("x",)), field("note")), None),
    ],
)
def test_the_first_field_is_one_that_is_needed_and_shown(shown: tuple[FormField, ...], first: str | None) -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        assert getattr(app.form.first(), "id", None) == first

    show_form(play, *shown)


# -- keys ----------------------------------------------------------------------------------------------------------------


def test_arrow_keys_lead_from_field_to_field_and_enter_submits() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.form.focus_field(app.form.fields[0])
        await pilot.pause()
        for key, focus in (("down", "ask-loud"), ("right", "ask-last"), ("up", "ask-loud"), ("left", "ask-text")):
            await pilot.press(key)
            assert app.focus == focus
        before = app.changed  # a box reports its first value
        await pilot.press("x")
        await wait_until(pilot, lambda: app.changed == before + 1)
        await pilot.press("enter", "down", "enter")
        await wait_until(pilot, lambda: app.submitted == 2)
        await pilot.press("space")
        await wait_until(pilot, lambda: app.changed == before + 2)
        assert app.others == [], "the screen gets the form's own messages alone"

    show_form(play, field("text"), field("loud", flag=True), field("last"))


@pytest.mark.parametrize(
    ("typed", "kind", "name"),
    [
        ("fix/login", "fix", "login"),
        ("fix: login", "fix", "login"),
        ("fix:a/b", "fix", "a/b"),
        ("fix/a:b", "fix", "a:b"),
        ("odd/login", "feat", "odd/login"),
        ("fix", "feat", "fix"),
        ("/login", "feat", "/login"),
    ],
)
def test_a_type_in_front_of_a_name_is_chosen(typed: str, kind: str, name: str) -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.form.offer("type", ["feat", "fix"])
        box = app.query_one("#ask-name", TextField)
        box.value = typed
        await pilot.pause()
        await wait_until(pilot, lambda: (app.query_one("#ask-type", ChoiceInput).value, box.value) == (kind, name))

    show_form(play, field("type", required=True, chosen=True), field("name", required=True))


def test_a_name_without_a_type_beside_it_stays_as_it_is_typed() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        box = app.query_one("#ask-name", TextField)
        box.value = "fix/login"
        await pilot.pause()
        assert box.value == "fix/login"

    show_form(play, field("name", required=True), field("other", chosen=True))
    show_form(play, field("name", required=True), field("type"))


def offered(*values: str) -> Suggestions:
    return Suggestions([Suggestion(one, f"#{one}", f"number {one}") for one in values], "from here", str.isdigit)


def test_a_suggestion_is_searched_chosen_and_submitted() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.form.focus_field(app.form.fields[0])
        app.form.suggest("pr", offered("12", "7", "70"))
        await wait_until(pilot, lambda: app.changed == 1)
        lines = app.query_one(SuggestionList).lines
        assert [row.key for row in lines.rows] == ["12", "7", "70"] and app.form.values() == {}
        await pilot.press("down", "down")
        await wait_until(pilot, lambda: app.form.values() == {"pr": "7"} and app.changed == 3)
        await pilot.press("up")
        await wait_until(pilot, lambda: app.form.values() == {"pr": "12"})
        await pilot.press(*"number 70")
        await wait_until(pilot, lambda: [row.key for row in lines.rows] == ["70"])
        await wait_until(pilot, lambda: app.form.values() == {"pr": "70"})
        assert app.submitted == 0
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.submitted == 1)
        changed = app.changed
        await pilot.click(lines, times=1)
        await wait_until(pilot, lambda: app.changed > changed)
        assert app.submitted == 1
        await pilot.click(lines, times=2)
        await wait_until(pilot, lambda: app.submitted == 2)
        assert app.others == []

    show_form(play, field("pr", required=True, suggested=True), field("note"))


def test_what_was_typed_already_is_searched_in_the_suggestions_that_come_later() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.query_one("#ask-pr", Input).value = "7"
        await pilot.pause()
        app.form.suggest("pr", offered("12", "7"))
        assert [row.key for row in app.query_one(SuggestionList).lines.rows] == ["7"]
        assert app.form.values() == {"pr": "7"}

    show_form(play, field("pr", required=True, suggested=True))


def test_an_editor_recalls_texts_and_finds_files_and_enter_submits() -> None:
    async def play(app: FormApp, pilot: Pilot[None]) -> None:
        app.form.focus_field(app.form.fields[0])
        app.form.aid("prompt", WritingAids(["an earlier one"], ["README.md", "src/api.py"]))
        editor, matches = app.query_one("#ask-prompt", PromptField), app.query_one(FileMatches)
        await pilot.press("up")
        await wait_until(pilot, lambda: editor.text == "an earlier one" and app.changed > 0)
        await pilot.press("down", *"see @REA")
        await wait_until(pilot, lambda: matches.display and "README.md" in str(matches.content))
        await pilot.press("tab")
        await wait_until(pilot, lambda: editor.text == "see @README.md " and not matches.display)
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.submitted == 1)
        assert app.form.values() == {"prompt": "see @README.md"} and app.others == []

    show_form(play, field("prompt", multiline=True))
