"""Help, palette, the menu of a worktree, copy and themes: search, reasons against a command, and running it."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from imi_monitor.ui import commands, menu_entries
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.menu import Menu, MenuEntry, matching_entries
from tests.helpers import Repo
from tests.ui import snapshot_builder
from tests.ui.pilot_kit import (
    listed_names,
    record_terminal_writes,
    run_dashboard,
    screen_text,
    select_worktree,
    selected_name,
    wait_until,
)
from tests.ui.snapshot_kit import calm


def menu(app: ImiApp) -> Menu:
    assert isinstance(app.screen, Menu)
    return app.screen


async def opened(app: ImiApp, pilot: Pilot[Any], *keys: str) -> Menu:
    await pilot.press(*keys)
    await wait_until(pilot, lambda: isinstance(app.screen, Menu) and app.screen.lines.rows)
    return menu(app)


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
def test_the_palette_finds_a_command_and_runs_it(repo: Repo, key: str) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        shown = await opened(app, pilot, key)
        await pilot.press(*"zoo")
        assert shown.lines.cursor == "zoom"
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.home.panel_layout.zoomed == 1)

    run_dashboard(repo, play)


def test_a_second_enter_before_the_menu_is_gone_does_nothing(repo: Repo) -> None:
    """As broken the entry was chosen twice, and the screen below the menu was closed."""

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        below, shown = Menu("Below", [MenuEntry("a", "A")]), Menu("Above", [MenuEntry("b", "B")])
        chosen: list[str | None] = []
        app.push_screen(below)
        app.push_screen(shown, chosen.append)
        await wait_until(pilot, lambda: shown.is_mounted and shown.lines.cursor == "b")
        box = shown.query_one(Input)
        for _ in range(2):
            box.post_message(Input.Submitted(box, ""))
        await wait_until(pilot, lambda: not shown.is_attached)
        await pilot.pause()
        assert app.screen is below and chosen == ["b"]

    run_dashboard(repo, play)


def test_the_palette_searches_the_help_texts(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown = await opened(app, pilot, "colon", *"pull request")
        found = [row.key for row in shown.lines.rows]
        assert "review" in found and "zoom" not in found
        await pilot.press("ctrl+u", *"xyzzy")
        await wait_until(pilot, lambda: "no entry matches" in screen_text(app))
        await pilot.press("enter")
        assert isinstance(app.screen, Menu)

    run_dashboard(repo, play)


def test_a_command_that_cannot_run_is_dimmed_and_gives_the_reason(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        shown = await opened(app, pilot, "colon", *"releas")
        line = next(row.lines[0] for row in shown.lines.rows if row.key == "release")
        assert "feat-api is not claimed" in line.plain
        assert any("disabled" in str(span.style) for span in line.spans)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "▌ feat-api is not claimed" in screen_text(app))
        assert isinstance(app.screen, Menu), "it stays, so that another can be chosen"

    run_dashboard(repo, play)


def test_the_help_lists_every_key_and_runs_its_command(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        shown = await opened(app, pilot, "question_mark")
        listed = {row.key for row in shown.lines.rows}
        assert {command.word for command in app.commands if command.key} <= listed
        assert "is:dirty" in listed
        await pilot.press(*"is:unclaimed", "enter")
        await wait_until(pilot, lambda: app.home.worktrees.filter.text == "is:unclaimed")
        await opened(app, pilot, "question_mark")
        await pilot.press("question_mark")
        await wait_until(pilot, lambda: app.screen is app.home)

    run_dashboard(repo, play)


def test_the_help_of_a_read_only_dashboard_says_why_it_changes_nothing(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        for key in ("question_mark", "colon"):
            shown = await opened(app, pilot, key)
            refused = {row.key for row in shown.lines.rows if "read-only" in row.lines[0].plain}
            assert {"claim", "remove", "release", "undo", "add", "review"} <= refused and "diff" not in refused
            await pilot.press("escape")
        assert "Claim" not in screen_text(app).splitlines()[-1]

    run_dashboard(repo, play, read_only=True)


def test_the_menu_of_a_worktree_opens_by_key_and_right_click(repo: Repo) -> None:
    repo.worktree("feat-api")
    repo.worktree("feat-ui")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 3)
        shown = await opened(app, pilot, "a")
        assert {"claim", "release", "remove", "open", "copy"} <= {row.key for row in shown.lines.rows}
        await pilot.press("c")
        await wait_until(pilot, lambda: "Claim feat-api" in screen_text(app))
        await pilot.press("escape")
        await pilot.click(app.home.worktrees.lines, offset=(5, 1), button=3)
        await wait_until(pilot, lambda: isinstance(app.screen, Menu))
        assert selected_name(app) == "feat-ui" and "feat-ui" in screen_text(app)
        await pilot.press("q")
        assert app.screen is app.home

    run_dashboard(repo, play)


def test_the_menu_of_a_worktree_has_every_command_for_it_under_a_heading() -> None:
    listed = commands.table()
    found = menu_entries.row_menu("feat-x", listed, lambda _command: "")._entries
    assert not found[0].value, "a heading comes first"
    values = [entry.value for entry in found if entry.value]
    assert sorted(values) == sorted(one.word for one in listed if one.needs_worktree and one.word != "menu")


def test_the_menu_of_a_worktree_begins_with_what_can_be_done_now() -> None:
    now = {"claim", "diff", "remove"}
    found = menu_entries.row_menu("feat-x", commands.table(), lambda command: "" if command.word in now else "not now")
    entries = list(found._entries)
    cut = next(n for n, entry in enumerate(entries) if entry.label == "Not now")
    assert {entry.value for entry in entries[:cut] if entry.value} == now
    assert all(entry.why_not for entry in entries[cut + 1 :])


def test_a_click_in_a_menu_chooses_and_a_click_outside_closes_it(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        shown = await opened(app, pilot, "a")
        place = [row.key for row in shown.lines.rows].index("mark")
        await calm(pilot)  # the line below the list moves the list when it appears
        await pilot.click(shown.lines, offset=(4, place))
        await wait_until(pilot, lambda: len(app.home.marks) == 1 and app.screen is app.home)
        await opened(app, pilot, "a")
        await pilot.click(offset=(0, 0))
        await wait_until(pilot, lambda: app.screen is app.home)

    run_dashboard(repo, play, (140, 60))  # the whole menu fits


def test_copy_writes_to_the_terminals_clipboard(repo: Repo) -> None:
    other = repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        await select_worktree(app, "feat-api")
        for key, text in (("p", str(other.path)), ("b", "feat/api"), ("n", "feat-api"), ("c", f"cd -- {other.path}")):
            await opened(app, pilot, "y")
            await pilot.press(key)
            await wait_until(pilot, lambda: app.screen is app.home)
            assert app.clipboard == text
        await wait_until(pilot, lambda: "copied: cd --" in screen_text(app))

    run_dashboard(repo, play)


def test_text_with_control_characters_is_not_copied() -> None:
    bad = snapshot_builder.tree("feat-x", path="/w/a\nrm -rf ~\n", branch="x")
    entries = {entry.value: entry for entry in menu_entries.copy_entries(bad)}
    assert entries["path"].why_not and not entries["command"].why_not and not entries["branch"].why_not
    assert menu_entries.copy_choices(bad)["command"][2] == "cd -- '/w/a\nrm -rf ~\n'"
    assert "\n" not in entries["path"].help + entries["command"].help


def test_copy_uses_osc_52(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: selected_name(app) == "app")
        await opened(app, pilot, "y")
        written = record_terminal_writes(app)
        await pilot.press("n")
        await wait_until(pilot, lambda: any("\x1b]52;c;" in text for text in written))
        sent = next(text for text in written if "\x1b]52;" in text)
        assert base64.b64decode(sent.split(";")[2].rstrip("\a\x1b\\")) == b"app"

    run_dashboard(repo, play)


def test_the_theme_menu_previews_and_reverts(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        before = app.theme
        await opened(app, pilot, "T")
        await pilot.press("home", "down")
        await wait_until(pilot, lambda: app.theme == "imi-light")
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.theme == before)

    run_dashboard(repo, play)


def test_menu_search_ranks_names_before_scattered_letters() -> None:
    entries = [
        MenuEntry("", "Heading"),
        MenuEntry("s", "Some other thing"),
        MenuEntry("one", "Sort", "the order"),
        MenuEntry("two", "Back", "not sorted"),
    ]
    assert [entry.value for entry in matching_entries(entries, "sort")] == ["one", "two", "s"]
    assert [entry.value for entry in matching_entries(entries, "soth")] == ["s"]
    assert len(matching_entries(entries, " ")) == 4


def test_dashboard_keys_do_nothing_behind_a_menu(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        sort = app.home.worktrees.order
        await opened(app, pilot, "T")
        await pilot.press("s", "b", "D", "M", "5")
        await asyncio.sleep(0)
        assert app.home.worktrees.order == sort and not app.home.marks and len(app.screen_stack) == 2

    run_dashboard(repo, play)


def test_a_menu_closed_before_it_is_drawn_is_harmless(repo: Repo) -> None:
    """Two presses of `?` in a moment: the first drawing of the menu comes after its end."""

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown = await opened(app, pilot, "question_mark")
        shown.dismiss(None)
        await wait_until(pilot, lambda: not shown.children)
        shown._show("")

    run_dashboard(repo, play)
