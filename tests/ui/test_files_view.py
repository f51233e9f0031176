"""The changed files of the selected worktree, by keys, over a real repository."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.diff_view import DiffView
from imi_monitor.ui.views.files_view import FilesView
from tests.helpers import Repo, imi
from tests.ui.pilot_kit import run_view, screen_strips, screen_text, wait_until
from tests.ui.test_diff_view import HOSTILE, feat

__all__ = ["feat"]


def row_of(app: ImiApp, path: str) -> str:
    return next((line for line in screen_text(app).split("\n") if path in line), "")


def test_columns_of_the_files_view(feat: Repo, repo: Repo) -> None:
    repo.worktree("fix-bug").write("README.md", "mine\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "fix-bug" in row_of(app, "README.md"))
        await wait_until(pilot, lambda: row_of(app, "new.txt").split()[:3] == ["??", "new.txt", "+1"])
        assert row_of(app, "README.md").split()[:3] == ["M", "README.md", "+1"]
        assert row_of(app, "src/api.py").split()[:4] == ["M", "src/api.py", "+1", "−1"]
        assert row_of(app, "own.py").split()[:3] == ["A", "own.py", "+2"], "committed since the trunk"
        assert "3 files uncommitted · 1 committed · ⚡ 1 overlap" in screen_text(app)
        assert not any(f" {who}" in row_of(app, "src/api.py") for who in ("claude-1", "unclaimed"))
        imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path)
        await wait_until(
            pilot, lambda: app.home.snapshot is not None and any(tree.claim for tree in app.home.snapshot.worktrees)
        )
        feat.write("src/api.py", "def api():\n    return 3\n")
        await wait_until(pilot, lambda: "claude-1" in row_of(app, "src/api.py"))

    run_view(repo, "f", play)


def test_enter_opens_its_diff_and_the_cursor_stays_on_its_file(feat: Repo, repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        view = app.screen
        assert isinstance(view, FilesView)
        await wait_until(pilot, lambda: "+2" in row_of(app, "own.py"))
        while view.chosen is None or view.chosen.path != "src/api.py":
            await pilot.press("j")
        feat.write("aaa.txt", "before all others\n")
        await wait_until(pilot, lambda: "aaa.txt" in screen_text(app))
        assert view.chosen is not None and view.chosen.path == "src/api.py"
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, DiffView) and "return 2" in screen_text(app))
        diff = app.screen
        assert isinstance(diff, DiffView)
        await wait_until(pilot, lambda: diff.rows.file_at(diff.sheet.cursor) > 0)
        assert diff.rows.diff.files[diff.rows.file_at(diff.sheet.cursor)].path == "src/api.py"
        await pilot.press("escape", "G", "enter")
        await wait_until(pilot, lambda: "committed" in screen_text(app) and "against main" in screen_text(app))

    run_view(repo, "f", play)


def test_e_opens_the_editor_on_the_file(feat: Repo, repo: Repo, edited: list[tuple[str, str, int | None]]) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "new.txt" in screen_text(app))
        await pilot.press("e")
        assert [path for _, path, _ in edited] == ["README.md"]

    run_view(repo, "f", play)


def test_files_view_of_an_unchanged_and_of_a_deleted_worktree(repo: Repo) -> None:
    made = repo.worktree("feat-x")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "no file is changed" in screen_text(app))
        await pilot.press("enter", "e", "j", "k")
        made.path.rename(made.path.parent / "elsewhere")
        await wait_until(pilot, lambda: "feat-x is gone" in screen_text(app))

    run_view(repo, "f", play)


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 20), (40, 12)])
def test_hostile_file_names_are_harmless_at_every_width(repo: Repo, size: tuple[int, int]) -> None:  # T2
    made = repo.worktree("feat-x")
    made.write(f"{HOSTILE.replace('/', '_')}\n.txt", "x\n")
    made.write(f"{'日本👩‍👩‍👧' * 10}.txt", "x\n")
    with open(str(made.path).encode() + b"/caf\xe9", "wb") as file:
        file.write(b"x")
    made.git("add", "-A")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "caf\\xe9" in screen_text(app))
        assert not set(screen_text(app)) & set("\x1b\x07\u202e\x9b\r")
        widths = {sum(segment.cell_length for segment in strip) for strip in screen_strips(app)}
        assert widths == {size[0]}
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, DiffView) and "reading…" not in screen_text(app))

    run_view(repo, "f", play, size=size)
