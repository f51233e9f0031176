"""The history view over a real archive: search as you type, where enter leads, and older events in the events view."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor import paths
from imi_monitor.store import commit_records, db, history_file
from imi_monitor.store.commit_records import MadeCommit
from imi_monitor.store.history_search import HistoryQuery
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.diff_view import DiffView
from imi_monitor.ui.views.events_view import EventsView
from imi_monitor.ui.views.history_view import HistoryView, parse_query
from imi_monitor.ui.views.session_view import SessionView
from imi_monitor.ui.views.trash_view import TrashView
from imi_monitor.ui.widgets.row_list import RowList
from tests.helpers import Repo, imi
from tests.ui import sample_agents
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until
from tests.ui.sample_snapshots import FakeEngine
from tests.ui.test_agents_view import played


@pytest.fixture
def world(repo: Repo) -> Repo:
    """A worktree that was claimed and released, one that was removed, and all of it archived."""
    for name in ("feat-api", "feat-old"):
        repo.worktree(name)
        assert imi("claim", name, "--agent", "claude-1", "--task", f"T-{name}", cwd=repo.path).code == 0
        assert imi("release", name, "--agent", "claude-1", cwd=repo.path).code == 0
    assert imi("remove", "feat-old", cwd=repo.path).code == 0
    assert imi("archive", cwd=repo.path).code == 0
    return repo


async def opened(app: ImiApp, pilot: Pilot[Any], key: str, view: type) -> None:
    await pilot.press(key)
    await wait_until(pilot, lambda: isinstance(app.screen, view) and "looking…" not in screen_text(app))


@pytest.mark.parametrize("size", [(140, 30), (60, 24)])
def test_the_history_is_searched_as_one_types_and_enter_goes_there(world: Repo, size: tuple[int, int]) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot, "u", HistoryView)
        assert "removed feat-old" in screen_text(app) and "claimed feat-api" in screen_text(app)
        await pilot.press("slash", *"claimed")
        await wait_until(pilot, lambda: "2 found" in screen_text(app))
        await pilot.press("space", *"api")
        await wait_until(pilot, lambda: "1 found" in screen_text(app))
        assert "claimed feat-api" in screen_text(app) and "feat-old" not in screen_text(app)
        await pilot.press("enter", "d")
        await wait_until(pilot, lambda: "data.task" in screen_text(app))
        await pilot.press("escape", "enter")
        await wait_until(pilot, lambda: app.screen is app.home and app.home.selected is not None)
        assert app.home.selected is not None and app.home.selected.worktree == "feat-api"

        await opened(app, pilot, "u", HistoryView)
        await pilot.press("slash", *"type:worktree.removed", "enter")
        await wait_until(pilot, lambda: "1 found" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, TrashView) and "feat-old" in screen_text(app))
        view = app.screen
        assert isinstance(view, TrashView)
        await wait_until(pilot, lambda: not view.wanted_row and view.query_one(RowList).cursor is not None)

    run_dashboard(world, play, size)


def test_a_commit_leads_to_its_diff_and_narrow_rows_say_it_whole(world: Repo) -> None:
    subject = "teach the parser about empty files and about lines that are longer than any screen"
    with closing(db.connect(paths.default_database())) as connection:
        sha = world.git("rev-parse", "HEAD").strip()
        made = MadeCommit(sha, "2025-01-01T00:00:00+00:00", subject)  # from before every claim
        db.transact(connection, commit_records.record_commits, "app", "feat-api", "feat/api", [made])
    assert imi("archive", cwd=world.path).code == 0

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot, "u", HistoryView)
        await pilot.press("slash", *"type:worktree.commit", "enter")
        await wait_until(pilot, lambda: "1 found" in screen_text(app))
        words = " ".join(screen_text(app).split())
        assert "feat-api got a commit: teach the parser about empty files" in words and "about lines that are" in words
        await pilot.press("d")
        await wait_until(pilot, lambda: "data.commit" in screen_text(app))
        await pilot.press("escape", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, DiffView))

    run_dashboard(world, play, (60, 24))


def test_yesterday_and_the_selected_worktree_are_one_key_away(world: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: app.home.selected is not None)
        await opened(app, pilot, "u", HistoryView)
        for key, word in (("Y", "on:yesterday"), ("f", f"in:{app.home.selected.worktree}")):  # type: ignore[union-attr]
            for shown in (True, False):
                await pilot.press(key)
                await wait_until(pilot, lambda: (word in screen_text(app)) is shown)  # noqa: B023

    run_dashboard(world, play)


def test_a_prompt_leads_to_the_session_of_its_agent(tmp_path: Path) -> None:
    database, shown = str(tmp_path / "iMi.db"), sample_agents.at_work()
    sample_agents.keep(database, shown, told=sample_agents.acts())
    assert imi("archive", "--db", database).code == 0

    async def play(app: ImiApp, pilot: Pilot[Any], feed: FakeEngine) -> None:
        await opened(app, pilot, "u", HistoryView)
        await pilot.press("slash", *"type:session.prompt", "enter")
        await wait_until(pilot, lambda: "1 found" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, SessionView))

    played(play, shown, database)


def test_the_events_view_goes_on_in_the_archive(world: Repo) -> None:
    with closing(db.connect(paths.default_database())) as connection:
        db.transact(connection, lambda inner: inner.execute("DELETE FROM events WHERE type = 'worktree.claimed'"))
        db.transact(connection, lambda inner: inner.execute("DELETE FROM events WHERE seq <= 3"))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot, "t", EventsView)
        await wait_until(pilot, lambda: "claimed feat-api" in screen_text(app))
        assert screen_text(app).count("released feat-api") == 1, "no event is shown twice"

    run_dashboard(world, play)


def test_an_archive_that_is_damaged_is_a_sentence(world: Repo) -> None:
    Path(history_file.history_path(paths.default_database())).write_bytes(b"no database" * 1000)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot, "u", HistoryView)
        await wait_until(pilot, lambda: "is damaged" in screen_text(app))

    run_dashboard(world, play)


def test_the_words_of_the_filter_are_a_query() -> None:
    now = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
    assert parse_query("token @claude-1 in:feat-x type:session repo:app", now) == HistoryQuery(
        ("token",), agent="claude-1", worktree_name="feat-x", types=("session.*",), repo_name="app"
    )
    yesterday = parse_query("on:yesterday", now)
    assert yesterday.since is not None and yesterday.until is not None and yesterday.words == ()
    assert parse_query("on:2026-02-01", now).since is not None
    assert parse_query("since:zzz on:never a:b", now).words == ("since:zzz", "on:never", "a:b")
