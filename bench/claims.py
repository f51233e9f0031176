"""Claims: what an agent waits for on each `imi claim`, in-process claims, and many processes at once. # S2.56"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

from bench.common import IMI, PYTHON, Row, interleaved, process, ratio, wait_until
from imi_monitor import host
from imi_monitor.store import async_registry, claim_queue, claim_requests, claims, db, repositories, worktrees
from imi_monitor.store.claims import ClaimRequest

_ROUNDS = 31
_IN_PROCESS = 300
_SECONDS = 2.0
_WORKTREES = 40
_REPO = "app"


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as folder:
        repository, env = _repository(folder)
        commands = _commands(repository, env)
        return [*commands, *_in_process(folder), *_contended(folder), *_granted(repository, env)]


def _commands(repository: str, env: dict[str, str]) -> list[Row]:
    """Whole commands, from the shell's side, against Python doing nothing."""

    def imi(*words: str) -> Callable[[], None]:
        return partial(process, [IMI, *words, "feat-x", "--agent", "bench"], env, repository)

    acts = {
        "imi claim": imi("claim"),
        "imi verify-lock": imi("verify-lock"),
        "imi heartbeat": imi("heartbeat"),
        "imi release (asks git for changes)": imi("release"),
    }
    for act in acts.values():  # byte code is written, the registry made
        act()
    floor, *times = interleaved(_ROUNDS, partial(process, [PYTHON, "-I", "-c", "pass"]), *acts.values())
    return [ratio(name, value, floor, "python -I -c pass", 2.0) for name, value in zip(acts, times, strict=True)]


def _repository(folder: str) -> tuple[str, dict[str, str]]:
    """A repository with a worktree `feat-x`, and an environment of its own in which byte code may be kept."""
    home, path = os.path.join(folder, "home"), os.path.join(folder, "app")
    os.makedirs(home)
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "IMI_", "XDG_", "PYTHONDONT", "PYTHONUN"))
    }
    env |= {"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.invalid", "-c", "init.defaultBranch=main"]
    process([*git, "init", "-q", path], env)
    for number in range(200):
        os.makedirs(os.path.join(path, f"d{number % 20}"), exist_ok=True)
        with open(os.path.join(path, f"d{number % 20}", f"f{number}"), "w") as file:
            file.write(f"{number}\n")
    process([*git, "-C", path, "add", "-A"], env)
    process([*git, "-C", path, "commit", "-qm", "first"], env)
    tree = os.path.join(folder, "feat-x")
    process([*git, "-C", path, "worktree", "add", "-q", "-b", "feat/x", tree], env)
    # As in normal use: the first `git status` of a later second ends git's doubt about what has just been written
    # (until then it compares every file's content, which only it may note down in the index, and we never do).
    time.sleep(1.1)
    process([*git, "-C", tree, "status"], env)
    return path, env


def _registry(path: str) -> sqlite3.Connection:
    connection = db.connect(path)

    def fill(inner: sqlite3.Connection) -> None:
        place = {"common_dir": path, "path": os.path.dirname(path)}
        repositories.register(
            inner, repositories.RepositoryRegistration(_REPO, **place, remote_url="", default_branch="main")
        )
        for number in range(_WORKTREES):
            worktrees.register(inner, _REPO, f"feat-{number}", branch="b", kind="feat", path=f"{path}-{number}")

    db.transact(connection, fill)
    return connection


def _in_process(folder: str) -> list[Row]:
    """One claim as the dashboard makes it, against the same statements typed into sqlite3 by hand."""
    path = os.path.join(folder, "in-process.db")
    _registry(path).close()
    bare, direct, hopped = asyncio.run(_three_ways(path))
    return [
        ratio("in-process claim through aiosqlite", hopped, bare, "bare sqlite3", 3.0),
        ratio("in-process claim, direct", direct, bare, "bare sqlite3"),
    ]


async def _three_ways(path: str) -> tuple[float, float, float]:
    request = ClaimRequest("bench", host.identify_process(None))
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("PRAGMA wal_autocheckpoint = 0")
    raw.execute("INSERT OR IGNORE INTO claims (repo_name, worktree_name) VALUES ('bare', 'x')")
    connection = db.connect(path)
    times: list[list[float]] = [[], [], []]
    try:
        async with async_registry.open_registry(path) as registry:
            for number in range(_IN_PROCESS):
                start = time.perf_counter()
                _by_hand(raw, number)
                times[0].append(time.perf_counter() - start)
                start = time.perf_counter()
                answer = db.transact(connection, claim_requests.claim, _REPO, "feat-0", request)
                times[1].append(time.perf_counter() - start)
                db.transact(connection, claim_requests.release, _REPO, "feat-0", "bench", answer.claim.epoch)
                start = time.perf_counter()
                answer = await registry.write(claim_requests.claim, _REPO, "feat-1", request)
                times[2].append(time.perf_counter() - start)
                await registry.write(claim_requests.release, _REPO, "feat-1", "bench", answer.claim.epoch)
    finally:
        raw.close()
        connection.close()
    first, second, third = (statistics.median(each) * 1000 for each in times)
    return first, second, third


def _by_hand(raw: sqlite3.Connection, number: int) -> None:
    """The least that a claim with its history and event can be."""
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("UPDATE claims SET agent_id = 'b', epoch = epoch + 1 WHERE repo_name = 'bare' AND agent_id IS NULL")
    raw.execute(
        "INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, host, claimed_at)"
        " VALUES ('bare', 'x', ?, 'b', 'h', 'now')",
        (number + 1,),
    )
    raw.execute("UPDATE worktrees SET agent_id = 'b' WHERE repo_name = 'app' AND worktree_name = 'feat-2'")
    raw.execute("INSERT INTO events (id, type, host, occurred_at) VALUES (?, 't', 'h', 'now')", (f"bare-{number}",))
    raw.execute("COMMIT")
    raw.execute("UPDATE claims SET agent_id = NULL WHERE repo_name = 'bare'")


def _contended(folder: str) -> list[Row]:
    """Many processes that claim and release as fast as they can: how many a second, and the longest wait for one."""
    rows = []
    for processes in (1, 8, 32):
        path = os.path.join(folder, f"contended-{processes}.db")
        _registry(path).close()
        start = time.time() + 0.5 + processes * 0.06
        running = [
            subprocess.Popen([PYTHON, "-m", "bench.claims", path, str(start), f"a{number}"], stdout=subprocess.PIPE)
            for number in range(processes)
        ]
        waits = sorted(wait for each in running for wait in json.loads(each.communicate()[0]))
        name = f"{processes} processes claiming" if processes > 1 else "1 process claiming"
        rows.append(Row(f"{name}: rate", len(waits) / _SECONDS, "1/s"))
        rows.append(Row(f"{name}: p99 wait", waits[len(waits) * 99 // 100] * 1000, "ms"))
        rows.append(Row(f"{name}: worst wait", waits[-1] * 1000, "ms"))
    return rows


def _worker(path: str, start: float, name: str) -> None:
    connection = db.connect(path)
    request, dice, waits = ClaimRequest(name, host.identify_process(None)), random.Random(name), []
    time.sleep(max(0.0, start - time.time()))
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        worktree = f"feat-{dice.randrange(_WORKTREES)}"
        begun = time.perf_counter()
        answer = claim_requests.request_claim(connection, claim_requests.ClaimTarget(_REPO, worktree), request)
        waits.append(time.perf_counter() - begun)
        if answer.granted:
            db.transact_unsynced(connection, claim_requests.release, _REPO, worktree, name, answer.claim.epoch)
    connection.close()
    print(json.dumps(waits))


def _granted(repository: str, env: dict[str, str]) -> list[Row]:
    """32 real waiters in line, half of them killed: the time from each release to the next grant."""
    process([IMI, "claim", "feat-x", "--agent", "holder"], env, repository)
    connection = db.connect(os.path.join(env["HOME"], ".config", "iMi", "iMi.db"))
    waiters: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(32):
            words = [IMI, "claim", "feat-x", "--agent", f"w{number}", "--wait", "120"]
            waiters.append(subprocess.Popen(words, env=env, cwd=repository, stdout=subprocess.DEVNULL))
            wait_until(lambda: len(claim_queue.list_waiters(connection)) >= len(waiters), waiters[-1], 0.005)
        for waiter in waiters[::2]:
            waiter.kill()
            waiter.wait()
        longest = max(_grant(connection, waiter) for waiter in waiters[1::2])
    finally:
        for waiter in waiters:
            waiter.kill()
            waiter.wait()
        connection.close()
    return [Row("longest grant, 32 waiters half killed", longest * 1000, "ms", budget=100.0)]


def _grant(connection: sqlite3.Connection, waiter: subprocess.Popen[bytes]) -> float:
    """Release the worktree; the seconds until this waiter, the next in line, has it."""
    claim = claims.current(connection, _REPO, "feat-x")
    db.transact(connection, claim_requests.release, _REPO, "feat-x", str(claim.agent_id), claim.epoch)
    start = time.perf_counter()
    wait_until(lambda: claims.current(connection, _REPO, "feat-x").agent_id is not None, waiter, 0.0005)
    took = time.perf_counter() - start
    waiter.wait()
    return took


if __name__ == "__main__":
    _worker(sys.argv[1], float(sys.argv[2]), sys.argv[3])
