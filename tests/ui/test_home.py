"""The home screen by its keys, on real repositories: list, filter, order, marks, panels, badges, what is remembered."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.model.change import GIT
from imi_monitor.sources.git_status_source import GitStatusSource
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.menu import Menu
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel
from imi_monitor.ui.preferences import Preferences
from tests.helpers import Repo, imi
from tests.ui.pilot_kit import (
    keep_toasts,
    listed_names,
    make_four_worktrees,
    run_dashboard,
    screen_strips,
    screen_text,
    select_worktree,
    selected_name,
    toasts,
    wait_for_list,
    wait_until,
)

WIDE, MIDDLE, NARROW = (140, 40), (100, 30), (60, 20)


def test_changing_the_order_keeps_the_selection(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_for_list(app, pilot, "feat-api", "feat-ui", "fix-bug", "app")
        await select_worktree(app, "feat-ui")
        await pilot.press("s", "n")
        assert "name ▾" in screen_text(app)
        await wait_for_list(app, pilot, "app", "feat-api", "feat-ui", "fix-bug")
        await pilot.press("S")
        await wait_for_list(app, pilot, "fix-bug", "feat-ui", "feat-api", "app")
        assert "name ▴" in screen_text(app)
        await pilot.press("s", "d")
        assert "dirty ▾" in screen_text(app)
        await wait_for_list(app, pilot, "fix-bug", "app", "feat-api", "feat-ui")
        assert selected_name(app) == "feat-ui"

    run_dashboard(repo, play)


def disk_sizes(app: ImiApp) -> list[int]:
    return [use.size for use in app.home.shown.disk if use.size is not None] if app.home.shown is not None else []


@pytest.mark.parametrize("size", [WIDE, MIDDLE, NARROW])
def test_the_order_by_disk_use_measures_and_shows_it(repo: Repo, size: tuple[int, int]) -> None:
    make_four_worktrees(repo)
    (repo.path.parent / "feat-ui" / "big.bin").write_bytes(b"x" * 7_000_000)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        assert app.home.snapshot is not None and not app.home.snapshot.disk, "nothing is measured in another order"
        await pilot.press("s", "u")
        await wait_until(pilot, lambda: len(disk_sizes(app)) == 4, 60)
        largest = max(disk_sizes(app))
        assert 7_000_000 < largest < 8_000_000
        shown = f"{largest / 1e6:.1f}M" + (" on disk" if size == NARROW else "")
        await wait_until(pilot, lambda: shown in screen_text(app) and listed_names(app)[0] == "feat-ui")
        await pilot.press("s", "a")
        assert shown not in screen_text(app)

    run_dashboard(repo, play, size)


@pytest.mark.parametrize("size", [WIDE, MIDDLE, NARROW])
def test_the_order_by_unread_changes_counts_and_shows_them(repo: Repo, size: tuple[int, int]) -> None:
    make_four_worktrees(repo)
    feat = Repo(repo.path.parent / "feat-ui")
    for number in range(3):
        feat.write(f"new {number}.txt", "new\n")
    imi("read", "feat-ui", "new 1.txt", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        assert app.home.snapshot is not None and not app.home.snapshot.unread, "nothing is counted in another order"
        await pilot.press("s", "r")
        await wait_until(pilot, lambda: "2/3" in screen_text(app) and listed_names(app)[0] == "feat-ui")
        await pilot.press("s", "a")
        assert "2/3" not in screen_text(app)

    run_dashboard(repo, play, size)


def test_groups_fold_and_a_heading_selects_no_worktree(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await select_worktree(app, "feat-ui")
        await pilot.press("b", "t")
        await wait_for_list(app, pilot, "feat:", "feat-api", "feat-ui", "fix:", "fix-bug", "trunk:", "app")
        assert selected_name(app) == "feat-ui"
        await pilot.press("h")
        await wait_for_list(app, pilot, "feat:", "fix:", "fix-bug", "trunk:", "app")
        await pilot.pause()
        assert selected_name(app) is None, "the cursor is on the heading: no key may act on a worktree that is hidden"
        await pilot.press("c")
        assert len(app.screen_stack) == 1 and "select a worktree" in screen_text(app)
        await pilot.press("enter")
        await wait_for_list(app, pilot, "feat:", "feat-api", "feat-ui", "fix:", "fix-bug", "trunk:", "app")
        await pilot.press("l", "j")
        assert selected_name(app) == "feat-api"

    run_dashboard(repo, play)


def test_filter_narrows_the_list_and_names_unknown_states(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "✎1" in screen_text(app))
        await pilot.press("slash", *"is:dirty")
        await wait_for_list(app, pilot, "fix-bug")
        await pilot.press("enter")
        assert "1 of 4" in screen_text(app) and app.focused is app.home.worktrees.lines
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await pilot.press("slash", *"is:wet")
        assert app.home.worktrees.filter.problem
        await wait_until(pilot, lambda: "there is no is:wet" in screen_text(app))
        await pilot.press("escape", "slash", *"zzz")
        await wait_until(pilot, lambda: "no worktree matches 'zzz'" in screen_text(app))
        assert selected_name(app) is None, "nothing is listed, so nothing can be acted on"

    run_dashboard(repo, play)


def test_the_filter_line_shows_its_key_and_how_it_is_cleared(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("slash", *"app", "enter")
        line = next(line for line in screen_text(app).splitlines() if "esc clears" in line)
        assert line.split()[:2] == ["/", "app"]
        await pilot.press("escape")
        assert "esc clears" not in screen_text(app)

    run_dashboard(repo, play)


def test_a_toast_takes_the_place_of_the_one_before(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        keep_toasts(app)
        await pilot.press("plus", "plus", "minus", "plus")
        assert len(toasts(app)) == 1
        app.notify("an agent asks", title="claude-1")
        app.say("cannot be done", bad=True)
        await wait_until(pilot, lambda: len(toasts(app)) == 3)
        await pilot.press("s", "n", "b", "t")
        assert len(toasts(app)) == 3, "the title of the list says how it is sorted and grouped"

    run_dashboard(repo, play)


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
def test_a_toast_covers_the_bottom_line_and_no_row(repo: Repo, size: tuple[int, int]) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        keep_toasts(app)
        app.say("feat-api is not claimed")
        await wait_until(pilot, lambda: "feat-api is not claimed" in screen_text(app))
        assert [line for line in screen_text(app).splitlines()[:-1] if "▌" in line or "is not claimed" in line] == []

    run_dashboard(repo, play, size)


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
def test_a_toast_leaves_the_buttons_of_a_dialog_free(repo: Repo, size: tuple[int, int]) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        keep_toasts(app)
        app.say("the toast that came before the dialog")
        await pilot.press("n")
        await wait_until(pilot, lambda: "Cancel" in screen_text(app) and "the toast that came" in screen_text(app))
        assert "the toast that came" in screen_text(app).splitlines()[0]

    run_dashboard(repo, play, size)


def test_action_applies_to_all_marked_worktrees(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await select_worktree(app, "feat-api")
        await pilot.press("m")
        assert selected_name(app) == "feat-ui", "the next one, to mark it too"
        await pilot.press("m")
        await wait_until(pilot, lambda: "2 marked" in screen_text(app))
        await pilot.press("c")
        await wait_until(pilot, lambda: "Claim 2 worktrees" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: sum(bool(t.claim) for t in app.home.snapshot.worktrees) == 2)  # type: ignore[union-attr]
        await pilot.press("escape")  # what came of each has been shown
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)
        assert {t.key.worktree for t in app.home.snapshot.worktrees if t.claim} == {"feat-api", "feat-ui"}  # type: ignore[union-attr]
        assert "marked" not in screen_text(app).splitlines()[0]

    run_dashboard(repo, play)


def test_mark_all_skips_the_trunk_and_escape_unmarks(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await pilot.press("M")
        assert sorted(tree.key.worktree for tree in app.home.targets) == ["feat-api", "feat-ui", "fix-bug"]
        await pilot.press("escape")
        assert not app.home.marks
        await pilot.press("M", "M")
        assert not app.home.marks

    run_dashboard(repo, play)


@pytest.mark.parametrize("size", [WIDE, MIDDLE, NARROW])
def test_number_keys_and_tab_reach_every_panel_at_every_width(repo: Repo, size: tuple[int, int]) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        for number in (2, 3, 4, 5, 1):
            await pilot.press(str(number))
            await wait_until(pilot, lambda n=number: app.home.panel(n).has_focus_within)  # type: ignore[misc]
            assert len([panel for panel in app.home.panels if panel.display]) == {140: 5, 100: 3, 60: 1}[size[0]]
            await wait_until(pilot, lambda n=number: app.home.panel(n).lines.rows)  # type: ignore[misc]
        for key, number in (("tab", 2), ("shift+tab", 1), ("shift+tab", 5)):
            await pilot.press(key)
            await wait_until(pilot, lambda n=number: app.home.panel(n).has_focus_within)  # type: ignore[misc]
        await pilot.press("escape", "escape")
        assert app.home.panel(1).has_focus_within and app.home.panel(1).display

    run_dashboard(repo, play, size)


def test_layout_follows_the_width_and_keeps_the_selection(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await select_worktree(app, "fix-bug")
        for width, height, words in (
            (100, 30, "2 Git │"),
            (100, 40, "5 Events"),
            (60, 20, "fix-bug (unclaimed)"),
            (39, 20, "imi needs 40×12"),
            (60, 11, "this is 60×11"),
            (40, 12, "fix-bug (unclaimed)"),
            (140, 40, "5 Events"),
        ):
            await pilot.resize_terminal(width, height)
            await wait_until(pilot, lambda w=words: w in screen_text(app))  # type: ignore[misc]
            assert selected_name(app) == "fix-bug"

    run_dashboard(repo, play)


def test_zoom_shows_one_panel_and_back(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "z")
        await wait_until(pilot, lambda: "1 Worktrees" not in screen_text(app))
        assert "4 Changes" in screen_text(app)
        await pilot.press("2")
        await wait_until(pilot, lambda: "2 Git" in screen_text(app) and "4 Changes" not in screen_text(app))
        await pilot.press("z")
        await wait_until(pilot, lambda: "1 Worktrees" in screen_text(app) and "5 Events" in screen_text(app))

    run_dashboard(repo, play)


def test_pause_stops_updates_until_the_badge_is_clicked(repo: Repo) -> None:
    other = repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        await pilot.press("p")
        other.write("late.txt", "x")
        await wait_until(pilot, lambda: app.home.snapshot.changes)  # type: ignore[union-attr]
        await pilot.press("j", "k")  # moving about draws, and must not let the world in
        await pilot.pause()
        assert "late.txt" not in screen_text(app)
        await pilot.click("#header", offset=(screen_text(app).splitlines()[0].index("paused"), 0))
        await wait_until(pilot, lambda: "late.txt" in screen_text(app))

    run_dashboard(repo, play)


def test_next_selects_worktrees_that_need_a_person(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await pilot.press("w")
        await wait_until(pilot, lambda: "nothing here needs you" in screen_text(app))
        await asyncio.to_thread(imi, "claim", "fix-bug", "--agent", "codex-1", "--ttl", "0.1", cwd=repo.path)
        await wait_until(pilot, lambda: any(t.claim and t.claim.state == "stale" for t in app.home.snapshot.worktrees))  # type: ignore[union-attr]
        await select_worktree(app, "feat-ui")
        await pilot.press("w")
        assert selected_name(app) == "fix-bug"
        await wait_until(pilot, lambda: "◌ stale" in screen_text(app) and "1 stale" in screen_text(app))

    run_dashboard(repo, play)


def test_missing_worktree_is_shown_and_not_opened(repo: Repo) -> None:
    other = repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        os.rename(other.path, other.path.parent / "elsewhere")
        await wait_until(pilot, lambda: "1 missing" in screen_text(app) and "its folder is gone" in screen_text(app))
        await select_worktree(app, "feat-api")
        await pilot.press("enter")
        await wait_until(pilot, lambda: "feat-api's folder is missing: P forgets it" in screen_text(app))
        assert len(app.screen_stack) == 1

    run_dashboard(repo, play)


def test_unavailable_commands_say_why(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        await pilot.press("R")
        await wait_until(pilot, lambda: "feat-api is not claimed" in screen_text(app))
        await pilot.press("o")
        await wait_until(pilot, lambda: "feat-api has no known pull request" in screen_text(app))
        await select_worktree(app, "app")
        await pilot.press("D")
        await wait_until(pilot, lambda: any("only its other worktrees take this" in text for text in toasts(app)))
        assert len(app.screen_stack) == 1

    run_dashboard(repo, play)


def test_interval_keys_and_refresh(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("minus")
        await wait_until(pilot, lambda: "every 2s" in screen_text(app).splitlines()[0])
        await pilot.press("plus", "plus")
        await wait_until(pilot, lambda: "every 0.5s" in screen_text(app).splitlines()[0])
        await pilot.press("plus")
        assert "every" not in screen_text(app).splitlines()[1] and app.interval == 0.2
        status = next(source for source in app.engine.sources if isinstance(source, GitStatusSource))  # type: ignore[union-attr]
        asked = status.reads
        await pilot.press("r")
        await wait_until(pilot, lambda: status.reads > asked)

    run_dashboard(repo, play)


def test_feeds_can_show_the_selected_worktree_only(repo: Repo) -> None:
    one, two = repo.worktree("feat-api"), repo.worktree("feat-ui")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 3)
        one.write("first.txt", "x")
        two.write("second.txt", "x")
        await wait_until(pilot, lambda: "first.txt" in feed() and "second.txt" in feed())
        await select_worktree(app, "feat-api")
        await pilot.press("F")
        await wait_until(pilot, lambda: "first.txt" in feed() and "second.txt" not in feed())
        await select_worktree(app, "feat-ui")
        await wait_until(pilot, lambda: "second.txt" in feed() and "first.txt" not in feed())
        assert "4 Changes · feat-ui" in screen_text(app)
        await pilot.press("F")
        await wait_until(pilot, lambda: "first.txt" in feed() and "second.txt" in feed())

    shown: list[ImiApp] = []

    def feed() -> str:
        return " ".join(row.lines[0].plain for row in shown[0].home.panel(4).lines.rows)

    async def begin(app: ImiApp, pilot: Pilot[Any]) -> None:
        shown.append(app)
        await play(app, pilot)

    run_dashboard(repo, begin)


def test_layout_is_restored_at_the_next_start(repo: Repo, tmp_path: Path) -> None:
    make_four_worktrees(repo)
    preferences = Preferences(state_file=str(tmp_path / "state" / "x.json"))

    async def leave(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await pilot.press("s", "n", "S", "b", "t", "4", "F", "minus", "T", "down", "enter")
        await pilot.press("slash", *"feat", "enter")
        app.exit()

    async def back(app: ImiApp, pilot: Pilot[Any]) -> None:
        order = app.home.worktrees.order
        assert (order.sort, order.backwards, order.group) == ("name", True, "type")
        assert (app.home.panel_layout.detail, app.home.only_selected, app.interval, app.theme) == (
            4,
            True,
            2.0,
            "imi-light",
        )
        assert not app.home.worktrees.filter, "a filter of yesterday hides worktrees of today"
        await wait_for_list(app, pilot, "feat:", "feat-ui", "feat-api", "fix:", "fix-bug", "trunk:", "app")

    run_dashboard(repo, leave, preferences=preferences)
    run_dashboard(repo, back, preferences=preferences)


def test_unwritable_layout_file_is_reported_once(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("S")
        await wait_until(pilot, lambda: "layout of the dashboard cannot be saved" in screen_text(app))
        await pilot.press("S")
        app.exit()

    run_dashboard(repo, play, preferences=Preferences(state_file=str(tmp_path / "file" / "x.json")))


def test_keymap_of_the_settings_changes_keys(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        await pilot.press("c")
        assert len(app.screen_stack) == 1
        await pilot.press("X")
        await wait_until(pilot, lambda: "Claim feat-api" in screen_text(app))

    run_dashboard(repo, play, preferences=Preferences(keymap={"claim": "X"}))


def test_ascii_mode_paints_ascii_only(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "fix-bug" in screen_text(app))
        assert screen_text(app).isascii() and "enter Open" in screen_text(app)
        for keys in (["question_mark"], ["colon"], ["T"], ["y"], ["c"]):
            await pilot.press(*keys)
            await pilot.pause()
            assert len(app.screen_stack) == 2 and screen_text(app).isascii(), keys
            await pilot.press("escape")

    run_dashboard(repo, play, preferences=Preferences(ascii_only=True))


def test_every_state_has_a_word_without_colours(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    make_four_worktrees(repo)
    imi("claim", "feat-api", "--agent", "claude-1", "--ttl", "0.1", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "◌ stale" in screen_text(app) and "✎1" in screen_text(app))
        colours = set()
        for strip in screen_strips(app):
            for segment in strip:
                for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    if colour is not None and colour.triplet is not None:
                        colours.add(tuple(colour.triplet))
        assert colours and all(len(set(colour)) == 1 for colour in colours), "greys only"

    run_dashboard(repo, play)


@pytest.mark.parametrize("name", ["imi-dark", "imi-light", "imi-colour-blind", "imi-colour-blind-light", "imi-16"])
def test_every_theme_draws_the_home_screen(repo: Repo, name: str) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "fix-bug" in screen_text(app))
        assert app.theme == name
        await pilot.press("question_mark")
        await wait_until(pilot, lambda: isinstance(app.screen, Menu))

    run_dashboard(repo, play, preferences=Preferences(theme=name))


def test_failing_source_is_shown_until_it_works_again(repo: Repo) -> None:
    other = repo.worktree("feat-api")
    index = Path(other.git("rev-parse", "--git-path", "index"))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "feat-api" in screen_text(app))
        kept = index.read_bytes()
        index.write_bytes(b"no index at all")
        await wait_until(
            pilot, lambda: "git status of feat-api" in screen_text(app) and "stale" in screen_text(app).splitlines()[0]
        )
        await pilot.click("#trouble", offset=(5, 0))
        await wait_until(pilot, lambda: "1 thing that cannot be read or delivered now" in screen_text(app))
        await pilot.press("escape")
        index.write_bytes(kept)
        await pilot.press("r")
        await wait_until(pilot, lambda: "git status of feat-api" not in screen_text(app))
        assert not app.home.query_one("#trouble").display

    run_dashboard(repo, play)


def test_first_row_is_the_worktree_that_needs_a_person(repo: Repo) -> None:
    """Until a person moves the cursor, it stays on top, whatever comes there."""
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: selected_name(app) == "feat-api")
        await asyncio.to_thread(imi, "claim", "fix-bug", "--agent", "codex-1", "--ttl", "0.1", cwd=repo.path)
        await wait_until(pilot, lambda: selected_name(app) == "fix-bug")
        assert app.query_one(WorktreesPanel).lines.scroll_offset.y == 0

    run_dashboard(repo, play)


def test_changes_begin_with_uncommitted_files_and_a_new_checkout_is_no_work(repo: Repo) -> None:
    """A fresh worktree is one line of git's, not busy, and its checkout is nothing that an agent does."""
    repo.worktree("feat-api").write("before.txt", "x")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "before.txt" in changes(app))
        await asyncio.to_thread(imi, "feat", "payments", cwd=repo.path)
        await wait_until(pilot, lambda: "feat-payments" in listed_names(app))
        await wait_until(pilot, lambda: all(tree.git is not None for tree in app.home.snapshot.worktrees))  # type: ignore[union-attr]
        made = next(tree for tree in app.home.snapshot.worktrees if tree.key.worktree == "feat-payments")  # type: ignore[union-attr]
        (Path(made.path) / "work.txt").write_text("x")
        await wait_until(pilot, lambda: "work.txt" in changes(app))  # git's status may tell it before the watcher
        await wait_until(pilot, lambda: any(one.path == "work.txt" for one in own(app)))
        assert [one.path for one in own(app) if one.by != GIT] == ["work.txt"], own(app)
        assert ".git" not in changes(app)

    def own(app: ImiApp) -> list[Any]:
        return [one for one in app.home.snapshot.changes if one.worktree == "feat-payments"]  # type: ignore[union-attr]

    def changes(app: ImiApp) -> str:
        return " ".join(row.lines[0].plain for row in app.home.panel(4).lines.rows)

    run_dashboard(repo, play)


@pytest.mark.parametrize("size", [WIDE, MIDDLE, NARROW])
def test_presets_show_some_panels_and_are_remembered(repo: Repo, tmp_path: Path, size: tuple[int, int]) -> None:
    make_four_worktrees(repo)
    preferences = Preferences(state_file=str(tmp_path / "state" / "x.json"))

    def visible(app: ImiApp) -> list[int]:
        return [panel.number for panel in app.home.panels if panel.display]

    async def leave(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        every = visible(app)
        for key, numbers in (("9", [1]), ("8", [3]), ("7", [1, 3] if size != NARROW else [1])):
            await pilot.press(key)
            await wait_until(pilot, lambda n=numbers: visible(app) == n)  # type: ignore[misc]
            await wait_until(pilot, lambda n=numbers: app.home.focused_panel.number in n)  # type: ignore[misc]
            assert app.home.selected is not None
        await pilot.press("tab")
        await wait_until(pilot, lambda: app.home.panel(3 if size == NARROW else 1).has_focus_within)
        await pilot.press("6")
        await wait_until(pilot, lambda: visible(app) == every or size == NARROW)
        await pilot.press("8", "4")
        await wait_until(
            pilot, lambda: app.home.panel(4).has_focus_within
        )  # a panel outside the preset brings all back
        await pilot.press("8")
        app.exit()

    async def back(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: visible(app) == [3] and app.home.panel(3).has_focus_within)

    run_dashboard(repo, leave, size, preferences=preferences)
    run_dashboard(repo, back, size, preferences=preferences)
