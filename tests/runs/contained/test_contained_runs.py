"""`imi start --contained`: agents in one flat workspace behind a wall, what they deliver, and the clean-up after each end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model.errors import Refused
from imi_monitor.runs.contained import request_folder, workspace_end, workspace_place
from imi_monitor.store import contained_work, db, runs
from tests.helpers import ROOT, wait_for
from tests.limits import LIMIT
from tests.runs.run_kit import RunWorld, family, has_ended, kill_followers, registry
from tests.runs.walls.test_escapes import find_wall


@pytest.fixture
def place(world: RunWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    find_wall()
    data = tmp_path / "denker" / "memory"
    data.mkdir(parents=True)
    monkeypatch.setenv("DENKER_MEMORY_DATA_PATH", str(data))
    config = Path(os.environ["HOME"], ".config", "iMi", "config.toml")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[runs]\nreadable = ["{ROOT}", "{sys.prefix}"]\n')
    return data.parent / "workspace" / "default"


def start(world: RunWorld, prompt: str, *words: str) -> str:
    return world.start(prompt, "claude", "--contained", "default", *words)


def state_of(place: Path, world: RunWorld) -> str:
    rows = world.imi("workspace", "list", "--json").data["workspaces"]
    return str(rows[0]["state"]) if rows else "none"


def test_what_is_allowed_is_delivered_at_the_end_and_the_rest_waits(
    world: RunWorld, place: Path, tmp_path: Path
) -> None:
    # S1.9 S1.12 S1.17 S1.20
    ident = start(world, "[[draft]]", "--deliver", f"report.md={tmp_path}/out/", "--role", "creator")
    row = world.wait(ident, "idle", "completed")
    assert (row["sandbox"], row["contained"]["path"], row["contained"]["role"]) == ("strict", str(place), "creator")
    assert "You work in a contained workspace" in world.folder(ident).prompt()
    assert (place / "report.md").exists() and not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    assert world.imi("stop", ident).code == 0
    wait_for(lambda: (tmp_path / "out" / "report.md").exists())
    wait_for(lambda: world.imi("workspace", "show", "--json").data["deliveries"] != [])
    shown = world.imi("workspace", "show", "--json").data
    assert [(one["name"], one["state"]) for one in shown["deliveries"]] == [("extra.md", "waits")]
    assert not (Path(os.environ["HOME"]) / "extra.md").exists(), "it was not allowed beforehand"
    assert world.imi("workspace", "clean").code == 1, "a file waits"
    assert world.imi("file", "deliver", "extra.md").code == 0
    assert (Path(os.environ["HOME"]) / "extra.md").read_text() == "# extra.md\n"
    assert not place.exists() and state_of(place, world) == "cleaned"
    ops = [one["op"] for one in world.imi("file", "history", "--json").data["history"]]
    assert ops == ["delivered", "delivered"]


def test_two_agents_share_a_workspace_and_the_last_one_cleans_it(world: RunWorld, place: Path) -> None:  # S1.11 S1.13
    first, second = start(world, "[[slow]]"), start(world, "[[slow]]")
    for one in (first, second):
        world.wait(one, "works")
    (place / "shared.md").write_text("x")
    assert world.imi("workspace", "clean").err.startswith("imi: an agent works in")
    world.imi("stop", first)
    wait_for(lambda: world.run(first)["ended_at"] is not None)
    assert (place / "shared.md").exists(), "the other one works there"
    world.imi("stop", second)
    wait_for(lambda: not place.exists())
    [row] = world.imi("workspace", "list", "--json").data["workspaces"]
    assert (Path(row["path"]) / "shared.md").read_text() == "x"


def test_workspaces_in_use_are_listed_after_the_worktrees(world: RunWorld, place: Path, tmp_path: Path) -> None:
    contained = start(world, "[[slow]]")
    alone = str(world.imi("start", "codex", "--prompt", "[[ask]]", "--json", cwd=tmp_path).data["id"])
    for one in (contained, alone):
        world.wait(one, "works", "asks")
    assert world.imi("claim", "default", "--agent", "ada").code == 0
    listed = world.imi("list", "--json").data
    assert {one["kind"] for one in listed["worktrees"]} == {"worktree"}
    found = [(one["kind"], one["worktree_name"], one["agent_id"], one["wall"]) for one in listed["workspaces"]]
    assert found == [("contained", "default", "ada", "strict"), ("run", alone[:8], None, None)]
    assert listed["workspaces"][0]["path"] == str(place)
    *_, first, second = world.imi("list").out.splitlines()
    assert "default" in first and "contained" in first and alone[:8] in second
    assert "~" not in first + second and "detached" not in first + second
    assert world.imi("list", str(world.repo.path), "--json").data["workspaces"] == []
    world.imi("stop", contained)
    world.imi("stop", alone)

    def kept() -> bool:
        """Only the workspace that its owner keeps."""
        return [one["kind"] for one in world.imi("list", "--json").data["workspaces"]] == ["contained"]

    wait_for(kept, LIMIT)


def test_a_workspace_takes_no_new_agent_while_another_owner_has_claimed_it(world: RunWorld, place: Path) -> None:
    assert world.imi("file", "write", "a.md", "--content", "x").code == 0
    assert world.imi("claim", "default", "--agent", "ada").code == 0
    before = [path.name for path in place.iterdir()]
    refused = world.imi("start", "claude", "--prompt", "[[slow]]", "--contained", "default", "--deliver", "a.md=out/")
    assert refused.code == 1 and "ada has claimed the workspace default: give another name" in refused.err
    assert world.imi("runs", "--json").data["runs"] == []
    assert world.imi("workspace", "show", "--json").data["deliveries"] == []
    assert [path.name for path in place.iterdir()] == before
    assert world.imi("release", "default", "--agent", "ada").code == 0
    world.wait(start(world, "[[slow]]"), "works")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_keeper_that_gets_a_signal_leaves_no_child_and_the_next_start_cleans(
    world: RunWorld, place: Path, number: int
) -> None:  # S1.13 S1.14
    ident = start(world, "[[slow]]")
    world.wait(ident, "works")
    wait_for(lambda: len(family(ident)) > 1)
    pids, born = family(ident), world.folder(ident).birth()
    assert born is not None
    kill_followers()
    os.kill(born.keeper, number)
    wait_for(has_ended(pids))
    (place / "half.md").write_text("x")
    world.imi("runs")  # the next command of any kind starts a follower
    wait_for(lambda: not place.exists())
    assert world.run(ident)["status"] in ("crashed", "failed", "cancelled")
    assert world.imi("claims", "--json").data["claims"] == []


def test_without_a_wall_it_ends_with_its_keeper_too(world: RunWorld, place: Path) -> None:  # S1.13
    ident = start(world, "[[tool]]", "--sandbox", "off")
    world.wait(ident, "works")
    wait_for(lambda: len(family(ident)) > 1)
    pids, born = family(ident), world.folder(ident).birth()
    assert born is not None
    kill_followers()
    os.kill(born.keeper, signal.SIGKILL)
    wait_for(has_ended({born.pid: born.started}))
    world.imi("runs")  # the next command of any kind starts a follower
    wait_for(has_ended(pids))
    wait_for(lambda: not place.exists())


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_at_any_moment_leaves_nothing_behind(
    world: RunWorld, place: Path, tmp_path: Path, number: int
) -> None:
    """Twenty moments of a start, the work, a delivery and the end; S1.13 S1.14."""
    out = tmp_path / "out"
    out.mkdir()
    words = (
        "start",
        "claude",
        "--contained",
        "default",
        "--deliver",
        f"report.md={out}/",
        "--prompt",
        "[[draft]] [[slow]]",
    )
    for moment in range(20):
        starter = subprocess.Popen(
            [sys.executable, "-m", "imi_monitor", *words], cwd=world.tree.path, stdout=subprocess.DEVNULL
        )
        time.sleep(moment * 0.08)  # the moment is what varies
        launches = Path(os.environ["HOME"], ".local", "state", "imi", "runs")
        births = sorted(launches.glob("*/born.json"), key=lambda one: one.stat().st_mtime) if launches.exists() else []
        keeper = int(json.loads(births[-1].read_text())["keeper"]) if births else starter.pid
        if keeper != starter.pid and host.start_time(keeper) is None:
            keeper = starter.pid  # the keeper of this start is not born yet
        with suppress(ProcessLookupError):
            os.kill(keeper, number)
        starter.wait(timeout=LIMIT)
        rows = world.imi("runs", "--json").data["runs"]
        for one in rows:
            if one["ended_at"] is None:
                world.imi("stop", one["id"])
        wait_for(lambda rows=rows: not any(family(one["id"]) for one in rows))
        world.imi("workspace", "list")
        wait_for(lambda: all(one["ended_at"] for one in world.imi("runs", "--json").data["runs"]))
        assert world.imi("claims", "--json").data["claims"] == []
        assert not [path for path in out.iterdir() if path.name.startswith(".")], "no half file"
        if place.exists() and state_of(place, world) == "active" and any(place.iterdir()):
            with suppress(Refused):
                wait_for(lambda: not place.exists() or state_of(place, world) != "active" or bool(_waiting(world)))
        for one in _waiting(world):
            world.imi("workspace", "clean", "--drop-deliveries")
            assert one
    connection = db.connect(registry())  # an empty one of a start that was killed goes with the next start
    workspace_end.settle_all(connection)
    db.close(connection)
    assert not place.exists()


def _waiting(world: RunWorld) -> list[str]:
    rows = world.imi("workspace", "list", "--json").data["workspaces"]
    return [name for row in rows if row["state"] == "active" for name in row["waiting"]]


def test_a_crash_in_the_middle_of_the_clean_up_is_completed(
    world: RunWorld, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.imi("file", "write", "a.md", "--content", "a")
    connection = db.connect(registry())

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for step in ("rename", "makedirs"):
        with monkeypatch.context() as torn:
            torn.setattr(os, step, crash)
            with pytest.raises(KeyboardInterrupt):
                workspace_end.clean(connection, str(place), "test")
        assert (place / "a.md").exists()
    workspace_end.settle_all(connection)
    assert not place.exists()
    [life] = contained_work.list_lives(connection, contained_work.CLEANED)
    assert Path(life.trash_path or "", "a.md").read_text() == "a"
    db.close(connection)


@pytest.mark.parametrize("killed", [False, True])
def test_a_start_that_dies_before_its_run_is_recorded_leaves_no_workspace(
    world: RunWorld, place: Path, killed: bool
) -> None:
    connection = db.connect(registry())
    workspace_place.make(str(place))
    life = contained_work.open_life(connection, "default", str(place))
    about = {"run": "gone", "agent": "claude-1", "allowed": True}
    contained_work.want_delivery(connection, str(place), "a.md", "/x/a.md", **about)
    connection.commit()
    if killed:  # the next start finds it
        workspace_end.settle_all(connection)
    else:
        with workspace_place.locked(str(place)):
            workspace_end.discard_empty(connection, str(place))
    assert not place.exists()
    assert contained_work.list_deliveries(connection, str(place), "wanted") == []
    assert [one.id for one in contained_work.list_lives(connection, contained_work.PURGED)] == [life.id]
    world.imi("file", "write", "mine.md", "--content", "x")
    workspace_end.settle_all(connection)
    assert (place / "mine.md").exists(), "a person's own file"
    db.close(connection)


def test_hostile_requests_change_nothing(world: RunWorld, place: Path, tmp_path: Path) -> None:
    ident = start(world, "[[slow]]")
    world.wait(ident, "works")
    folder = Path(world.run(ident)["folder"], "requests")
    target = str(tmp_path / "x.md")
    for number, text in enumerate(
        [
            "{",
            "[]",
            json.dumps({"act": "rm", "name": "a.md"}),
            json.dumps({"act": "deliver", "name": "../a.md", "target": target}),
            json.dumps({"act": "deliver", "name": "a.md", "target": "relative"}),
            json.dumps({"act": "deliver", "name": "a.md", "target": 7}),
            json.dumps({"act": "created", "name": "x" * 9000}),
            "[" * 5000,
        ]
    ):
        (folder / f"{number}.json").write_text(text)
    (folder / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.json")
    wait_for(lambda: not any(one.suffix == ".json" for one in folder.iterdir()))
    connection = db.connect(registry())
    assert contained_work.list_deliveries(connection, str(place), "wanted", "waits") == []
    assert contained_work.history(connection, str(place), None, 10) == []
    row = runs.by_id(connection, ident)
    assert row is not None
    request_folder.ask(str(folder), "deliver", "a.md", target=target)
    request_folder.RequestFolder(row).look(connection)
    wait_for(lambda: len(contained_work.list_deliveries(connection, str(place), "wanted")) == 1)
    db.close(connection)
    world.imi("stop", ident)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--contained", "a/b"), "contains a slash"),
        (("--contained", "default", "--in", "feat-x"), "give --contained or --in"),
        (("--deliver", "a=b"), "--deliver needs --contained"),
        (("--contained", "default", "--deliver", "../a=/x"), "is a path"),
        (("--contained", "default", "--role", "king"), "role 'king' is unknown"),
    ],
)
def test_what_cannot_be_is_refused(world: RunWorld, place: Path, words: tuple[str, ...], said: str) -> None:
    done = world.imi("start", "claude", "--prompt", "x", *words)
    assert done.code != 0 and said in done.err, done.err
    assert not place.exists()
