"""Watched workspaces in the dashboard: rows with state, files and log; not a byte is written, nothing is read again at rest."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from imi_monitor import auto_watch, paths
from imi_monitor.config import Settings
from imi_monitor.model import times
from imi_monitor.model.run import CRASHED, Run
from tests.actions.test_foreign_logs import big3
from tests.actions.test_sync_state import be_agents
from tests.helpers import Repo, imi, tree_hash
from tests.limits import LIMIT
from tests.ui.pilot_kit import listed_names, run_dashboard, screen_text, select_worktree, selected_name, wait_until

NAME = "session_20260415_013645_6b32690a"


class Receiver:
    """Keeps the rows that the source reports."""

    def __init__(self) -> None:
        self.rows: list[tuple[Run, ...]] = []

    def update(self, **fields: Any) -> None:
        self.rows.append(fields["watched"])

    def set_healthy(self, source: str, note: str | None = None) -> None:
        return

    def set_failure(self, source: str, what: str, why: str) -> None:
        raise AssertionError(why)


async def watch(play: Callable[[list[tuple[Run, ...]]], Awaitable[None]]) -> None:
    """Play while the source runs, ten times a second."""
    receiver = Receiver()
    source = auto_watch.AutoWatch(paths.default_database(), Settings(), seconds=0.1, again=0.2)
    task = asyncio.create_task(source.run(receiver))  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(LIMIT):
            await play(receiver.rows)
    finally:
        task.cancel()


async def until(true: Callable[[], object]) -> None:
    while not true():
        await asyncio.sleep(0.05)


def stamp(**ago: float) -> str:
    return times.stamp(times.now() - timedelta(**ago))


def agent_workspace(folder: Path) -> Path:
    """A workspace of universal_agent with a run at work; returns the run's folder."""
    run = folder / "AGENT_RUN_WORKSPACES" / NAME
    (run / "work_products" / "media").mkdir(parents=True)
    (run / "run.log").write_text("[STDOUT] reads the offers\n")
    (run / "work_products" / "report.html").write_text("<p>two offers")
    (run / "work_products" / "link").symlink_to("/etc/passwd")
    (run / "mission.json").write_text('{"mission": "compare the offers"}')
    with closing(sqlite3.connect(run.parent / "runtime_state.db")) as connection, connection:
        connection.execute(
            "CREATE TABLE runs (run_id TEXT, created_at TEXT, updated_at TEXT, status TEXT, run_spec_json TEXT)"
        )
        connection.execute(
            "INSERT INTO runs VALUES (?, ?, ?, 'running', '{}')", (NAME, stamp(minutes=9), stamp(minutes=1))
        )
    return run


def test_a_run_of_another_program_is_a_row_with_its_files_and_log(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    run = agent_workspace(folder)
    imi("workspace", "watch", str(folder), cwd=repo.path)
    before = tree_hash(folder)

    async def play(app: Any, pilot: Any) -> None:
        await wait_until(pilot, lambda: NAME in listed_names(app))
        await select_worktree(app, NAME)
        await wait_until(pilot, lambda: selected_name(app) == NAME and "work_products/report.html" in screen_text(app))
        assert "compare the offers" in screen_text(app) and "passwd" not in screen_text(app)
        assert tree_hash(folder) == before, "not a byte is written there"
        await pilot.press("enter")
        await wait_until(pilot, lambda: "reads the offers" in screen_text(app))
        await pilot.press("escape", "V")
        await wait_until(pilot, lambda: "Stream" in screen_text(app) and "universal_agent" in screen_text(app))
        await pilot.press("escape", "J")
        await wait_until(pilot, lambda: "1 watched" in screen_text(app))
        await pilot.press("escape")
        with closing(sqlite3.connect(run.parent / "runtime_state.db")) as connection, connection:
            connection.execute("UPDATE runs SET status = 'failed', updated_at = ?", (stamp(),))
        await wait_until(pilot, lambda: "1 failed" in screen_text(app).splitlines()[0])
        imi("workspace", "unwatch", str(folder), cwd=repo.path)
        await wait_until(pilot, lambda: NAME not in listed_names(app))

    run_dashboard(repo, play)


def test_sessions_jobs_and_registered_agents_are_rows(repo: Repo, tmp_path: Path) -> None:
    service, registry = tmp_path / "service", tmp_path / "big3"
    session = be_agents(service)
    for name in ("orchestrator", "session", *(one.stem for one in session.glob("*.json"))):
        path = session / f"{name}.json"
        if path.exists():
            about = json.loads(path.read_text())
            path.write_text(
                json.dumps({**about, "startTime": stamp(minutes=5), "status": "in_progress", "endTime": None})
            )
    jobs = service / "logs" / "running-jobs"
    jobs.mkdir(parents=True)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (jobs / "job-1-abc.json").write_text(json.dumps({"pid": process.pid, "startTime": stamp(), "type": "compound"}))
    (jobs / "job-1-abc.log").write_text("[STDOUT] begins\n")
    big3(registry)
    for folder in (service, registry):
        imi("workspace", "watch", str(folder), cwd=repo.path)
    watched = imi("status", "--json", cwd=repo.path).data["watched"]
    states = {one["session"]: one["shown"] for one in watched}
    assert states["job-1-abc"] == "works" and states[session.name] == "works", states
    repo.worktree("feat-x")
    assert imi("status", "feat-x", "--json", cwd=repo.path).data["watched"] is None, "it is about one worktree"

    async def play(rows: list[tuple[Run, ...]]) -> None:
        await until(lambda: rows and {"job-1-abc", session.name} <= {one.session for one in rows[-1]})
        process.kill()
        process.wait(LIMIT)
        await until(lambda: CRASHED in {one.status for one in rows[-1]})  # without a change of a file
        seen = len(rows)
        await until(lambda: len(rows) > seen)  # what was read before is recorded

    try:
        asyncio.run(watch(play))
    finally:
        process.kill()
        process.wait(LIMIT)
    found = imi("query", "SELECT status FROM sessions WHERE id = 'be-agents:job-1-abc'", "--json", cwd=repo.path)
    assert found.data["rows"] == [["dead"]], "what is recorded follows"


def test_at_rest_nothing_is_read_again(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    run = agent_workspace(folder)
    imi("workspace", "watch", str(folder), cwd=repo.path)
    with closing(sqlite3.connect(run.parent / "runtime_state.db")) as connection, connection:
        connection.execute("UPDATE runs SET status = 'succeeded'")  # nothing is at work

    async def play(rows: list[tuple[Run, ...]]) -> None:
        await until(lambda: len(rows) >= 5)
        assert all(one[0] is rows[0][0] for one in rows), "only names and times are looked at"
        os.utime(run / "run.log", (1, datetime.now().timestamp()))
        await until(lambda: rows[-1][0] is not rows[0][0])
        assert rows[-1][0].files != rows[0][0].files

    asyncio.run(watch(play))
