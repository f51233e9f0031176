"""One dialog for every action, made from the action's own description: what it asks, what it will do, why it refuses.

No dialog knows more than its action. What would happen is looked up while somebody reads and types; a refusal stays on the
screen with all its reasons; where it can be gone past, what does so appears, and what is dangerous wants the name typed.
While it works it shows how far it is: esc asks it to stop, a second esc leaves it alone.

From a key to an action's dialog: about what it is, one worktree or all that are marked, and in which repository.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message as TextualMessage
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from imi_monitor.actions.action import Action, Outcome, Preview, Request, refusal_kinds
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import command_log
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop, run_query
from imi_monitor.ui.dialogs import dialog_text
from imi_monitor.ui.dialogs.action_run import ActionRun, ActionTarget, OpenContext, TargetResult
from imi_monitor.ui.dialogs.form import Form, TextField, fields
from imi_monitor.ui.textual_internals import is_alive

PAUSE = 0.25  # seconds without a key before it is looked what would happen
_PROGRESS_SHOWN = 6
_LONGEST_LABEL = 14  # of a button
_FRAME, _OVERRIDE = 8, 2  # lines that border, title and buttons take, and the line to type a name into


class _SteadyButton(Button):
    """Textual's takes no second press while it shows the first: whoever cancels and tries again at once was ignored."""

    def on_mount(self) -> None:
        self.active_effect_duration = 0


class ActionDialog(ModalScreen[Outcome | None]):
    """Asks, acts in a thread, and gives the outcome; None when it was left without acting.

    With `names` it acts on several worktrees, one after the other, and shows what became of each; a name may bring the
    surroundings it is to be looked up in, for worktrees of different repositories.
    """

    BINDINGS = [("escape", "leave", "Leave"), ("pagedown", "scroll(1)", "Down"), ("pageup", "scroll(-1)", "Up")]

    class Progress(TextualMessage):
        """The act said how far it is."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    def __init__(
        self,
        action: Action,
        values: dict[str, object],
        surroundings: OpenContext,
        names: Sequence[str | tuple[str, OpenContext]] = (),
    ) -> None:
        super().__init__()
        self._action = action
        self._values = values
        self._targets = _targets(action, values, surroundings, names)
        self._act: ActionRun | None = None
        self._begun = 0.0
        self._progress: list[str] = []
        self._outcome: Outcome | None = None  # of several: shown before it is given
        self._asking: BackgroundQuery[list[Preview]] = BackgroundQuery(self, self._show_previews, pause=PAUSE)
        self._overriding: dict[str, object] = {}
        self._looked: dict[str, object] | None = None  # the values that what is said is about

    # -- what it looks like -----------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog" + (" -dangerous" if self._action.dangerous else "")):
            yield Static(self._title(), classes="title")
            with VerticalScroll(classes="lines", can_focus=False):
                yield Static(dialog_text.purpose(self._action.help), classes="help")
                yield Form(fields(self._action, self._given))
                yield Static(dialog_text.checking(), id="said")
            yield TextField(f"type {self._name_shown} to do it all the same", "override")
            with Horizontal(classes="buttons"):
                yield _SteadyButton(Content("Leave"), id="leave", compact=True)
                yield _SteadyButton(
                    Content(self._act_label),
                    id="act",
                    variant="error" if self._action.dangerous else "primary",
                    compact=True,
                )

    @property
    def _given(self) -> dict[str, object]:
        """What is known already: the values, and the worktree's name."""
        return {**self._values, **({"name": ""} if self._targets[0].name is not None else {})}

    @property
    def _name_shown(self) -> str:
        return safe(self._targets[0].name or "", 60)

    @property
    def _act_label(self) -> str:
        """A word where a phrase is too long for a button."""
        label = self._action.label if len(self._action.label) <= _LONGEST_LABEL else self._action.label.split()[0]
        return f"{label} {len(self._targets)}" if len(self._targets) > 1 else label

    def _title(self) -> Content:
        if len(self._targets) > 1:
            return Content(f"{self._action.label} {count(len(self._targets), 'worktree')}")
        return Content(f"{self._action.label} {self._name_shown}".rstrip())

    @property
    def form(self) -> Form:
        return self.query_one(Form)

    def on_mount(self) -> None:
        override = self.query_one("#override", Input)
        # the room for it is kept, so that no button moves when it appears under somebody's pointer
        override.display, override.visible = type(self._action).override is not Action.override, False
        # what cannot hurt has the focus: a field to fill, else leaving
        (self.form.first() or self.query_one("#leave" if self._action.dangerous else "#act")).focus()
        self._offer_choices()
        self._look()

    def on_resize(self) -> None:
        """What is said scrolls; title and buttons are always on the screen."""
        around = _FRAME + (_OVERRIDE if self.query_one("#override").display else 0)
        self.query_one(".lines").styles.max_height = max(3, self.size.height - around)

    def action_scroll(self, by: int) -> None:
        lines = self.query_one(".lines")
        lines.scroll_relative(y=by * max(1, lines.size.height - 1), animate=False)

    # -- looking what would happen ----------------------------------------------------------------------------------

    @work(exit_on_error=False)
    async def _offer_choices(self) -> None:
        for field in self.form.asked:
            if field.chosen:
                found = await asyncio.to_thread(run_query, lambda _: self._choices(field.name), lambda: False)  # noqa: B023
                if not is_alive(self):
                    return
                if isinstance(found, ImiError):
                    self._say(dialog_text.refusal(found))
                else:
                    self.form.offer(field.name, found)

    def _choices(self, name: str) -> list[str]:
        with self._targets[0].surroundings() as context:
            return self._action.choices(context, name)

    @on(Form.Changed)
    def _changed(self) -> None:
        if self._act is None and self._outcome is None:
            self._look()

    def _look(self) -> None:
        """Ask the action what it would do with what stands in the fields now."""
        missing = self.form.missing
        if missing is not None:
            self._looked = None
            self._asking.drop()
            self._say(dialog_text.missing(missing.name))
            return
        try:
            values = {**self._values, **self.form.values()}
        except ImiError as error:
            self._looked = None
            self._asking.drop()
            self._say(dialog_text.refusal(error))
            return
        if values == self._looked:
            return  # a field only said that it is there: what is on the screen, an act's refusal perhaps, stands
        self._looked = values
        self._say(dialog_text.checking())
        self._asking.ask(lambda stop: self._preview(values, stop))

    def _preview(self, values: dict[str, object], stop: ShouldStop) -> list[Preview]:
        found = []
        for target in self._targets:
            if stop():
                break
            answer = run_query(lambda _: self._preview_one(target, dict(values), stop), stop)  # noqa: B023
            found.append(Preview([], answer) if isinstance(answer, ImiError) else answer)
        return found

    def _preview_one(self, target: ActionTarget, values: dict[str, object], stop: ShouldStop) -> Preview:
        with target.surroundings() as context:
            context.cancelled = stop
            named = {} if target.name is None else {"name": target.name}
            return self._action.preview(context, Request(self._action.words[0], {**values, **named}))

    def _show_previews(self, answer: list[Preview] | ImiError) -> None:
        if self._act is not None or self._outcome is not None:
            return
        if isinstance(answer, ImiError):
            self._refused(answer)
        elif len(self._targets) == 1:
            foresight = answer[0]
            self._say(dialog_text.foresight(foresight))
            self._answer(foresight.refusal)
        else:
            self._say(dialog_text.foresight_of_many([target.name for target in self._targets], answer))
            for foresight in answer:
                self.form.answer(refusal_kinds(foresight.refusal))

    def _answer(self, refusal: ImiError | None) -> None:
        """Show what goes past a refusal, if anything does."""
        self.form.answer(refusal_kinds(refusal))
        name = self._targets[0].name
        way = self._action.override(refusal, name) if refusal is not None and name is not None else None
        self._overriding = way or {}
        self.query_one("#override", Input).visible = way is not None

    # -- acting -----------------------------------------------------------------------------------------------------

    @on(Form.Submitted)
    @on(Input.Submitted, "#override")
    @on(Button.Pressed, "#act")
    def _try(self) -> None:
        if self._act is not None:
            return
        missing = self.form.missing
        if missing is not None:
            self.query_one(f"#ask-{missing.name}").focus()
            return
        try:
            values = {**self._values, **self.form.values()}
        except ImiError as error:
            self._say(dialog_text.refusal(error))
            return
        override = self.query_one("#override", Input)
        if override.visible and override.value.strip() == self._targets[0].name:
            values |= self._overriding
        self._run(values)

    @work(exit_on_error=False)
    async def _run(self, values: dict[str, object]) -> None:
        act = self._act = ActionRun(self._action, command_log.of(self.app), self._told)
        self._asking.drop()
        self._begun, self._progress = time.monotonic(), []
        self._working(True)
        ticking = self.set_interval(1.0, self._show_progress)
        try:
            done = await asyncio.to_thread(act.run, self._targets, values)
        finally:
            ticking.stop()
            self._act = None
        if is_alive(self):
            self._working(False)
            self._ended(done)

    def _ended(self, done: list[TargetResult]) -> None:
        if len(done) > 1:
            self._show_results(done)
        elif isinstance(done[0].result, ImiError):
            self._refused(done[0].result)
        else:
            self.dismiss(done[0].result)

    def _refused(self, error: ImiError) -> None:
        self._say(dialog_text.refusal(error))
        self.call_after_refresh(self.query_one("#said").scroll_visible, top=True, animate=False)
        if len(self._targets) == 1:
            self._answer(error)

    def _show_results(self, done: list[TargetResult]) -> None:
        """What became of each stays until it was read; then the whole is given."""
        self._outcome = _combined_outcome(done)
        self._say(dialog_text.results(done))
        self.form.display = False
        self.query_one("#act").display = False
        leave = self.query_one("#leave", Button)
        leave.label = Content("Close")
        leave.focus()

    def _working(self, busy: bool) -> None:
        self.form.disabled = busy
        self.query_one("#override", Input).disabled = busy
        self.query_one("#act", Button).disabled = busy
        leave = self.query_one("#leave", Button)
        leave.label = Content("Cancel" if busy else "Leave")
        if busy:
            leave.focus()
            self._show_progress()
        elif self._action.dangerous:
            leave.focus()
        else:
            (self.form.first() or self.query_one("#act")).focus()

    def _told(self, line: str) -> None:
        """Called in the thread that works."""
        self.post_message(self.Progress(line))

    def on_action_dialog_progress(self, message: Progress) -> None:
        self._progress = [*self._progress, message.line][-_PROGRESS_SHOWN:]
        self._show_progress()

    def _show_progress(self) -> None:
        if self._act is not None:
            self._say(
                dialog_text.progress(self._progress, time.monotonic() - self._begun, cancelled=self._act.cancelled)
            )

    # -- leaving ----------------------------------------------------------------------------------------------------

    @on(Button.Pressed, "#leave")
    def action_leave(self) -> None:
        if self._act is not None and not self._act.cancelled:
            self._act.cancel()
            self._show_progress()
        else:
            self.dismiss(self._outcome)

    def on_unmount(self) -> None:
        self._asking.drop()
        if self._act is not None:
            self._act.cancel()

    def _say(self, content: Content) -> None:
        if is_alive(self):
            self.query_one("#said", Static).update(content)


def _targets(
    action: Action, values: dict[str, object], surroundings: OpenContext, names: Sequence[str | tuple[str, OpenContext]]
) -> list[ActionTarget]:
    """The worktrees to act on; an action that takes no worktree's name acts once, however many are marked."""
    takes = action.arguments[:1] and action.arguments[0].name == "name" and not action.makes_new
    given = values.get("name")
    if takes and names:
        return [ActionTarget(one, surroundings) if isinstance(one, str) else ActionTarget(*one) for one in names]
    return [ActionTarget(given if takes and isinstance(given, str) else None, surroundings)]


def _combined_outcome(done: list[TargetResult]) -> Outcome:
    """Several outcomes as one: the front end shows its lines, scripts and tests its data."""
    lines, warnings, results = [], [], []
    for one in done:
        result = one.result
        failed = isinstance(result, ImiError)
        lines += [result.sentence] if isinstance(result, ImiError) else result.lines[:1]
        warnings += [] if isinstance(result, ImiError) else result.warnings
        results.append({"name": one.target.name, "done": not failed})
    return Outcome(
        lines, {"results": results}, warnings=warnings, exit_status=int(any(not one["done"] for one in results))
    )


def dialog_for(action: Action, trees: Sequence[Worktree], at: Callable[[Worktree | None], OpenContext]) -> ActionDialog:
    """The dialog about all of them."""
    first = trees[0] if trees else None
    if not action.needs_worktree:
        return ActionDialog(action, {}, at(first))
    if len(trees) == 1 and first is not None:
        return ActionDialog(action, {"name": first.key.worktree}, at(first))
    # with each name where it is to be looked up: two repositories may have a worktree of the same name
    return ActionDialog(action, {}, at(first), names=[(tree.key.worktree, at(tree)) for tree in trees])
