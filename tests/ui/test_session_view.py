"""The view of one session: stream, tool calls, files and checkpoints, of agents that imi observes and of those it started."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.actions.history.session_timeline import TimelineLine
from imi_monitor.model.run import RunFile
from imi_monitor.store.session_events import Artifact, CallRow
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from imi_monitor.ui.views import session_lines
from imi_monitor.ui.views.session_view import SessionView
from tests.runs.conftest import world
from tests.runs.run_kit import RunWorld
from tests.ui import sample_agents, sample_snapshots
from tests.ui.payloads import PAYLOADS, bad_characters
from tests.ui.pilot_kit import run_dashboard, screen_text, select_worktree, selected_name, wait_until
from tests.ui.test_agents_view import played

__all__ = ["world"]  # a fixture


def test_an_observed_session_is_followed_and_shown_in_parts(tmp_path: Path) -> None:
    # S2.17
    database, shown = str(tmp_path / "iMi.db"), sample_agents.at_work()
    sample_agents.keep(database, shown, told=sample_agents.acts()[:3])

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("down", "V")
        await wait_until(pilot, lambda: "how tokens are kept" in screen_text(app))
        await asyncio.to_thread(sample_agents.keep, database, shown, told=sample_agents.acts()[3:])
        await wait_until(pilot, lambda: "3. tests for both" in screen_text(app) and "✗ 40s" in screen_text(app))
        await pilot.press("2")
        await wait_until(pilot, lambda: "2 Tools 4" in screen_text(app) and "✗ Bash" in screen_text(app))
        assert "1 failing" not in screen_text(app), "its output is below the call once that is opened"
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: "1 failing" in screen_text(app))
        await pilot.press("tab")
        await wait_until(pilot, lambda: "src/db.ts" in screen_text(app) and "✗ Bash" not in screen_text(app))
        await pilot.press("4")
        await wait_until(pilot, lambda: "only agents that imi started have checkpoints" in screen_text(app))
        await pilot.press("1", "slash", *"retry", "enter")
        await wait_until(pilot, lambda: "2. one retry" in screen_text(app) and "startup" not in screen_text(app))
        await pilot.press("escape", "W")
        await wait_until(
            pilot,
            lambda: any(
                "imi did not start claude-1, and no hook of it waits" in str(one.message) for one in app._notifications
            ),
        )
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    played(play, shown, database)


def test_a_session_whose_agent_is_shown_no_more_is_opened(tmp_path: Path) -> None:
    database, shown = str(tmp_path / "iMi.db"), sample_agents.at_work()
    sample_agents.keep(database, shown, told=sample_agents.acts())

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await select_worktree(app, "feat-api")
        await pilot.press("V")
        await wait_until(pilot, lambda: "how tokens are kept" in screen_text(app) and "claude" in screen_text(app))
        await pilot.press("2")
        await wait_until(pilot, lambda: "✗ Bash" in screen_text(app))

    played(play, replace(shown, agents=()), database)


def test_a_started_agent_is_followed_answered_and_told_more_in_its_view(world: RunWorld) -> None:
    # S2.17
    run = world.start("[[ask]]")
    world.wait(run, "asks")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "asks: Bash" in screen_text(app))
        await select_worktree(app, "feat-x")
        await wait_until(pilot, lambda: selected_name(app) == "feat-x")
        await pilot.press("V")
        await wait_until(pilot, lambda: isinstance(app.screen, SessionView) and "tool     Bash" in screen_text(app))
        await pilot.press("W")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and "asks: permission" in screen_text(app))
        await pilot.press("y")
        await wait_until(pilot, lambda: isinstance(app.screen, SessionView) and "allowed" in screen_text(app))
        await pilot.press("s")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog))
        await pilot.press(*"more", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, SessionView) and "prompt   more" in screen_text(app))
        await pilot.press("4")
        await wait_until(pilot, lambda: " asks " in screen_text(app) and " turn " in screen_text(app))
        await pilot.press("end", "enter")
        await wait_until(pilot, lambda: "message" in screen_text(app))
        await pilot.press("escape", "J")
        await wait_until(pilot, lambda: "1 living agent" in screen_text(app))
        await pilot.press("V")
        await wait_until(pilot, lambda: isinstance(app.screen, SessionView) and "tool     Bash" in screen_text(app))

    run_dashboard(world.repo, play)


@pytest.mark.parametrize("payload", list(PAYLOADS), ids=str)
def test_the_lines_of_a_session_fit_and_are_harmless(payload: str) -> None:
    text = PAYLOADS[payload]
    line = TimelineLine(3, text, "tool_finished", text, text, text, 3.0, text, text, text)
    call = CallRow(text, text, text, text, "failure", text, None, None)
    file, point = Artifact(text, text, text, 3, text, text, text), {"number": 1, "kind": text, "at": text}
    point |= {"message": text, "plan": text, "prompt": text, "open": [text], "files": [{"path": text}], "head": text}
    for width in (34, 58, 120):
        rows = [
            *session_lines.stream_rows([line], session_lines.line_key(line), width),
            *session_lines.call_rows([call], f"call-{text}", width),
            *session_lines.file_rows([file], [RunFile(text, 3, text)], width),
            *session_lines.checkpoint_rows([point], "checkpoint-1", width),
        ]
        for row in rows:
            assert bad_characters(row.lines[0].plain) == [] and row.lines[0].cell_length <= width
