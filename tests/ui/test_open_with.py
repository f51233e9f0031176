"""Open a worktree with a shell, an editor, an agent or a git screen, and open its pull request in the browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.model.errors import Refused
from imi_monitor.mux import multiplexer
from imi_monitor.ui import command_conditions, editor, menu_entries, pull_request_page
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.handlers import worktree_commands
from tests.helpers import Repo
from tests.mux.multiplexer_kit import RunTmux, pane_folders, tmux_server
from tests.ui import snapshot_builder
from tests.ui.pilot_kit import listed_names, run_dashboard, screen_text, select_worktree, wait_until


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTmux]:
    with tmux_server(tmp_path, monkeypatch) as run:
        yield run


def test_without_a_multiplexer_the_shell_runs_in_this_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = tmp_path / "sh"
    shell.write_text(f"#!/bin/sh\npwd > {tmp_path}/where\n")
    shell.chmod(0o755)
    (tmp_path / "feat").mkdir()
    monkeypatch.setenv("SHELL", str(shell))
    assert multiplexer.current() == ""
    assert worktree_commands.run_here(str(tmp_path / "feat")) == ""
    assert (tmp_path / "where").read_text().strip() == str(tmp_path / "feat")
    monkeypatch.setenv("SHELL", "/no/such/shell")
    assert "cannot be started" in worktree_commands.run_here(str(tmp_path))


def test_enter_opens_the_selected_worktree_in_tmux(tmux: RunTmux, repo: Repo) -> None:
    other = repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        await select_worktree(app, "feat-api")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "feat-api: a new tmux window" in screen_text(app))
        assert str(other.path) in pane_folders(tmux)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "already open" in screen_text(app))

    run_dashboard(repo, play)


def test_open_with_starts_an_agent_in_tmux(
    tmux: RunTmux, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repo.worktree("feat-api")
    tool = tmp_path / "bin" / "claude"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\npwd > {tmp_path}/ran.new; mv {tmp_path}/ran.new {tmp_path}/ran\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    tmux("set-environment", "-g", "PATH", os.environ["PATH"])
    monkeypatch.setenv("VISUAL", "no-such-editor")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        await select_worktree(app, "feat-api")
        await pilot.press("O")
        await wait_until(pilot, lambda: "Open feat-api with" in screen_text(app) and "claude" in screen_text(app))
        await pilot.press("e")  # it says why not, and stays
        await wait_until(
            pilot, lambda: "no-such-editor is not installed" in screen_text(app) and len(app.screen_stack) == 2
        )
        await pilot.press("c")
        await wait_until(pilot, lambda: (tmp_path / "ran").exists())
        assert (tmp_path / "ran").read_text().strip() == str(other.path)

    run_dashboard(repo, play)


def test_open_with_offers_a_shell_in_a_pane_only_inside_a_multiplexer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "vi -n")
    monkeypatch.setattr(editor.programs, "find", lambda name: f"/bin/{name}")
    tree = snapshot_builder.tree("feat-api", path=str(tmp_path))
    found = menu_entries.open_ways(tree, "")
    assert "shell" not in found and found["here"].here and not found["here"].command
    assert found["editor"].command == ["/bin/vi", "-n", str(tmp_path)] and found["editor"].here
    assert (
        "shell" in menu_entries.open_ways(tree, "tmux") and "tmux" in menu_entries.open_ways(tree, "tmux")["shell"].help
    )


def test_enter_without_a_terminal_of_its_own_shows_a_reason(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 1)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "cannot be opened from here" in screen_text(app))

    run_dashboard(repo, play)


def test_g_opens_lazygit_or_says_that_none_is_installed(
    tmux: RunTmux, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_conditions.git_screen.cache_clear()

    async def without(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 1)
        await pilot.press("g")
        await wait_until(pilot, lambda: "neither lazygit nor tig is installed" in screen_text(app))

    async def having(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 1)
        await pilot.press("g")
        await wait_until(pilot, lambda: (tmp_path / "ran").exists())
        assert (tmp_path / "ran").read_text().strip() == str(repo.path)

    if shutil.which("lazygit") is None and shutil.which("tig") is None:
        run_dashboard(repo, without)
    tool = tmp_path / "bin" / "lazygit"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\npwd > {tmp_path}/ran.new; mv {tmp_path}/ran.new {tmp_path}/ran\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    tmux("set-environment", "-g", "PATH", os.environ["PATH"])
    command_conditions.git_screen.cache_clear()
    run_dashboard(repo, having)
    command_conditions.git_screen.cache_clear()


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("git@github.com:ada/app.git", "https://github.com/ada/app/pull/7"),
        ("https://user:secret@github.com/ada/app", "https://github.com/ada/app/pull/7"),
        (
            "ssh://git@gitlab.example.org:2222/group/sub/app.git",
            "https://gitlab.example.org/group/sub/app/-/merge_requests/7",
        ),
    ],
)
def test_the_page_of_a_pull_request_follows_from_the_remote(repo: Repo, url: str, page: str) -> None:
    repo.git("remote", "add", "origin", url)
    assert pull_request_page.pull_request_page(str(repo.path), 7) == page


def test_a_remote_without_a_forge_is_refused(repo: Repo, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not a hosted forge"):
        pull_request_page.pull_request_page(str(repo.path), 7)
    repo.git("remote", "add", "origin", str(tmp_path / "x.git"))
    with pytest.raises(Refused, match="is not a hosted forge"):
        pull_request_page.pull_request_page(str(repo.path), 7)


def test_the_browser_gets_the_page_as_one_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert pull_request_page.browse("https://x/") is False
    tool = tmp_path / "look"
    tool.write_text(f'#!/bin/sh\necho "$#" "$@" > {tmp_path}/seen\n')
    tool.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(tool))
    assert pull_request_page.browse("https://x/$(touch owned)") is True
    assert (tmp_path / "seen").read_text().strip() == "1 https://x/$(touch owned)"


def test_the_page_that_proposes_a_branch_opens_in_the_browser(
    cloned: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feat = cloned.worktree("feat-x")
    feat.git("push", "-q", "-u", "origin", "HEAD")
    cloned.git("config", "remote.origin.url", "git@github.com:me/app.git")
    tool = tmp_path / "look"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/seen.new; mv {tmp_path}/seen.new {tmp_path}/seen\n')
    tool.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(tool))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "feat-x" in listed_names(app))
        await select_worktree(app, "feat-x")
        app.action_do("propose")
        await wait_until(pilot, lambda: len(app.screen_stack) == 2 and "Propose" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: (tmp_path / "seen").exists())
        assert (tmp_path / "seen").read_text().startswith("https://github.com/me/app/compare/main...")

    run_dashboard(cloned, play)
