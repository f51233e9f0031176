"""`?` and the palette in a view: its own keys first, each explained, and what is chosen there is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.scroll_view import ScrollView

from imi_monitor.ui import view_keys, views
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.menu import Menu
from imi_monitor.ui.views.peek_view import PeekView
from imi_monitor.ui.widgets.matrix import Matrix
from imi_monitor.ui.widgets.row_list import RowList
from imi_monitor.ui.widgets.sheet import Sheet
from tests.helpers import Repo
from tests.ui.pilot_kit import run_view, screen_text, wait_until


def declared() -> Iterator[tuple[str, Any]]:
    """Every binding of a view or of a list in one, without those of Textual."""
    textual = [same for base in (Screen, ScrollView) for same in base._merge_bindings().key_to_bindings.values()]
    inherited = {binding.action for same in textual for binding in same}
    for one in (*map(views.load, views.MODULES), PeekView, RowList, Sheet, Matrix):
        for same in one._merge_bindings().key_to_bindings.values():
            yield from (
                (f"{one.__name__} {binding.key}", binding) for binding in same if binding.action not in inherited
            )


def test_every_key_of_a_view_says_what_it_does() -> None:
    for where, binding in declared():
        assert binding.description and binding.tooltip, where
        assert binding.tooltip[0].islower() and not binding.tooltip.endswith("."), where


def test_a_list_takes_no_key_that_it_has_no_use_for() -> None:
    assert not {"left", "right", "ctrl+pageup"} & RowList._merge_bindings().key_to_bindings.keys()
    assert {"up", "down", "home", "pageup"} <= RowList._merge_bindings().key_to_bindings.keys()


def test_one_entry_has_all_keys_of_what_it_does() -> None:
    keys = {one.action: one for one in view_keys.declared_keys(views.view_class("trash"))}
    assert keys["restore"].key_label == "⏎" and keys["leave"].key_label == "esc q"
    assert list(keys)[-1] == "leave"


@pytest.fixture
def long(repo: Repo) -> Repo:
    """A worktree with one changed file of two hunks."""
    made = repo.worktree("feat-x")
    text = "".join(f"line {number}\n" for number in range(60))
    made.write("long.txt", text)
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "long")
    made.write("long.txt", text.replace("line 20\n", "LINE 20\n").replace("line 50\n", "LINE 50\n"))
    return repo


async def open_menu(app: ImiApp, pilot: Pilot[Any], key: str) -> Menu:
    await pilot.press(key)
    await wait_until(pilot, lambda: isinstance(app.screen, Menu) and app.screen.lines.rows)
    assert isinstance(app.screen, Menu)
    return app.screen


def test_the_help_of_the_diff_begins_with_its_keys_and_runs_them(long: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "LINE 20" in screen_text(app))
        sheet = app.screen.query_one("#rows", Sheet)
        before = sheet.cursor
        shown = await open_menu(app, pilot, "question_mark")
        lines = [row.lines[0].plain for row in shown.lines.rows]
        assert lines[0] == "Diff" and lines.index("Movement") < next(
            place for place, line in enumerate(lines) if "Palette" in line
        )
        assert "Navigation" not in lines and not any("is:dirty" in line for line in lines)
        events = next(line for line in lines if "Events" in line)
        assert not events.startswith("t"), "the view uses the key for the diff against the trunk"
        await pilot.press(*"next hunk")
        assert shown.lines.rows[0].lines[0].plain.split()[:3] == ["]", "Next", "hunk"]
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(app.screen, Menu) and sheet.cursor > before)
        await open_menu(app, pilot, "colon")
        await pilot.press(*"staged", "enter")
        await wait_until(pilot, lambda: "no staged changes" in screen_text(app))

    run_view(long, "d", play)


def test_a_command_that_the_view_has_a_key_for_is_listed_once(long: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown = await open_menu(app, pilot, "question_mark")
        lines = [row.lines[0].plain for row in shown.lines.rows]
        assert lines[0] == "Agents" and sum("Explain" in line for line in lines) == 1

    run_view(long, "A", play)


def test_the_help_is_in_the_bottom_line_at_every_width(long: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        def line() -> str:
            return screen_text(app).splitlines()[-1].rstrip()

        for width in (60, 200, 40):
            await pilot.resize_terminal(width, 30)
            await wait_until(pilot, lambda: "esc Back" in line() and line().endswith("? Help"))
            await wait_until(pilot, lambda: ("b Group" in line()) == (len(line()) > 60))

    run_view(long, "A", play, size=(140, 30))


def test_a_click_in_the_bottom_line_is_a_key(long: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "Show commit" in screen_text(app) and " long" in screen_text(app))
        line = screen_text(app).splitlines()[-1]
        await pilot.click(offset=(line.index("Show commit"), 39))
        await wait_until(pilot, lambda: screen_text(app).lstrip().startswith("Commit "))

    run_view(long, "L", play)
