"""A fault at each step of a start, raised and killed: then every agent has a row, every claim an open run, every folder a run."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from imi_monitor.cli import command_runner
from imi_monitor.runs import follower, launcher, run_claim, run_folder, ways
from imi_monitor.runs.launch_folder import LaunchFolder
from imi_monitor.store import runs
from tests.helpers import wait_for
from tests.limits import wait_pid
from tests.runs.run_kit import RunWorld, family

STEPS: dict[str, tuple[Any, str]] = {
    "run folder": (run_folder, "make"),
    "launch folder": (LaunchFolder, "make"),
    "row": (launcher, "_insert"),
    "presence": (run_claim, "mirror"),
    "place": (runs, "take_next"),
    "keeper": (ways, "start"),
    "alive": (launcher, "_mark_alive"),
    "greeting": (launcher, "_greet"),
    "follower": (follower, "ensure"),
}
ENDS = ("idle", "failed", "completed")


def start_with(fault: Callable[[], None], step: str, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`imi start` in this process, with a fault before or after the step."""
    holder, name = STEPS[step]
    original = getattr(holder, name)

    def faulty(*args: Any, **named: Any) -> Any:
        if moment == "before":
            fault()
        found = original(*args, **named)
        fault()
        return found

    monkeypatch.setattr(holder, name, faulty)
    command_runner.main(["start", "claude", "--prompt", "hi", "--quiet"])


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
    claims = world.imi("claims", "--json").data["claims"]
    assert [one["agent_id"] for one in claims] == [one["agent_id"] for one in rows if one["ended_at"] is None]
    workspaces = world.repo.path.parent / "app.worktrees" / "AGENT_RUN_WORKSPACES"
    if workspaces.exists() and rows:
        assert [str(one) for one in workspaces.iterdir()] == [one["folder"] for one in rows]


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
            start_with(fault, step, moment, monkeypatch)
            status = 0
        except OSError:
            status = 0  # a command that ends by it
        finally:
            os._exit(status)
    assert wait_pid(pid) == (signal.SIGKILL if fault is die else 0)
    check(world)
