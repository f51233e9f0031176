"""The collisions view over real worktrees: matrix, cursor, files and conflicting lines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.model.snapshot import Collision, Key
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.collisions_view import CollisionsView, both_ways, conflict_rows, in_hand_rows, pair_rows, sign
from imi_monitor.ui.widgets.matrix import Matrix
from tests.helpers import Repo
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until
from tests.ui.sample_agents import at_work


def clash(*trees: Repo) -> None:
    for index, tree in enumerate(trees):
        tree.write("src/api.py", f"def api():\n    return {index}0\n")


def matrix(app: ImiApp) -> Matrix:
    return app.screen.query_one(Matrix)


def at(app: ImiApp) -> tuple[str, str]:
    row, column = matrix(app).cursor or ("", "")
    return row.rpartition("\0")[2], column.rpartition("\0")[2]


async def opened(app: ImiApp, pilot: Pilot[Any]) -> None:
    await wait_until(pilot, lambda: any(one.conflicts for one in app.home.snapshot.collisions))  # type: ignore[union-attr]
    await pilot.press("x")
    await wait_until(pilot, lambda: isinstance(app.screen, CollisionsView) and "⚡1" in screen_text(app))


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 20)])
def test_colliding_worktrees_and_their_conflicting_lines(repo: Repo, size: tuple[int, int]) -> None:
    clash(repo.worktree("feat-api"), repo.worktree("fix-bug"))
    repo.worktree("feat-ui").write("other.txt", "alone\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        await wait_until(pilot, lambda: "<     return 00" in screen_text(app) and ">     return 10" in screen_text(app))
        text = screen_text(app)
        assert "src/api.py" in text and "1 file in conflict" in text and "line 2" in text
        assert "feat-ui" not in text, "only those that collide"
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    run_dashboard(repo, play, size)


def test_matrix_cursor_moves_by_keys_and_is_kept_by_name(repo: Repo) -> None:
    trees = [repo.worktree(name) for name in ("feat-b", "feat-c")]
    clash(*trees)
    early = repo.worktree("feat-a")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        assert at(app) == ("feat-b", "feat-c")
        await pilot.press("j")
        assert at(app) == ("feat-c", "feat-c")
        await wait_until(pilot, lambda: "no changed file in common" in screen_text(app))
        await pilot.press("h")
        assert at(app) == ("feat-c", "feat-b")
        await asyncio.to_thread(early.write, "src/api.py", "def api():\n    return 'a'\n")
        await wait_until(pilot, lambda: "feat-a" in screen_text(app))
        assert at(app) == ("feat-c", "feat-b"), "another row came in front of it"
        await pilot.press("l", "k", "k", "k", "h", "h", "h")
        assert at(app) == ("feat-a", "feat-a")
        await pilot.press("right_square_bracket")
        assert at(app) == ("feat-a", "feat-b")
        await pilot.press("left_square_bracket")
        assert at(app) == ("feat-c", "feat-b"), "round the corner"

    run_dashboard(repo, play)


def test_a_resolved_collision_disappears(repo: Repo) -> None:
    trees = [repo.worktree(name) for name in ("feat-api", "fix-bug")]
    clash(*trees)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        await asyncio.to_thread(trees[0].git, "checkout", "src/api.py")
        await wait_until(pilot, lambda: "no two worktrees changed the same file" in screen_text(app))

    run_dashboard(repo, play)


def test_collisions_with_the_trunk(repo: Repo) -> None:
    tree = repo.worktree("feat-api")
    tree.write("README.md", "mine\n")
    repo.write("README.md", "the trunk's\n")
    repo.commit("trunk")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        assert at(app) == ("feat-api", "")
        await wait_until(pilot, lambda: "< mine" in screen_text(app) and "> the trunk's" in screen_text(app))

    run_dashboard(repo, play)


def test_many_worktrees_scroll_under_the_cursor(repo: Repo) -> None:
    clash(*(repo.worktree(f"feat-{number:02}") for number in range(14)))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        await wait_until(pilot, lambda: len(app.home.snapshot.collisions) == 91)  # type: ignore[union-attr]
        await pilot.press(*"j" * 13, *"l" * 13)
        assert at(app) == ("feat-13", "feat-13")
        assert "14 feat-13" in screen_text(app)
        await pilot.press(*"k" * 13)
        assert at(app) == ("feat-00", "feat-13")
        assert " 1 feat-00" in screen_text(app)

    run_dashboard(repo, play, (60, 20))


@pytest.mark.parametrize("payload", ["[/b]", "\x1b]52;c;x\x07", "ev\u202eil", "日" * 40, "x" * 10_000, "b\udcffd"])
def test_hostile_names_and_lines_in_collisions(repo: Repo, payload: str) -> None:  # T2
    trees = [repo.worktree(name) for name in ("feat-api", "fix-bug")]
    name = payload.replace("/", "_").encode("utf-8", "surrogateescape")[:200].decode("utf-8", "ignore") + "\nnew.txt"
    for number, tree in enumerate(trees):
        (tree.path / name).write_bytes(f"{number} {payload}\n".encode("utf-8", "surrogateescape"))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await opened(app, pilot)
        await wait_until(pilot, lambda: "< 0 " in screen_text(app) and "> 1 " in screen_text(app))
        assert not any(char in screen_text(app) for char in ("\x1b", "\x07", "\u202e", "\udcff"))

    run_dashboard(repo, play)


def test_an_untried_merge_is_marked_as_untried() -> None:
    a, b = Key("h", "app", "a"), Key("h", "app", "b")
    unknown, clean, hard = (Collision(a, b, ("x", "y"), tried) for tried in (None, (), ("x",)))
    assert [sign(one).plain for one in (unknown, clean, hard)] == ["2?", "2", "⚡1"]
    said = ["\n".join(row.lines[0].plain for row in pair_rows(one)) for one in (unknown, clean, hard)]
    assert "not tried yet" in said[0] and "merges cleanly" in said[1] and "1 file in conflict" in said[2]
    assert set(both_ways([hard, Collision(a, None, ("x",), None)])) == {
        ("h\0app\0a", "h\0app\0b"),
        ("h\0app\0b", "h\0app\0a"),
        ("h\0app\0a", ""),
    }


def test_a_file_without_lines_says_why() -> None:
    (row,) = conflict_rows({"path": "x.bin", "why": "binary", "hunks": []})
    assert row.lines[0].plain == "x.bin  binary"


def test_files_in_hand_are_named_with_their_agent() -> None:
    world = at_work()
    (busy,) = [one for one in world.agents if one.truth.tool is not None and one.truth.tool.name == "Edit"][:1]
    assert busy.key is not None and busy.truth.tool is not None
    said = "\n".join(row.lines[0].plain for row in in_hand_rows(world, {busy.key}))
    assert f"{busy.name} has {busy.truth.tool.target} in hand in {busy.key.worktree}" in said
    assert in_hand_rows(world, set()) == []
