"""The board: 1,000 items painted, state files of 100 sessions read, and a log's line from its file to `imi logs -f`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.common import IMI, Row, process
from bench.ui import Pane
from imi_monitor.actions.context import Context
from imi_monitor.store import db, items

ITEMS = int(os.environ.get("BENCH_ITEMS", "1000"))
LINES = int(os.environ.get("BENCH_LINES", "40"))
SESSIONS = 100


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        os.environ["IMI_DATABASE_PATH"] = os.path.join(base, "iMi.db")
        os.environ["XDG_STATE_HOME"] = os.path.join(base, "state")
        os.environ["XDG_DATA_HOME"] = os.path.join(base, "data")
        repo = os.path.join(base, "app")
        process(["git", "init", "-q", repo])
        identity = ["-c", "user.name=b", "-c", "user.email=b@b"]
        process(["git", "-C", repo, *identity, "commit", "-q", "--allow-empty", "-m", "first"])
        yield _sync(Path(base), repo)
        yield _log(Path(base), repo)
        yield from _board(base, repo)


def _sync(base: Path, repo: str) -> Row:
    """`imi sync-state --all` of other programs' state files, the process included; the second time nothing is new."""
    folder = base / "service"
    at = {"startTime": "2026-02-08T08:04:02Z", "endTime": "2026-02-08T09:00:00Z"}
    for number in range(SESSIONS):
        session = folder / ".compound-state" / f"session-{1_770_000_000 + number}"
        session.mkdir(parents=True)
        name = {"sessionId": session.name, "createdAt": at["startTime"], "status": "active"}
        (session / "session.json").write_text(json.dumps(name))
        (session / "orchestrator.json").write_text(json.dumps({"status": "completed", "targetRepo": "/x", **at}))
        for agent in ("backend", "frontend"):
            about = {"agentName": agent, "status": "success", **at, "completedTasks": [{"description": agent}]}
            (session / f"{agent}.json").write_text(json.dumps(about))
    begun = time.perf_counter()
    process([IMI, "sync-state", "--all", "--from", str(folder)], cwd=repo)
    return Row("sync-state of 100 sessions", time.perf_counter() - begun, "s", budget=1.0)


def _log(base: Path, repo: str) -> Row:
    """From the write of a line to the same line of `imi logs -f` in a pipe, p95."""
    folder = base / "agent" / "AGENT_RUN_WORKSPACES" / "session_20261101_100000_00000000"
    folder.mkdir(parents=True)
    log = folder / "run.log"
    log.write_text("begin\n")
    process([IMI, "workspace", "watch", str(base / "agent")], cwd=repo)
    argv = [IMI, "logs", folder.name, "-f"]
    taken = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=repo, text=True) as follower:
        assert follower.stdout is not None
        follower.stdout.readline()
        for number in range(LINES):
            time.sleep(0.03 + number % 7 / 100)  # at each place between two looks at the file
            begun = time.perf_counter()
            with log.open("a") as file:
                file.write(f"line {number}\n")
            follower.stdout.readline()
            taken.append((time.perf_counter() - begun) * 1000)
        follower.terminate()
    return Row("written -> line of imi logs -f, p95", statistics.quantiles(taken, n=20)[-1], "ms", budget=100.0)


def _board(base: str, repo: str) -> Iterator[Row]:
    """From the key to the painted board, the registry's rows read in between; what opening a view costs is the board of one."""
    one = _opened(os.path.join(base, "one.db"), repo, 1)
    many = _opened(os.path.join(base, "many.db"), repo, ITEMS)
    yield Row("board of one item, key to picture", one, "ms")
    yield Row("board of 1,000 items, beyond that", many - one, "ms", budget=100.0)


def _opened(database: str, repo: str, number: int) -> float:
    with Context(database=database, repo=repo) as context:
        name = context.repo_name(context.repository())
        new = [items.NewItem(title=f"item number {each}", repo_name=name) for each in range(number)]
        db.transact(context.connection, lambda inner: [items.add(inner, each) for each in new])
    taken = []
    with Pane([IMI], repo, {"IMI_DATABASE_PATH": database}) as pane:
        pane.first(b"Worktrees")
        time.sleep(2.0)
        for _ in range(7):
            since, begun = len(pane.arrivals), time.perf_counter()
            pane.send(b"B")
            taken.append((pane.first(b"item number", since) - begun) * 1000)
            pane.send(b"\x1b")
            time.sleep(0.5)
    return statistics.median(taken[1:])  # the first one imports the view
