"""The dialog of every action, made from the action's description: its arguments, its preview, its refusals.

The preview is computed while values are typed. A refusal stays on the screen with all its reasons; where the action has an
override, the fields for it appear, and a dangerous override needs the worktree's name typed. While the action runs, the
dialog shows its progress: escape cancels it, a second escape closes the dialog.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static
from textual.widgets.button import ButtonVariant

from imi_monitor.actions.action import Action, Outcome, Preview, Suggestions, WritingAids, refusal_kinds
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import command_log
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop, run_query
from imi_monitor.ui.dialogs import dialog_text
from imi_monitor.ui.dialogs.action_run import ActionRun, ActionTarget, OpenContext, TargetResult
from imi_monitor.ui.dialogs.form import ARROWS, Form, fields
from imi_monitor.ui.textual_internals import DismissedOnce, is_alive
from imi_monitor.ui.widgets.form_inputs import TextField
from imi_monitor.ui.widgets.key_choices import KeyChoices

InBackground = Callable[[Sequence[ActionTarget], dict[str, object]], object]
"""Runs an action that waits, after its dialog is closed."""
PREVIEW_DELAY = 0.25  # seconds without a key
_LONGEST_LABEL = 13  # of a button
_VARIANTS: dict[str, ButtonVariant] = {"danger": "error", "success": "success", "neutral": "primary"}
_FRAME_HEIGHT, _OVERRIDE_HEIGHT = 8, 2  # lines of border, title and buttons; of the field for the name


class _InstantButton(Button):
    """A button without the press animation, during which Textual ignores further presses."""

    by_key = False  # whether the last press was a key

    def on_mount(self) -> None:
        self.active_effect_duration = 0

    def action_press(self) -> None:
        self.by_key = True
        super().action_press()


class ActionDialog(ModalScreen[Outcome | None], DismissedOnce[Outcome | None]):
    """Runs the action and returns its outcome; None if it was closed without one.

    With `names` the action runs on several worktrees in turn, and the result of each is shown. A name may come with its own
    context, for worktrees of different repositories.
    """

    BINDINGS = [
        ("escape", "leave", "Cancel"),
        ("pagedown", "scroll(1)", "Down"),
        ("pageup", "scroll(-1)", "Up"),
        *ARROWS,
    ]

    then = ""  # what the dashboard does afterwards

    class Progressed(Message):
        """The running action reported its progress."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    def __init__(
        self,
        action: Action,
        values: dict[str, object],
        open_context: OpenContext,
        names: Sequence[str | tuple[str, OpenContext]] = (),
        in_background: InBackground | None = None,
    ) -> None:
        super().__init__()
        self._in_background = in_background
        self._action = action
        self._values = values
        self._targets = _targets(action, values, open_context, names)
        self._action_run: ActionRun | None = None
        self._started_at = 0.0
        self._progress = ""
        self._previews_shown = False  # for the values in the fields
        self._submits_later = False  # enter was pressed before it was known what can be done
        self._outcome: Outcome | None = None  # of several worktrees: shown before it is returned
        self._previews: BackgroundQuery[list[Preview]] = BackgroundQuery(self, self._show_previews, pause=PREVIEW_DELAY)
        self._override_values: dict[str, object] = {}
        self._previewed: dict[str, object] | None = None  # the values that the text is about

    # -- appearance -------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Vertical(classes=f"dialog -{self._tone}"):
            yield Static(self._title(), classes="title")
            with VerticalScroll(classes="lines", can_focus=False):
                yield Static(dialog_text.purpose(self._action.help), classes="help")
                if self._action.chosen_by_key:
                    yield Static(dialog_text.checking(), id="said", classes="question")
                    yield KeyChoices(id="choices")
                yield Form(fields(self._action, self._given))
                if not self._action.chosen_by_key:
                    yield Static(dialog_text.checking(), id="said")
            yield TextField(f"Type {self._name_shown} to {self._act_word} it anyway", "override")
            with Horizontal(classes="buttons"):
                yield _InstantButton(Content("Cancel"), id="leave", compact=True)
                variant = _VARIANTS[self._tone]
                yield _InstantButton(Content(self._act_label), id="act", variant=variant, compact=True)

    @property
    def _given(self) -> dict[str, object]:
        """The values that need no field."""
        return {**self._values, **({self._action.worktree_value: ""} if self._targets[0].name is not None else {})}

    @property
    def _name_shown(self) -> str:
        return safe(self._targets[0].name or "", 60)

    @property
    def _tone(self) -> str:
        if self._action.dangerous:
            return "success" if self._action.brings_work else "danger"
        return "neutral"

    @property
    def _act_word(self) -> str:
        """The verb of the action's label: `remove`."""
        return self._action.label.split()[0].lower()

    @property
    def _act_label(self) -> str:
        """The action's label; only its first word where the label is too long for a button."""
        label = self._action.label if len(self._action.label) <= _LONGEST_LABEL else self._action.label.split()[0]
        return f"{label} {len(self._targets)}" if len(self._targets) > 1 else label

    def _title(self) -> Content:
        if len(self._targets) > 1:
            return Content(f"{self._action.label} {count(len(self._targets), 'worktree')}")
        joint = " · " if " " in self._action.label else " "  # no sentence: `Send notes feat-api`
        return Content(f"{self._action.label}{joint if self._name_shown else ''}{self._name_shown}")

    @property
    def form(self) -> Form:
        return self.query_one(Form)

    def on_mount(self) -> None:
        override = self.query_one("#override", Input)
        # its line is reserved, so that no button moves when it appears
        override.display, override.visible = type(self._action).override is not Action.override, False
        self._focus_harmless()
        self._offer_choices()
        if any(field.multiline for field in self.form.fields):
            self._offer_aids()
        self._update_preview()

    def _focus_harmless(self) -> None:
        """Focus the answers with keys, else the first field to type in; else the button for leaving if it is dangerous."""
        if self._action.chosen_by_key and not any(self.form.values().values()):
            self.query_one(KeyChoices).focus()
            return
        (self.form.first() or self.query_one("#leave" if self._action.dangerous else "#act")).focus()

    def on_key(self, event: events.Key) -> None:
        """Take a letter typed on a button as the first one of the name that overrides a refusal."""
        override = self.query_one("#override", TextField)
        if event.is_printable and isinstance(self.focused, Button) and override.display and self._action_run is None:
            override.visible = True
            override.focus()
            event.stop()
            override.post_message(events.Key(event.key, event.character))

    def on_resize(self) -> None:
        """Let the text scroll, so that title and buttons are always visible."""
        around = _FRAME_HEIGHT + (_OVERRIDE_HEIGHT if self.query_one("#override").display else 0)
        self.query_one(".lines").styles.max_height = max(3, self.size.height - around)

    def action_scroll(self, by: int) -> None:
        lines = self.query_one(".lines")
        lines.scroll_relative(y=by * max(1, lines.size.height - 1), animate=False)

    def _show(self, text: Content) -> None:
        if is_alive(self):
            self.query_one("#said", Static).update(text)

    # -- preview ----------------------------------------------------------------------------------------------------

    @work
    async def _offer_choices(self) -> None:
        for field in self.form.fields:
            if field.chosen:
                found = await asyncio.to_thread(run_query, lambda _: self._choices(field.name), lambda: False)  # noqa: B023
                if not is_alive(self):
                    return
                if isinstance(found, ImiError):
                    self._show(dialog_text.refusal(found))
                else:
                    self.form.offer(field.name, found)
            if field.suggested:
                self._offer_suggestions(field.name)
        self._submit_if_asked()

    @work
    async def _offer_aids(self) -> None:
        """Offer earlier texts and files beside the editors; without them a text is written all the same."""
        found = await asyncio.to_thread(run_query, lambda _: self._writing_aids(), lambda: False)
        if is_alive(self) and isinstance(found, WritingAids):
            for field in self.form.fields:
                if field.multiline:
                    self.form.aid(field.name, found)

    def _writing_aids(self) -> WritingAids | None:
        target = self._targets[0]
        with target.open_context() as context:
            context.cancelled = lambda: not is_alive(self)
            return self._action.writing_aids(context, target.request(self._action, dict(self._values)))

    @work
    async def _offer_suggestions(self, name: str) -> None:
        """Offer what is known, then what a server answers; if neither can be read, any text is taken."""
        offered = False
        for ask in (False, True):
            found = await asyncio.to_thread(run_query, lambda _: self._suggestions(name, ask), lambda: False)  # noqa: B023
            if not is_alive(self) or self._action_run is not None or found is None:
                return
            if not isinstance(found, ImiError):
                self.form.suggest(name, found)
                offered = True
            elif not offered:
                self.form.suggest(name, Suggestions([], f"? {safe(found.sentence, 400)}", lambda _: True))

    def _suggestions(self, name: str, ask: bool) -> Suggestions | None:
        with self._targets[0].open_context() as context:
            context.cancelled = lambda: not is_alive(self)
            return self._action.suggestions(context, name, ask=ask)

    def _choices(self, name: str) -> list[str]:
        with self._targets[0].open_context() as context:
            return self._action.choices(context, name)

    @on(Form.Changed)
    def _values_changed(self) -> None:
        if self._action_run is None and self._outcome is None:
            self._update_preview()

    def _update_preview(self) -> None:
        """Start a preview with the values in the fields, unless they are the ones previewed last."""
        values = self._entered_values()
        if isinstance(values, Content):
            self._previewed = None
            self._previews.cancel()
            self._show(values)
        elif values != self._previewed:  # a field also reports a change when it is mounted
            self._previewed, self._previews_shown = values, False
            self._show(dialog_text.checking())
            self._previews.start(lambda stop: self._preview(values, stop))

    def _entered_values(self) -> dict[str, object] | Content:
        """Return the action's arguments, or the text that says what is wrong with them."""
        missing = self.form.missing
        if missing is not None:
            return dialog_text.missing(missing.label)
        try:
            return {**self._values, **self.form.values()}
        except ImiError as error:
            return dialog_text.refusal(error)

    def _preview(self, values: dict[str, object], stop: ShouldStop) -> list[Preview]:
        """Return a preview for each target; called in a thread."""
        found = []
        for target in self._targets:
            if stop():
                break
            answer = run_query(lambda _: self._preview_one(target, dict(values), stop), stop)  # noqa: B023
            found.append(Preview([], answer) if isinstance(answer, ImiError) else answer)
        return found

    def _preview_one(self, target: ActionTarget, values: dict[str, object], stop: ShouldStop) -> Preview:
        with target.open_context() as context:
            context.cancelled, context.needs_registry = stop, self._action.needs_registry
            return self._action.preview(context, target.request(self._action, values))

    def _show_previews(self, answer: list[Preview] | ImiError) -> None:
        if self._action_run is not None or self._outcome is not None:
            return
        self._previews_shown = True
        if isinstance(answer, ImiError):
            answer = [Preview([], answer) for _ in self._targets]
        pairs = zip(self._targets, answer, strict=True)
        self._targets = [replace(target, bound=shown.bound) for target, shown in pairs]
        if len(self._targets) == 1:
            self._show(dialog_text.preview(answer[0], self.then))
            self._offer_override(answer[0].refusal)
        else:
            self._show(dialog_text.previews([target.name for target in self._targets], answer))
            kinds = {kind for preview in answer for kind in refusal_kinds(preview.refusal)}
            self.form.show_overrides(kinds)
            if all(preview.refusal for preview in answer) and self._may_point_out:
                self.form.focus_way_out(kinds)
        self._offer_answers(answer)
        self._submit_if_asked()

    def _offer_answers(self, answer: list[Preview]) -> None:
        """Offer the answers with keys, if all targets have the same ones."""
        if self._action.chosen_by_key:
            first = answer[0].choices
            same = all(one.choices == first for one in answer)
            answers = self.query_one(KeyChoices)
            answers.offer(first if same else ())
            if not answers.choices and self.focused is answers:
                field = self.form.first()
                (field or self.query_one("#leave")).focus()

    @on(KeyChoices.AnswerPicked)
    def _answer_picked(self, event: KeyChoices.AnswerPicked) -> None:
        """Act with the answer, for the question that is shown."""
        if self._action_run is None and self._outcome is None and self._previews_shown:
            entered = self._entered_values()
            written = self._values if isinstance(entered, Content) else entered
            self._run_action({**written, **({self._action.chosen_by_key: event.value} if event.value else {})})

    def _offer_override(self, refusal: ImiError | None) -> None:
        """Show the fields that override this refusal, and the field for the name if the action wants it typed."""
        self.form.show_overrides(refusal_kinds(refusal))
        name = self._targets[0].name
        values = self._action.override(refusal, name) if refusal is not None and name is not None else None
        self._override_values = values or {}
        override = self.query_one("#override", Input)
        had_focus = self.focused is override
        override.visible = values is not None
        if override.visible and isinstance(self.focused, Button):
            override.focus()
        elif had_focus and not override.visible:
            self._focus_harmless()
        elif self._may_point_out:
            self.form.focus_way_out(refusal_kinds(refusal))

    @property
    def _may_point_out(self) -> bool:
        """Whether the focus may go to a field that overrides a refusal: nothing is being typed, and nothing is lost by it."""
        return isinstance(self.focused, Button) and not self._action.dangerous

    # -- running ----------------------------------------------------------------------------------------------------

    @on(Input.Submitted, "#override")
    def _name_entered(self) -> None:
        """Act when the name is the right one; until the reasons are known, remember that enter was pressed."""
        override = self.query_one("#override", Input)
        if not self._previews_shown:
            self._submits_later = True
        elif override.value.strip() == self._targets[0].name:
            self._submit()
        else:
            self.app.notify(f"Type {self._name_shown} to {self._act_word} it anyway", markup=False)

    def _submit_if_asked(self) -> None:
        """Go on with an enter that came too early."""
        if self._submits_later:
            self._submits_later = False
            override = self.query_one("#override", Input)
            if override.visible:
                self._name_entered()
            elif not override.value or override.value.strip() == self._targets[0].name:
                self._submit()

    @on(Form.Submitted)
    @on(Button.Pressed, "#act")
    def _submit(self) -> None:
        if self._action_run is not None:
            return
        missing = self.form.missing
        if missing is not None:
            self._submits_later = missing.chosen  # its values are being read
            self.form.focus_field(missing)
            return
        values = self._entered_values()
        if isinstance(values, Content):  # it is shown
            return
        override = self.query_one("#override", Input)
        if override.visible and override.value.strip() == self._targets[0].name:
            values |= self._override_values
        if self._in_background is not None and self._action.background_option in values:
            self._in_background(self._targets, values)
            self.dismiss(None)
        else:
            self._run_action(values)

    @work
    async def _run_action(self, values: dict[str, object]) -> None:
        run = self._action_run = ActionRun(self._action, command_log.of(self.app), self._report_progress)
        self._previews.cancel()
        self._started_at, self._progress = time.monotonic(), ""
        self._set_busy(True)
        clock = self.set_interval(1.0, self._show_progress)
        try:
            results = await asyncio.to_thread(run.run, self._targets, values)
        finally:
            clock.stop()
            self._action_run = None
        if not is_alive(self):
            return
        self._set_busy(False)
        if len(results) > 1:
            self._show_results(results)
        elif isinstance(results[0].result, ImiError):
            self._show_refusal(results[0].result)
        else:
            self.dismiss(results[0].result)

    def _show_refusal(self, error: ImiError) -> None:
        self._show(dialog_text.refusal(error))
        self.call_after_refresh(self.query_one("#said").scroll_visible, top=True, animate=False)
        self._offer_override(error)

    def _show_results(self, results: list[TargetResult]) -> None:
        """Show the result of each worktree until the dialog is closed."""
        self._outcome = _combined_outcome(results)
        self._show(dialog_text.results(results))
        self.form.display = False
        self.query_one("#act").display = False
        leave = self.query_one("#leave", Button)
        leave.label = Content("Close")
        leave.focus()

    def _set_busy(self, busy: bool) -> None:
        self.form.disabled = busy
        self.query_one("#override", Input).disabled = busy
        self.query_one("#act", Button).disabled = busy
        leave = self.query_one("#leave", Button)
        leave.label = Content("Stop" if busy else "Cancel")
        if busy:
            leave.focus()
            self._show_progress()
        elif self._action.dangerous:
            leave.focus()
        else:
            self._focus_harmless()
        if self._action.chosen_by_key:
            self.query_one(KeyChoices).disabled = busy

    def _report_progress(self, line: str) -> None:
        """Called in the thread of the action."""
        self.post_message(self.Progressed(line))

    def on_action_dialog_progressed(self, message: Progressed) -> None:
        self._progress = message.line
        self._show_progress()

    def _show_progress(self) -> None:
        if self._action_run is not None:
            seconds = time.monotonic() - self._started_at
            self._show(dialog_text.progress(self._progress, seconds, cancelled=self._action_run.cancelled))

    # -- leaving ----------------------------------------------------------------------------------------------------

    @on(Button.Pressed, "#leave")
    def _leave_pressed(self, event: Button.Pressed) -> None:
        """Cancel. An enter that comes before the answer does nothing; a later one says how to go on instead."""
        assert isinstance(event.button, _InstantButton)
        if not (event.button.by_key and self._action.dangerous and self._action_run is None and self._outcome is None):
            self.action_leave()
        elif self._previews_shown or self.form.missing is not None:
            self.action_leave()
            self.app.notify(f"Cancelled. To {self._act_word}, choose the other button: → then ⏎", markup=False)

    def action_leave(self) -> None:
        if self._action_run is not None and not self._action_run.cancelled:
            self._action_run.cancel()
            self._show_progress()
        else:
            self.dismiss(self._outcome)

    def on_unmount(self) -> None:
        self._previews.cancel()
        if self._action_run is not None:
            self._action_run.cancel()


def dialog_for(
    action: Action,
    trees: Sequence[Worktree],
    context_of: Callable[[Worktree | None], OpenContext],
    in_background: InBackground | None = None,
    values: dict[str, object] | None = None,
) -> ActionDialog:
    """Return the dialog of an action on these worktrees; `context_of` gives the context of a worktree's repository.

    `values` are for an action that needs no worktree, for a single one, or name the target.
    """
    first = trees[0] if trees else None
    if not action.needs_worktree or (values and action.worktree_value in values):
        return ActionDialog(action, values or {}, context_of(first))
    if len(trees) == 1:
        given: dict[str, object] = {**(values or {}), action.worktree_value: trees[0].typed_name}
        return ActionDialog(action, given, context_of(first), in_background=in_background)
    # each name with its own context: two repositories may have a worktree of the same name
    names = [(tree.typed_name, context_of(tree)) for tree in trees]
    return ActionDialog(action, {}, context_of(first), names=names, in_background=in_background)


def _targets(
    action: Action, values: dict[str, object], open_context: OpenContext, names: Sequence[str | tuple[str, OpenContext]]
) -> list[ActionTarget]:
    """Return the worktrees to act on; an action that needs no worktree runs once, however many are marked."""
    name = values.get(action.worktree_value)
    if action.needs_worktree and names:
        return [ActionTarget(one, open_context) if isinstance(one, str) else ActionTarget(*one) for one in names]
    return [ActionTarget(name if isinstance(name, str) else None, open_context)]


def _combined_outcome(results: list[TargetResult]) -> Outcome:
    """Return the outcomes of several worktrees as one; its exit status is 1 if any of them failed."""
    lines, warnings, data = [], [], []
    for one in results:
        result = one.result
        lines += [result.sentence] if isinstance(result, ImiError) else result.lines[:1]
        warnings += [] if isinstance(result, ImiError) else result.warnings
        data.append({"name": one.target.name, "done": not isinstance(result, ImiError)})
    failed = any(not one["done"] for one in data)
    return Outcome(lines, {"results": data}, warnings=warnings, exit_status=int(failed))
