"""The log of the selected worktree's branch, by keys, over a real repository."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.diff_view import DiffView
from imi_monitor.ui.views.log_view import LogView
from tests.helpers import Repo, git, imi
from tests.ui.pilot_kit import run_view, screen_strips, screen_text, set_limits, wait_until
from tests.ui.test_diff_view import HOSTILE


def test_log_shows_own_commits_graph_author_and_diff(repo: Repo) -> None:
    made = repo.worktree("feat-x")
    imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path)
    made.write("one.txt", "one\n")
    made.commit("own one")
    made.git("checkout", "-q", "-b", "side", "HEAD~1")
    made.write("side.txt", "side\n")
    made.commit("on the side")
    made.git("checkout", "-q", "feat/x")
    made.git("merge", "-q", "--no-ff", "-m", "bring the side", "side")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(
            pilot, lambda: "3 commits not on main" in screen_text(app) and "on main too" in screen_text(app)
        )
        text = screen_text(app)
        assert "◉─╮" in text and "claude-1" in text and "[feat/x] bring the side" in text
        assert text.index("own one") < text.index("on main too") < text.index("second")
        view = app.screen
        assert isinstance(view, LogView) and view.chosen is not None and view.chosen.entry.subject == "bring the side"
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, DiffView) and "side.txt" in screen_text(app))
        assert "one.txt" not in screen_text(app), "a merge shows what it brought"
        await pilot.press("t", "s", "tab")
        assert "bring the side" in screen_text(app)
        await pilot.press("escape")
        assert isinstance(app.screen, LogView)

    run_view(repo, "L", play)


def test_log_follows_new_commits_and_keeps_the_cursor(repo: Repo) -> None:
    made = repo.worktree("feat-x")
    made.write("one.txt", "one\n")
    made.commit("own one")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        view = app.screen
        assert isinstance(view, LogView)
        await wait_until(pilot, lambda: "own one" in screen_text(app))
        await pilot.press("G")
        assert view.chosen is not None and view.chosen.entry.subject == "first"
        made.git("commit", "-q", "--allow-empty", "-m", "own two")
        await wait_until(pilot, lambda: "own two" in screen_text(app) and "2 commits not on main" in screen_text(app))
        assert view.chosen is not None and view.chosen.entry.subject == "first"

    run_view(repo, "L", play)


def test_log_reads_pages_while_scrolling(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:  # T5
    set_limits(monkeypatch, LogView, page_size=40)
    for number in range(110):
        repo.git("commit", "-q", "--allow-empty", "-m", f"number {number}")
    repo.worktree("feat-x")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        view = app.screen
        assert isinstance(view, LogView)
        await wait_until(pilot, lambda: "number 109" in screen_text(app))
        assert "40+ commits" in screen_text(app)
        for wanted in ("80+ commits", "112 commits"):
            await pilot.press("G")
            await wait_until(pilot, lambda wanted=wanted: wanted in screen_text(app))
        await pilot.press("G")
        await wait_until(pilot, lambda: "first" in screen_text(app) and "more…" not in screen_text(app))
        shas = [one.entry.sha for one in view.commits]
        assert len(shas) == len(set(shas)) == 112 == int(repo.git("rev-list", "--count", "HEAD"))

    run_view(repo, "L", play)


def test_log_is_bounded_and_names_the_command(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, LogView, page_size=2, max_commits=4)
    for number in range(8):
        repo.git("commit", "-q", "--allow-empty", "-m", f"number {number}")
    repo.worktree("feat-x")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "number 7" in screen_text(app))
        for key in "jGkG":
            await pilot.press(key)
            await pilot.pause()
        await wait_until(pilot, lambda: "imi log feat-x -n 8" in screen_text(app))

    run_view(repo, "L", play)


def test_log_of_a_branch_without_commits_and_of_a_deleted_worktree(tmp_path: Any, repo: Repo) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "fresh"), cwd=tmp_path)

    async def unborn(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "nothing is committed here yet" in screen_text(app))
        await pilot.press("enter", "j", "G")

    run_view(Repo(tmp_path / "fresh"), "L", unborn, tree="fresh")
    made = repo.worktree("feat-x")

    async def gone(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "second" in screen_text(app))
        made.path.rename(tmp_path / "elsewhere")
        await wait_until(pilot, lambda: "feat-x is gone" in screen_text(app))

    run_view(repo, "L", gone)


@pytest.mark.parametrize("size", [(140, 40), (60, 20), (40, 12)])
def test_hostile_commit_texts_are_harmless_at_every_width(repo: Repo, size: tuple[int, int]) -> None:  # T2
    made = repo.worktree("feat-x")
    made.git("commit", "-q", "--allow-empty", "-m", HOSTILE, "--author", f"{HOSTILE} <e@x>")
    made.git("commit", "-q", "--allow-empty", "-m", "日本👩‍👩‍👧" * 100)
    made.git("commit", "-q", "--allow-empty", "-m", "x" * 10_000)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "[/b]" in screen_text(app) or "52;c" in screen_text(app))
        for key in ("j", "j", "enter"):
            assert not set(screen_text(app)) & set("\x1b\x07\u202e\x9b\r")
            widths = {sum(segment.cell_length for segment in strip) for strip in screen_strips(app)}
            assert widths == {size[0]}
            await pilot.press(key)
        await wait_until(pilot, lambda: "this commit changes no file" in screen_text(app))
        assert not set(screen_text(app)) & set("\x1b\x07\u202e\x9b\r")

    run_view(repo, "L", play, size=size)
