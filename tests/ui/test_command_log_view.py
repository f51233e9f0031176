"""The command log: everything done from the dashboard, as command lines that do the same."""

from __future__ import annotations

import asyncio
import base64
import shlex
import threading
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor import actions
from imi_monitor.ui import command_log
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.command_log import MOST, CommandLog
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel
from tests.helpers import Repo, imi
from tests.limits import join
from tests.ui.pilot_kit import record_terminal_writes, run_dashboard, screen_text, wait_until


def test_an_empty_command_log_says_so(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("at")
        await wait_until(pilot, lambda: "the dashboard has run no command yet" in screen_text(app))
        await pilot.press("y")
        assert app.clipboard == ""
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    run_dashboard(repo, play)


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
def test_a_logged_command_line_does_what_the_dashboard_did(repo: Repo, size: tuple[int, int]) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        rows = app.home.query_one(WorktreesPanel).lines
        await wait_until(pilot, lambda: any(row.key.endswith("feat-api") for row in rows.rows))
        rows.select(next(row.key for row in rows.rows if row.key.endswith("feat-api")))
        for key, held, state in (("c", True, "done"), ("R", False, "done"), ("", False, "refused")):
            if key:
                await pilot.press(key)
            else:  # the key itself would only say why not
                release = ActionDialog(
                    actions.find("release"), {"name": "feat-api"}, lambda: app.open_context(str(repo.path))
                )  # type: ignore[arg-type]
                app.push_screen(release)
            await wait_until(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.press("enter")
            await wait_until(pilot, lambda: [one.state for one in command_log.of(app).entries()][-1:] == [state])  # noqa: B023
            await pilot.press("escape")
            await wait_until(pilot, lambda: len(app.screen_stack) == 1)
            await wait_until(pilot, lambda: any(one.claim for one in app.home.snapshot.worktrees) is held)  # type: ignore[union-attr] # noqa: B023
        await pilot.press("at")
        await wait_until(pilot, lambda: "3 commands" in screen_text(app) and "is not claimed" in screen_text(app))
        await pilot.press("home")
        await wait_until(pilot, lambda: "is claimed by" in screen_text(app))
        written = record_terminal_writes(app)
        await pilot.press("y")
        await wait_until(pilot, lambda: any("\x1b]52;c;" in text for text in written))
        code = next(text for text in written if "\x1b]52;c;" in text).partition("52;c;")[2].rstrip("\x07")
        words = shlex.split(base64.b64decode(code).decode())
        assert words[0] == "imi" and words[-2:] == ["claim", "feat-api"]
        ran = await asyncio.to_thread(imi, *words[1:], cwd=repo.path.parent)
        assert ran.code == 0 and "feat-api is claimed" in ran.out

    run_dashboard(repo, play, size)


def test_command_log_is_bounded_and_thread_safe() -> None:
    log = CommandLog()

    def act() -> None:
        for _ in range(200):
            log.end(log.begin("Claim", "imi claim x"), command_log.DONE, ["said"] * 100)

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    entries = log.entries()
    assert len(entries) == MOST and len({one.number for one in entries}) == MOST
    assert all(one.state == "done" and len(one.said) == 20 for one in entries)
    first = log.begin("Claim", "one that falls out")
    for _ in range(MOST):
        log.begin("Claim", "imi claim y")
    log.end(first, command_log.DONE, [])
    assert first not in {one.number for one in log.entries()}


@pytest.mark.parametrize(
    "payload", ["[/b]", "\x1b]52;c;x\x07", "ev\u202eil", "日" * 40, "x" * 10_000, "line\nbreak", "b\udcffd"]
)
def test_hostile_text_in_the_command_log(repo: Repo, payload: str) -> None:  # T2
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        log = command_log.of(app)
        log.end(log.begin(payload, f"imi claim {payload}"), command_log.FAILED, [payload, payload])
        log.begin(payload, payload)
        await pilot.press("at")
        await wait_until(pilot, lambda: "2 commands" in screen_text(app))
        await pilot.press("k")
        assert not any(char in screen_text(app) for char in ("\x1b", "\x07", "\u202e", "\udcff"))

    run_dashboard(repo, play)
