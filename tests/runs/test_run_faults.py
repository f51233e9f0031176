"""A fault at each step of a start, raised and killed: then every agent has a row, every claim an open run, every folder a run."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.runs import run_worktree
from imi_monitor.cli import command_runner
from imi_monitor.runs import (
    follower,
    follower_process,
    job_log,
    launcher,
    report_observer,
    run_claim,
    run_folder,
    run_ingest,
    run_upkeep,
    ways,
)
from imi_monitor.runs.launch_folder import LaunchFolder
from imi_monitor.runs.run_ingest import RunIngest
from imi_monitor.store import checkpoints, db, runs
from tests.helpers import wait_for
from tests.limits import wait_pid
from tests.runs.run_kit import RunWorld, family, kill_followers, registry
from tests.runs.test_limits import configure

STEPS: dict[str, tuple[Any, str]] = {
    "intent": (run_worktree, "_intend"),
    "worktree": (run_worktree, "make"),
    "run folder": (run_folder, "make"),
    "launch folder": (LaunchFolder, "make"),
    "row": (launcher, "_insert"),
    "presence": (run_claim, "mirror"),
    "place": (runs, "take_next"),
    "keeper": (ways, "start"),
    "alive": (launcher, "_mark_alive"),
    "first message": (LaunchFolder, "send_next"),
    "greeting": (launcher, "_greet"),
    "follower": (follower_process, "ensure"),
}
ENDS = ("idle", "failed", "completed")


def break_step(
    step: tuple[Any, str], fault: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *, before: bool = False
) -> None:
    """Let a fault happen before or after the step, in this process."""
    holder, name = step
    original = getattr(holder, name)

    def faulty(*args: Any, **named: Any) -> Any:
        if before:
            fault()
        found = original(*args, **named)
        fault()
        return found

    monkeypatch.setattr(holder, name, faulty)


def raise_error() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def check(world: RunWorld) -> None:
    """What is true once everything that was interrupted is settled."""

    def settled() -> bool:
        return all(one["shown_state"] in ENDS for one in world.imi("runs", "--json").data["runs"])

    wait_for(settled)
    rows = world.imi("runs", "--json").data["runs"]
    assert len(rows) <= 1
    for row in rows:
        assert (row["shown_state"] == "idle") == bool(family(row["id"])), row
        assert os.path.isdir(row["folder"])
        if row["shown_state"] == "idle":  # it got its prompt, also where its starter died before it was sent
            wait_for(lambda: "Hello." in Path(row["job_log"]).read_text())  # noqa: B023
    made = world.repo.path.parent / "app.worktrees" / "feat-login"
    assert made.exists() == any(row["ended_at"] is None and row["cwd"] == str(made) for row in rows)
    assert made.exists() == bool(world.repo.git("branch", "--list", "feat/login"))
    with closing(sqlite3.connect(registry())) as connection:
        assert connection.execute("SELECT count(*) FROM operations").fetchone()[0] == 0
    claims = world.imi("claims", "--json").data["claims"]
    assert [one["agent_id"] for one in claims] == [one["agent_id"] for one in rows if one["ended_at"] is None]
    workspaces = world.repo.path.parent / "app.worktrees" / "AGENT_RUN_WORKSPACES"
    connection = db.connect(registry(), create=False)
    run_upkeep.pack_old(connection, 0)  # as the next follower does
    db.close(connection)
    launches = Path(os.environ["HOME"], ".local", "state", "imi", "runs")
    assert folders_in(workspaces) == {os.path.basename(one["folder"]) for one in rows}
    assert folders_in(launches) == {one["id"] for one in rows}


ENDS_AT: dict[str, tuple[Any, str]] = {
    "progress": (runs, "record_progress"),
    "checkpoint": (checkpoints, "add"),
    "end": (run_ingest, "end_run"),
    "release": (run_claim, "release"),
    "end files": (run_folder, "write_end"),
    "reports": (report_observer, "save"),
    "job log": (job_log, "end"),
    "presence lock": (run_claim, "mirror"),
}


@pytest.fixture
def ended(world: RunWorld) -> str:
    """A run whose agent has worked and ended while no follower runs."""
    run = world.start("[[report]]")
    world.wait(run, "idle")
    kill_followers()
    world.imi("say", run, "[[report]]")
    kill_followers()
    born = json.loads(Path(world.folder(run).file("born.json")).read_text())
    os.kill(born["pid"], signal.SIGTERM)
    wait_for(lambda: os.path.exists(world.folder(run).file("exit.json")))
    kill_followers()
    return run


@pytest.mark.parametrize("fault", [raise_error, die])
@pytest.mark.parametrize("step", ENDS_AT)
def test_a_fault_at_the_end(
    world: RunWorld, ended: str, monkeypatch: pytest.MonkeyPatch, step: str, fault: Callable[[], None]
) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            break_step(ENDS_AT[step], fault, monkeypatch, before=True)
            ingest = RunIngest(db.connect(registry(), create=False))
            while ingest.update():
                pass
        finally:
            os._exit(0)
    wait_pid(pid)
    follower.main(registry())  # the next one
    row = world.run(ended)
    about = json.loads((Path(row["folder"]) / "run.json").read_text())
    log = Path(row["job_log"]).read_text()
    assert row["status"] == about["status"] and row["ended_at"] is not None
    assert log.count("[EXIT]") == 1 and log.rstrip().endswith("[EXIT] Process exited with code -15")
    assert [line for line in log.splitlines() if "Hello." in line] and len(world.events("session.ended")) == 1
    assert world.imi("claims", "--json").data["claims"] == []
    if (step, fault) == ("reports", raise_error):
        assert [one["file"] for one in world.events("artifact.failed")] == ["report.md"], (
            "a full disk is said, not tried again"
        )
        return
    saved = world.repo.path.parent / "app.worktrees" / "SAVED_REPORTS" / "report.md"
    assert saved.read_bytes() == (Path(row["folder"]) / "work_products" / "report.md").read_bytes()


def test_a_run_that_leaves_the_queue_gives_its_claim_back(world: RunWorld, own_home: Path) -> None:
    configure(own_home, "[runs]\nat_once = 1\n")
    world.start("[[slow]]", "codex", "--in", "app")
    run = world.start("hi")
    assert world.imi("claims", "--json").data["claims"][0]["worktree_name"] == "feat-x"
    assert world.imi("stop", run).code == 0
    row = world.run(run)
    assert row["status"] == "cancelled" and world.imi("claims", "--json").data["claims"] == []
    assert json.loads((Path(row["folder"]) / "run.json").read_text())["status"] == "cancelled"


def folders_in(path: Path) -> set[str]:
    return {one.name for one in path.iterdir() if one.is_dir()} if path.exists() else set()


@pytest.mark.parametrize("fault", [raise_error, die])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at(
    world: RunWorld, monkeypatch: pytest.MonkeyPatch, step: str, moment: str, fault: Callable[[], None]
) -> None:
    monkeypatch.chdir(world.tree.path)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            break_step(STEPS[step], fault, monkeypatch, before=moment == "before")
            new = ["--new", "feat/login"] if step in ("intent", "worktree", "row") else []
            command_runner.main(["start", "claude", "--prompt", "hi", "--quiet", *new])
            status = 0
        except OSError:
            status = 0  # a command that ends by it
        finally:
            os._exit(status)
    assert wait_pid(pid) == (signal.SIGKILL if fault is die else 0)
    check(world)
