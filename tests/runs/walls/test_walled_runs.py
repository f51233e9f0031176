"""`imi start --sandbox`: a started agent behind a wall, in its row, to its end; and what is refused."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from imi_monitor.runs.walls import landlock_alone
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld, family, has_ended, kill_followers
from tests.runs.walls.test_escapes import find_wall


def test_an_agent_works_behind_a_wall_and_is_stopped_with_all_of_it(world: RunWorld) -> None:
    find_wall()
    ident = world.start("[[write]] [[tool]]", "claude", "--sandbox", "write", "--in", "feat-x")
    row = world.wait(ident, "works", "idle", "asks")
    assert (row["sandbox"], row["wall"].split(" ")[0]) == ("write", "bubblewrap")
    assert "ask, write" in world.imi("runs").out
    levels = {one["worktree_name"]: one["wall"] for one in world.imi("status", "--json").data["worktrees"]}
    assert levels == {"app": None, "feat-x": "write"}
    launch = json.loads(Path(world.folder(ident).file("launch.json")).read_text())
    assert "bwrap" in " ".join(launch["argv"][:8])
    pids = family(ident)
    assert pids
    placeholder = Path(world.repo.git("rev-parse", "--absolute-git-dir"), "worktrees/feat-x/config.worktree")
    assert placeholder.exists(), "an agent could make it, and git outside would obey it"
    assert world.imi("start", "claude", "--prompt", "x", "--sandbox", "write", "--in", "feat-x").code != 0
    assert placeholder.exists(), "a start that is refused takes nothing from the other run"
    assert world.imi("stop", ident).code == 0
    wait_for(has_ended(pids))
    wait_for(lambda: world.run(ident)["ended_at"] is not None)
    wait_for(lambda: not placeholder.exists())
    again = world.imi("resume", ident, "--prompt", "go on", "--json")
    assert again.code == 0, again.err
    last = again.data["id"]
    assert world.run(last)["sandbox"] == "write", "a resumed session keeps its wall"
    assert placeholder.exists()
    pids, born = family(last), world.folder(last).birth()
    assert born is not None
    kill_followers()
    for pid in (born.keeper, *pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(has_ended(pids))
    world.imi("runs")  # the next command of any kind starts a follower
    wait_for(lambda: not placeholder.exists())


def test_a_branch_of_others_that_moves_meanwhile_is_told_with_the_way_back(world: RunWorld) -> None:
    find_wall()
    world.repo.git("branch", "release")
    other = world.repo.worktree("feat-other")
    ident = world.start("[[slow]]", "claude", "--sandbox", "write", "--in", "feat-x")
    world.wait(ident, "works")
    before = world.repo.git("rev-parse", "release")
    world.repo.git("branch", "-f", "release", "release~1")
    world.tree.git("commit", "--allow-empty", "-qm", "its own branch may move")
    other.git("commit", "--allow-empty", "-qm", "and those of other worktrees by themselves")
    world.imi("stop", ident)
    wait_for(lambda: bool(world.events("ref.moved")))
    [moved] = world.events("ref.moved")
    assert (moved["ref"], moved["before"]) == ("refs/heads/release", before)
    assert f"git update-ref refs/heads/release {before}" in world.imi("events").out


def test_an_agent_behind_a_wall_claims_and_releases_through_its_request_folder(world: RunWorld) -> None:  # S2.9
    find_wall()
    for name in ("feat-y", "feat-z"):
        world.repo.worktree(name)
    assert world.imi("claim", "feat-z", "--agent", "other").code == 0
    item = world.imi("item", "add", "the parser", "--json").data["items"][0]["id"]
    me = f"{sys.executable} -m imi_monitor"
    asked = (
        f"{me} claim feat-y --task T-1; {me} claim feat-z || echo refused $?; {me} claim feat-z --wait 0.2;"
        f" {me} heartbeat feat-x; {me} verify-lock feat-x; {me} milestone it is reached; {me} item move {item} in_progress;"
        f" {me} overview;"
        f" {me} claim feat-z --force; {me} release feat-z; {me} release feat-y; {me} file write x --content x; echo end"
    )
    ident = world.start(f"[[shell]] sh: {asked}", "claude", "--sandbox", "strict", "--in", "feat-x")
    world.wait(ident, "idle", "completed")
    [said] = [one for one in world.messages(ident) if one.rstrip().endswith("end")]
    mine = world.run(ident)["agent_id"]
    assert f"feat-y is claimed by {mine}" in said and "feat-z has been held by other" in said, said
    assert "feat-x is held by" in said or "feat-x is yours" in said, said
    assert "refused 1" in said and "waited 0.2 s" in said and "milestone of feat-x: it is reached" in said, said
    assert "behind a wall `imi claim` takes only" in said and "feat-y is unclaimed" in said, said
    assert {one["worktree_name"]: one["agent_id"] for one in world.imi("claims", "--json").data["claims"]} == {
        "feat-x": mine,
        "feat-z": "other",
    }, "what is not its own it neither takes nor releases"
    assert [one["text"] for one in world.events("milestone.logged")] == ["it is reached"]
    world.imi("stop", ident)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sandbox", "jail"), "use one of off, write, strict"),
        (("--sandbox", "write", "--way", "window"), "--sandbox needs --way task"),
        (("--sandbox", "strict", "--in", "app"), "use --new TYPE/NAME"),
    ],
)
def test_what_has_no_wall_is_refused_before_anything_is_made(
    world: RunWorld, words: tuple[str, ...], said: str
) -> None:
    find_wall()
    done = world.imi("start", "claude", "--prompt", "x", *words)
    assert done.code != 0 and said in done.err, done.err
    assert world.imi("runs", "--json").data["runs"] == []


def test_where_nothing_makes_namespaces_landlock_alone_is_named_with_its_gaps(world: RunWorld, tmp_path: Path) -> None:
    problem = landlock_alone.problem()
    if problem is not None:
        pytest.skip(problem)
    refused = tmp_path / "bin" / "bwrap"
    refused.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    refused.chmod(0o755)
    act = "sh: echo x > work.txt; echo y > $HOME/mine; echo z > ../outside.txt; echo end"
    ran = world.imi("start", "claude", "--prompt", f"[[shell]] {act}", "--sandbox", "strict", "--in", "feat-x")
    assert ran.code == 0, ran.err
    assert "the wall is Landlock alone" in ran.err and "uid map: Permission denied" in ran.err, ran.err
    assert "does not close modes and times of files" in ran.err
    ident = world.imi("runs", "--json").data["runs"][0]["id"]
    row = world.wait(ident, "idle", "completed")
    assert row["wall"] == "Landlock alone"
    assert (world.tree.path / "work.txt").exists() and not (world.tree.path.parent / "outside.txt").exists()
    private = Path(landlock_alone.home_of(row["folder"]))
    assert (private / "mine").exists() and not Path(os.environ["HOME"], "mine").exists()
    world.imi("stop", ident)
    wait_for(lambda: not private.exists())
