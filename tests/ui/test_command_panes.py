"""Own commands on the dashboard: by key, from the menus, for marked worktrees, in tmux or unseen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.model.own_command import OwnCommand
from imi_monitor.ui import preferences
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.diff_view import DiffView
from tests.helpers import ROOT, Repo
from tests.mux.multiplexer_kit import RunTmux, tmux_server
from tests.ui.pilot_kit import listed_names, run_dashboard, screen_text, select_worktree, toasts, wait_until


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTmux]:
    with tmux_server(tmp_path, monkeypatch) as run:
        for name in ("HOME", "PYTHONPATH", "PATH"):
            run("set-environment", "-g", name, os.environ.get(name, str(ROOT)))
        yield run


def declared(own_home: Path, *commands: OwnCommand) -> preferences.Preferences:
    path = own_home / ".config" / "iMi" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = (f"[commands.{one.name}]\nrun = '{one.run}'\npane = {str(one.pane).lower()}\n" for one in commands)
    path.write_text("".join(tables))
    return preferences.Preferences(own_commands=commands)


def test_a_key_runs_the_command_in_a_pane_that_stays(tmux: RunTmux, repo: Repo, own_home: Path) -> None:
    other = repo.worktree("feat-api")
    chosen = declared(
        own_home, OwnCommand("test", "echo in $IMI_WORKTREE; touch ran", key="f6", label="Tests", help="x")
    )

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        await select_worktree(app, "feat-api")
        await pilot.press("f6")
        await wait_until(pilot, lambda: "in a new window of tmux" in " ".join(toasts(app)))
        await wait_until(pilot, lambda: (other.path / "ran").exists())
        shown = lambda: tmux("capture-pane", "-p", "-t", ":1")  # noqa: E731
        await wait_until(pilot, lambda: "press enter to close" in shown())
        assert "in feat-api" in shown() and "ended with status 0" in shown()
        tmux("send-keys", "-t", ":1", "Enter")
        await wait_until(pilot, lambda: len(tmux("list-windows").splitlines()) == 1)

    run_dashboard(repo, play, preferences=chosen)


def test_the_menu_runs_it_unseen_in_all_marked_worktrees(
    repo: Repo, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    places = [repo.worktree(name).path for name in ("feat-api", "feat-ui")]
    repo.write(".iMi/commands.toml", '[commands]\ndeploy = "touch deployed"\n')
    chosen = declared(
        own_home,
        OwnCommand("build", "touch built", label="Build", help="make it", pane=False),
        OwnCommand("break", "echo it broke; exit 3", label="Break", help="fail", pane=False),
    )

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 3)
        await pilot.press("M", "!")
        await wait_until(pilot, lambda: "Commands for 2 worktrees" in screen_text(app))
        await wait_until(pilot, lambda: "deploy" in screen_text(app))
        await pilot.press("3")  # its reason is shown, and the menu stays
        await wait_until(pilot, lambda: "not trusted" in screen_text(app))
        await pilot.press("1")
        await wait_until(pilot, lambda: "build in 2 worktrees: done" in toasts(app))
        assert all((place / "built").exists() for place in places)
        assert not any((place / "deployed").exists() for place in places)
        await pilot.press("!")
        await wait_until(pilot, lambda: "Commands for 2 worktrees" in screen_text(app))
        await pilot.press("2")
        await wait_until(pilot, lambda: any("break in 2 worktrees ended with status 3" in one for one in toasts(app)))

    run_dashboard(repo, play, preferences=chosen)


def test_without_commands_the_menu_says_how_to_declare_one(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 1)
        await pilot.press("!")
        await wait_until(pilot, lambda: any("[commands]" in one for one in toasts(app)))
        await pilot.press("a")
        await wait_until(pilot, lambda: "Commands…" in screen_text(app))

    run_dashboard(repo, play)


# S2.42
def test_the_diff_offers_the_commands_for_its_worktree(
    repo: Repo, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    review = repo.worktree("review-7").path
    chosen = declared(own_home, OwnCommand("test", "touch tested", pane=False))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "review-7" in listed_names(app))
        await select_worktree(app, "review-7")
        await pilot.press("d")
        await wait_until(pilot, lambda: isinstance(app.screen, DiffView) and app.screen.kind == "trunk")
        await pilot.press("!")
        await wait_until(pilot, lambda: "Commands for review-7" in screen_text(app))
        await pilot.press("1")
        await wait_until(pilot, lambda: "test in review-7: done" in toasts(app))

    run_dashboard(repo, play, preferences=chosen)
    assert (review / "tested").exists()
