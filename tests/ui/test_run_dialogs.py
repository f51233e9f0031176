"""Starting, answering and stopping an agent from the dashboard, with a real keeper and follower and a fake program."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from tests.helpers import Repo
from tests.runs.conftest import world
from tests.runs.run_kit import RunWorld
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until
from tests.ui.test_dialogs import opened

__all__ = ["world"]  # a fixture


async def enter(app: ImiApp, pilot: Pilot[Any], text: str) -> None:
    """Type a text, wait until the dialog has looked at it, and submit."""
    await pilot.press(*text)
    await wait_until(pilot, lambda: "checking…" not in screen_text(app))
    await pilot.press("enter")
    await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))


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
        await pilot.press(*"no", "enter")
        await wait_until(pilot, lambda: "too late" in screen_text(app))
        assert first != second and [one["id"] for one in world.run(run)["asks"]] == [second]
        await pilot.press("escape")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        await opened(app, pilot, "feat-x", "W")
        await enter(app, pilot, "yes")
        world.wait(run, "idle")
        assert world.messages(run)[-2:] == ["allowed", "Hello."]
        stop = await opened(app, pilot, "feat-x", "X")
        assert "(idle) and all that it started" in screen_text(app)
        stop.query_one("#act").focus()
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))
        world.wait(run, "completed")

    run_dashboard(world.repo, play)


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
        await enter(app, pilot, "yes")
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
