"""Runs the dashboard in a test: on a real repository with a real engine, driven by keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip

from imi_monitor import engine, paths
from imi_monitor.actions.context import Context
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.commands import textual_key
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel, group_of_row
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.views.view import View
from tests.helpers import Repo
from tests.limits import LIMIT

Play = Callable[[ImiApp, Pilot[Any]], Awaitable[None]]


def run_dashboard(
    repo: Repo,
    play: Play,
    size: tuple[int, int] = (140, 40),
    *,
    read_only: bool = False,
    preferences: Preferences | None = None,
) -> None:
    database = paths.default_database()

    async def main() -> None:
        app = ImiApp(
            lambda: engine.open_engine(database, [str(repo.path / ".git")]),
            lambda where: Context(database=database, repo=where or str(repo.path)),
            read_only=read_only,
            preferences=preferences,
        )
        async with app.run_test(size=size, notifications=True) as pilot:
            await wait_until(pilot, lambda: app.home.snapshot is not None and app.home.snapshot.complete)
            await play(app, pilot)

    asyncio.run(main())


async def wait_until(pilot: Pilot[Any], true: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition. Looks are rarer the longer it takes: most of them draw the whole screen."""
    pause = 0.01
    try:
        async with asyncio.timeout(seconds):
            while not true():
                await pilot.pause(pause)
                pause = min(pause * 1.5, 0.2)
    except TimeoutError:
        pytest.fail(f"did not happen; on the screen:\n{screen_text(pilot.app)}")


def type_at_once(app: ImiApp, *keys: str) -> None:
    """Send keys as a terminal does that has them all at once: none waits for the effect of the one before."""
    assert app._driver is not None
    for key in keys:
        event = events.Key(textual_key(key), key if len(key) == 1 else None)
        event.set_sender(app)
        app._driver.send_message(event)


def screen_text(app: Any) -> str:
    """The lines on the screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in screen_strips(app))


def screen_strips(app: Any) -> list[Strip]:
    strips: list[Strip] = app.screen._compositor.render_strips()
    return strips


def set_limits(monkeypatch: pytest.MonkeyPatch, view: type[View], **limits: int) -> None:
    """Let a view read pages of another size, or keep fewer rows, so that a test needs few rows."""
    for name, limit in limits.items():
        monkeypatch.setattr(view, name, limit)


def record_terminal_writes(app: ImiApp) -> list[str]:
    """The list to which everything is added that the app writes to its terminal from now on."""
    written: list[str] = []
    app._driver.write = written.append  # type: ignore[union-attr, method-assign, assignment]
    return written


def keep_toasts(app: App[Any]) -> None:
    """Let messages stay: on a loaded machine they are gone before a test has pressed its keys."""
    app.NOTIFICATION_TIMEOUT = LIMIT


def toasts(app: ImiApp) -> list[str]:
    """The messages that are shown at the edge of the screen."""
    return [str(one.message) for one in app._notifications]


def make_four_worktrees(repo: Repo) -> None:
    """main, feat-api, feat-ui and fix-bug; the last has uncommitted work."""
    for name in ("feat-api", "feat-ui", "fix-bug"):
        repo.worktree(name)
    (repo.path.parent / "fix-bug" / "README.md").write_text("changed\n")


def listed_names(app: ImiApp) -> list[str]:
    """What is listed, from top to bottom; headings with a colon."""
    rows = app.home.worktrees.lines.rows
    return [f"{group}:" if (group := group_of_row(row.key)) is not None else row.key.split("\0")[-1] for row in rows]


async def wait_for_list(app: ImiApp, pilot: Pilot[Any], *wanted: str) -> None:
    await wait_until(pilot, lambda: listed_names(app) == list(wanted))


def selected_name(app: ImiApp) -> str | None:
    return app.home.selected_tree.key.worktree if app.home.selected_tree else None


async def select_worktree(app: ImiApp, name: str) -> None:
    app.home.worktrees.lines.select(
        next(row.key for row in app.home.worktrees.lines.rows if row.key.endswith(f"\0{name}"))
    )
    await asyncio.sleep(0)


def run_view(repo: Repo, key: str, play: Play, *, tree: str = "feat-x", size: tuple[int, int] = (140, 40)) -> None:
    """Select the worktree, open the view, and play."""

    async def opened(app: ImiApp, pilot: Pilot[Any]) -> None:
        lines = app.query_one(WorktreesPanel).lines
        await wait_until(pilot, lambda: any(row.key.endswith(tree) for row in lines.rows))
        lines.select(next(row.key for row in lines.rows if row.key.endswith(tree)))
        await wait_until(pilot, lambda: app.home.selected is not None and app.home.selected.worktree == tree)
        await pilot.press(key)
        await wait_until(pilot, lambda: len(app.screen_stack) == 2 and "reading…" not in screen_text(app))
        await play(app, pilot)
        app.stop_clock()  # the app exits next

    run_dashboard(repo, opened, size)
