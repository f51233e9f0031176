"""The dialogs on real repositories, driven by keys: what would happen is shown while one types, refusals with their way out,
progress, cancelling, several worktrees at once; and whatever text comes from outside is shown harmless."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.timer import Timer
from textual.widgets import Button, Input

from imi_monitor import actions, paths
from imi_monitor.actions.action import Action, Argument, Option, Outcome, Preview, Request, Suggestion, Suggestions
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal.remove_action import RemoveAction
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.ui import command_log
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.commands import READ_ONLY
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from imi_monitor.ui.dialogs.form import Form
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel
from imi_monitor.ui.views.diff_view import DiffView
from imi_monitor.ui.widgets.form_inputs import TextField, TickBox
from tests.actions.forge import Forge
from tests.helpers import Repo, git, imi
from tests.limits import LIMIT
from tests.ui.pilot_kit import listed_names, run_dashboard, screen_text, toasts, wait_until

HOSTILE = [
    "[/b]",
    "[bold]x[/]",
    "\x1b]0;owned\x07",
    "\x1b]52;c;eA==\x07",
    "ev\u202eil",
    "日本語" * 30,
    "x" * 10_000,
    "line\nbreak",
    "b\udcffd",
]


def select(app: ImiApp, name: str) -> None:
    lines = app.home.query_one(WorktreesPanel).lines
    lines.select(next(row.key for row in lines.rows if row.key.endswith(f"\0{name}")))


async def opened(app: ImiApp, pilot: Pilot[Any], name: str, key: str) -> ActionDialog:
    await wait_until(
        pilot, lambda: any(row.key.endswith(f"\0{name}") for row in app.home.query_one(WorktreesPanel).lines.rows)
    )
    select(app, name)
    await pilot.press(key)
    await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and "checking…" not in screen_text(app))
    dialog = app.screen
    assert isinstance(dialog, ActionDialog)
    return dialog


def shown(app: ImiApp, repo: Repo, verb: str | Action, **more: Any) -> list[Outcome | None]:
    """Push a dialog; its result will be in the list."""
    action = actions.find(verb) if isinstance(verb, str) else verb
    assert action is not None
    database = paths.default_database()
    results: list[Outcome | None] = []
    dialog = ActionDialog(
        action, more.pop("values", {}), lambda: Context(database=database, repo=str(repo.path)), **more
    )
    app.push_screen(dialog, results.append)
    return results


def holder(repo: Repo, name: str) -> str | None:
    claims = imi("--json", "claims", cwd=repo.path).data["claims"]
    return next((one["agent_id"] for one in claims if one["worktree_name"] == name), None)


# -- what would happen ------------------------------------------------------------------------------------------------


def test_claim_dialog_previews_and_force_needs_a_reason(repo: Repo) -> None:
    repo.worktree("feat-api")
    imi("claim", "feat-api", "--agent", "claude-1", "--task", "T-1", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        dialog = await opened(app, pilot, "feat-api", "c")
        await wait_until(pilot, lambda: "held by claude-1" in screen_text(app))
        assert not dialog.query_one("#field-takeover").display, "its owner is not stale"
        assert dialog.query_one("#field-force").display and not dialog.query_one("#field-reason").display
        await pilot.press("enter")  # tried all the same: refused again, nothing taken
        await wait_until(
            pilot, lambda: command_log.of(app).entries()[-1:] and command_log.of(app).entries()[-1].state == "refused"
        )
        dialog.query_one("#ask-force").focus()
        await pilot.press("space")
        await wait_until(
            pilot, lambda: dialog.query_one("#field-reason").display and "Enter the reason" in screen_text(app)
        )
        dialog.query_one("#ask-reason").focus()
        await pilot.press(*"stuck")
        await wait_until(pilot, lambda: "taken by force from claude-1" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.screen is not dialog)
        assert await asyncio.to_thread(holder, repo, "feat-api") not in (None, "claude-1")

    run_dashboard(repo, play)


def test_arrow_keys_lead_through_fields_and_buttons(repo: Repo) -> None:
    repo.worktree("feat-old")

    def focused(app: ImiApp) -> str | None:
        return app.focused.id if app.focused is not None else None

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        select(app, "feat-old")
        await pilot.press("D")
        await wait_until(pilot, lambda: "its branch feat/old is kept" in screen_text(app))
        assert focused(app) == "leave", "nothing is removed by one key"
        await pilot.press("up")
        assert focused(app) == "ask-delete-branch"
        await pilot.press("down", "right")
        assert focused(app) == "act"
        await pilot.press("enter")
        await wait_until(pilot, lambda: listed_names(app) == ["app"])

    run_dashboard(repo, play)


def test_add_dialog_previews_while_the_name_is_typed(repo: Repo) -> None:
    imi("types", "add", "docs", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await wait_until(pilot, lambda: "docs" in screen_text(app))
        dialog = app.screen
        assert app.focused is not None and app.focused.id == "ask-name", "a person types the name first"
        await pilot.press("shift+tab", "right", "tab", *"auth")

        def unbroken() -> str:
            """A path that is long goes on in the next line, wherever that is."""
            return screen_text(app).translate({ord(char): None for char in " │\n"})

        await wait_until(
            pilot, lambda: all(said in unbroken() for said in ("fix-auth", "fix/auth", "worktrees/fix-auth"))
        )
        await pilot.press("space", "x")
        await wait_until(pilot, lambda: "✗" in screen_text(app))
        assert not (repo.path.parent / "app.worktrees").exists()
        await pilot.press("backspace", "backspace", "enter")
        await wait_until(pilot, lambda: app.screen is not dialog)
        assert (repo.path.parent / "app.worktrees" / "fix-auth" / ".git").exists()

    run_dashboard(repo, play)


def test_dialog_does_not_run_while_a_required_field_is_empty(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("v")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog))
        await pilot.press("enter")
        assert app.focused is not None and app.focused.id == "ask-pr"
        assert command_log.of(app).entries() == ()
        await pilot.press(*"nope nope".replace(" ", "-"), "slash")
        await wait_until(pilot, lambda: "✗" in screen_text(app))

    run_dashboard(repo, play)


def test_release_of_uncommitted_work_needs_the_ticked_option(repo: Repo) -> None:
    tree = repo.worktree("feat-api")
    tree.write("README.md", "changed\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await asyncio.to_thread(imi, "claim", "feat-api", cwd=repo.path)
        await wait_until(pilot, lambda: any(tree.claim for tree in app.home.snapshot.worktrees))  # type: ignore[union-attr]
        dialog = await opened(app, pilot, "feat-api", "R")
        await wait_until(
            pilot,
            lambda: (
                "uncommitted changes" in screen_text(app) and "Release with uncommitted changes" in screen_text(app)
            ),
        )
        dialog.query_one("#ask-dirty-ok").focus()
        await pilot.press("space")
        await wait_until(pilot, lambda: "1 uncommitted file" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.screen is not dialog)
        assert await asyncio.to_thread(holder, repo, "feat-api") is None
        assert tree.path.joinpath("README.md").read_text() == "changed\n"

    run_dashboard(repo, play)


def test_unsafe_removal_needs_the_name_and_undo_previews_what_it_restores(repo: Repo) -> None:
    tree = repo.worktree("feat-api")
    tree.write("README.md", "changed\n")
    tree.write("new.txt", "new\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        dialog = await opened(app, pilot, "feat-api", "D")
        await wait_until(
            pilot,
            lambda: (
                "for 2 reasons" in screen_text(app)
                and "README.md" in screen_text(app)
                and "new.txt" in screen_text(app)
            ),
        )
        await wait_until(pilot, lambda: app.focused is not None and app.focused.id == "override")
        await pilot.press(*"feat-ap", "enter")
        await wait_until(pilot, lambda: "Type feat-api to remove it anyway" in toasts(app))
        assert tree.path.exists() and not command_log.of(app).entries(), "the name was not the whole name"
        await pilot.press("i", "enter")
        await wait_until(pilot, lambda: app.screen is not dialog and not tree.path.exists())
        assert "--force" in command_log.of(app).entries()[-1].command
        await pilot.press("U")
        await wait_until(pilot, lambda: "restores feat-api" in screen_text(app) and "feat/api" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: tree.path.exists())

    run_dashboard(repo, play)


def test_the_focus_leaves_the_name_when_it_need_not_be_typed_any_more(repo: Repo) -> None:
    tree = repo.worktree("feat-api")
    tree.write("README.md", "changed\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        dialog = await opened(app, pilot, "feat-api", "D")
        await wait_until(pilot, lambda: app.focused is not None and app.focused.id == "override")
        tree.git("checkout", "-q", "README.md")
        dialog.query_one("#ask-delete-branch", TickBox).value = True
        await wait_until(pilot, lambda: not dialog.query_one("#override").visible)
        await wait_until(pilot, lambda: app.focused is not None and app.focused.id != "override")

    run_dashboard(repo, play)


class LateRemoval(RemoveAction):
    """Its preview waits until it is allowed."""

    def __init__(self, known: threading.Event) -> None:
        self.known = known

    def preview(self, context: Context, request: Request) -> Preview:
        assert self.known.wait(LIMIT)
        return super().preview(context, request)


def test_enter_on_cancel_says_how_to_remove_and_one_too_early_does_nothing(repo: Repo) -> None:
    tree, known = repo.worktree("feat-api"), threading.Event()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown(app, repo, LateRemoval(known), values={"name": "feat-api"})
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and app.focused is not None)
        await pilot.press("enter")
        assert isinstance(app.screen, ActionDialog)
        known.set()
        await wait_until(pilot, lambda: "moves feat-api to the trash" in screen_text(app))
        assert app.focused is not None and app.focused.id == "leave"
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Cancelled. To remove, choose the other button: → then ⏎" in toasts(app))
        assert app.screen is app.home and tree.path.exists()
        shown(app, repo, LateRemoval(known), values={"name": "feat-api"})
        await wait_until(pilot, lambda: "moves feat-api to the trash" in screen_text(app))
        await pilot.press("right", "enter")
        await wait_until(pilot, lambda: not tree.path.exists())

    run_dashboard(repo, play)


def test_fields_of_a_narrow_dialog_end_within_it(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog))
        frame = app.screen.query_one(".dialog").region
        fields = [field for field in app.screen.query(TextField) if field.display and field.id != "override"]
        await wait_until(pilot, lambda: all(0 < field.region.right < frame.right for field in fields))
        assert fields[-1].placeholder == "name of the branch", "a hint loses what stands in brackets before it is cut"
        assert fields[-2].placeholder.endswith("…"), fields[-2].placeholder

    run_dashboard(repo, play, size=(60, 24))


def test_dialogs_and_menus_stand_in_the_middle_over_the_screen_below(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        for key in ("n", "question_mark"):
            await pilot.press(key)
            await wait_until(pilot, lambda: len(app.screen_stack) == 2)
            styles = app.screen.styles
            await wait_until(pilot, lambda: styles.align_horizontal == "center" and styles.background.a < 1)  # noqa: B023
            await pilot.press("escape")
            await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    run_dashboard(repo, play)


def test_the_name_is_typed_first_and_enter_makes_the_worktree(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("n", *"payments", "enter")  # before the types are read
        made = repo.path.parent / "app.worktrees" / "feat-payments"
        await wait_until(pilot, lambda: (made / ".git").exists() and len(app.screen_stack) == 1)

    run_dashboard(repo, play)


def test_a_name_typed_before_the_reasons_are_known_removes_a_worktree_with_changes(repo: Repo) -> None:
    tree = repo.worktree("feat-api")
    tree.write("README.md", "changed\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "feat-api" in screen_text(app))
        select(app, "feat-api")
        await pilot.press("D", *"feat-api", "enter")
        await wait_until(pilot, lambda: not tree.path.exists() and len(app.screen_stack) == 1)

    run_dashboard(repo, play)


@pytest.mark.parametrize(("typed", "wanted"), [("fix/login", "fix-login"), ("fix: login", "fix-login")])
def test_a_type_typed_into_the_name_is_chosen(repo: Repo, typed: str, wanted: str) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await wait_until(pilot, lambda: "‹feat›" in screen_text(app))
        await pilot.press(*typed.replace(" ", ""))
        await wait_until(pilot, lambda: "‹fix›" in screen_text(app) and wanted in screen_text(app))

    run_dashboard(repo, play)


def test_removal_of_the_trunk_has_no_override(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown(app, repo, "remove", values={"name": "app"})  # the key itself only says why not
        await wait_until(pilot, lambda: "✗" in screen_text(app))
        dialog = app.screen
        assert not dialog.query_one("#override", Input).visible

    run_dashboard(repo, play)


def test_merge_dialog_previews_conflicts(repo: Repo) -> None:
    tree = repo.worktree("feat-api")
    tree.write("README.md", "theirs\n")
    tree.commit("theirs")
    repo.write("README.md", "ours\n")
    repo.commit("ours")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown(app, repo, "merge", values={"name": "feat-api"})
        await wait_until(
            pilot, lambda: "conflicts with main in 1 file" in screen_text(app) and "README.md" in screen_text(app)
        )
        assert app.focused is not None and app.focused.id == "leave"
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)
        assert command_log.of(app).entries() == ()

    run_dashboard(repo, play)


def test_prune_dialog_lists_what_it_would_remove(repo: Repo) -> None:
    tree = repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        tree.path.rename(tree.path.parent / "away")
        results = shown(app, repo, "prune")
        await wait_until(pilot, lambda: "would prune feat-api" in screen_text(app))
        assert "feat-api" in repo.git("worktree", "list")
        app.screen.query_one("#act").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: results)
        assert results[0] is not None and "pruned feat-api" in results[0].lines[0]

    run_dashboard(repo, play)


# S2.40, S2.42
def test_review_dialog_makes_a_worktree_from_a_number(tmp_path: Path) -> None:
    forge = Forge.create(tmp_path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("v")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog))
        dialog = app.screen
        await pilot.press(*"123")
        await wait_until(pilot, lambda: "creates the worktree review-123" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.screen is not dialog)
        await wait_until(pilot, lambda: isinstance(app.screen, DiffView))
        await wait_until(pilot, lambda: "feat-add-auth.txt" in screen_text(app))  # against the trunk
        assert isinstance(app.screen, DiffView) and app.screen.kind == "trunk"
        assert app.home.selected is not None and app.home.selected.worktree == "review-123"
        assert command_log.of(app).entries()[-1].state == "done"

    run_dashboard(forge.app, play)


# -- working ----------------------------------------------------------------------------------------------------------


class Slow(Action):
    """Goes on until it is told to stop, or let go."""

    words = ("slow",)
    label = "Slow"
    help = "takes as long as one likes"
    arguments = (Argument("name", "which", optional=True),)
    options = (Option("note", "something to say", value="TEXT"),)
    dialog_options = ("note",)
    recovers = False

    def __init__(self, *, deaf: bool = False, lines: tuple[str, ...] = ("first step",)) -> None:
        self.go_on = threading.Event()
        self.ended = threading.Event()
        self._deaf = deaf
        self._lines = lines

    def consequences(self, context: Context, request: Request) -> list[str]:
        return list(self._lines)

    def run(self, context: Context, request: Request) -> Outcome:
        try:
            for line in self._lines:
                context.progress(line)
            while not self.go_on.wait(0.01):
                if context.cancelled() and not self._deaf:
                    raise Refused("it was cancelled", code="cancelled", details=self._lines)
            return Outcome(["went through"])
        finally:
            self.ended.set()


def test_dialog_shows_progress_and_escape_cancels(repo: Repo) -> None:
    slow = Slow()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        results = shown(app, repo, slow)
        await wait_until(pilot, lambda: "Slow" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "first step" in screen_text(app) and "Esc cancels" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "✗ it was cancelled" in screen_text(app))
        assert command_log.of(app).entries()[-1].state == "cancelled"
        assert not results, "it can be tried again"
        slow.go_on.set()
        await pilot.press("enter")
        await wait_until(pilot, lambda: results)
        assert results[0] is not None and results[0].lines == ["went through"]

    run_dashboard(repo, play)


class WithoutClock(ActionDialog):
    """Its progress is drawn only when there is something new, not every second."""

    def set_interval(self, interval: float, *args: Any, **more: Any) -> Timer:
        return super().set_interval(3600.0, *args, **more)


def test_progress_is_shown_as_soon_as_it_is_reported(repo: Repo) -> None:
    slow = Slow(lines=("first step", "second step"))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        app.push_screen(WithoutClock(slow, {}, lambda: Context(database=paths.default_database(), repo=str(repo.path))))
        await wait_until(pilot, lambda: "Slow" in screen_text(app) and "checking…" not in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Esc cancels" in screen_text(app) and "second step" in screen_text(app))
        stop, act = app.screen.query_one("#leave", Button), app.screen.query_one("#act", Button)
        assert (str(stop.label), stop.has_focus, act.disabled) == ("Stop", True, True), "nothing starts it twice"
        await pilot.press("escape")
        await wait_until(pilot, lambda: "✗ it was cancelled" in screen_text(app))
        assert (str(stop.label), act.disabled) == ("Cancel", False)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Esc cancels" in screen_text(app) and "second step" in screen_text(app))
        assert screen_text(app).count("second step") == 1, "the progress of the attempt before is over"
        assert re.search(r"Working… \d{1,2}s \(Esc cancels\)", screen_text(app)), "the time is that of this attempt"
        slow.go_on.set()
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    run_dashboard(repo, play)


class Guarded(Slow):
    """Refused until its worktree's name is typed; its reasons take until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.known = threading.Event()
        self.known.set()

    def consequences(self, context: Context, request: Request) -> list[str]:
        assert self.known.wait(LIMIT)
        raise Refused("there is work in it", code="work")

    def override(self, refusal: Refused, name: str) -> dict[str, object] | None:
        return {"typed": name}

    def run(self, context: Context, request: Request) -> Outcome:
        return Outcome([f"{request.text('name')} {request.text('typed')} {request.text('note')}"])


@pytest.mark.parametrize(("typed", "acts"), [("feat-x", True), ("feat", False)])
def test_an_enter_before_the_reasons_are_known_acts_once_they_are(repo: Repo, typed: str, acts: bool) -> None:
    found: list[Outcome | None] = []
    guarded = Guarded()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        def context() -> Context:
            return Context(database=paths.default_database(), repo=str(repo.path))

        dialog = ActionDialog(guarded, {"name": "feat-x"}, context)
        app.push_screen(dialog, found.append)
        await wait_until(pilot, lambda: dialog.is_mounted and dialog.query_one("#override", Input).visible)
        override = dialog.query_one("#override", Input)
        override.value = typed
        guarded.known.clear()
        dialog.query_one(Form).query(Input).last().value = "late"
        await wait_until(pilot, lambda: "checking…" in screen_text(app))
        override.focus()
        await pilot.press("enter")
        await pilot.pause()
        assert not found
        guarded.known.set()
        if acts:
            await wait_until(pilot, lambda: bool(found))
        else:
            await wait_until(pilot, lambda: "Type feat-x to slow it anyway" in screen_text(app))
            assert not found

    run_dashboard(repo, play)
    assert [one.lines for one in found if one is not None] == ([["feat-x feat-x late"]] if acts else [])


class Half(Slow):
    """Refused for one worktree."""

    def run(self, context: Context, request: Request) -> Outcome:
        if request.text("name") == "feat-b":
            raise Refused("not this one", code="no")
        return Outcome(["went through", "in detail"], warnings=["mind this"])


def test_the_outcome_for_several_worktrees_is_that_of_each(repo: Repo) -> None:
    found: list[Outcome | None] = []

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        def context() -> Context:
            return Context(database=paths.default_database(), repo=str(repo.path))

        app.push_screen(ActionDialog(Half(), {}, context, names=("feat-a", "feat-b")), found.append)
        await wait_until(pilot, lambda: "Slow" in screen_text(app) and "checking…" not in screen_text(app))
        assert "Slow 2 worktrees" in screen_text(app) and str(app.screen.query_one("#act", Button).label) == "Slow 2"
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Close" in screen_text(app) and "not this one" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: bool(found))

    run_dashboard(repo, play)
    (outcome,) = found
    assert outcome is not None
    assert (outcome.lines, outcome.warnings, outcome.exit_status) == (
        ["went through", "not this one"],
        ["mind this"],
        1,
    )
    assert outcome.data == {"results": [{"name": "feat-a", "done": True}, {"name": "feat-b", "done": False}]}


def test_a_value_that_changes_while_the_action_runs_is_not_previewed(repo: Repo) -> None:
    slow = Slow(lines=("first step",))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        app.push_screen(WithoutClock(slow, {}, lambda: Context(database=paths.default_database(), repo=str(repo.path))))
        await wait_until(pilot, lambda: "Slow" in screen_text(app) and "checking…" not in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Esc cancels" in screen_text(app) and "first step" in screen_text(app))
        changed = app.screen.query_one(Form).values()
        app.screen.query_one(Form).query(Input).last().value = "late"
        await wait_until(pilot, lambda: app.screen.query_one(Form).values() != changed)
        await pilot.pause()
        assert "Esc cancels" in screen_text(app) and "checking…" not in screen_text(app)
        slow.go_on.set()
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    run_dashboard(repo, play)


def test_second_escape_closes_a_dialog_whose_action_does_not_stop(repo: Repo) -> None:
    slow = Slow(deaf=True)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        results = shown(app, repo, slow)
        await wait_until(pilot, lambda: "Slow" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "first step" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "Stopping" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: results == [None])
        assert command_log.of(app).entries()[-1].state == "running"
        slow.go_on.set()
        await wait_until(pilot, lambda: command_log.of(app).entries()[-1].state == "done")

    try:
        run_dashboard(repo, play)
    finally:
        slow.go_on.set()


class Broken(Slow):
    words = ("broken",)

    def consequences(self, context: Context, request: Request) -> list[str]:
        raise RuntimeError("[/b] looked \x1b[31mbroken")

    def run(self, context: Context, request: Request) -> Outcome:
        raise RuntimeError("[/b] it is \x1b[31mbroken")


def test_exception_in_an_action_is_shown_as_a_sentence(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown(app, repo, Broken())
        await wait_until(pilot, lambda: "RuntimeError: [/b] looked \\x1b[31mbroken" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "RuntimeError: [/b] it is \\x1b[31mbroken" in screen_text(app))
        assert command_log.of(app).entries()[-1].state == "failed"
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    run_dashboard(repo, play)


# -- several worktrees ------------------------------------------------------------------------------------------------


def test_action_on_marked_worktrees_shows_the_result_of_each(repo: Repo) -> None:
    for name in ("feat-a", "feat-b", "feat-c"):
        repo.worktree(name)
    imi("claim", "feat-b", "--agent", "claude-1", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        results = shown(app, repo, "claim", names=["feat-a", "feat-b", "feat-c"])
        await wait_until(
            pilot, lambda: "2 of 3 can be done" in screen_text(app) and "held by claude-1" in screen_text(app)
        )
        await pilot.press("enter")
        await wait_until(pilot, lambda: "2 done, 1 not" in screen_text(app))
        assert not results, "it is read first"
        assert len(command_log.of(app).entries()) == 3
        assert not app.screen.query_one(Form).display, "there is nothing more to fill in"
        await pilot.press("escape")
        await wait_until(pilot, lambda: results)
        assert results[0] is not None
        done = {one["name"]: one["done"] for one in results[0].data["results"]}  # type: ignore[attr-defined]
        assert done == {"feat-a": True, "feat-b": False, "feat-c": True}

    run_dashboard(repo, play)
    assert holder(repo, "feat-b") == "claude-1"
    assert holder(repo, "feat-a") == holder(repo, "feat-c") is not None


def test_removal_of_marked_worktrees_skips_unsafe_ones(repo: Repo) -> None:
    trees = {name: repo.worktree(name) for name in ("feat-a", "feat-b")}
    trees["feat-b"].write("README.md", "changed\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        here = lambda: Context(database=paths.default_database(), repo=str(repo.path))  # noqa: E731
        results = shown(app, repo, "remove", names=[("feat-a", here), ("feat-b", here)])
        await wait_until(pilot, lambda: "1 of 2 can be done" in screen_text(app))
        assert app.focused is not None and app.focused.id == "leave"
        assert not app.screen.query_one("#override", Input).visible, "each is overridden by itself"
        app.screen.query_one("#act").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: "1 done, 1 not" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: results)

    run_dashboard(repo, play)
    assert not trees["feat-a"].path.exists() and trees["feat-b"].path.exists()


def test_action_without_a_worktree_runs_once_for_marked_worktrees(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        results = shown(app, repo, "sync", names=["feat-a", "feat-b"])
        await wait_until(pilot, lambda: "nothing to sync" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: results)
        assert len(command_log.of(app).entries()) == 1

    run_dashboard(repo, play)


def test_cancelled_action_leaves_remaining_worktrees_untouched(repo: Repo) -> None:
    slow = Slow()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown(app, repo, slow, names=["feat-a", "feat-b"])
        await wait_until(pilot, lambda: "Slow 2" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "1 of 2" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "0 done, 2 not" in screen_text(app) and "not begun" in screen_text(app))

    run_dashboard(repo, play)


# -- text from outside ------------------------------------------------------------------------------------------------


def harmless(text: str) -> bool:
    return not any(char in text for char in ("\x1b", "\x07", "\u202e", "\udcff"))


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
def test_hostile_text_is_sanitised_in_dialogs(repo: Repo, size: tuple[int, int]) -> None:  # T2
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        for payload in HOSTILE:
            await _show_hostile_dialogs(app, pilot, repo, payload)

    run_dashboard(repo, play, size)


async def _show_hostile_dialogs(app: ImiApp, pilot: Pilot[Any], repo: Repo, payload: str) -> None:
    class Hostile(Slow):
        words = ("hostile",)

        def consequences(self, context: Context, request: Request) -> list[str]:
            raise Refused(f"refused {payload}", details=[payload] * 300)

        def run(self, context: Context, request: Request) -> Outcome:
            context.progress(payload)
            if request.text("name") != "other":
                raise ImiError(f"failed {payload}", details=[payload])
            return Outcome([payload], warnings=[payload])

    shown(app, repo, Hostile(), values={"name": payload})
    await wait_until(pilot, lambda: "✗ refused" in screen_text(app))
    assert harmless(screen_text(app))
    app.screen.query_one("#act").focus()
    await pilot.press("enter")
    await wait_until(pilot, lambda: "✗ failed" in screen_text(app))
    assert harmless(screen_text(app))
    await pilot.press("escape")
    await wait_until(pilot, lambda: len(app.screen_stack) == 1)
    shown(app, repo, Hostile(), names=[payload, "other"])
    await wait_until(pilot, lambda: "0 of 2 can be done" in screen_text(app))
    app.screen.query_one("#act").focus()
    await pilot.press("enter")
    await wait_until(pilot, lambda: "1 done, 1 not" in screen_text(app))
    assert harmless(screen_text(app))
    await pilot.press("escape")
    await wait_until(pilot, lambda: len(app.screen_stack) == 1)


def test_pasted_control_characters_are_dropped_from_fields(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("v")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog))
        box = app.screen.query_one("#ask-pr", Input)
        box.post_message(events.Paste("12\x1b]52;c;eA==\x073\u202e"))
        await wait_until(pilot, lambda: box.value)
        assert box.value == "12]52;c;eA==3" and harmless(screen_text(app))

    run_dashboard(repo, play)


# -- advice -----------------------------------------------------------------------------------------------------------


def test_a_dialog_advises_what_it_offers_and_no_option_of_the_command_line(repo: Repo) -> None:
    tree = repo.worktree("feat-api")
    tree.write("README.md", "changed\n")
    imi("claim", "feat-api", "--agent", "claude-1", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        for key, said in (
            ("c", "wait in line, or take it from its owner"),
            ("R", "or c to wait in line"),
            ("D", "moves feat-api to the trash; U brings it back"),
        ):
            dialog = await opened(app, pilot, "feat-api", key)
            await wait_until(pilot, lambda: said in unbroken(app))  # noqa: B023
            assert "--" not in screen_text(app) and "`imi" not in screen_text(app), key
            await pilot.press("escape", "escape")
            await wait_until(pilot, lambda: app.screen is not dialog)  # noqa: B023

    run_dashboard(repo, play)


def unbroken(app: ImiApp) -> str:
    """The text of the screen in one line, without the frame of the dialog."""
    return " ".join(" ".join(line.strip("│ ").split()) for line in dialog_lines(app))


def dialog_lines(app: ImiApp) -> list[str]:
    return [line.partition("│  ")[2].rpartition("  │")[0] for line in screen_text(app).splitlines()]


def test_a_place_in_line_is_taken_from_the_dialog_and_the_claim_follows(repo: Repo) -> None:  # S2.10
    repo.worktree("feat-api")
    imi("claim", "feat-api", "--agent", "claude-1", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        dialog = await opened(app, pilot, "feat-api", "c")
        await wait_until(pilot, lambda: app.focused is not None and app.focused.id == "ask-wait")
        await pilot.press("space")
        await wait_until(pilot, lambda: "waits in line for feat-api as the first; claude-1 holds it" in unbroken(app))
        await pilot.press("enter")
        await wait_until(
            pilot, lambda: app.screen is not dialog and "in line for feat-api: Q shows the line" in toasts(app)
        )
        await wait_until(pilot, lambda: app.home.snapshot.waiting)  # type: ignore[union-attr]
        await asyncio.to_thread(imi, "release", "feat-api", "--agent", "claude-1", cwd=repo.path)
        await wait_until(pilot, lambda: any("feat-api is claimed by" in text for text in toasts(app)))

    run_dashboard(repo, play)
    assert holder(repo, "feat-api") not in (None, "claude-1")


def test_the_queue_view_takes_a_place_in_line_and_leaves_it(repo: Repo) -> None:
    repo.worktree("feat-api")
    imi("claim", "feat-api", "--agent", "claude-1", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "feat-api" in screen_text(app))
        select(app, "feat-api")
        await pilot.press("Q")
        await wait_until(pilot, lambda: "no agent is in line: c waits in line" in screen_text(app))
        await pilot.press("x")
        await wait_until(pilot, lambda: any("is not in line for feat-api" in text for text in toasts(app)))
        await pilot.press("c")
        await wait_until(pilot, lambda: app.focused is not None and app.focused.id == "ask-wait")
        await pilot.press("space", "enter")
        await wait_until(
            pilot, lambda: "claude-1 has held it" in screen_text(app) and "1 agent waits" in screen_text(app)
        )
        await pilot.press("x")
        await wait_until(pilot, lambda: "left the line for feat-api" in toasts(app))
        await wait_until(pilot, lambda: "no agent is in line" in screen_text(app))

    run_dashboard(repo, play)
    assert holder(repo, "feat-api") == "claude-1"


def test_keys_on_a_missing_worktree_say_what_forgets_and_what_finds_it(repo: Repo) -> None:
    tree = repo.worktree("gone")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        tree.path.rename(tree.path.parent / "away")
        await wait_until(pilot, lambda: any(one.missing for one in app.home.snapshot.worktrees))  # type: ignore[union-attr]
        select(app, "gone")
        for key in "cD":
            await pilot.press(key)
            await wait_until(pilot, lambda: "gone's folder is missing: P forgets it, Z searches for it" in toasts(app))
            assert len(app.screen_stack) == 1
            app.clear_notifications()

    run_dashboard(repo, play)


def test_a_worktree_without_a_commit_to_start_from_is_refused_in_the_preview(tmp_path: Path) -> None:
    empty = Repo(tmp_path / "empty")
    empty.path.mkdir()
    git("init", "-q", "-b", "main", cwd=empty.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("n", *"y")
        await wait_until(pilot, lambda: "no commit to branch from" in unbroken(app))
        assert "creates feat-y" not in unbroken(app)

    run_dashboard(empty, play)


def test_the_trash_view_restores_any_entry_and_deletes_one_for_good(repo: Repo) -> None:  # S2.43
    for name in ("feat-api", "feat-old"):
        repo.worktree(name)
    imi("claim", "feat-api", "--agent", "claude-1", cwd=repo.path)
    imi("remove", "feat-api", "--agent", "claude-1", cwd=repo.path)
    imi("remove", "feat-old", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("K")
        await wait_until(pilot, lambda: "2 removed worktrees" in screen_text(app))
        text = screen_text(app)
        assert text.index("feat-old") < text.index("feat-api")
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: "restores feat-api" in unbroken(app))
        assert "claude-1 held it until the removal and does not hold it again: c claims it" in unbroken(app)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "1 removed worktree" in screen_text(app))
        assert (repo.path.parent / "feat-api").is_dir()
        await pilot.press("x")
        await wait_until(pilot, lambda: "feat-old of" in unbroken(app))
        await pilot.click("#act")
        await wait_until(pilot, lambda: "the trash is empty" in screen_text(app))

    run_dashboard(repo, play)
    assert not (repo.path.parent / "feat-old").exists()
    assert imi("trash", "list", "--json", cwd=repo.path).data["entries"] == []


def test_the_trash_view_restores_a_cleaned_workspace(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "denker").mkdir()
    monkeypatch.setenv("DENKER_MEMORY_DATA_PATH", str(tmp_path / "denker"))
    imi("file", "write", "a.txt", "--content", "a")
    imi("workspace", "clean")
    place = tmp_path / "workspace/default"

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("K")
        await wait_until(pilot, lambda: "1 entry" in screen_text(app))
        assert "default" in screen_text(app) and "cleaned by" in screen_text(app)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "restores the workspace default with 1 file, cleaned" in unbroken(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "the trash is empty" in screen_text(app))

    run_dashboard(repo, play)
    assert (place / "a.txt").read_text() == "a"


def test_the_trash_view_changes_nothing_under_read_only(repo: Repo) -> None:
    repo.worktree("feat-old")
    imi("remove", "feat-old", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("K")
        await wait_until(pilot, lambda: "1 removed worktree" in screen_text(app))
        for key in ("enter", "x"):
            await pilot.press(key)
            await wait_until(pilot, lambda: READ_ONLY in toasts(app))
            app.clear_notifications()
        assert app.screen_stack[-1].word == "trash"  # type: ignore[attr-defined]

    run_dashboard(repo, play, read_only=True)


# -- suggestions ------------------------------------------------------------------------------------------------------


class SuggestingAction(Action):
    """Offers two values at once, and three when it has asked; records what it ran with."""

    words = ("pick",)
    label = "Pick"
    help = "pick one"
    arguments = (Argument("pr", "a number", suggested=True),)

    def __init__(self) -> None:
        self.asking = threading.Event()
        self.ran: list[str | None] = []

    def suggestions(self, context: Context, name: str, *, ask: bool) -> Suggestions:
        found = [Suggestion("12", "#12 CI ✓", "Add login, by ana"), Suggestion("7", "#7", "Fix cart, by bo", "cx/q1")]
        if ask:
            self.asking.wait(LIMIT)
            found.append(Suggestion("9", "#9", "Late one, by cy"))
        return Suggestions(found, "from gh, now" if ask else "from gh, 2m ago", str.isdigit)

    def consequences(self, context: Context, request: Request) -> list[str]:
        return [f"takes {request.text('pr')}"]

    def run(self, context: Context, request: Request) -> Outcome:
        self.ran.append(request.text("pr"))
        return Outcome(["done"])


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("down", "enter"), "12"),
        (("down", "down", "enter"), "7"),
        ((*"cart", "enter"), "7"),
        (("c", "x", "slash", "q", "enter"), "7"),
        ((*"55", "enter"), "55"),
        ((*"12", "enter"), "12"),
    ],
)
def test_a_suggestion_is_chosen_or_a_value_is_typed(repo: Repo, keys: tuple[str, ...], value: str) -> None:
    action = SuggestingAction()
    action.asking.set()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        results = shown(app, repo, action)
        await wait_until(pilot, lambda: "Late one" in screen_text(app) and "from gh, now" in screen_text(app))
        await pilot.press(*keys[:-1])
        await wait_until(pilot, lambda: f"takes {value}" in screen_text(app))
        await pilot.press(keys[-1])
        await wait_until(pilot, lambda: bool(results))

    run_dashboard(repo, play)
    assert action.ran == [value]


def test_what_is_known_is_offered_before_a_server_has_answered(repo: Repo) -> None:
    action = SuggestingAction()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown(app, repo, action)
        await wait_until(pilot, lambda: "Fix cart" in screen_text(app) and "from gh, 2m ago" in screen_text(app))
        assert "takes" not in screen_text(app), "nothing is chosen yet"
        await pilot.press("down", "down")
        await wait_until(pilot, lambda: "takes 7" in screen_text(app))
        action.asking.set()
        await wait_until(pilot, lambda: "Late one" in screen_text(app))
        await wait_until(pilot, lambda: "takes 7" in screen_text(app))  # the choice stays
        await pilot.press("escape")

    run_dashboard(repo, play)
