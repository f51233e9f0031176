"""What every dialog does, whatever its action: focus, buttons, previews, overrides, answers by key, progress, results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from imi_monitor.actions.action import (
    Argument,
    KeyChoice,
    Option,
    Outcome,
    Preview,
    Request,
    Suggestion,
    Suggestions,
    WritingAids,
)
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.snapshot import Worktree
from imi_monitor.ui.dialogs.action_dialog import dialog_for
from imi_monitor.ui.dialogs.action_run import OpenContext
from imi_monitor.ui.widgets.form_inputs import ChoiceInput, TickBox
from imi_monitor.ui.widgets.key_choices import KeyChoices
from imi_monitor.ui.widgets.prompt_field import PromptField
from tests.limits import LIMIT
from tests.ui import snapshot_builder
from tests.ui.dialog_kit import DialogAction, DialogApp, Overridable, open_context, run_dialog, show_dialog
from tests.ui.pilot_kit import keep_toasts, wait_until

NOTE = Option("note", "something to say", value="TEXT")
TICK = Option("loud", "say it loudly")


class Choosing(DialogAction):
    """Takes one of a few known values."""

    arguments = (Argument("type", "a kind"),)

    def choices(self, context: Context, name: str) -> list[str]:
        return ["feat", "fix"]


class Listing(DialogAction):
    """Offers what is known, then what a server answers."""

    arguments = (Argument("pr", "a number", suggested=True),)

    def __init__(self, known: Suggestions | ImiError | None, asked: Suggestions | ImiError | None = None) -> None:
        super().__init__()
        self.found = {False: known, True: asked}
        self.asked: list[bool] = []

    def suggestions(self, context: Context, name: str, *, ask: bool) -> Suggestions | None:
        self.asked.append(ask)
        self.contexts.append(context)
        found = self.found[ask]
        if isinstance(found, ImiError):
            raise found
        return found


def suggest(*values: str, origin: str) -> Suggestions:
    return Suggestions([Suggestion(one, f"#{one}", f"number {one}") for one in values], origin, str.isdigit)


def refused(text: str, code: str = "other", **more: Any) -> Callable[[Request], ImiError]:
    return lambda _: Refused(text, code=code, **more)


# -- how it looks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "names", "title", "act", "variant", "tone"),
    [
        ({}, (), "Try feat-x", "Try", "primary", "-neutral"),
        ({"label": "Send notes"}, (), "Send notes · feat-x", "Send notes", "primary", "-neutral"),
        ({"label": "Fourteen chars"}, (), "Fourteen chars · feat-x", "Fourteen", "primary", "-neutral"),
        ({"label": "Fifteen letters"}, (), "Fifteen letters · feat-x", "Fifteen", "primary", "-neutral"),
        ({"dangerous": True}, (), "Try feat-x", "Try", "error", "-danger"),
        ({"dangerous": True, "brings_work": True}, (), "Try feat-x", "Try", "success", "-success"),
        ({"brings_work": True}, (), "Try feat-x", "Try", "primary", "-neutral"),
        ({}, ("feat-a", "feat-b"), "Try 2 worktrees", "Try 2", "primary", "-neutral"),
        ({"arguments": ()}, ("feat-a", "feat-b"), "Try", "Try", "primary", "-neutral"),
        ({"arguments": (), "label": "Sync all"}, (), "Sync all", "Sync all", "primary", "-neutral"),
    ],
)
def test_title_and_buttons_name_the_act_and_its_danger(
    attributes: dict[str, Any], names: tuple[str, ...], title: str, act: str, variant: str, tone: str
) -> None:
    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert str(app.dialog.query_one(".title", Static).content) == title
        assert (str(app.button("act").label), app.button("act").variant) == (act, variant)
        assert str(app.button("leave").label) == "Cancel"
        assert app.dialog.query_one(".dialog").has_class(tone)
        assert {app.button(name).region.height for name in ("act", "leave")} == {1}
        assert str(app.dialog.query_one(".help", Static).content) == "Try one thing."
        assert not app.dialog.query_one(".lines").can_focus

    show_dialog(DialogAction(**attributes), play, names=names)


def test_the_name_in_a_title_is_short_and_harmless() -> None:
    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        title = str(app.dialog.query_one(".title", Static).content)
        assert "\x1b" not in title and len(title) < 70
        assert app.override.placeholder.startswith("Type ") and "\x1b" not in app.override.placeholder

    show_dialog(Overridable(), play, values={"name": "\x1b[31m" + "x" * 500})


def test_the_field_for_the_name_says_what_to_type_and_only_an_action_with_an_override_has_it() -> None:
    async def with_one(app: DialogApp, pilot: Pilot[None]) -> None:
        assert app.override.placeholder == "Type feat-x to send it anyway"
        assert app.override.display and app.override.visible
        assert app.dialog.query_one(".lines").styles.max_height.value == 40 - 10  # type: ignore[union-attr]

    async def without(app: DialogApp, pilot: Pilot[None]) -> None:
        assert not app.override.display and not app.override.visible
        assert app.dialog.query_one(".lines").styles.max_height.value == 40 - 8  # type: ignore[union-attr]

    show_dialog(Overridable(label="Send notes"), with_one)
    show_dialog(DialogAction(reply=refused("no", code="work")), without)


def test_title_and_buttons_stay_on_a_small_screen_and_the_text_scrolls_by_pages() -> None:
    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        lines = app.dialog.query_one(".lines")
        assert lines.styles.max_height.value == 8  # type: ignore[union-attr]
        await wait_until(pilot, lambda: lines.max_scroll_y > 20)
        page = lines.size.height - 1
        for key, pages in (("pagedown", 1), ("pagedown", 2), ("pageup", 1)):
            await pilot.press(key)
            await wait_until(pilot, lambda: lines.scroll_y == pages * page)  # noqa: B023
        await pilot.resize_terminal(80, 6)
        await wait_until(pilot, lambda: lines.styles.max_height.value == 3)  # type: ignore[union-attr]

    show_dialog(DialogAction(reply=lambda _: [f"line {n}" for n in range(50)]), play, size=(80, 16))


def test_a_refusal_is_scrolled_into_view() -> None:
    def fail(_context: Context, _request: Request) -> Outcome:
        raise ImiError("it failed", details=[f"detail {n}" for n in range(50)])

    action = DialogAction(
        options=tuple(Option(f"o{n}", "text", value="TEXT") for n in range(20)),
        dialog_options=tuple(f"o{n}" for n in range(20)),
        result=fail,
    )

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.button("act").press()
        await wait_until(pilot, lambda: "it failed" in app.said)
        lines, said = app.dialog.query_one(".lines"), app.dialog.query_one("#said")
        await wait_until(pilot, lambda: 0 <= said.region.y - lines.region.y <= 1)

    show_dialog(action, play, size=(80, 20))


# -- focus ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "values", "focus"),
    [
        (DialogAction(), None, "act"),
        (DialogAction(dangerous=True), None, "leave"),
        (DialogAction(options=(NOTE,), dialog_options=("note",)), None, "act"),
        (DialogAction(arguments=(Argument("word", "a word"),)), {}, "ask-word"),
        (DialogAction(arguments=(Argument("word", "a word"),), dangerous=True), {}, "ask-word"),
    ],
)
def test_the_focus_begins_where_an_enter_does_no_harm(
    action: DialogAction, values: dict[str, object] | None, focus: str
) -> None:
    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert app.focus == focus

    show_dialog(action, play, values=values)


@pytest.mark.parametrize("key", ["letter", "arrow", "on a box", "without override", "while it runs"])
def test_a_letter_typed_on_a_button_begins_the_name_of_the_override(key: str) -> None:
    going, go_on = threading.Event(), threading.Event()

    def work(_context: Context, _request: Request) -> Outcome:
        going.set()
        assert go_on.wait(LIMIT)
        return Outcome(["tried"])

    kind = DialogAction if key == "without override" else Overridable
    action = kind(reply=lambda _: ["goes well"], options=(TICK,), dialog_options=("loud",), result=work)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.button("leave").focus()
        if key == "while it runs":
            app.button("act").press()
            await wait_until(pilot, going.is_set)
            app.button("leave").focus()
        elif key == "on a box":
            app.dialog.query_one("#ask-loud").focus()
        await pilot.pause()
        await pilot.press("right" if key == "arrow" else "f", "left" if key == "arrow" else "e")
        go_on.set()
        if key == "letter":
            await wait_until(pilot, lambda: app.override.value == "fe")
            assert app.override.visible and app.focus == "override"
        else:
            assert app.override.value == "" and not app.override.visible

    show_dialog(action, play)


# -- preview ----------------------------------------------------------------------------------------------------------


def test_the_preview_follows_the_values_and_the_action_gets_what_the_preview_bound() -> None:
    action = DialogAction(
        options=(NOTE,),
        dialog_options=("note",),
        reply=lambda request: Preview([f"says {request.text('note')}"], bound={"seen": request.text("note")}),
    )

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert app.said == "says None"
        field = app.dialog.query_one("#ask-note", Input)
        field.value = "this"
        await wait_until(pilot, lambda: app.said == "checking…")
        await wait_until(pilot, lambda: app.said == "says this")
        before = len(action.previewed)
        field.value = "this "  # the same value for the action
        await pilot.pause(0.4)
        assert len(action.previewed) == before, "nothing is asked again without a change"
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play)
    assert action.ran == [{"name": "feat-x", "note": "this", "seen": "this"}]
    assert action.previewed == [{"name": "feat-x"}, {"name": "feat-x", "note": "this", "seen": None}]


def test_a_preview_knows_whether_it_is_still_wanted_and_whether_the_registry_is_needed() -> None:
    known = threading.Event()

    def late(request: Request) -> list[str]:
        assert request.text("note") or known.wait(LIMIT)
        return [f"says {request.text('note')}"]

    action = DialogAction(needs_registry=False, options=(NOTE,), dialog_options=("note",), reply=late)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: action.contexts)
        first = action.contexts[0]
        assert not first.needs_registry and not first.cancelled()
        app.dialog.query_one("#ask-note", Input).value = "other"
        await wait_until(pilot, first.cancelled)
        known.set()
        await wait_until(pilot, lambda: app.said == "says other")

    show_dialog(action, play, wait=False)


def test_closing_a_dialog_stops_its_preview() -> None:
    known = threading.Event()
    action = DialogAction(reply=lambda _: ["late"] if known.wait(LIMIT) else [])

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: action.contexts)
        await pilot.press("escape")
        await wait_until(pilot, action.contexts[0].cancelled)
        known.set()

    show_dialog(action, play, wait=False)


def test_previews_of_several_worktrees_stop_between_two_of_them() -> None:
    known = threading.Event()

    def late(request: Request) -> list[str]:
        assert request.text("note") or known.wait(LIMIT)
        return [f"says {request.text('note')}"]

    action = DialogAction(options=(NOTE,), dialog_options=("note",), reply=late)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: action.contexts)
        app.dialog.query_one("#ask-note", Input).value = "other"
        await wait_until(pilot, action.contexts[0].cancelled)
        known.set()
        await wait_until(pilot, lambda: app.said.count("says other") == 2)

    show_dialog(action, play, names=("feat-a", "feat-b"), wait=False)
    assert action.previewed == [{"name": "feat-a"}, *({"name": name, "note": "other"} for name in ("feat-a", "feat-b"))]


def test_a_number_that_is_none_is_told_and_nothing_is_run() -> None:
    action = DialogAction(
        options=(Option("wait", "seconds", value="N", number=True),), dialog_options=("wait",), arguments=()
    )

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        field = app.dialog.query_one("#ask-wait", Input)
        field.value = "5"
        await wait_until(pilot, lambda: {"wait": 5.0} in action.previewed)
        field.value = "soon"
        await wait_until(pilot, lambda: "wait must be a whole number" in app.said)
        app.button("act").press()
        await pilot.pause(0.1)
        assert "wait must be a whole number" in app.said and not action.ran
        field.value = "5"
        await wait_until(pilot, lambda: app.said == "tries it")
        assert action.previewed[-1] == {"wait": 5.0} and len(action.previewed) == 3, "it is asked anew"

    show_dialog(action, play, values={})


def test_a_required_field_is_named_and_focused() -> None:
    action = DialogAction(arguments=(Argument("word", "a word", label="Magic word"),))

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert app.said == "Enter: magic word" and not action.previewed
        app.button("act").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.focus == "ask-word")
        await pilot.press(*"x")
        await wait_until(pilot, lambda: app.said == "tries it")
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play, values={})
    assert action.ran == [{"word": "x"}]


def test_an_error_of_one_worktree_is_shown_with_its_name_and_the_others_are_done() -> None:
    def reply(request: Request) -> list[str]:
        if request.text("name") == "feat-b":
            raise RuntimeError("broken")
        return ["tries it"]

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert "1 of 2 can be done" in app.said and "RuntimeError: broken" in app.said
        assert not app.override.visible

    show_dialog(Overridable(reply=reply), play, names=("feat-a", "feat-b"))


def test_each_worktree_gets_its_own_context_and_what_its_own_preview_bound() -> None:
    action = DialogAction(reply=lambda request: Preview(["fine"], bound={"seen": request.text("name")}))

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.button("act").press()
        await wait_until(pilot, lambda: "all 2 done" in app.said)

    show_dialog(action, play, names=("feat-a", ("feat-b", lambda: Context("/tmp"))))
    assert action.ran == [{"name": name, "seen": name} for name in ("feat-a", "feat-b")]
    assert [context.cwd for context in action.contexts] == ["/", "/tmp"] * 2


def test_a_refusal_of_one_of_several_offers_its_fields() -> None:
    action = DialogAction(
        options=(Option("anyway", "all the same", overrides=("work",)),),
        dialog_options=("anyway",),
        reply=lambda request: Refused("work", code="work") if request.text("name") == "feat-b" else ["fine"],
    )

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert app.dialog.query_one("#field-anyway").display

    show_dialog(action, play, names=("feat-a", "feat-b"))


# -- values that are offered -------------------------------------------------------------------------------------------


def test_known_values_are_offered_and_a_failure_to_read_them_is_told() -> None:
    async def offered(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: app.dialog.query_one(ChoiceInput).values == ("feat", "fix"))
        await wait_until(pilot, lambda: app.said == "tries it")

    class Failing(Choosing):
        def choices(self, context: Context, name: str) -> list[str]:
            raise Refused("no types")

    async def failing(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: "✗ no types" in app.said)

    show_dialog(Choosing(), offered, values={}, wait=False)
    show_dialog(Failing(), failing, values={}, wait=False)


def test_an_enter_before_the_known_values_are_read_acts_once_they_are() -> None:
    known = threading.Event()

    class Late(Choosing):
        def choices(self, context: Context, name: str) -> list[str]:
            assert known.wait(LIMIT)
            return ["feat"]

    action = Late()

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await pilot.pause()
        assert not action.ran and app.said == "Enter: type"
        known.set()
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play, values={}, wait=False)
    assert action.ran == [{"type": "feat"}]


@pytest.mark.parametrize(
    ("known", "asked", "origins", "values"),
    [
        (suggest("1", origin="kept"), suggest("1", "2", origin="asked"), "asked", ("2",)),
        (suggest("1", origin="kept"), Refused("no net"), "kept", ("1",)),
        (suggest("1", origin="kept"), None, "kept", ("1",)),
        (Refused("no file"), suggest("2", origin="asked"), "asked", ("2",)),
        (Refused("no file"), Refused("no net"), "? no net", ()),
        (None, suggest("2", origin="never asked"), "looking…", ()),
    ],
)
def test_suggestions_are_those_that_could_be_read(
    known: Any, asked: Any, origins: str, values: tuple[str, ...]
) -> None:
    action = Listing(known, asked)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        def origin() -> str:
            return str(app.dialog.query_one(".suggestions-origin", Static).content)

        await wait_until(pilot, lambda: origin() == origins and len(action.asked) == (1 if known is None else 2))
        for value in values:
            await pilot.press(*value)
            await wait_until(pilot, lambda: app.said == "tries it")
            assert action.previewed[-1] == {"pr": value}
            await pilot.press("backspace")
        if origins.startswith("?"):
            await pilot.press(*"anything")
            await wait_until(pilot, lambda: app.said == "tries it")
            assert action.previewed[-1] == {"pr": "anything"}, "without a list any text is taken"
        assert not any(context.cancelled() for context in action.contexts[:1])
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.closed)
        assert action.contexts[0].cancelled()

    show_dialog(action, play, values={})
    assert action.asked == [False, True][: 1 if known is None else 2]


class Writing(DialogAction):
    """Has an editor, with earlier texts and files beside it."""

    arguments = (Argument("name", "which"),)
    options = (Option("prompt", "what to do", value="TEXT", multiline=True),)
    dialog_options = ("prompt",)

    def __init__(self, found: WritingAids | ImiError | None) -> None:
        super().__init__()
        self.found = found
        self.asked: list[tuple[Context, dict[str, object]]] = []

    def writing_aids(self, context: Context, request: Request) -> WritingAids | None:
        self.asked.append((context, request.values))
        if isinstance(self.found, ImiError):
            raise self.found
        return self.found


@pytest.mark.parametrize("found", [WritingAids(["an earlier one"], ["README.md"]), None, Refused("no registry")])
def test_an_editor_recalls_earlier_texts_where_they_can_be_read(found: Any) -> None:
    action = Writing(found)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        editor = app.dialog.query_one(PromptField)
        editor.focus()
        await wait_until(pilot, lambda: action.asked and app.focus == "ask-prompt")
        await pilot.pause(0.1)
        await pilot.press("up")
        await pilot.pause()
        assert editor.text == ("an earlier one" if isinstance(found, WritingAids) else "")
        context, values = action.asked[0]
        assert values == {"name": "feat-x"} and not context.cancelled()
        await pilot.press("escape", "escape")
        await wait_until(pilot, lambda: app.closed)
        assert context.cancelled()

    show_dialog(action, play)
    assert len(action.asked) == 1


def test_without_an_editor_no_texts_are_read() -> None:
    action = Writing(None)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await pilot.pause(0.1)
        assert action.asked == []

    show_dialog(action, play, values={"name": "feat-x", "prompt": "given"})


@pytest.mark.parametrize("kind", ["values", "suggestions", "texts"])
def test_a_dialog_is_closed_while_it_reads_what_it_offers(kind: str) -> None:
    known, asked, done = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        assert known.wait(LIMIT)
        done.set()

    class Late(Choosing):
        def choices(self, context: Context, name: str) -> list[str]:
            wait()
            return ["feat"]

        def suggestions(self, context: Context, name: str, *, ask: bool) -> Suggestions:
            wait()
            return suggest("1", origin="late")

        def writing_aids(self, context: Context, request: Request) -> WritingAids:
            wait()
            return WritingAids([], [])

    arguments = {"values": Argument("type", "a kind"), "suggestions": Argument("pr", "a number", suggested=True)}
    action = Late(arguments=(arguments.get(kind, Argument("text", "words", multiline=True)),))

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, asked.is_set)
        await pilot.press("escape", "escape")
        await wait_until(pilot, lambda: app.closed == [None])
        known.set()
        await wait_until(pilot, done.is_set)
        await pilot.pause(0.1)  # the answer finds no dialog

    show_dialog(action, play, values={}, wait=False)


# -- answers with keys -------------------------------------------------------------------------------------------------

ANSWERS = (KeyChoice("y", "yes", "Yes"), KeyChoice("n", "no", "No"), KeyChoice("s", "", "Say nothing"))


def asking(**attributes: Any) -> DialogAction:
    return DialogAction(
        **{
            "chosen_by_key": "answer",
            "options": (Option("answer", "what", value="TEXT"), NOTE),
            "dialog_options": ("note",),
            "reply": lambda _: Preview(["a question"], choices=ANSWERS),
            **attributes,
        }
    )


@pytest.mark.parametrize(("key", "more"), [("y", {"answer": "yes"}), ("n", {"answer": "no"}), ("s", {})])
def test_a_key_gives_its_answer_with_the_fields_beside_it(key: str, more: dict[str, str]) -> None:
    action = asking()

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        said, choices, form = (app.dialog.query_one(name) for name in ("#said", "#choices", "#form"))
        await wait_until(pilot, lambda: said.region.y < choices.region.y < form.region.y)
        assert app.focus == "choices" and said.has_class("question")
        app.dialog.query_one("#ask-note", Input).value = "so"
        await wait_until(
            pilot, lambda: {"name": "feat-x", "note": "so"} in action.previewed and app.said == "a question"
        )
        await pilot.press(key)
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play)
    assert action.ran == [{"name": "feat-x", "note": "so", **more}]


def test_a_required_field_may_be_empty_when_a_key_answers() -> None:
    class Needing(DialogAction):
        arguments = (Argument("name", "which"), Argument("text", "an answer", rest=True))

    action = Needing(
        chosen_by_key="answer",
        options=(Option("answer", "what", value="TEXT"), Option("why", "why", value="TEXT", needed=True)),
        dialog_options=("why",),
        reply=lambda _: Preview(["a question"], choices=ANSWERS),
    )

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        field = app.dialog.query_one("#ask-why", Input)
        field.value = "x"
        await wait_until(pilot, lambda: app.said == "a question")
        field.value = ""
        await wait_until(pilot, lambda: app.said == "Enter: why")
        app.dialog.query_one(KeyChoices).focus()
        await pilot.press("y")
        await pilot.pause(0.1)

    show_dialog(action, play)
    assert action.ran in ([], [{"name": "feat-x", "answer": "yes"}])


def test_no_key_answers_a_question_that_is_being_read_again() -> None:
    known = threading.Event()
    known.set()

    def reply(_: Request) -> Preview:
        assert known.wait(LIMIT)
        return Preview(["a question"], choices=ANSWERS)

    action = asking(reply=reply)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        known.clear()
        app.dialog.query_one("#ask-note", Input).value = "so"
        await wait_until(pilot, lambda: app.said == "checking…")
        app.dialog.query_one(KeyChoices).focus()
        await pilot.press("y")
        await pilot.pause(0.1)
        assert not action.ran
        known.set()
        await wait_until(pilot, lambda: app.said == "a question")
        await pilot.press("y")
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play)
    assert [one["answer"] for one in action.ran] == ["yes"]


@pytest.mark.parametrize(("second", "same"), [(ANSWERS, True), (ANSWERS[:2], False), ((), False)])
def test_several_questions_are_answered_at_once_only_if_their_answers_are_the_same(
    second: tuple[KeyChoice, ...], same: bool
) -> None:
    def reply(request: Request) -> Preview:
        return Preview(["?"], choices=ANSWERS if request.text("name") == "feat-a" else second)

    action = asking(reply=reply)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert app.dialog.query_one(KeyChoices).choices == (ANSWERS if same else ())
        await wait_until(pilot, lambda: app.focus == ("choices" if same else "leave"))
        if same:
            await pilot.press("y")
            await wait_until(pilot, lambda: "all 2 done" in app.said)
            await pilot.press("y")
            await pilot.pause(0.1)
            assert len(action.ran) == 2, "a key on the results answers nothing"

    show_dialog(action, play, names=("feat-a", "feat-b"))


def test_without_an_answer_to_pick_the_field_to_write_in_has_the_focus() -> None:
    action = asking(
        reply=lambda _: Preview(["write it"]),
        arguments=(Argument("name", "which"), Argument("text", "an answer", rest=True)),
        dialog_options=("text",),
    )

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: app.focus == "ask-text")

    show_dialog(action, play)


def test_while_an_answer_is_given_no_other_can_be_picked() -> None:
    going, go_on = threading.Event(), threading.Event()

    def work(_context: Context, _request: Request) -> Outcome:
        going.set()
        assert go_on.wait(LIMIT)
        raise Refused("too late")

    action = asking(result=work)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await pilot.press("y")
        await wait_until(pilot, going.is_set)
        answers = app.dialog.query_one(KeyChoices)
        assert answers.disabled and app.focus == "leave"
        answers.post_message(KeyChoices.AnswerPicked("no"))
        await pilot.pause(0.1)
        assert len(action.ran) == 1
        go_on.set()
        await wait_until(pilot, lambda: "too late" in app.said)
        assert not answers.disabled

    show_dialog(action, play)


# -- overrides --------------------------------------------------------------------------------------------------------


def test_the_typed_name_passes_a_refusal_and_nothing_else_does() -> None:
    action = Overridable(dangerous=True)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        keep_toasts(app)
        await wait_until(pilot, lambda: "there is work in it" in app.said and app.focus == "override")
        await pilot.press(*"feat", "enter")
        await wait_until(pilot, lambda: app.toasts == ["Type feat-x to try it anyway"])
        app.button("act").press()
        await wait_until(pilot, lambda: action.ran == [{"name": "feat-x"}])
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play)

    async def typed(app: DialogApp, pilot: Pilot[None]) -> None:
        app.override.value = " feat-x "
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.closed)

    action.ran.clear()
    show_dialog(action, typed)
    assert action.ran == [{"name": "feat-x", "force": "feat-x"}]


@pytest.mark.parametrize("trusted", ["visible", "hidden"])
def test_the_name_counts_only_while_it_is_asked_for(trusted: str) -> None:
    action = Overridable() if trusted == "visible" else Overridable(reply=lambda _: ["fine"])

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.override.value = "feat-x"
        app.button("act").press()
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play)
    assert action.ran == [{"name": "feat-x", **({"force": "feat-x"} if trusted == "visible" else {})}]


def test_a_refusal_that_no_name_passes_asks_for_none() -> None:
    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert "never" in app.said and not app.override.visible and app.focus == "act"

    show_dialog(Overridable(reply=refused("never", "trunk")), play)
    show_dialog(Overridable(reply=refused("never, of none", "work"), arguments=()), play, values={})


def test_the_focus_goes_to_the_field_that_passes_a_refusal() -> None:
    def action(**more: Any) -> DialogAction:
        option = Option("anyway", "all the same", overrides=("work",))
        return DialogAction(options=(NOTE, option), dialog_options=("note", "anyway"), **more)

    async def moved(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: app.focus == "ask-anyway")

    async def stays(app: DialogApp, pilot: Pilot[None]) -> None:
        assert app.focus == "leave", "nothing dangerous is one key nearer"

    async def hidden(app: DialogApp, pilot: Pilot[None]) -> None:
        assert app.focus == "act" and not app.dialog.query_one("#field-anyway").display

    async def elsewhere(app: DialogApp, pilot: Pilot[None]) -> None:
        app.dialog.query_one("#ask-note").focus()
        known.set()
        await wait_until(pilot, lambda: "work" in app.said)
        await pilot.pause()
        assert app.focus == "ask-note", "a user who types is not moved"

    show_dialog(action(reply=refused("work", "work")), moved)
    show_dialog(action(reply=refused("work", "work"), dangerous=True), stays)
    show_dialog(action(reply=refused("no", "other")), hidden)
    known = threading.Event()

    def late(_: Request) -> ImiError:
        assert known.wait(LIMIT)
        return Refused("work", code="work")

    show_dialog(action(reply=late), elsewhere, wait=False)


def test_the_field_for_the_name_goes_when_the_refusal_does() -> None:
    action = Overridable(options=(TICK,), dialog_options=("loud",), dangerous=True)
    action.reply = lambda request: ["fine"] if request.flag("loud") else Refused("work", code="work")

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: app.focus == "override")
        app.dialog.query_one(TickBox).value = True
        await wait_until(pilot, lambda: app.said == "fine" and not app.override.visible)
        await wait_until(pilot, lambda: app.focus == "leave")
        app.override.value = "feat-x"
        app.button("act").press()
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play)
    assert action.ran == [{"name": "feat-x", "loud": True}]


@pytest.mark.parametrize(("typed", "reply", "acts"), [("feat-x", "fine", True), ("feat", "fine", False)])
def test_an_enter_in_the_name_waits_for_the_reasons(typed: str, reply: str, acts: bool) -> None:
    known = threading.Event()

    def late(_: Request) -> list[str]:
        assert known.wait(LIMIT)
        return [reply]

    action = Overridable(reply=late)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.override.visible = True
        app.override.focus()
        await pilot.press(*typed, "enter")
        await pilot.pause()
        assert not action.ran
        known.set()
        await wait_until(pilot, lambda: app.said == reply or app.closed)
        if acts:
            await wait_until(pilot, lambda: app.closed)
        else:
            await pilot.pause(0.1)
            assert not action.ran

    show_dialog(action, play, wait=False)
    assert action.ran == ([{"name": "feat-x"}] if acts else [])


@pytest.mark.parametrize("typed", ["", "feat"])
def test_an_early_enter_without_the_whole_name_says_what_to_type(typed: str) -> None:
    known = threading.Event()

    def late(_: Request) -> ImiError:
        assert known.wait(LIMIT)
        return Refused("there is work in it", code="work")

    action = Overridable(reply=late)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        keep_toasts(app)
        app.override.visible = True
        app.override.focus()
        await pilot.press(*typed, "enter")
        known.set()
        await wait_until(pilot, lambda: app.toasts == ["Type feat-x to try it anyway"])
        assert not action.ran

    show_dialog(action, play, wait=False)


# -- running ----------------------------------------------------------------------------------------------------------


def test_an_action_in_the_background_is_given_its_targets_and_the_dialog_closes() -> None:
    given: list[tuple[list[str | None], dict[str, object]]] = []
    action = DialogAction(options=(TICK,), dialog_options=("loud",), background_option="loud")

    def in_background(targets: Any, values: dict[str, object]) -> None:
        given.append(([one.name for one in targets], values))

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.dialog.query_one(TickBox).value = True
        await pilot.pause()
        app.button("act").press()
        await wait_until(pilot, lambda: app.closed == [None])

    show_dialog(action, play, in_background=in_background)
    assert (given, action.ran) == ([(["feat-x"], {"name": "feat-x", "loud": True})], [])

    async def unticked(app: DialogApp, pilot: Pilot[None]) -> None:
        app.button("act").press()
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, unticked, in_background=in_background)
    assert len(given) == 1 and action.ran == [{"name": "feat-x"}]
    show_dialog(action, play_ticked, in_background=None)
    assert action.ran[1:] == [{"name": "feat-x", "loud": True}]


async def play_ticked(app: DialogApp, pilot: Pilot[None]) -> None:
    app.dialog.query_one(TickBox).value = True
    await pilot.pause()
    app.button("act").press()
    await wait_until(pilot, lambda: app.closed and app.closed[0] is not None)


class Working(DialogAction):
    """Works until it is let go; its first preview and its run can be seen."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.going, self.go_on = threading.Event(), threading.Event()
        self.result = self.work

    def work(self, context: Context, request: Request) -> Outcome:
        self.going.set()
        context.progress("step one")
        assert self.go_on.wait(LIMIT)
        if context.cancelled():
            raise Refused("it was cancelled", code="cancelled")
        return Outcome(["tried"])


@pytest.mark.parametrize("dangerous", [False, True])
def test_while_it_runs_only_stopping_is_possible(dangerous: bool) -> None:
    action = Working(options=(NOTE,), dialog_options=("note",), dangerous=dangerous)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        parts = (app.dialog.form, app.override, app.button("act"))
        app.button("act").press()
        await wait_until(pilot, lambda: action.going.is_set() and "step one" in app.said)
        assert all(one.disabled for one in parts)
        assert (str(app.button("leave").label), app.focus) == ("Stop", "leave")
        app.button("act").post_message(app.button("act").Pressed(app.button("act")))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Stopping at the next safe point" in app.said)
        assert app.toasts == []
        action.go_on.set()
        await wait_until(pilot, lambda: "it was cancelled" in app.said)
        assert not any(one.disabled for one in parts) and len(action.ran) == 1
        assert (str(app.button("leave").label), app.focus) == ("Cancel", "leave" if dangerous else "act")
        app.button("act").press()
        await wait_until(pilot, lambda: app.closed)
        assert app.closed[0] is not None and app.closed[0].lines == ["tried"]

    show_dialog(action, play)


def test_a_dialog_that_is_closed_while_it_runs_stops_its_action_and_its_preview() -> None:
    action = Working(options=(NOTE,), dialog_options=("note",))

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.button("act").press()
        await wait_until(pilot, action.going.is_set)
        context = action.contexts[-1]
        assert not context.cancelled()
        await app.pop_screen()
        await wait_until(pilot, context.cancelled)
        action.go_on.set()
        await pilot.pause(0.2)  # its end finds no dialog

    show_dialog(action, play)


def test_the_seconds_count_while_an_action_is_silent() -> None:
    action = Working()

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.button("act").press()
        await wait_until(pilot, lambda: "step one" in app.said)
        began = time.monotonic()
        first = app.said
        await wait_until(pilot, lambda: app.said != first)
        assert time.monotonic() - began > 0.2 and "step one" in app.said
        action.go_on.set()
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play)


def test_a_button_takes_presses_without_a_pause() -> None:
    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert [app.button(name).active_effect_duration for name in ("act", "leave")] == [0, 0]

    show_dialog(DialogAction(), play)


def test_the_results_of_several_stay_until_the_dialog_is_closed() -> None:
    def result(_context: Context, request: Request) -> Outcome:
        if request.text("name") == "feat-b":
            raise Refused("not this one")
        return Outcome(["went through", "in detail"], warnings=["mind this"])

    action = DialogAction(result=result, options=(NOTE,), dialog_options=("note",), dangerous=True)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.button("act").press()
        await wait_until(pilot, lambda: "1 done, 1 not" in app.said)
        assert not app.dialog.form.display and not app.button("act").display
        assert (str(app.button("leave").label), app.focus) == ("Close", "leave")
        app.dialog.query_one("#ask-note", Input).value = "late"
        await pilot.pause(0.4)
        assert "1 done, 1 not" in app.said, "no preview over the results"
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.closed)
        assert app.toasts == []

    async def kept(app: DialogApp, pilot: Pilot[None]) -> None:
        await play(app, pilot)
        outcome = app.closed[0]
        assert outcome is not None
        assert (outcome.lines, outcome.warnings, outcome.exit_status) == (
            ["went through", "not this one"],
            ["mind this"],
            1,
        )
        assert outcome.data == {"results": [{"name": "feat-a", "done": True}, {"name": "feat-b", "done": False}]}

    show_dialog(action, kept, names=("feat-a", "feat-b"))


def test_a_preview_that_comes_after_the_act_is_not_shown() -> None:
    known = threading.Event()

    def late(request: Request) -> list[str]:
        if request.text("note"):
            assert known.wait(LIMIT)
        return ["tries it"]

    action = Working(reply=late, options=(NOTE,), dialog_options=("note",))

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        app.dialog.query_one("#ask-note", Input).value = "so"
        await wait_until(pilot, lambda: len(action.previewed) == 2)
        app.button("act").press()
        await wait_until(pilot, lambda: "step one" in app.said)
        assert action.contexts[1].cancelled(), "nobody waits for it"
        known.set()
        await pilot.pause(0.1)
        assert "tries it" not in app.said
        action.go_on.set()
        await wait_until(pilot, lambda: app.closed)

    show_dialog(action, play)


# -- leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dangerous", "by", "told"),
    [(True, "enter", True), (True, "click", False), (True, "escape", False), (False, "enter", False)],
)
def test_cancelling_something_dangerous_by_enter_says_how_to_do_it(dangerous: bool, by: str, told: bool) -> None:
    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        keep_toasts(app)
        app.button("leave").focus()
        if by == "click":
            await pilot.click("#leave")
        else:
            await pilot.press(by)
        await wait_until(pilot, lambda: app.closed == [None])
        assert app.toasts == (["Cancelled. To try, choose the other button: → then ⏎"] if told else [])

    show_dialog(DialogAction(dangerous=dangerous), play)


def test_an_early_enter_on_cancel_does_nothing_unless_a_value_is_missing() -> None:
    known = threading.Event()

    def late(_: Request) -> list[str]:
        assert known.wait(LIMIT)
        return ["fine"]

    async def early(app: DialogApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert not app.closed
        known.set()
        await wait_until(pilot, lambda: app.said == "fine")

    async def missing(app: DialogApp, pilot: Pilot[None]) -> None:
        app.button("leave").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.closed == [None])

    show_dialog(DialogAction(dangerous=True, reply=late), early, wait=False)
    show_dialog(DialogAction(dangerous=True, arguments=(Argument("word", "a word"),)), missing, values={})


# -- which dialog -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "trees", "values", "title", "asked", "previewed"),
    [
        (1, ["feat-a"], None, "Try feat-a", ["feat-a"], [{"name": "feat-a"}]),
        (1, ["feat-a"], {"note": "x"}, "Try feat-a", ["feat-a"], [{"name": "feat-a", "note": "x"}]),
        (1, ["feat-a"], {"name": "other"}, "Try other", ["feat-a"], [{"name": "other"}]),
        (1, ["a", "b"], None, "Try 2 worktrees", ["a", "b", "a"], [{"name": "a"}, {"name": "b"}]),
        (0, ["a", "b"], None, "Try", ["a"], [{}]),
        (0, [], None, "Try", [None], [{}]),
    ],
)
def test_a_dialog_is_about_the_selected_worktrees_unless_its_action_needs_none(
    arguments: int,
    trees: list[str],
    values: dict[str, object] | None,
    title: str,
    asked: list[str | None],
    previewed: list[dict[str, object]],
) -> None:
    action, found = DialogAction(arguments=DialogAction.arguments[:arguments]), []

    def context_of(tree: Worktree | None) -> OpenContext:
        found.append(None if tree is None else tree.key.worktree)
        return open_context

    dialog = dialog_for(action, [snapshot_builder.tree(name) for name in trees], context_of, values=values)

    async def play(app: DialogApp, pilot: Pilot[None]) -> None:
        assert str(app.dialog.query_one(".title", Static).content) == title

    run_dialog(dialog, play)
    assert (found, action.previewed) == (asked, previewed)
