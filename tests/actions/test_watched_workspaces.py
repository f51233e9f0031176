"""Workspaces of other programs: shown as sessions and items, never written, whatever is in them."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.board import watched_workspaces
from tests.actions.test_sync_state import be_agents
from tests.helpers import Repo, imi, tree_hash
from tests.ui.payloads import PAYLOADS
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until

_RUNS = (
    "CREATE TABLE runs (run_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, status TEXT NOT NULL,"
    " entrypoint TEXT NOT NULL, run_spec_json TEXT NOT NULL, last_job_prompt TEXT)"
)


def universal_agent(folder: Path) -> Path:
    """Folders and a database as universal_agent leaves them."""
    base = folder / "AGENT_RUN_WORKSPACES"
    for name in ("session_20260415_013645_6b32690a", "run_42", "cron_20260416_000000", "session_20260417_000000"):
        (base / name / "work_products").mkdir(parents=True)
    first = base / "session_20260415_013645_6b32690a"
    (first / "run.log").write_text("started\n")
    (first / "mission.json").write_text('{"mission": "compare the offers"}')
    (base / "run_42" / "run_manifest.json").write_text('{"objective": "torn')
    with closing(sqlite3.connect(base / "runtime_state.db")) as connection, connection:
        connection.execute(_RUNS)
        at = "2026-04-15T01:36:45+00:00"
        rows = [
            ("session_20260415_013645_6b32690a", at, "2026-04-15T02:00:00+00:00", "succeeded", "cli", "{}", None),
            ("5f0e", at, at, "waiting_for_human", "cli", json.dumps({"workspace": "/x/run_42"}), "which one?"),
            ("lost", at, at, "running", "cli", "{}", "no folder"),
        ]
        connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return folder


def sessions(repo: Repo, cli: str) -> dict[str, dict[str, Any]]:
    sql = f"SELECT id, status, prompt, started_at, completed_at FROM sessions WHERE cli = '{cli}'"
    found = imi("query", sql, "--json", cwd=repo.path).data
    return {row[0]: dict(zip(found["columns"], row, strict=True)) for row in found["rows"]}


def test_runs_of_universal_agent_are_sessions(repo: Repo, tmp_path: Path) -> None:
    folder = universal_agent(tmp_path / "agent")
    before = tree_hash(folder)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            os.chmod(path, 0o500)
    try:
        ran = imi("workspace", "watch", str(folder), "--json", cwd=repo.path)
        assert (ran.data["kind"], ran.data["runs"], ran.data["problems"]) == ("universal_agent", 5, [])
        again = imi("workspace", "watched", "--json", cwd=repo.path).data["workspaces"]
        assert len(again) == 1 and again[0]["runs"] == 5
    finally:
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                os.chmod(path, 0o755)
    assert tree_hash(folder) == before, "not a byte is written there"
    found = sessions(repo, "universal_agent")
    done = found["universal_agent:session_20260415_013645_6b32690a"]
    assert (done["status"], done["prompt"], done["started_at"]) == (
        "completed",
        "compare the offers",
        "2026-04-15 01:36:45",
    )
    assert (
        found["universal_agent:run_42"]["status"] == "blocked"
        and found["universal_agent:run_42"]["prompt"] == "which one?"
    )
    assert found["universal_agent:cron_20260416_000000"]["status"] == "unknown", "unknown is never running"
    assert found["universal_agent:lost"]["prompt"] == "no folder"


@pytest.mark.parametrize("with_database", [False, True])
def test_sessions_and_tasks_of_be_agents_service_are_sessions_and_items(
    repo: Repo, tmp_path: Path, with_database: bool
) -> None:
    folder = tmp_path / "service"
    be_agents(folder)
    if with_database:
        with closing(sqlite3.connect(folder / ".compound-state" / "agent-service.db")) as connection, connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE sessions (id TEXT, status TEXT, target_repo TEXT, started_at TEXT)")
            connection.execute(
                "CREATE TABLE tasks (id TEXT, session_id TEXT, agent_id TEXT, description TEXT, status TEXT)"
            )
            for session in ("session-1770537842", "session-1770000000"):
                connection.execute(
                    "INSERT INTO sessions VALUES (?, 'planning', '/x', '2026-02-08 08:04:02')", (session,)
                )
            task = ("task-session-1770000000-frontend", "session-1770000000", "agent-frontend", "draw it", "failed")
            connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?)", task)
    before = tree_hash(folder)
    assert imi("workspace", "watch", str(folder), cwd=repo.path).code == 0
    assert tree_hash(folder) == before
    items = {one["external_id"]: one for one in imi("items", "--all", "--json", cwd=repo.path).data["items"]}
    assert items["task-session-1770537842-backend"]["status"] == "completed"
    assert len(items) == (3 if with_database else 2)
    if with_database:
        assert items["task-session-1770000000-frontend"]["title"] == "draw it"
    assert "session-1770537842" in sessions(repo, "batch")


def test_a_dashboard_follows_a_watched_workspace(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "service"
    session = be_agents(folder)
    imi("workspace", "watch", str(folder), cwd=repo.path)

    async def play(app: Any, pilot: Any) -> None:
        await pilot.press("B")
        await wait_until(pilot, lambda: "Implemented GraphQL" in screen_text(app))
        about = {"status": "failed", "task": "paint the door", "blockers": [{"message": "no paint"}]}
        (session / "painter.json").write_text(json.dumps(about))
        os.utime(session)
        await wait_until(pilot, lambda: "paint the door" in screen_text(app) and "no paint" in screen_text(app))

    run_dashboard(repo, play)


def test_hostile_and_broken_workspaces_cost_only_themselves(repo: Repo, tmp_path: Path) -> None:
    folder = universal_agent(tmp_path / "agent")
    base = folder / "AGENT_RUN_WORKSPACES"
    for number, bad in enumerate(PAYLOADS.values()):
        with closing(sqlite3.connect(base / "runtime_state.db")) as connection, connection:
            row = (
                f"{number}{bad}".encode("utf-8", "replace").decode(),
                "x",
                "y",
                bad[:9].encode("utf-8", "replace").decode(),
            )
            text = bad.encode("utf-8", "replace").decode()
            connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, 'cli', ?, ?)", (*row, text, text))
    (base / "session_link").symlink_to("/etc")
    os.mkfifo(base / "run_42" / "mission.json")
    assert imi("workspace", "watch", str(folder), cwd=repo.path).code == 0
    out = imi("sessions", "--all", cwd=repo.path).out
    assert "\x1b[2J" not in out and "\u202e" not in out
    (base / "runtime_state.db").write_text("no database" * 99)
    ran = imi("workspace", "watched", cwd=repo.path)
    assert ran.code == 0 and "runtime_state.db" in ran.err
    assert imi("workspace", "unwatch", str(folder), cwd=repo.path).code == 0
    assert watched_workspaces.list_watched() == []
    for words, sentence in (
        (("watch", str(tmp_path / "none")), "there is no folder"),
        (("watch", str(repo.path)), "is no workspace that imi knows"),
        (("unwatch", str(folder)), "is not watched"),
    ):
        refused = imi("workspace", *words, cwd=repo.path)
        assert refused.code == 1 and sentence in refused.err and refused.err.count("\n") == 1
