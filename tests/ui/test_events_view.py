"""The events view over a real registry: following the end, older pages, filters."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from imi_monitor import paths
from imi_monitor.store import db, events
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.events_view import EventsView
from imi_monitor.ui.widgets.row_list import RowList
from tests.helpers import Repo, imi
from tests.ui.pilot_kit import run_dashboard, screen_text, set_limits, wait_until


def write(count: int, *, kind: str = "worktree.claimed", tree: str = "feat-api", agent: str = "claude-1") -> None:
    connection = db.connect(paths.default_database())

    def all_of_them(inner: sqlite3.Connection) -> None:
        for number in range(1, count + 1):
            events.append_row(inner, kind, "app", tree, agent_id=agent, data={"task": f"T-{number}"})

    db.transact(connection, all_of_them)
    connection.close()


def lines(app: ImiApp) -> RowList:
    return app.screen.query_one(RowList)


async def opened(app: ImiApp, pilot: Pilot[Any]) -> None:
    await pilot.press("t")
    await wait_until(pilot, lambda: isinstance(app.screen, EventsView) and "looking…" not in screen_text(app))


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
def test_events_view_follows_its_end(repo: Repo, size: tuple[int, int]) -> None:
    repo.worktree("feat-api")
    write(200)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        await asyncio.to_thread(imi, "claim", "feat-api", "--agent", "agent-new", cwd=repo.path)
        await wait_until(pilot, lambda: "agent-new" in screen_text(app))
        assert lines(app).cursor == lines(app).rows[-1].key
        await pilot.press("k", "k")
        kept = lines(app).cursor
        await asyncio.to_thread(imi, "release", "feat-api", "--agent", "agent-new", cwd=repo.path)
        await wait_until(pilot, lambda: "released" in screen_text(app))
        assert lines(app).cursor == kept, "the cursor of a reader is not moved"

    run_dashboard(repo, play, size)


def test_scrolling_up_loads_older_events(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, EventsView, page_size=50)
    write(170)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        await wait_until(pilot, lambda: len(lines(app).rows) == 50)
        before = lines(app).rows[0].key
        await pilot.press("home")
        await wait_until(pilot, lambda: len(lines(app).rows) == 100)
        assert lines(app).cursor == before
        assert lines(app).rows[50].key == before
        assert "for T-121" in screen_text(app), "what was read stays on the screen"
        for rows in (150, 170):
            await pilot.press("home")
            await wait_until(pilot, lambda: len(lines(app).rows) == rows)  # noqa: B023
        await pilot.press("home")
        await wait_until(pilot, lambda: "for T-1 " in screen_text(app))
        keys = [int(row.key) for row in lines(app).rows]
        assert keys == sorted(set(keys)), "each once, in order"

    run_dashboard(repo, play)


def test_events_view_keeps_a_bounded_number_of_events(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, EventsView, page_size=20, max_events=30)
    write(200)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        for _ in range(8):
            await pilot.press("home")
            await pilot.pause()
        assert len(lines(app).rows) <= 60

    run_dashboard(repo, play)


def test_events_are_filtered_by_type_worktree_agent_and_text(repo: Repo) -> None:
    repo.worktree("feat-api")
    write(3)
    write(2, kind="worktree.released")
    write(4, tree="fix-bug", agent="codex-1")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        box = app.screen.query_one("#view-filter", Input)
        for wanted, number in (
            ("type:released", 2),
            ("in:fix-bug", 4),
            ("@codex", 4),
            ("!@codex type:claimed", 3),
            ("T-2", 3),
            ("nothing-at-all", 0),
            ("CLAUDE", 0),
        ):
            await pilot.press("slash")
            box.value = wanted
            await wait_until(pilot, lambda: f"{number} of 9" in screen_text(app))  # noqa: B023
            await pilot.press("enter")
            assert app.focused is lines(app)
        await wait_until(pilot, lambda: "no event matches CLAUDE" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "9 events" in screen_text(app))
        assert isinstance(app.screen, EventsView), "esc goes one step out"
        await pilot.press("f")
        await wait_until(pilot, lambda: "of 9" in screen_text(app))
        await pilot.press("escape", "escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    run_dashboard(repo, play)


def test_events_of_other_repositories_are_on_no_screen_and_enter_shows_what_is_recorded(repo: Repo) -> None:
    repo.worktree("feat-api")
    write(2, kind="session.progress")
    connection = db.connect(paths.default_database())
    for status in ("running", "waiting_for_input"):
        data = {"session": "claude:1", "status": status, "detail": "Bash pytest -q"}
        db.transact(connection, events.append_row, "session.progress", "app", "feat-api", agent_id="c-1", data=data)
    db.transact(connection, events.append_row, "worktree.created", "strange", "elsewhere", agent_id="b")
    connection.close()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "c-1 asks in feat-api" in screen_text(app))
        assert "elsewhere" not in screen_text(app)
        await opened(app, pilot)
        await wait_until(pilot, lambda: "4 events" in screen_text(app))
        assert "c-1 asks in feat-api: Bash pytest -q (1 earlier)" in screen_text(app)
        assert "elsewhere" not in screen_text(app)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "data.session" in screen_text(app))
        text = screen_text(app)
        assert "session.progress" in text and "events of this session" in text and "status=running" in text
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(app.screen, EventsView))

    run_dashboard(repo, play)


def test_an_empty_events_view_says_so(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        await wait_until(pilot, lambda: "no events yet" in screen_text(app))

    run_dashboard(repo, play)


@pytest.mark.parametrize("payload", ["[/b]", "\x1b]52;c;x\x07", "ev\u202eil", "日" * 40, "x" * 10_000, "line\nbreak"])
def test_hostile_text_in_events(repo: Repo, payload: str) -> None:  # T2
    connection = db.connect(paths.default_database())
    db.transact(connection, events.append_row, f"t.{payload}", None, payload, agent_id=payload, data={payload: payload})
    connection.execute("UPDATE events SET data = ?", (f"not json {payload}",)) if len(payload) == 4 else None
    connection.commit()
    connection.close()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        await wait_until(pilot, lambda: "1 event" in screen_text(app))
        await pilot.press("slash", "x", "escape")
        assert not any(char in screen_text(app) for char in ("\x1b", "\x07", "\u202e"))

    run_dashboard(repo, play)
