"""`imi claim --wait`: in order, without delay, past dead and suspended waiters; it always leaves the line."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from imi_monitor import host, paths
from imi_monitor.store import claim_queue, claim_requests, claims, db
from tests.helpers import ROOT, Repo, imi, imi_argv
from tests.limits import LIMIT, read_some


@dataclass
class Line:
    """A claimed worktree `feat-x` and the processes that wait for it."""

    repo: Repo
    connection: sqlite3.Connection
    waiters: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return "app", "feat-x"

    def claim(self, agent: str, pid: int | None = None) -> None:
        done = imi("claim", "feat-x", "--agent", agent, *(["--pid", str(pid)] if pid else []), cwd=self.repo.path)
        assert done.code == 0, done.err

    def wait(self, agent: str, seconds: float = 60, *more: str) -> subprocess.Popen[str]:
        """Start a waiter and return once it is in line."""
        before = len(claim_queue.list_waiters(self.connection, *self.key))
        self.waiters[agent] = process = subprocess.Popen(
            imi_argv("claim", "feat-x", "--agent", agent, "--wait", str(seconds), "--json", *more),
            cwd=self.repo.path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.until(
            lambda: len(claim_queue.list_waiters(self.connection, *self.key)) > before or process.poll() is not None
        )
        return process

    def holder(self) -> claims.Claim:
        return claims.current(self.connection, *self.key)

    def release(self, agent: str) -> float:
        """Release and wait for the next owner; returns the seconds from the commit to the grant."""
        claim = self.holder()
        assert claim.agent_id == agent
        assert db.transact(self.connection, claim_requests.release, *self.key, agent, claim.epoch)[0]
        released = time.perf_counter()
        self.until(lambda: self.holder().agent_id is not None, 0.0005)
        return time.perf_counter() - released

    def until(self, happened, every: float = 0.005, seconds: float = LIMIT) -> None:  # type: ignore[no-untyped-def]
        end = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < end, "it did not happen"
            time.sleep(every)

    def agents(self) -> list[str]:
        return [waiter.agent_id for waiter in claim_queue.list_waiters(self.connection, *self.key)]


@pytest.fixture
def line(repo: Repo) -> Iterator[Line]:
    repo.worktree("feat-x")
    made = Line(repo, db.connect(paths.default_database()))
    made.claim("holder")
    yield made
    for process in made.waiters.values():
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate(timeout=LIMIT)
    made.connection.close()


def _granted_in_order(line: Line, waiters: int, killed: int) -> list[float]:
    """Kill some of the waiters at random; the others must be granted in the order in which they came."""
    names = [f"w{number}" for number in range(waiters)]
    for name in names:
        line.wait(name)
    assert line.agents() == names
    dice = random.Random(7)
    doomed = set(dice.sample(names, killed))
    late = {name for name in doomed if dice.random() < 0.3}  # some die only while others are being served
    for name in doomed - late:
        line.waiters[name].kill()
    order, waits, owner = [], [], "holder"
    alive = [name for name in names if name not in doomed]
    while len(order) < len(alive):
        for name in late:
            line.waiters[name].kill()
        waits.append(line.release(owner))
        owner = str(line.holder().agent_id)
        order.append(owner)
        answer = json.loads(line.waiters[owner].communicate(timeout=LIMIT)[0])
        assert answer["success"], answer
    assert order == alive
    line.connection.execute("SELECT 1")
    assert claims.state(line.holder()) == "held"
    assert set(line.agents()) <= doomed
    return waits


def test_waiters_are_granted_in_order_though_half_are_killed(line: Line) -> None:  # S2.10, queue
    waits = _granted_in_order(line, 12, 6)
    print(f"longest time from release to grant: {max(waits) * 1000:.1f} ms")


@pytest.mark.soak
def test_waiters_are_granted_within_100_ms(line: Line) -> None:
    assert max(_granted_in_order(line, 32, 16)) < 0.1


def test_a_waiter_gets_what_it_waited_for(line: Line) -> None:
    waiter = line.wait("codex-1", 60, "--task", "T-9")
    line.release("holder")
    data = json.loads(waiter.communicate(timeout=LIMIT)[0])["data"]
    assert (data["agent_id"], data["task_id"], data["epoch"], data["how"]) == ("codex-1", "T-9", 2, "claimed")
    assert (waiter.returncode, line.agents()) == (0, [])


def test_a_wait_ends_and_names_the_holder(line: Line) -> None:
    waiter = line.wait("codex-1", 0.3)
    out, err = waiter.communicate(timeout=LIMIT)
    answer = json.loads(out)
    assert (waiter.returncode, err, answer["code"]) == (1, "", "claimed")
    assert "waited 0.3 s" in answer["error"]
    assert "held by holder" in answer["error"]
    assert line.agents() == []


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=lambda value: str(value),
)
def test_a_signal_makes_a_waiter_leave_the_line(line: Line, number: signal.Signals, code: int) -> None:
    waiter = line.wait("codex-1")
    waiter.send_signal(number)
    waiter.communicate(timeout=LIMIT)
    assert (waiter.returncode, line.agents()) == (code, [])
    assert line.holder().agent_id == "holder"


def test_a_killed_waiter_is_skipped(line: Line) -> None:
    waiter = line.wait("codex-1")
    waiter.kill()
    waiter.communicate(timeout=LIMIT)
    assert imi("queue", "--json", cwd=line.repo.path).data["queue"] == []
    db.transact(line.connection, claim_requests.release, *line.key, "holder", 1)
    line.claim("gemini-1")
    assert line.agents() == []


def test_a_living_waiter_is_not_passed(line: Line) -> None:
    first = line.wait("codex-1")
    os.kill(first.pid, signal.SIGSTOP)
    line.until(lambda: host.is_suspended(first.pid))
    second = line.wait("gemini-1")
    assert [w["place"] for w in imi("queue", "x", "--json", cwd=line.repo.path).data["queue"]] == [1, 2]
    line.release("holder")
    second.communicate(timeout=LIMIT)
    assert line.holder().agent_id == "gemini-1", "a suspended waiter holds up no other"
    assert line.agents() == ["codex-1"]
    third = line.wait("claude-2")
    os.kill(first.pid, signal.SIGCONT)
    line.until(lambda: not host.is_suspended(first.pid))
    line.release("gemini-1")
    first.communicate(timeout=LIMIT)
    assert line.holder().agent_id == "codex-1", "and it has kept its place"
    refused = imi("claim", "feat-x", "--agent", "barger", cwd=line.repo.path)
    assert refused.code == 1
    line.release("codex-1")
    third.communicate(timeout=LIMIT)
    assert line.holder().agent_id == "claude-2"


def test_a_waiter_notices_the_death_of_the_holder(line: Line) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        line.claim("holder", child.pid)
        waiter = line.wait("codex-1")
    finally:
        child.kill()
        child.wait(LIMIT)
    data = json.loads(waiter.communicate(timeout=LIMIT)[0])["data"]
    assert (data["how"], data["previous_agent"]) == ("after_death", "holder")


def test_a_waiter_with_takeover_takes_a_claim_that_becomes_stale(line: Line) -> None:
    imi("claim", "feat-x", "--agent", "holder", "--ttl", "3600", cwd=line.repo.path)
    waiter = line.wait("codex-1", 60, "--takeover")
    line.connection.execute("UPDATE claims SET heartbeat_uptime = heartbeat_uptime - 3601")
    assert json.loads(waiter.communicate(timeout=LIMIT)[0])["data"]["how"] == "taken_over"


def test_a_worktree_removed_while_waiting_is_not_granted(line: Line) -> None:
    waiter = line.wait("codex-1")
    path = Path(line.repo.path).with_name("feat-x")
    path.rename(path.with_name("trash"))
    db.transact(line.connection, claims.close, *line.key, epoch=1, how="worktree_removed", by="holder")
    answer = json.loads(waiter.communicate(timeout=LIMIT)[0])
    assert (waiter.returncode, answer["code"]) == (1, "missing")
    assert (line.agents(), claims.state(line.holder())) == ([], "free")


def test_waiting_shows_the_place_in_line(line: Line) -> None:
    line.wait("codex-1")
    master, slave = pty.openpty()
    person = subprocess.Popen(
        imi_argv("claim", "feat-x", "--agent", "human:ann", "--wait", "60"),
        cwd=line.repo.path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    seen = b""
    try:
        end = time.monotonic() + LIMIT
        while b"2nd in line for feat-x, held by holder" not in seen and time.monotonic() < end:
            seen += read_some(master, 4096)
        assert b"2nd in line for feat-x, held by holder" in seen
        person.send_signal(signal.SIGINT)
        assert person.wait(LIMIT) == 130
    finally:
        person.kill()
        person.communicate(timeout=LIMIT)
        os.close(master)
