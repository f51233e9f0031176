"""The welcome screen where there is no repository: what it lists, what can be typed, and what it returns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from imi_monitor.ui import welcome
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.welcome import DEMO, WelcomeApp, repositories_nearby
from tests.helpers import Repo
from tests.ui.pilot_kit import keep_toasts, screen_text, toasts, wait_until

Play = Callable[[WelcomeApp, Pilot[Any]], Awaitable[None]]


def chosen(play: Play, nearby: Sequence[str] = (), size: tuple[int, int] = (140, 40)) -> str | None:
    app = WelcomeApp(nearby, Preferences())

    async def main() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            await wait_until(pilot, lambda: "Welcome to imi" in screen_text(app))
            await play(app, pilot)

    asyncio.run(main())
    return app.chosen


def test_enter_opens_the_demonstration_and_escape_nothing() -> None:
    async def enter(app: WelcomeApp, pilot: Pilot[Any]) -> None:
        assert "none was found nearby" in screen_text(app)
        await pilot.press("enter")

    async def escape(_app: WelcomeApp, pilot: Pilot[Any]) -> None:
        await pilot.press("escape")

    assert chosen(enter) == DEMO
    assert chosen(escape) is None


def test_a_listed_repository_is_found_by_its_name(repo: Repo) -> None:
    async def play(_app: WelcomeApp, pilot: Pilot[Any]) -> None:
        await pilot.press(*repo.path.name, "enter")

    assert chosen(play, ["/somewhere/else", str(repo.path)]) == str(repo.path)


def test_a_typed_folder_is_opened_or_refused_in_a_sentence(repo: Repo, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    async def play(app: WelcomeApp, pilot: Pilot[Any]) -> None:
        keep_toasts(app)
        await pilot.press(*str(empty), "enter")
        await wait_until(pilot, lambda: any("is not inside a git repository" in text for text in toasts(app)))
        await pilot.press("ctrl+u", *str(repo.path), "enter")

    assert chosen(play) == str(repo.path)


def test_the_keys_are_one_key_away() -> None:
    async def play(app: WelcomeApp, pilot: Pilot[Any]) -> None:
        await pilot.press("question_mark")
        await wait_until(pilot, lambda: "New worktree" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Welcome to imi" in screen_text(app))
        await pilot.press("escape")

    assert chosen(play, size=(60, 24)) is None


def test_repositories_nearby_are_those_of_the_usual_folders_the_last_used_first(tmp_path: Path) -> None:
    for number, name in enumerate(
        ("here/old", "home/code/shop", "home/web/trunk-main", "home/src/not-one", "here/new")
    ):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        if name != "home/src/not-one":
            (folder / ".git").mkdir()
            (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
            os.utime(folder / ".git" / "HEAD", (number, number))
            os.utime(folder / ".git", (number, number))
    found = repositories_nearby(str(tmp_path / "here"), str(tmp_path / "home"))
    assert [os.path.relpath(path, tmp_path) for path in found] == ["here/new", "home/web", "home/code/shop", "here/old"]
    assert repositories_nearby(str(tmp_path / "gone"), str(tmp_path / "gone")) == []


def test_what_is_chosen_is_returned(monkeypatch: Any, repo: Repo) -> None:
    """`run` looks around the current folder."""
    monkeypatch.chdir(repo.path.parent)
    listed: list[Sequence[str]] = []

    def run_app(app: WelcomeApp, _record: object) -> int:
        listed.append(app._nearby)
        app.chosen = DEMO
        return 0

    monkeypatch.setattr(welcome, "run_app", run_app)
    from imi_monitor import config

    assert welcome.run(config.load(), lambda error: error) == DEMO  # type: ignore[arg-type, return-value]
    assert str(repo.path) in listed[0]
