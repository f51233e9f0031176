"""Commands that go on say what became of the registry, and go on with the one that is there then. # H3 # M4"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import registry_faults
from tests.helpers import ROOT, Repo, imi, imi_argv

FAULTS: dict[str, Callable[[Path], None]] = {
    "is damaged": registry_faults.overwrite_header,
    "is gone, but the ballast": registry_faults.delete_registry,
    "is empty, but the ballast": registry_faults.empty_registry,
}


class Follower:
    """A command that runs until the test ends it; `shown` is what it printed since `forget`."""

    def __init__(self, folder: Path, cwd: Path, *words: str) -> None:
        self._file = folder / f"{words[0]}.out"
        self._seen = 0
        with self._file.open("wb") as out:
            self.process = subprocess.Popen(
                imi_argv(*words),
                cwd=cwd,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            )

    @property
    def shown(self) -> str:
        return self._file.read_bytes()[self._seen :].decode()

    def forget(self) -> None:
        self._seen = self._file.stat().st_size

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + 60
        while text not in self.shown:
            assert time.monotonic() < until, f"{text!r} is not in {self.shown}"
            assert self.process.poll() is None, self.shown
            time.sleep(0.02)
        assert "Traceback" not in self.shown

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@pytest.fixture
def registry(own_home: Path) -> Path:
    return own_home / ".config" / "iMi" / "iMi.db"


@pytest.fixture
def world(repo: Repo) -> Repo:
    return registry_faults.make_claimed_worktrees(repo)


@pytest.fixture
def follow(tmp_path: Path, world: Repo) -> Iterator[Callable[..., Follower]]:
    started: list[Follower] = []

    def start(*words: str) -> Follower:
        started.append(Follower(tmp_path, world.path, *words))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(60)


def test_each_reader_reports_every_fault_and_goes_on_after_the_repair(
    world: Repo, registry: Path, tmp_path: Path, follow: Callable[..., Follower]
) -> None:
    watch, table = follow("watch"), follow("status", "--watch")
    waiter, events = follow("claim", "feat-one", "--agent", "second", "--wait", "600"), follow("events", "--follow")
    watch.wait_for('"agent": "keeper"')
    table.wait_for("keeper")
    events.wait_for("keeper claimed feat-one")
    for reason, fault in FAULTS.items():
        until = time.monotonic() + 60
        while not imi("queue", "--json", cwd=world.path).data["count"]:  # the waiter is in line, again after a repair
            assert time.monotonic() < until and waiter.process.poll() is None
        copy = tmp_path / "copy.db"
        copy.unlink(missing_ok=True)
        registry_faults.copy_registry(registry, copy)
        readers = (watch, table, waiter, events)
        for one in readers:
            one.forget()
        fault(registry)
        for one in readers:
            one.wait_for(reason)
        watch.wait_for('"state": "unknown"')
        registry_faults.replace_registry(registry, copy)
        watch.wait_for('"problem": null')
        waiter.wait_for("can be used again")
        events.wait_for("can be used again")
        watch.wait_for('"state": "held"')
    assert imi("release", "feat-one", "--agent", "keeper", "--dirty-ok", cwd=world.path).code == 0
    waiter.process.wait(60)
    assert "feat-one is claimed by second" in waiter.shown and waiter.process.returncode == 0
    events.wait_for("second claimed feat-one")
    watch.wait_for('"agent": "second"')
    assert imi("queue", "--json", cwd=world.path).data["count"] == 0, "no place in the line is left"


def test_a_waiter_joins_the_line_of_the_registry_that_replaces_its_own(
    world: Repo, registry: Path, tmp_path: Path, follow: Callable[..., Follower]
) -> None:
    """A place in the line of the file that was replaced counts nothing."""
    copy = tmp_path / "copy.db"
    registry_faults.copy_registry(registry, copy)
    waiter = follow("claim", "feat-one", "--agent", "second", "--wait", "600")
    until = time.monotonic() + 60
    while not imi("queue", "--json", cwd=world.path).data["count"]:
        assert time.monotonic() < until
    registry_faults.replace_registry(registry, copy)
    until = time.monotonic() + 60
    while not imi("queue", "--json", cwd=world.path).data["count"]:
        assert time.monotonic() < until and waiter.process.poll() is None, "it joins the line of the new one"
    assert imi("claims", "--json", cwd=world.path).data["claims"][0]["agent_id"] == "keeper"
    assert imi("release", "feat-one", "--agent", "keeper", "--dirty-ok", cwd=world.path).code == 0
    assert waiter.process.wait(60) == 0 and "feat-one is claimed by second" in waiter.shown


def test_a_wait_whose_time_is_over_while_the_registry_is_damaged_fails(
    world: Repo, registry: Path, follow: Callable[..., Follower]
) -> None:
    waiter = follow("claim", "feat-one", "--agent", "second", "--wait", "3", "--json")
    until = time.monotonic() + 60
    while not imi("queue", "--json", cwd=world.path).data["count"] and waiter.process.poll() is None:
        assert time.monotonic() < until
    registry_faults.overwrite_header(registry)
    assert waiter.process.wait(60) == 1
    answer = json.loads(waiter.shown.splitlines()[-1])
    assert answer["success"] is False and answer["code"] == "registry-corrupt"


def test_watching_starts_on_a_damaged_registry(world: Repo, registry: Path, follow: Callable[..., Follower]) -> None:
    registry_faults.overwrite_header(registry)
    table = follow("status", "--watch")
    table.wait_for("is damaged")
    table.wait_for("feat-one")
    first = json.loads(imi("watch", "--once", cwd=world.path).out)
    assert {tree["owner"] for tree in first["worktrees"]} == {"?"}
    assert "is damaged" in first["registry"]["problem"]
