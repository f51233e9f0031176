"""A real process that writes an agent's session files, shown by the real dashboard."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.peek_view import PeekView
from tests.helpers import Repo, imi
from tests.limits import LIMIT
from tests.test_engine_agents import Claude
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fake takes its name by prctl")


@pytest.fixture
def claude(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Claude]:
    folder = tmp_path / "claude"
    folder.mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    agent = Claude(folder, repo.worktree("feat-api").path)
    yield agent
    agent.end()


def test_a_live_agent_is_shown_from_its_prompt_to_its_death(repo: Repo, claude: Claude) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "✓ claude-1" in screen_text(app))
        claude.do("prompt make the tokens last")
        await wait_until(pilot, lambda: "1 works" in screen_text(app))
        await pilot.press("slash", *"is:works", "enter")
        await wait_until(pilot, lambda: [tree.key.worktree for tree in app.home.worktrees.listed] == ["feat-api"])
        await pilot.press("escape", "w", "space")
        await wait_until(pilot, lambda: isinstance(app.screen, PeekView) and "make the tokens last" in screen_text(app))
        claude.do("tool Bash rm -rf build")
        claude.do("ask")
        await wait_until(pilot, lambda: "asks: Bash rm -rf build · permission" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "1 asks" in screen_text(app) and "asks: Bash rm -rf" in screen_text(app))
        claude.do("register busy")
        await wait_until(pilot, lambda: "1 works" in screen_text(app))
        claude.do("crash")
        claude.process.wait(LIMIT)
        await wait_until(pilot, lambda: "1 dead" in screen_text(app) and "✗ claude" in screen_text(app))
        await pilot.press("full_stop")
        await wait_until(pilot, lambda: "1 dead" not in screen_text(app) and "1 agent marked" in screen_text(app))
        while (await asyncio.to_thread(imi, "agents", "--json", cwd=repo.path)).data["count"]:
            await asyncio.sleep(0.05)  # the registry keeps it

    run_dashboard(repo, play)


def test_all_deaths_are_marked_as_seen_from_the_command_line(repo: Repo, claude: Claude) -> None:
    claude.do("prompt go")
    claude.do("crash")
    claude.process.wait(LIMIT)
    (dead,) = imi("agents", "--json", cwd=repo.path).data["agents"]
    assert dead["state"] == "dead"
    marked = imi("agents", "seen", "--json", cwd=repo.path).data
    assert (marked["marked"], marked["count"]) == ([dead["name"]], 1)
    assert imi("agents", "--json", cwd=repo.path).data["count"] == 0
    assert imi("agents", "seen", cwd=repo.path).out == "no unseen agent has died or failed\n"


def test_a_live_intruder_is_reported(repo: Repo, claude: Claude) -> None:
    imi("claim", "feat-api", "--agent", "codex-1", "--pid", "1", cwd=repo.path)
    claude.do("prompt go")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "1 intrudes" in screen_text(app) and "claude-1 intrudes" in screen_text(app))
        await pilot.press("E")
        await wait_until(pilot, lambda: "codex-1 holds feat-api: this one intrudes" in screen_text(app))

    run_dashboard(repo, play)
