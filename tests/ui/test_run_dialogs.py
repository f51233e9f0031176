"""Starting, answering and stopping an agent from the dashboard, with a real keeper and follower and a fake program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.model.run import Run
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from imi_monitor.ui.views.jobs_view import JobsView
from imi_monitor.ui.widgets.form_inputs import TickBox
from tests.helpers import Repo, wait_for
from tests.runs.conftest import world
from tests.runs.run_kit import RunWorld
from tests.runs.walls.test_escapes import find_wall
from tests.ui.pilot_kit import run_dashboard, screen_text, select_worktree, type_at_once, wait_until
from tests.ui.sample_snapshots import NOW, ago
from tests.ui.snapshot_kit import no_context
from tests.ui.test_dialogs import opened

__all__ = ["world"]  # a fixture


def runs_of(app: ImiApp) -> tuple[Run, ...]:
    """The runs as the dashboard shows them."""
    return app.home.snapshot.runs if app.home.snapshot is not None else ()


def test_an_agent_is_started_answered_and_stopped_from_the_dashboard(world: RunWorld) -> None:
    # S2.15
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        dialog = await opened(app, pilot, "feat-x", "greater_than_sign")
        await pilot.press(*"[[ask]]")
        await wait_until(pilot, lambda: "starts claude in feat-x, without a terminal" in screen_text(app))
        await wait_until(pilot, lambda: "claims it until the agent ends" in screen_text(app))
        assert dialog.form.missing is None
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        run = world.imi("runs", "--json").data["runs"][0]["id"]
        first = world.wait(run, "asks")["asks"][0]["id"]
        await wait_until(pilot, lambda: "asks: Bash" in screen_text(app))
        await opened(app, pilot, "feat-x", "W")
        assert "asks: permission for Bash touch x" in screen_text(app)
        world.imi("answer", run, "yes")  # another person is faster, and the agent asks again
        world.wait(run, "idle")
        world.imi("say", run, "[[ask]]")
        second = world.wait(run, "asks")["asks"][0]["id"]
        await pilot.press("n")
        await wait_until(pilot, lambda: "too late" in screen_text(app))
        assert first != second and [one["id"] for one in world.run(run)["asks"]] == [second]
        await pilot.press("escape")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        await opened(app, pilot, "feat-x", "W")
        await pilot.press("y")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        world.wait(run, "idle")
        assert world.messages(run)[-2:] == ["allowed", "Hello."]
        stop = await opened(app, pilot, "feat-x", "X")
        assert "(idle) and all that it started" in screen_text(app)
        stop.query_one("#act").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        world.wait(run, "completed")

    run_dashboard(world.repo, play)


def test_an_agent_is_started_behind_a_wall_from_the_dialog(world: RunWorld) -> None:
    find_wall()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        dialog = await opened(app, pilot, "feat-x", "greater_than_sign")
        await pilot.press(*"[[slow]]")
        dialog.query_one("#ask-sandbox", TickBox).value = True
        await wait_until(pilot, lambda: "behind a wall: write" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        [run] = world.imi("runs", "--json").data["runs"]
        assert run["sandbox"] == "write"
        await wait_until(pilot, lambda: any(one.wall == "write" for one in runs_of(app)))
        await wait_until(pilot, lambda: "behind a wall" in screen_text(app))

    run_dashboard(world.repo, play)


def test_a_contained_run_wants_to_deliver_and_is_allowed_by_a_key(world: RunWorld, tmp_path: Path) -> None:  # S1.20
    find_wall()
    run = world.start("[[draft]]", "claude", "--contained")
    world.wait(run, "idle")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "strict" in screen_text(app))
        app.home.select(next(one.key for one in app.home.snapshot.worktrees if one.run is not None))
        await wait_until(pilot, lambda: "extra.md" in screen_text(app))
        world.imi("stop", run)
        await wait_until(pilot, lambda: "◆ wants to deliver extra.md" in screen_text(app))
        await pilot.press("e")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and "extra.md goes to" in screen_text(app))
        app.screen.query_one("#act").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        await wait_until(pilot, lambda: "wants to deliver" not in screen_text(app))

    run_dashboard(world.repo, play)
    assert Path(os.environ["HOME"], "extra.md").read_text() == "# extra.md\n"


def test_the_dialog_says_how_to_install_a_program_where_none_is(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.worktree("feat-x")
    only_git = tmp_path / "only-git"
    only_git.mkdir()
    (only_git / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(only_git))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot, "feat-x", "greater_than_sign")
        await pilot.press(*"work")
        await wait_until(pilot, lambda: "claude is not installed" in screen_text(app))
        assert "‹claude›" in screen_text(app) and "npm install" in screen_text(app)

    run_dashboard(repo, play)


def test_the_jobs_are_listed_followed_answered_and_stopped(world: RunWorld) -> None:
    # S4.13
    run = world.start("hello [[ask]]")
    other = world.start("[[ask]]", "codex", "--in", "app")
    for one in (run, other):
        world.wait(one, "asks")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("J")
        await wait_until(pilot, lambda: screen_text(app).count("permission for") == 2)
        text = screen_text(app)
        assert "2 living agents" in text and text.index(other[:8]) < text.index(run[:8]), "the newest first"
        await pilot.press("W")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and "asks: " in screen_text(app))
        await pilot.press("y")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        world.wait(other, "idle")
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: "> hello" in screen_text(app) and "$ Bash touch x" in screen_text(app))
        world.imi("answer", run, "yes")
        await wait_until(pilot, lambda: "allowed" in screen_text(app))
        await pilot.press("slash", *"hello", "enter")
        await wait_until(pilot, lambda: "> hello" in screen_text(app) and "allowed" not in screen_text(app))
        await pilot.press("escape", "escape")
        await wait_until(pilot, lambda: "Jobs" in screen_text(app))
        await pilot.press("X")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and run[:8] in screen_text(app))
        app.screen.query_one("#act").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        world.wait(run, "completed")
        await wait_until(pilot, lambda: "completed" in screen_text(app))

    run_dashboard(world.repo, play)


def test_a_question_is_answered_by_number_by_a_text_and_only_while_it_is_shown(world: RunWorld) -> None:
    run = world.start("[[question]]")
    world.wait(run, "asks")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "asks: question" in screen_text(app))
        app.home.select(next(tree.key for tree in app.home.worktrees.listed if tree.key.worktree == "feat-x"))
        await pilot.pause()
        type_at_once(app, "W", "1", "1")  # typed before the choices are on the screen: they answer nothing
        await wait_until(pilot, lambda: "2   PostgreSQL" in screen_text(app) and "Which database?" in screen_text(app))
        assert world.run(run)["shown_state"] == "asks"
        await pilot.press("escape", "space")
        await wait_until(pilot, lambda: "W answers  1 SQLite  2 PostgreSQL" in screen_text(app))
        await pilot.press("W")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and "2   Postgre" in screen_text(app))
        await pilot.press("2")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        await pilot.press("escape")
        world.wait(run, "idle")
        world.imi("say", run, "[[question]]")
        second = world.wait(run, "asks")["asks"][0]["id"]
        await wait_until(pilot, lambda: [one.question and one.question.id for one in runs_of(app)] == [second])
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)
        await opened(app, pilot, "feat-x", "W")
        await wait_until(pilot, lambda: "2   PostgreSQL" in screen_text(app))
        await pilot.press("down", "down", *"both")
        await wait_until(pilot, lambda: "checking…" not in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        world.wait(run, "idle")
        said = [text for text in world.messages(run) if text.startswith("answered")]
        assert said == ['answered {"Which database?": "PostgreSQL"}', 'answered {"Which database?": "both"}']

    run_dashboard(world.repo, play)


def test_a_crashed_agent_is_resumed_or_begun_anew_with_what_is_uncommitted(world: RunWorld) -> None:
    run = world.start("first [[die]]")
    world.wait(run, "crashed")
    (world.tree.path / "README.md").write_text("half done\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: f"run {run[:8]} crashed" in screen_text(app) or "dead:" in screen_text(app))
        await opened(app, pilot, "feat-x", "less_than_sign")
        await wait_until(pilot, lambda: "f   begin a new session" in screen_text(app))
        assert f"resumes the session of {run[:8]}" in screen_text(
            app
        ) and "1 uncommitted file: README.md" in screen_text(app)
        await pilot.press("f")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        newest = world.imi("runs", "--json").data["runs"][0]
        assert newest["id"] != run and newest["resumed_from"] == run and newest["session"] != run

    run_dashboard(world.repo, play)


def test_an_agent_is_started_from_what_a_worktree_is_opened_with(world: RunWorld) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: app.home.selected is not None)
        await pilot.press("O", "t")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and "Program" in screen_text(app))
        await pilot.press("escape")

    run_dashboard(world.repo, play)


def test_one_prompt_goes_to_all_marked_agents(world: RunWorld) -> None:
    world.repo.worktree("feat-y")
    runs = [world.start("hello", "claude"), world.start("hello", "codex", "--in", "feat-y")]
    for run in runs:
        world.wait(run, "idle")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(app.home.worktrees.listed) == 3 and len(runs_of(app)) == 2)
        await pilot.press("M")
        await wait_until(pilot, lambda: len(app.home.marks) == 2)
        app.action_do("say")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and "Say 2 worktrees" in screen_text(app))
        await pilot.press(*"one", "alt+enter", *"two")
        await wait_until(pilot, lambda: screen_text(app).count("sends it to") == 2)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "all 2 done" in screen_text(app))
        for run in runs:
            assert any("one\ntwo" in str(message) or "one\\ntwo" in str(message) for message in world.sent(run)), run

    run_dashboard(world.repo, play)


def test_a_follow_up_over_the_budget_is_asked_for(world: RunWorld) -> None:
    run = world.start("hi", "claude", "--budget", "0.01")
    world.wait(run, "idle")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(runs_of(app)) == 1)
        await select_worktree(app, "feat-x")
        app.action_do("say")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog))
        await pilot.press(*"more")
        await wait_until(pilot, lambda: "is used up: $0.01 of $0.01" in screen_text(app))
        app.screen.query_one("#ask-over-budget", TickBox).value = True
        await wait_until(pilot, lambda: "sends it to" in screen_text(app))
        app.screen.query_one("#act").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        wait_for(lambda: world.run(run)["used"]["usd"] == pytest.approx(0.02))

    run_dashboard(world.repo, play)


def test_a_place_far_back_in_the_queue_is_apart_from_the_age() -> None:
    one = {"id": "9e8f7a6b" * 4, "agent_id": "gemini-9e8f7a6b", "shown_state": "queued", "place": 128, "asks": []}
    more = {"created_at": ago(20), "prompt": "go", "left_behind": []}
    empty = dict.fromkeys(("ended_at", "started_at", "worktree_name", "detail"))
    row = JobsView(None, no_context).rows({"runs": [{**empty, **one, **more}]}, NOW, 140)[0]
    assert "queued, place 128 20s" in row.lines[0].plain
