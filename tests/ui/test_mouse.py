"""The whole home screen by mouse."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from tests.helpers import Repo
from tests.ui.pilot_kit import listed_names, make_four_worktrees, run_dashboard, screen_text, selected_name, wait_until


def place(app: ImiApp, text: str) -> tuple[int, int]:
    """Where something is on the screen."""
    for y, line in enumerate(screen_text(app).splitlines()):
        if text in line:
            return line.index(text), y
    raise AssertionError(f"{text!r} is not on the screen:\n{screen_text(app)}")


def test_click_selects_and_double_click_opens(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        done: list[str | None] = []
        app.worktree_commands.do_open = lambda: done.append(selected_name(app))  # type: ignore[method-assign]
        await pilot.click(offset=place(app, "fix-bug"))
        await wait_until(pilot, lambda: selected_name(app) == "fix-bug")
        assert not done
        await pilot.click(offset=place(app, "feat-ui"), times=2)
        await wait_until(pilot, lambda: done == ["feat-ui"])

    run_dashboard(repo, play)


def test_click_on_a_column_title_sorts_and_a_second_one_reverses(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        for title, order in (("changes", "dirty"), ("name", "name")):
            for arrow in "▾▴":
                head = next(line for line in screen_text(app).splitlines() if " name " in line and " owner " in line)
                await pilot.click(offset=(head.index(title), screen_text(app).splitlines().index(head)))
                await wait_until(pilot, lambda: f"{order} {arrow}" in screen_text(app))  # noqa: B023

    run_dashboard(repo, play)


def test_click_on_a_title_or_tab_focuses_the_panel(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def wide(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await pilot.click(offset=place(app, "4 Changes"))
        await wait_until(pilot, lambda: app.home.panel(4).has_focus_within)
        await pilot.click(offset=place(app, "attention ▾"))
        await pilot.press("n")
        await wait_until(pilot, lambda: app.home.worktrees.order.sort == "name")

    async def middle(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await pilot.click(offset=place(app, "3 Agents"))
        await wait_until(pilot, lambda: app.home.panel(3).has_focus_within and "no claims" in screen_text(app))

    run_dashboard(repo, wide)
    run_dashboard(repo, middle, (110, 30))


def test_click_on_a_count_filters_and_on_a_key_runs_it(repo: Repo) -> None:
    make_four_worktrees(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        (repo.path.parent / "feat-api" / "x.txt").write_text("x")
        await wait_until(pilot, lambda: "2 changing" in screen_text(app))  # and what fix-bug changed just before
        await pilot.click(offset=place(app, "2 changing"))
        await wait_until(pilot, lambda: sorted(listed_names(app)) == ["feat-api", "fix-bug"])
        await pilot.click(offset=place(app, "2 changing"))
        await wait_until(pilot, lambda: len(listed_names(app)) == 4)
        await pilot.click(offset=place(app, "c Claim"))
        await wait_until(pilot, lambda: "Claim feat-api" in screen_text(app))

    run_dashboard(repo, play)


def test_wheel_scrolls_the_list_below_it_without_moving_the_cursor(repo: Repo) -> None:
    for number in range(14):
        repo.worktree(f"feat-{number:02}")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 15)
        before = selected_name(app)
        await pilot.press("4")
        lines = app.home.worktrees.lines
        lines._on_mouse_scroll_down(_wheel(lines))
        await wait_until(pilot, lambda: lines.scroll_offset.y > 0)
        assert selected_name(app) == before

    run_dashboard(repo, play, (140, 20))


def _wheel(widget: Any) -> Any:
    from textual.events import MouseScrollDown

    return MouseScrollDown(widget, 1, 1, 0, 1, 0, False, False, False)


def test_click_on_a_dimmed_key_says_why(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(listed_names(app)) == 2)
        await pilot.click(offset=place(app, "R Release"))
        await wait_until(pilot, lambda: "feat-api is not claimed" in screen_text(app))

    run_dashboard(repo, play)
