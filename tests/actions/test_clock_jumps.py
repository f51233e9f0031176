"""The clock of the machine is set by hours or years: claims, the line and the trash stay as they are, no age is negative."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host, paths
from imi_monitor.actions.action import Outcome
from imi_monitor.model.errors import Refused
from imi_monitor.store import claim_queue, claims, db
from tests.actions.removal_kit import act, assert_same, fingerprint, remove, undo
from tests.helpers import ROOT, Ran, Repo, imi_argv, shift_clock

HOUR, YEAR = 3600, 365 * 86400
JUMPS = [5 * HOUR, -5 * HOUR, 2 * YEAR, -2 * YEAR]
LIBRARIES = ("/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime")
FAKETIME = next(
    (f"{folder}/libfaketime.so.1" for folder in LIBRARIES if os.path.exists(f"{folder}/libfaketime.so.1")), ""
)
needs_faketime = pytest.mark.skipif(not FAKETIME, reason="libfaketime is not installed here (Debian: faketime)")
KEY = ("app", "feat-x")


def negative(shown: object) -> list[str]:
    """The negative ages and durations of an answer: of its lines, and of its data at any depth."""
    if isinstance(shown, Outcome):
        return [line for line in shown.lines if re.search(r"(?<![\w.-])-\d", str(line))] + negative(shown.data)
    if isinstance(shown, dict):
        timed = [
            f"{key}: {value}"
            for key, value in shown.items()
            if re.search("seconds|age", str(key)) and isinstance(value, (int, float)) and value < 0
        ]
        return timed + [found for value in shown.values() for found in negative(value)]
    return [found for value in shown for found in negative(value)] if isinstance(shown, (list, tuple)) else []


@contextmanager
def living() -> Iterator[int]:
    child = subprocess.Popen(["sleep", "600"])
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait(60)


# -- with the project's clock ---------------------------------------------------------------------------------------------


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock, in seconds from the true time."""

    def by(seconds: float) -> None:
        shift_clock(monkeypatch, seconds)

    return by


@pytest.mark.parametrize("jump", JUMPS)
def test_a_claim_is_given_away_to_nobody(repo: Repo, set_clock: Callable[[float], None], jump: float) -> None:
    repo.worktree("feat-x")

    def run(verb: str, **values: Any) -> Outcome:
        return act(verb, cwd=repo.path, **values)

    with living() as pid:
        granted = run("claim", name="feat-x", agent="a", pid=str(pid), ttl="60")
        set_clock(jump)
        for rights in ({}, {"takeover": True}):
            with pytest.raises(Refused):
                run("claim", name="feat-x", agent="b", **rights)
        assert run("verify-lock", name="feat-x", agent="a", epoch=str(granted.data["epoch"])).exit_status == 0
        (shown,) = run("claims").data["claims"]
        assert (shown["agent_id"], shown["state"], shown["epoch"]) == ("a", "held", granted.data["epoch"])
        run("heartbeat", name="feat-x", agent="a")
        set_clock(0)
        for verb in ("claims", "status", "list", "events", "queue", "stats", "tasks", "sessions", "trash list"):
            assert negative(run(verb)) == [], verb
        assert run("release", name="feat-x", agent="a").exit_status == 0
    set_clock(jump)
    assert negative(run("claims")) + negative(run("events")) == []


@pytest.mark.parametrize("jump", JUMPS)
def test_a_waiter_stays_in_the_line(repo: Repo, set_clock: Callable[[float], None], jump: float) -> None:
    repo.worktree("feat-x")
    with (
        living() as holder,
        living() as first,
        living() as second,
        closing(db.connect(paths.default_database())) as here,
    ):
        act("claim", cwd=repo.path, name="feat-x", agent="a", pid=str(holder))
        for agent, pid in (("w1", first), ("w2", second)):
            set_clock(jump if agent == "w2" else 0)  # the second one comes earlier by the clock, or much later
            who = host.identify_process(pid)
            db.transact(here, claim_queue.join, *KEY, agent, who, task=None, seconds=60.0)
        for moment in (jump, 0.0, -jump):
            set_clock(moment)
            assert [one.agent_id for one in claim_queue.list_waiters(here, *KEY) if one.ready] == ["w1", "w2"]
            db.transact(here, claim_queue.remove_gone, *KEY)
        assert negative(act("queue", cwd=repo.path)) == []


@pytest.mark.parametrize("jump", JUMPS)
def test_the_trash_keeps_what_was_removed(repo: Repo, set_clock: Callable[[float], None], jump: float) -> None:
    tree = repo.worktree("feat-x")
    tree.write("work.py", "not committed\n")
    before = fingerprint(repo, tree.path)
    remove(repo, "feat-x", force=True)
    set_clock(jump)
    assert act("trash purge", cwd=repo.path, which=[], wait=True).data["would_purge"] == []
    assert negative(act("trash list", cwd=repo.path)) + negative(act("prune", cwd=repo.path, dry_run=True)) == []
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)


# -- with a real clock that is set -----------------------------------------------------------------------------------------


class SetClock:
    """Real imi processes with a clock that is set. The kernel's clock, by which files get their times, is not set.

    libfaketime cannot do this for a process that sleeps: its `clock_nanosleep` refuses absolute times.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set(0)
        self.env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LD_PRELOAD": FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}")
        new.rename(self._file)

    def imi(self, *words: str, cwd: Path) -> Ran:
        done = subprocess.run(
            imi_argv(*words), cwd=cwd, env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def machine(tmp_path: Path) -> SetClock:
    return SetClock(tmp_path)


@needs_faketime
def test_real_processes_keep_claim_line_and_trash_while_the_clock_is_set(repo: Repo, machine: SetClock) -> None:
    repo.worktree("feat-x")
    old = repo.worktree("feat-old")
    with living() as pid, closing(db.connect(paths.default_database())) as here:
        epoch = machine.imi("claim", "feat-x", "--agent", "a", "--pid", str(pid), "--json", cwd=repo.path).data["epoch"]
        assert machine.imi("remove", "feat-old", cwd=repo.path).code == 0
        waiter = subprocess.Popen(
            imi_argv("claim", "feat-x", "--agent", "w", "--wait", "300", "--json"),
            cwd=repo.path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _until(lambda: bool(claim_queue.list_waiters(here, *KEY)))
            for jump in (5 * HOUR, -2 * YEAR):
                machine.set(jump)
                _check(machine, repo, str(epoch))
                (waiting,) = claim_queue.list_waiters(here, *KEY)
                assert waiting.ready and waiter.poll() is None
            assert machine.imi("release", "feat-x", "--agent", "a", cwd=repo.path).code == 0
            _until(lambda: claims.current(here, *KEY).agent_id == "w")
            assert waiter.wait(60) == 0
        finally:
            waiter.kill()
            waiter.communicate(timeout=60)
    assert machine.imi("undo", cwd=repo.path).code == 0 and old.path.is_dir()


def _check(machine: SetClock, repo: Repo, epoch: str) -> None:
    assert machine.imi("claim", "feat-x", "--agent", "b", cwd=repo.path).code == 1
    assert machine.imi("verify-lock", "feat-x", "--agent", "a", "--epoch", epoch, cwd=repo.path).code == 0
    assert machine.imi("trash", "purge", "--yes", cwd=repo.path).code == 0
    assert "feat-old" in machine.imi("trash", "list", cwd=repo.path).out
    for words in (("claims",), ("status",), ("queue",)):
        assert negative(machine.imi(*words, "--json", cwd=repo.path).json) == [], words


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_negative_ages_are_found() -> None:
    """The check above can fail."""
    assert negative(Outcome(["feat-x  -3h"], {"rows": [{"silent_seconds": -1.0}, {"age": -2}]})) != []
    assert negative(Outcome(["feat-x  2026-01-01  v1-2"], {"rows": [{"silent_seconds": 1.0}]})) == []
