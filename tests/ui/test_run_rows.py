"""Runs in the dashboard: folded into their worktree's row, alone a row of their own, with their files in panel 2."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.model.snapshot import Snapshot
from imi_monitor.ui.app import ImiApp
from tests.helpers import imi_argv
from tests.limits import LIMIT
from tests.runs.conftest import world
from tests.runs.run_kit import RunWorld
from tests.ui import sample_runs, sample_snapshots
from tests.ui.pilot_kit import (
    keep_toasts,
    listed_names,
    run_dashboard,
    screen_text,
    select_worktree,
    selected_name,
    toasts,
    wait_for_list,
    wait_until,
)
from tests.ui.snapshot_kit import no_context

__all__ = ["world"]  # a fixture
Play = Callable[[ImiApp, Pilot[Any]], Awaitable[None]]


def show(play: Play, shown: Snapshot, size: tuple[int, int] = (140, 40)) -> None:
    async def main() -> None:
        app = ImiApp(sample_snapshots.live(shown), no_context)
        async with app.run_test(size=size, notifications=True) as pilot:
            await wait_until(pilot, lambda: app.home.facts is not None)
            await play(app, pilot)

    asyncio.run(main())


def changes_of(app: ImiApp) -> list[tuple[str, str, str]]:
    changes = app.home.shown.changes if app.home.shown is not None else ()
    return [(one.repo, one.worktree, one.path) for one in changes]


async def select(app: ImiApp, pilot: Pilot[Any], name: str) -> None:
    await select_worktree(app, name)
    await wait_until(pilot, lambda: selected_name(app) == name)


def test_a_run_is_filtered_sorted_and_grouped_like_a_worktree() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        assert listed_names(app)[:3] == ["feat-ui", "1b2c3d4e", "devops-ci"], "what asks first, then what died"
        for text, names in {
            "type:run": ["1b2c3d4e", "9e8f7a6b", "4d5e6f70"],
            "is:queued": ["9e8f7a6b"],
            "@claude-1b": ["1b2c3d4e"],
            "is:unclaimed type:run": [],
        }.items():
            app.home.filter_line.set(text)
            await wait_until(pilot, lambda: [name for name in listed_names(app) if name] == names)  # noqa: B023
        app.home.filter_line.set("")
        app.action_do("group")
        await pilot.press("r")
        await wait_until(pilot, lambda: listed_names(app)[-4:] == ["runs:", "1b2c3d4e", "9e8f7a6b", "4d5e6f70"])

    show(play, sample_runs.started())


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 24)])
def test_the_level_of_a_wall_stands_before_the_owner_at_every_width(size: tuple[int, int]) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: "▢ codex" in screen_text(app))
        lines = screen_text(app).splitlines()
        [works] = [line for line in lines if "▢ codex" in line]
        assert "fix-bug" in works
        assert any("▩ gemini" in line for line in lines)
        assert not any("▢" in line or "▩" in line for line in lines if "1b2c3d4e" in line), "it has no wall"
        app.home.filter_line.set("is:walled")
        await wait_until(pilot, lambda: sorted(filter(None, listed_names(app))) == ["default", "fix-bug"])
        app.home.filter_line.set("")
        await pilot.press("question_mark")
        seen = ""
        for _ in range(40):  # pages of the legend
            await pilot.press("pagedown")
            await pilot.pause()
            seen += screen_text(app)
            if "▢ write" in seen and "▩ strict" in seen:
                return
        pytest.fail("the help has no legend of the signs")

    show(play, sample_runs.walled(), size)


def test_what_is_about_a_worktree_is_refused_for_a_run_with_the_reason() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await select(app, pilot, "1b2c3d4e")

        def why(word: str) -> str:
            command = app.command(word)
            assert command is not None
            return app.why_not(command)

        for word in ("remove", "diff", "rename", "start"):
            assert why(word) == "run 1b2c3d4e has no worktree: this is about one", word
        for word in (
            "open",
            "peek",
            "answer",
            "say",
            "interrupt",
            "stop",
            "resume",
            "attach",
            "copy",
            "mark",
            "shell",
            "claim",
        ):
            assert why(word) == "", word
        await select(app, pilot, "4d5e6f70")
        assert "run 4d5e6f70 is over (completed)" in why("answer")
        await select(app, pilot, "review-123")
        assert "imi has started no agent that runs in review-123" in why("answer")

    show(play, sample_runs.started())


def test_real_runs_appear_answer_and_end_in_the_list(world: RunWorld) -> None:
    """A run in a worktree is in its row, one without is a row; both by a real keeper and follower."""
    inside = world.start("[[ask]]", "claude", "--in", "feat-x")
    folder = world.repo.path.parent / "elsewhere"
    folder.mkdir()
    ran = world.imi("start", "codex", "--prompt", "[[ask]]", "--json", cwd=folder)
    assert ran.code == 0, ran.err
    alone = str(ran.data["id"])[:8]

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: screen_text(app).count("asks: Bash") >= 2)
        assert set(listed_names(app)) == {"app", "feat-x", alone}
        await select(app, pilot, alone)
        await wait_until(pilot, lambda: "codex without a terminal" in screen_text(app))
        product = f"{ran.data['folder']}/work_products/report.md"
        with open(product, "w", encoding="utf-8") as file:
            file.write("done")
        await wait_until(pilot, lambda: "work_products/report.md" in screen_text(app))
        made = ("~runs", alone, "work_products/report.md")

        def is_told() -> bool:
            os.utime(product)  # the folder may not have been followed yet when the file was written
            return made in [(one.repo, one.worktree, one.path) for one in app.home.shown.changes]

        await wait_until(pilot, is_told)
        assert world.imi("claim", alone, "--agent", "ada", cwd=world.repo.path).code == 0
        await wait_until(pilot, lambda: "ada +1" in screen_text(app))  # and the agent at work there
        await has_line_and_history(app, pilot, world, alone)
        await pilot.press("W")
        await wait_until(pilot, lambda: "asks: permission for" in screen_text(app))
        await pilot.press("escape")
        world.imi("stop", alone)
        await wait_until(pilot, lambda: f"run {alone}" in screen_text(app) and "cancelled" in screen_text(app))
        world.imi("answer", inside, "yes")
        await wait_until(pilot, lambda: "asks: Bash" not in screen_text(app))

    run_dashboard(world.repo, play)


async def has_line_and_history(app: ImiApp, pilot: Pilot[Any], world: RunWorld, alone: str) -> None:
    """Who waits for the run folder, and who has claimed it: in the panel, the lines and the claim history."""
    argv = imi_argv("claim", alone, "--agent", "bob", "--wait", "60")
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    waits = subprocess.Popen(argv, cwd=world.repo.path, **quiet)
    try:
        await wait_until(pilot, lambda: f"bob waits for run {alone}" in screen_text(app))
        await pilot.press("Q")
        await wait_until(pilot, lambda: "ada has held it" in screen_text(app) and f"run {alone}" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("H")
        await wait_until(pilot, lambda: f"Claims of run {alone}" in screen_text(app) and "holds it" in screen_text(app))
        assert "bob" in screen_text(app) and "~runs" not in screen_text(app)
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)
    finally:
        waits.terminate()
        waits.wait(LIMIT)


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 24)])
def test_agents_in_one_contained_workspace_are_one_row_that_is_found_by_its_names(size: tuple[int, int]) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: " +1" in screen_text(app))
        [row] = [line for line in screen_text(app).splitlines() if "▩" in line]
        assert re.search(r"▩ claude\S+ \+1", row), row
        assert listed_names(app).count("default") == 1 and "~contained" not in screen_text(app)
        for text, names in {
            "type:contained": ["default"],
            "is:asks": ["default"],
            "default": ["default"],
            "1b2c3d4e": ["default"],
            "@gemini-9e8f7a6b": ["default"],
            "repo:contained": [],
            "~": [],
        }.items():
            app.home.filter_line.set(text)
            await wait_until(pilot, lambda: [name for name in listed_names(app) if name] == names)  # noqa: B023

    show(play, sample_runs.shared(), size)


def test_acts_on_a_contained_workspace_take_the_name_of_its_run() -> None:
    """The name of a workspace can be that of a worktree."""

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await select(app, pilot, "default")
        tree = app.home.selected_tree
        assert tree is not None and (tree.typed_name, tree.path) == ("1b2c3d4e", "/tmp/denker_workspace/default")
        remove = app.command("remove")
        assert remove is not None and app.why_not(remove) == "run 1b2c3d4e has no worktree: this is about one"

    show(play, sample_runs.shared())


def test_the_list_of_runs_fits_a_narrow_screen() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_for_list(app, pilot, *listed_names(app))
        text = screen_text(app)
        assert "3 files" in text and "asks: Bash npm publish" in text

    show(play, sample_runs.started(), (60, 24))


# -- runs of other programs ---------------------------------------------------------------------------------------------

WATCHED = [one.short for one in (sample_runs.WATCHED_ASKS, sample_runs.WATCHED_FAILED, sample_runs.WATCHED_WORKS)]


def test_a_watched_run_is_filtered_sorted_and_grouped_like_a_worktree() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        assert listed_names(app)[:4] == ["run_42", "feat-ui", "1b2c3d4e", "codex/reviewer"], "the longest wait first"
        for text, names in {
            "type:watched": ["run_42", "codex/reviewer", WATCHED[2], "job-1770000000000-abc1234"],
            "type:watched is:works": [WATCHED[2]],
            "@reviewer": ["codex/reviewer"],
            "session_2026": [WATCHED[2]],
            "is:unclaimed type:watched": [],
        }.items():
            app.home.filter_line.set(text)
            await wait_until(pilot, lambda: [name for name in listed_names(app) if name] == names)  # noqa: B023
        app.home.filter_line.set("")
        app.action_do("group")
        await pilot.press("t")
        await wait_until(pilot, lambda: "watched:" in listed_names(app))
        assert "4 watched" in screen_text(app)

    show(play, sample_runs.watching())


def test_every_act_on_a_watched_run_says_why_it_cannot_be_done() -> None:
    allowed = {"open", "menu", "copy", "mark", "seen", "peek", "explain", "session"}
    why = "run_42 is a run of universal_agent: imi watches it and changes nothing there"

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        keep_toasts(app)
        await select(app, pilot, "run_42")
        for command in app.commands:
            if command.needs_worktree and not command.refused:
                assert app.why_not(command) == ("" if command.word in allowed - {"seen"} else why) or (
                    command.word == "seen"
                ), command.word
        for verb in ("answer", "say", "stop", "interrupt"):
            app.agent_commands.act_on_run(app.agent_commands.chosen, verb)
            await wait_until(pilot, lambda: toasts(app) == [why])
            assert len(app.screen_stack) == 1, "no dialog opens"

    show(play, sample_runs.watching())


def test_a_marked_watched_run_is_no_worktree_of_its_name() -> None:
    """The name of a job can be that of a worktree: no act may take it for one."""
    twin = replace(sample_runs.WATCHED_WORKS, id="be-agents:feat-api", session="feat-api")
    world = replace(sample_runs.watching(), watched=(twin,))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        keep_toasts(app)
        await wait_until(pilot, lambda: listed_names(app).count("feat-api") == 2)
        tree = next(one for one in app.home.shown.worktrees if one.type == "watched")  # type: ignore[union-attr]
        app.home.select(tree.key)
        await wait_until(pilot, lambda: app.home.selected == tree.key)
        await pilot.press("m")
        assert app.home.marks == {tree.key}
        remove = app.command("remove")
        assert remove is not None and "imi watches it" in app.why_not(remove)
        app.action_commands.open("remove", [tree])
        await wait_until(pilot, lambda: any("imi watches it" in one for one in toasts(app)))
        assert len(app.screen_stack) == 1
        app.home.marks = frozenset()
        app.action_do("mark_all")
        assert app.home.marks and tree.key not in app.home.marks, "all that can be acted on"

    show(play, world)


def test_enter_and_the_jobs_follow_the_log_of_a_watched_run(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("[STDOUT] reads the offers\n[STDERR] one is missing\n")
    world = sample_runs.watching()
    works = replace(sample_runs.WATCHED_WORKS, log=str(log))
    world = replace(world, watched=tuple(works if one.id == works.id else one for one in world.watched))

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await select(app, pilot, works.short)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "reads the offers" in screen_text(app))
        with log.open("a") as file:
            file.write("[STDOUT] calls \x1b[31mthe third\n")
        await wait_until(pilot, lambda: "the third" in screen_text(app))
        assert "\x1b[31m" not in screen_text(app) and "works" in screen_text(app)
        log.unlink()
        await wait_until(pilot, lambda: "is gone" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    show(play, world)
