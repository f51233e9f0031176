"""The dialog of `n`: a worktree alone, or with an agent and its prompt, written in an editor of several lines."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from imi_monitor.ui.widgets.prompt_field import FileMatches, PromptField
from tests.runs.conftest import world
from tests.runs.run_kit import RunWorld
from tests.ui.payloads import PAYLOADS, bad_characters
from tests.ui.pilot_kit import run_dashboard, screen_text, selected_name, type_at_once, wait_until

__all__ = ["world"]  # a fixture


async def closed(app: ImiApp, pilot: Pilot[Any]) -> None:
    await wait_until(pilot, lambda: not isinstance(app.screen, ActionDialog))


async def open_new(app: ImiApp, pilot: Pilot[Any], name: str, *keys: str) -> PromptField:
    """The dialog with a name and an agent; the cursor is in the editor."""
    await pilot.press("n", *name, "tab")
    await wait_until(pilot, lambda: "gemini" in screen_text(app) and "checking…" not in screen_text(app))
    await pilot.press(*(keys or ("right",)), "tab")
    await wait_until(pilot, lambda: isinstance(app.focused, PromptField))
    assert isinstance(app.focused, PromptField)
    return app.focused


def test_a_name_typed_ahead_makes_a_worktree_without_an_agent(world: RunWorld) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        type_at_once(app, "n", *"payments", "enter")
        await wait_until(pilot, lambda: selected_name(app) == "feat-payments")
        assert world.imi("runs", "--json").data["runs"] == []

    run_dashboard(world.repo, play)


def test_worktree_claim_and_agent_are_made_in_one_dialog(world: RunWorld) -> None:
    # S2.15
    (world.tree.path / "later.py").write_text("x = 1\n")
    world.imi("start", "codex", "--prompt", "an earlier prompt")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        editor = await open_new(app, pilot, "login")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, ActionDialog) and app.focused is editor, "it needs a prompt"
        await pilot.press("up")
        await wait_until(pilot, lambda: editor.text == "an earlier prompt")
        await pilot.press("down")
        await wait_until(pilot, lambda: editor.text == "")
        await pilot.press(*"read @REA")
        matches = app.screen.query_one(FileMatches)
        await wait_until(pilot, lambda: matches.display)
        await pilot.press("tab", "alt+enter", *"[[ask]]\\", "enter", *"end")
        assert editor.text == "read @README.md \n[[ask]]\nend"
        await wait_until(pilot, lambda: "claims it until the agent ends" in screen_text(app))
        assert "creates feat-login" in screen_text(app) and "starts claude in the new worktree" in screen_text(app)
        await pilot.press("enter")
        await closed(app, pilot)
        run = world.imi("runs", "--json").data["runs"][0]
        assert run["worktree_name"] == "feat-login" and run["prompt"] == "read @README.md \n[[ask]]\nend"
        world.wait(run["id"], "asks")
        assert world.imi("claims", "--json").data["claims"][0]["agent_id"] == run["agent_id"]
        await wait_until(pilot, lambda: selected_name(app) == "feat-login")

    run_dashboard(world.repo, play)


def test_several_agents_are_started_with_one_prompt(world: RunWorld) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await open_new(app, pilot, "login", "right", "space", "right", "space")
        await pilot.press(*"[[ask]]")
        await wait_until(pilot, lambda: "starts 2 agents with one prompt" in screen_text(app))
        await pilot.press("enter")
        await closed(app, pilot)
        runs = world.imi("runs", "--json").data["runs"]
        assert {one["worktree_name"] for one in runs} == {"feat-login-claude", "feat-login-codex"}

    run_dashboard(world.repo, play)


@pytest.mark.parametrize("payload", list(PAYLOADS), ids=str)
def test_matching_files_are_shown_harmlessly(payload: str) -> None:
    shown = FileMatches()
    shown.show([PAYLOADS[payload]], 0)
    assert bad_characters(str(shown.content).replace("\n", "")) == []
