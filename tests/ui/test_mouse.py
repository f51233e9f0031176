"""The whole home screen by mouse."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from tests.helpers import Repo
from tests.ui.test_app import played, screen, until
from tests.ui.test_home import at, four, names


def place(app: ImiApp, text: str) -> tuple[int, int]:
    """Where something is on the screen."""
    for y, line in enumerate(screen(app).splitlines()):
        if text in line:
            return line.index(text), y
    raise AssertionError(f"{text!r} is not on the screen:\n{screen(app)}")


def test_click_selects_and_double_click_opens(repo: Repo) -> None:
    four(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 4)
        done: list[str | None] = []
        app._open = lambda tree, command=(): done.append(tree.key.worktree)  # type: ignore[method-assign,assignment]
        await pilot.click(offset=place(app, "fix-bug"))
        await until(pilot, lambda: at(app) == "fix-bug")
        assert not done
        await pilot.click(offset=place(app, "feat-ui"), times=2)
        await until(pilot, lambda: done == ["feat-ui"])

    played(repo, play)


def test_a_click_on_a_title_or_a_tab_goes_there(repo: Repo) -> None:
    four(repo)

    async def wide(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 4)
        await pilot.click(offset=place(app, "4 Changes"))
        await until(pilot, lambda: app.panel(4).has_focus_within)
        await pilot.click(offset=place(app, "attention ▾"))
        await until(pilot, lambda: app.worktrees.order.sort == "name")

    async def middle(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 4)
        await pilot.click(offset=place(app, "3 Agents"))
        await until(pilot, lambda: app.panel(3).has_focus_within and "no claims" in screen(app))

    played(repo, wide)
    played(repo, middle, (110, 30))


def test_a_click_on_a_count_or_a_key_does_it(repo: Repo) -> None:
    four(repo)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 4)
        (repo.path.parent / "feat-api" / "x.txt").write_text("x")
        await until(pilot, lambda: "1 busy" in screen(app))
        await pilot.click(offset=place(app, "1 busy"))
        await until(pilot, lambda: names(app) == ["feat-api"])
        await pilot.click(offset=place(app, "1 busy"))
        await until(pilot, lambda: len(names(app)) == 4)
        await pilot.click(offset=place(app, "c Claim"))
        await until(pilot, lambda: "Claim feat-api" in screen(app))

    played(repo, play)


def test_the_wheel_scrolls_what_is_under_it_and_moves_no_cursor(repo: Repo) -> None:
    for number in range(14):
        repo.worktree(f"feat-{number:02}")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 15)
        before = at(app)
        await pilot.press("4")
        lines = app.worktrees.lines
        lines._on_mouse_scroll_down(_wheel(lines))
        await until(pilot, lambda: lines.scroll_offset.y > 0)
        assert at(app) == before

    played(repo, play, (140, 20))


def _wheel(widget: Any) -> Any:
    from textual.events import MouseScrollDown

    return MouseScrollDown(widget, 1, 1, 0, 1, 0, False, False, False)


def test_a_dimmed_key_says_why_when_it_is_clicked(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(names(app)) == 2)
        await pilot.click(offset=place(app, "R Release"))
        await until(pilot, lambda: "nobody has claimed feat-api" in screen(app))

    played(repo, play)
