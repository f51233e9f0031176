"""Several agents with one prompt: started together, compared side by side, one kept and the others in the trash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from imi_monitor.ui.views import compare_view
from imi_monitor.ui.views.compare_view import CompareView
from imi_monitor.ui.views.diff_view import DiffView
from tests.helpers import Repo
from tests.runs.run_kit import RunWorld
from tests.ui.payloads import PAYLOADS, bad_characters
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until


def start(world: RunWorld) -> list[dict[str, Any]]:
    ran = world.imi("start", "claude,codex", "--new", "feat/login", "--prompt", "write the login", "--json")
    assert ran.code == 0, ran.out + ran.err
    found: list[dict[str, Any]] = ran.data["runs"]
    return found


def test_each_program_gets_a_worktree_and_they_are_compared(world: RunWorld) -> None:
    claude, codex = start(world)
    assert [one["worktree_name"] for one in (claude, codex)] == ["feat-login-claude", "feat-login-codex"]
    place = Path(claude["cwd"])
    (place / "README.md").write_text("one\ntwo\n")
    (place / "login.py").write_text("x = 1\n")
    (Path(codex["cwd"]) / "README.md").write_text("other\n")
    world.imi("exec", "feat-login-claude", "--", "sh", "-c", "exit 3")
    answer = world.imi("compare", "feat/login", "--json").data
    rows = {one["program"]: one for one in answer["runs"]}
    assert answer["group"] == "feat/login" and answer["prompt"] == "write the login"
    assert (rows["claude"]["files"], rows["codex"]["files"]) == (2, 1)
    assert rows["claude"]["same_files"] == rows["codex"]["same_files"] == ["README.md"]
    assert rows["claude"]["check"]["status"] == 3 and rows["codex"]["check"] is None
    assert rows["claude"]["unread"] == rows["claude"]["total"] == 2
    shown = world.imi("compare").out
    assert "feat-login-claude" in shown and "imi keep NAME" in shown


def test_one_is_kept_and_the_others_can_be_brought_back(world: RunWorld) -> None:
    claude, codex = start(world)
    (Path(claude["cwd"]) / "README.md").write_text("unfinished\n")
    world.wait(claude["id"], "idle")
    refused = world.imi("keep", "feat-login-codex")
    assert refused.code == 1 and "--force" in refused.err and "idle there and is ended" in refused.err, refused.err
    assert Path(claude["cwd"]).exists()
    kept = world.imi("keep", "feat-login-codex", "--force", "--json")
    assert kept.code == 0, kept.err
    assert [one["worktree_name"] for one in kept.data["moved"]] == ["feat-login-claude"]
    assert not Path(claude["cwd"]).exists() and world.run(claude["id"])["ended_at"]
    assert Path(codex["cwd"]).exists() and world.run(codex["id"])["ended_at"] is None
    undone = world.imi("undo", kept.data["moved"][0]["trash_id"])
    assert undone.code == 0 and (Path(claude["cwd"]) / "README.md").read_text() == "unfinished\n"


def test_one_that_does_not_start_leaves_the_others_alone(world: RunWorld) -> None:
    world.repo.worktree("feat-login-codex")
    world.imi("claim", "feat-login-codex", "--agent", "somebody-else", cwd=world.repo.path)
    ran = world.imi("start", "claude,codex", "--new", "feat/login", "--prompt", "hello", "--json")
    assert ran.code == 1 and [one["program"] for one in ran.json["data"]["runs"]] == ["claude"]
    assert "codex was not started: feat-login-codex has been held by somebody-else" in ran.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("claude,nope", "--new", "feat/x"), "nope"),
        (("claude,codex", "--in", "feat-x"), "a worktree of its own"),
        (("claude,codex", "--new", "feat/x", "--as", "one"), "--as is for one agent"),
    ],
)
def test_what_several_agents_cannot_have_is_refused_before_anything_is_made(
    world: RunWorld, words: tuple[str, ...], why: str
) -> None:
    ran = world.imi("start", *words, "--prompt", "hello")
    assert ran.code == 2 and why in ran.err, ran.err
    assert world.imi("runs", "--json").data["runs"] == []


def test_without_a_group_comparing_says_how_to_start_one(repo: Repo, world: RunWorld) -> None:
    ran = world.imi("compare")
    assert ran.code == 1 and "imi start claude,codex --new feat/NAME" in ran.err


def test_the_view_compares_shows_the_diff_and_keeps_one(world: RunWorld) -> None:
    claude, _ = start(world)
    world.wait(claude["id"], "idle")
    (Path(claude["cwd"]) / "README.md").write_text("one\ntwo\n")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("equals_sign")
        await wait_until(pilot, lambda: "feat-login-claude" in screen_text(app) and "+2 −1" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, DiffView) and "two" in screen_text(app))
        await pilot.press("escape", "down", "c")
        await wait_until(pilot, lambda: isinstance(app.screen, ActionDialog) and "--force" in screen_text(app))
        await wait_until(pilot, lambda: "Type feat-login-codex to keep it" in screen_text(app))
        await pilot.press(*"feat-login-codex", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, CompareView) and "removed" in screen_text(app))

    run_dashboard(world.repo, play)
    assert not Path(claude["cwd"]).exists()


@pytest.mark.parametrize("payload", list(PAYLOADS), ids=str)
def test_the_rows_of_a_comparison_fit_and_are_harmless(payload: str) -> None:
    text = PAYLOADS[payload]
    one = {"worktree_name": text, "state": text, "removed_from_disk": False, "added": 3, "removed": 1, "files": 2}
    one |= {"check": {"command": text, "status": 1}, "cost_usd": 0.1, "same_files": [text], "seconds": 3.0}
    one |= {"tokens": None, "unread": 1, "total": 3}
    row = compare_view.cells_of(json.loads(json.dumps(one)))
    for drawn in (*compare_view.two_lines(row, 40), compare_view.line(row, compare_view.plan([row], 100))):
        assert bad_characters(drawn.plain) == [] and drawn.cell_length <= 100


def test_marked_worktrees_started_with_one_prompt_are_compared(world: RunWorld) -> None:
    world.repo.worktree("feat-y")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: len(app.home.worktrees.listed) == 3)
        for name in ("feat-x", "feat-y"):
            app.home.select(next(tree.key for tree in app.home.worktrees.listed if tree.key.worktree == name))
            await pilot.press("m")
        await wait_until(pilot, lambda: len(app.home.marks) == 2)
        await pilot.press("greater_than_sign")
        await wait_until(
            pilot, lambda: isinstance(app.screen, ActionDialog) and "Start 2 worktrees" in screen_text(app)
        )
        await pilot.press(*"hello")
        await wait_until(pilot, lambda: screen_text(app).count("starts claude in feat-") == 2)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "all 2 done" in screen_text(app))
        await pilot.press("escape", "equals_sign")
        await wait_until(pilot, lambda: isinstance(app.screen, CompareView) and "feat-y" in screen_text(app))
        assert "feat-x" in screen_text(app) and "hello" in screen_text(app)

    run_dashboard(world.repo, play)
    found = world.imi("compare", "--json").data
    assert sorted(found["group"].split("+")) == ["feat-x", "feat-y"] and found["count"] == 2
