"""The board over a real registry: cards that move as agents work, and everything that is done from it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from imi_monitor.model import board, columns, times
from imi_monitor.store import db, items
from imi_monitor.store.items import NewItem
from imi_monitor.ui import board_card
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.board_view import BoardView
from imi_monitor.ui.views.item_view import ItemView
from tests.helpers import Repo, imi
from tests.ui.payloads import PAYLOADS, leaked
from tests.ui.pilot_kit import run_dashboard, screen_text, toasts, wait_until


def held(app: ImiApp) -> list[list[str]]:
    """The ids in each column, as the board shows them."""
    view = app.screen
    assert isinstance(view, BoardView)
    return [[row.key for row in lines.rows if row.key] for lines in view._lists]


def add(repo: Repo, *titles: str) -> None:
    for title in titles:
        imi("item", "add", title, cwd=repo.path)


def test_cards_move_by_what_agents_do_and_by_keys(repo: Repo) -> None:  # S4.26
    repo.worktree("feat-x")
    add(repo, "first", "second", "third")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("B")
        await wait_until(pilot, lambda: held(app)[0] == ["item-1", "item-2", "item-3"])
        imi("claim", "feat-x", "--agent", "claude-1", "--task", "item-2", cwd=repo.path)
        await wait_until(pilot, lambda: held(app)[:2] == [["item-1", "item-3"], ["item-2"]])
        assert "claude-1" in screen_text(app)
        imi("release", "feat-x", "--agent", "claude-1", "--outcome", "failed", "--reason", "no disk", cwd=repo.path)
        await wait_until(pilot, lambda: held(app)[4] == ["item-2"])
        assert "no disk" in screen_text(app)
        await pilot.press("greater_than_sign")
        await wait_until(pilot, lambda: held(app)[1] == ["item-1"])
        await pilot.press("greater_than_sign")
        await wait_until(pilot, lambda: held(app)[2] == ["item-1"])
        await pilot.press("less_than_sign", "less_than_sign")
        await wait_until(pilot, lambda: "item-1" in held(app)[0] + held(app)[1])
        await pilot.press("slash", *"third", "enter")
        await wait_until(pilot, lambda: [one for column in held(app) for one in column] == ["item-3"])
        await pilot.press("escape")
        await wait_until(pilot, lambda: "item-2" in held(app)[4])
        await pilot.press("n")
        await wait_until(pilot, lambda: bool(app.screen.query(Input)))
        await pilot.press(*"fourth", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, BoardView) and "item-4" in held(app)[0])

    run_dashboard(repo, play)


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
def test_the_details_of_an_item(repo: Repo, size: tuple[int, int]) -> None:
    repo.worktree("feat-x")
    add(repo, "write the login page")
    imi("claim", "feat-x", "--agent", "claude-1", "--task", "1", "--json", cwd=repo.path)
    imi("claim", "feat-x", "--agent", "claude-1", "--task", "item-1", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("B")
        await wait_until(pilot, lambda: held(app)[1] == ["item-1"])  # the first column that holds something
        await wait_until(pilot, lambda: "write the login page" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, ItemView) and "attempt" in screen_text(app))
        for text in ("write the login page", "in progress", "claude-1", "app/feat-x", "open"):
            assert text in screen_text(app)
        await pilot.press("enter")
        await wait_until(pilot, lambda: any("no agent was started on this item" in one for one in toasts(app)))
        imi("item", "block", "item-1", "--reason", "needs keys", cwd=repo.path)
        await wait_until(pilot, lambda: "needs keys" in screen_text(app))

    run_dashboard(repo, play, size)


def test_a_read_only_dashboard_moves_nothing(repo: Repo) -> None:
    add(repo, "first")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("B")
        await wait_until(pilot, lambda: held(app)[0] == ["item-1"])
        await pilot.press("greater_than_sign", "n", "s", "e")
        await wait_until(pilot, lambda: any("read-only" in one for one in toasts(app)))
        assert isinstance(app.screen, BoardView) and held(app)[0] == ["item-1"]

    run_dashboard(repo, play, read_only=True)


def test_a_board_of_a_thousand_items_is_painted_at_once(repo: Repo, tmp_path: Path) -> None:
    def fill(connection: Any) -> None:
        for number in range(1000):
            items.add(connection, NewItem(f"item of a long board, number {number}", "x" * 500))

    connection = db.connect(str(Path.home() / ".config/iMi/iMi.db"))
    db.transact(connection, fill)
    connection.close()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("B")
        await wait_until(pilot, lambda: len(held(app)[0]) == 1000)
        view = app.screen
        assert isinstance(view, BoardView)
        taken = []
        for _ in range(3):
            began = time.process_time()
            view._received(view._data or {})
            view._compositor.render_strips()
            taken.append(time.process_time() - began)
        assert min(taken) < 0.1

    run_dashboard(repo, play)


def test_a_title_that_fits_its_lines_is_not_cut() -> None:
    item = dict.fromkeys(("agent_id", "error", "worktree_name", "team", "run_state", "started_at", "ended_at"))
    item |= {"id": "item-5", "status": board.PENDING, "priority": "medium", "created_at": times.stamp()}
    for width in range(20, 50):
        for title in ("Remove the dead code of the old importer", "Measure the start of the dashboard"):
            lines = board_card.lines({**item, "title": title}, width, board_card.CARD, None, times.now())
            assert " ".join(line.plain for line in lines if "item-5" not in line.plain).strip() == title


@pytest.mark.parametrize("name", PAYLOADS)
def test_hostile_texts_stay_within_their_card(name: str) -> None:
    bad = PAYLOADS[name]
    fields = ("title", "agent_id", "error", "worktree_name", "batch", "team", "id", "run_state", "external_id")
    for status in board.STATUSES:
        item = {**dict.fromkeys(fields, bad), "status": status, "priority": "high", "repo_name": None}
        item |= {"ended_at": None, "started_at": bad, "created_at": times.stamp()}
        for height in (board_card.LINE, board_card.CARD):
            lines = board_card.lines(item, 24, height, None, times.now())
            assert len(lines) == height
            for line in lines:
                assert columns.cell_width(line.plain) <= 24 and line.plain.isprintable()
                assert not leaked(line.plain.encode("utf-8", "surrogatepass"))
