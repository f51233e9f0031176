"""The dashboard on a real repository with a real engine, driven by keys."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.model.text import safe
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.commands import READ_ONLY
from imi_monitor.ui.panels import PANELS
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel
from tests.helpers import Repo, imi
from tests.ui.pilot_kit import keep_toasts, run_dashboard, screen_text, toasts, wait_until


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 20), (40, 12)])
def test_every_width_shows_the_worktrees(repo: Repo, size: tuple[int, int]) -> None:  # S2.37-S2.39
    other = repo.worktree("feat-api")
    other.write("x.txt", "x")
    other.commit("one")
    repo.worktree("fix-bug").write("README.md", "changed\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "feat-api" in screen_text(app) and "fix-bug" in screen_text(app))
        if size[0] < 80:
            await wait_until(
                pilot, lambda: "⚠ 1 uncommitted" in screen_text(app) and "✓ 1 commit ahead" in screen_text(app)
            )
            assert "feat-api (unclaimed)" in screen_text(app)
        else:
            await wait_until(pilot, lambda: "✎1" in screen_text(app) and "↑1" in screen_text(app))

    run_dashboard(repo, play, size)


def test_claims_and_file_changes_of_other_processes_appear_on_the_screen(repo: Repo) -> None:  # S2.14
    other = repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await asyncio.to_thread(imi, "claim", "feat-api", "--agent", "claude-1", cwd=repo.path)
        await wait_until(pilot, lambda: "claude-1" in screen_text(app))
        other.write("src/api.py", "changed\n")
        await wait_until(
            pilot, lambda: "src/api.py" in screen_text(app) and "claude-1 claimed feat-api" in screen_text(app)
        )

    run_dashboard(repo, play)


def test_claim_and_release_by_key(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: app.home.selected is not None)
        app.query_one(WorktreesPanel).lines.select(
            next(r.key for r in app.query_one(WorktreesPanel).lines.rows if "feat" in r.key)
        )
        await pilot.press("c")
        await wait_until(pilot, lambda: "Claim feat-api" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: any(w.claim for w in app.home.snapshot.worktrees))  # type: ignore[union-attr]
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("R")
        await wait_until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("enter")
        await wait_until(pilot, lambda: not any(w.claim for w in app.home.snapshot.worktrees))  # type: ignore[union-attr]

    run_dashboard(repo, play)


def test_unsafe_removal_lists_reasons_and_needs_the_typed_name(repo: Repo) -> None:
    other = repo.worktree("feat-api")
    other.write("README.md", "not committed\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        lines = app.query_one(WorktreesPanel).lines
        await wait_until(pilot, lambda: any("feat" in row.key for row in lines.rows))
        lines.select(next(row.key for row in lines.rows if "feat" in row.key))
        await pilot.press("D")
        await wait_until(pilot, lambda: "Remove feat-api" in screen_text(app))
        await wait_until(pilot, lambda: "1 uncommitted change" in screen_text(app))
        await pilot.press("enter")  # the field for the name has the focus, and is empty
        await wait_until(pilot, lambda: any("Type feat-api to remove it anyway" in text for text in toasts(app)))
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)
        assert other.path.exists()
        await pilot.press("D")
        await wait_until(pilot, lambda: len(app.screen_stack) == 2 and "1 uncommitted change" in screen_text(app))
        await pilot.click("#act")
        await wait_until(pilot, lambda: "README.md" in screen_text(app))
        assert other.path.exists()
        await pilot.click("#override")
        await pilot.press(*"feat-api", "enter")
        await wait_until(pilot, lambda: not other.path.exists())
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("U")
        await wait_until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.click("#act")
        await wait_until(pilot, lambda: other.path.exists())
        assert (other.path / "README.md").read_text() == "not committed\n"

    run_dashboard(repo, play)


def test_keys_for_filter_zoom_pause_help_and_panels(repo: Repo) -> None:
    for name in ("feat-api", "fix-bug"):
        repo.worktree(name)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "fix-bug" in screen_text(app))
        await pilot.press("slash", *"feat")
        await wait_until(
            pilot, lambda: "fix-bug" not in screen_text(app).split("2 Git")[0] and "feat-api" in screen_text(app)
        )
        await pilot.press("escape")
        await wait_until(pilot, lambda: "fix-bug" in screen_text(app))
        await pilot.press("z")
        await wait_until(pilot, lambda: "4 Changes" not in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "4 Changes" in screen_text(app))
        await pilot.press("p")
        await wait_until(pilot, lambda: "paused" in screen_text(app))
        await pilot.press("question_mark")
        await wait_until(pilot, lambda: "Keys" in screen_text(app))
        await pilot.press("escape")
        for number, panel in enumerate(PANELS, 1):
            await pilot.press(str(number))
            assert app.focused is not None and app.focused.parent is app.query_one(panel)

    run_dashboard(repo, play)


def test_read_only_says_so_at_every_key_that_would_change_something(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        assert "read-only" in screen_text(app)
        keep_toasts(app)
        for key in "cRDUnv!":
            await pilot.press(key)
            await wait_until(pilot, lambda: READ_ONLY in toasts(app))
            app.clear_notifications()
        app.action_commands.open("claim")
        await wait_until(pilot, lambda: READ_ONLY in toasts(app))
        assert len(app.screen_stack) == 1

    run_dashboard(repo, play, read_only=True)


@pytest.mark.parametrize("payload", ["[/nope]", "a[/b]x", "\x1b]0;owned\x07", "ev\u202eil", "日" * 40])
def test_hostile_file_names_are_sanitised_on_the_screen(repo: Repo, payload: str) -> None:  # T2
    other = repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: (seen := app.home.snapshot) and seen.complete)
        await wait_until(pilot, lambda: all(one.watched == "live" for one in app.home.snapshot.worktrees))  # type: ignore[union-attr]
        (other.path / f"{payload.replace('/', '_')}.txt").write_text("x")
        await wait_until(pilot, lambda: app.home.snapshot is not None and app.home.snapshot.changes)
        await wait_until(pilot, lambda: safe(payload.replace("/", "_"))[:3] in screen_text(app))
        assert "\x1b" not in screen_text(app) and "\u202e" not in screen_text(app)

    run_dashboard(repo, play)
