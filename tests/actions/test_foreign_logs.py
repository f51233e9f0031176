"""Big 3's registries, the jobs of be-agents-service, and logs and tool calls of foreign runs: shown, and never written."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imi_monitor.model import operator_log
from tests.actions.test_watched_workspaces import sessions, universal_agent
from tests.cli.test_http import get, served
from tests.helpers import Repo, imi, imi_argv, tree_hash, wait_for
from tests.limits import LIMIT, read_line
from tests.ui.payloads import PAYLOADS

_CALLS = (
    "CREATE TABLE tool_calls (tool_call_id TEXT PRIMARY KEY, run_id TEXT, step_id TEXT, created_at TEXT, updated_at TEXT,"
    " raw_tool_name TEXT, tool_name TEXT, status TEXT, request_ref TEXT, response_ref TEXT, error_detail TEXT)"
)


def operator_text(task: str, *updates: str) -> str:
    head = f"# Operator Log · ada\n\n**Task:** {task}\n**Created:** 2026-11-01T10:00:00+00:00\n\n## Status\n- Pending dispatch to"
    return "\n".join((f"{head} agent.\n\n---", *updates, ""))


def update(status: str, *more: str) -> str:
    lines = ["## Operator Update", f"- **Status:** {status}", *more, "- **Timestamp:** 2026-11-01T10:05:00+00:00"]
    return "\n" + "\n".join(lines)


def big3(folder: Path) -> Path:
    """Registries and operator logs as Big 3 leaves them."""
    tool = folder / "agents" / "claude_code"
    (tool / "ada").mkdir(parents=True)
    logs = {
        "task-20261101100000.md": operator_text("build the door", update("Task dispatched for execution via CLI.")),
        "task-20261101110000.md": operator_text(
            "paint it", update("Task completed successfully."), "\n### Output\n```\n- **Status:** Task failed.\n```"
        ),
        "task-20261101120000.md": operator_text("sell it", update("Task failed.", "- **Error:** no buyer")),
        "task-20261101130000.md": operator_text("rest"),
    }
    for name, text in logs.items():
        (tool / "ada" / name).write_text(text)
    ada = {
        "session_id": "s-1",
        "tool": "claude_code",
        "type": "agentic_coding",
        "created_at": "2026-11-01T09:00:00+00:00",
    }
    ada |= {"working_dir": str(folder), "operator_files": [f"/elsewhere/ada/{name}" for name in logs]}
    outside = {"tool": "claude_code", "operator_files": ["/etc/passwd", "../../../etc/passwd", "..", 5]}
    registry = {"agents": {"ada": ada, "bob": outside, "../x": ada, "eve": "no object"}}
    (tool / "registry.json").write_text(json.dumps(registry))
    (folder / "agents" / "gemini").mkdir()
    (folder / "agents" / "gemini" / "registry.json").write_text('{"agents": {"tor')
    return folder


def test_registries_of_big_3_are_sessions_items_and_logs(repo: Repo, tmp_path: Path) -> None:
    folder = big3(tmp_path / "content")
    before = tree_hash(folder)
    ran = imi("workspace", "watch", str(folder), "--json", cwd=repo.path)
    assert (ran.data["kind"], ran.data["runs"]) == ("big3", 2)
    assert ran.data["problems"] == ["gemini/registry.json: it is no JSON, or only a part of it"]
    found = sessions(repo, "big3")
    assert set(found) == {"big3:claude_code/ada", "big3:claude_code/bob"}
    assert found["big3:claude_code/ada"]["prompt"] == "rest" and found["big3:claude_code/bob"]["status"] == "unknown"
    items = {one["title"]: one for one in imi("items", "--all", "--json", cwd=repo.path).data["items"]}
    assert {title: one["status"] for title, one in items.items()} == {
        "build the door": "in_progress",
        "paint it": "completed",
        "sell it": "failed",
        "rest": "pending",
    }
    assert items["sell it"]["error"] == "no buyer" and items["sell it"]["agent_id"] == "ada"
    assert "**Task:** rest" in imi("logs", "claude_code/ada", cwd=repo.path).out
    assert imi("logs", "claude_code/bob", cwd=repo.path).code == 1
    assert tree_hash(folder) == before, "not a byte is written there"
    imi("workspace", "watched", cwd=repo.path)
    assert len(imi("items", "--all", "--json", cwd=repo.path).data["items"]) == 4, "nothing is made twice"


def test_jobs_are_judged_by_their_log_then_by_their_process(repo: Repo, tmp_path: Path) -> None:
    jobs = tmp_path / "service" / "logs" / "running-jobs"
    jobs.mkdir(parents=True)
    now = datetime.now(UTC).isoformat()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        for name, pid, at, log in (
            ("done", 4242, now, "[STDOUT] hello\n\n[EXIT] Process exited with code 0"),
            ("failed", living.pid, now, "[STDERR] oh\n[EXIT] Process exited with code 3\n"),
            ("running", living.pid, now, "[STDOUT] at work\n"),
            ("reused", living.pid, "2026-02-08T08:04:02.593Z", "[STDOUT] [EXIT] Process exited with code 0\n"),
            ("gone", 2**22 + 7, now, "[STDOUT] half a li"),
            ("silent", "x", now, None),
        ):
            about = {
                "jobId": name,
                "type": "engineering",
                "targetRepo": "app",
                "pid": pid,
                "status": "running",
                "startTime": at,
            }
            (jobs / f"job-{name}.json").write_text(json.dumps({**about, "logFile": "/etc/passwd"}))
            if log is not None:
                (jobs / f"job-{name}.log").write_text(log)
        (jobs / "job-torn.json").write_text('{"jobId": "jo')
        (jobs / "job-evil.json").write_text(json.dumps({"startTime": [], "pid": True, "type": list(PAYLOADS.values())}))
        os.symlink("/etc/passwd", jobs / "job-evil.log")
        ran = imi("workspace", "watch", str(tmp_path / "service"), "--json", cwd=repo.path)
        living.communicate(b"\n", timeout=LIMIT)
    assert ran.data["problems"] == ["job-torn.json: it is no JSON, or only a part of it"] and ran.data["runs"] == 7
    found: dict[str, dict[str, Any]] = {}
    for one in imi("sessions", "--all", "--json", cwd=repo.path).data["sessions"]:
        found[one["id"].removeprefix("be-agents:job-")] = one
    states = {name: (one["status"], one["detail"]) for name, one in found.items()}
    assert states == {
        "done": ("completed", None),
        "failed": ("failed", "exit status 3"),
        "running": ("running", None),
        "reused": ("dead", f"process {living.pid} is another one by now, and its log has no end"),
        "gone": ("dead", "its process is gone, and its log has no end"),
        "silent": ("unknown", None),
        "evil": ("unknown", None),
    }
    assert imi("logs", "job-gone", cwd=repo.path).out.strip() == "[STDOUT] half a li"
    assert imi("logs", "job-done", "-n", "1", cwd=repo.path).out.strip() == "[EXIT] Process exited with code 0"
    refused = imi("logs", "job-evil", cwd=repo.path)
    assert refused.code == 1 and "root:" not in refused.out + refused.err, "a link leads nowhere"
    with served() as (port, token):
        status, body = get(port, token, "/api/logs/be-agents:job-failed")
        assert (status, body) == (200, b"[STDERR] oh\n[EXIT] Process exited with code 3\n")


def test_tool_calls_and_the_log_of_a_run_of_universal_agent(repo: Repo, tmp_path: Path) -> None:
    folder = universal_agent(tmp_path / "agent")
    base, name = folder / "AGENT_RUN_WORKSPACES", "session_20260415_013645_6b32690a"
    with closing(sqlite3.connect(base / "runtime_state.db")) as connection, connection:
        connection.execute(_CALLS)
        at, end = "2026-04-15T01:40:00+00:00", "2026-04-15T01:40:02+00:00"
        for number, (status, error) in enumerate((("succeeded", None), ("failed", "no network"), ("running", None))):
            row = (f"c{number}", name, "s", at, end, None, f"tool_{number}", status, "in.json", "out.json", error)
            connection.execute("INSERT INTO tool_calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        for number, bad in enumerate(PAYLOADS.values()):
            text = bad.encode("utf-8", "replace").decode()
            row = (f"h{number}{text}", name, "s", text, text, text, text, text, text, text, text)
            connection.execute("INSERT INTO tool_calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    imi("workspace", "watch", str(folder), cwd=repo.path)
    imi("workspace", "watched", cwd=repo.path)
    sql = "SELECT name, status, output FROM tool_calls WHERE id LIKE 'c_' ORDER BY id"
    with closing(sqlite3.connect(Path.home() / ".config/iMi/iMi.db")) as registry:
        assert registry.execute(sql).fetchall() == [
            ("tool_0", "success", "out.json"),
            ("tool_1", "failure", "no network"),
            ("tool_2", "running", "out.json"),
        ]
    shown = imi("session", "show", name, "-n", "2000", cwd=repo.path).out
    told = sorted(line.partition("  tool_")[2] for line in shown.splitlines() if "  tool_" in line)
    assert told[:2] == ["0 in.json  2s", "1 in.json  failed 2s"] and told[2].startswith("2 in.json  running")
    assert "\x1b[2J" not in shown
    log = base / name / "run.log"
    with subprocess.Popen(imi_argv("logs", name, "-f"), stdout=subprocess.PIPE, cwd=repo.path, text=True) as follower:
        try:
            assert follower.stdout is not None and read_line(follower.stdout) == "started\n"
            with log.open("a") as file:
                file.write("wor")
                file.flush()
                file.write("king\n")
            assert read_line(follower.stdout) == "working\n"
            log.write_text("new\n")  # cut, and begun again
            assert read_line(follower.stdout) == "new\n"
        finally:
            follower.terminate()
            follower.wait(LIMIT)


def test_the_shared_folder_of_denker_is_a_session_with_files(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "denker"
    folder.mkdir()
    entry = {"path": "report.md", "agent": "editor", "created": "2025-06-20T10:01:40.000000", "size": 180}
    files = {
        "report.md": {**entry, "agent": "creator", "size": 120},
        "report.md_1750413700": entry,
        "bad": 5,
        "worse": {"path": []},
    }
    files |= {str(number): {"path": bad, "agent": bad, "size": -1} for number, bad in enumerate(PAYLOADS.values())}
    about = {"session_id": "default", "created": "2025-06-20T10:00:00.000000", "files": files}
    (folder / "workspace_metadata.json").write_text(json.dumps(about))
    before = tree_hash(folder)
    config = Path.home() / ".config/iMi/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"[watch]\ncontained = ['{folder}']\n")
    shown = imi("workspace", "watched", "--json", cwd=repo.path).data["workspaces"]
    assert (shown[0]["kind"], shown[0]["runs"]) == ("denker", 1) and tree_hash(folder) == before
    (one,) = [
        row for row in imi("sessions", "--all", "--json", cwd=repo.path).data["sessions"] if row["cli"] == "denker"
    ]
    written = json.loads(imi("session", "show", one["id"], "--json", cwd=repo.path).out.splitlines()[0])["files"]
    assert [(file["size"], file["subagent"]) for file in written if file["path"] == "report.md"] == [(180, "editor")]
    (folder / "workspace_metadata.json").write_text('{"session_id": "def')
    ran = imi("workspace", "watched", cwd=repo.path)
    assert ran.code == 0 and "no JSON" in ran.err


def test_hostile_registries_and_logs() -> None:
    for text in ("", "[]", "{}", '{"agents": []}', "[" * 99_999, "null", '{"agents"'):
        try:
            assert operator_log.read_registry(text) == [], text
        except ValueError as error:
            assert str(error)
    for bad in PAYLOADS.values():
        operator_log.read_registry(
            json.dumps({"agents": {bad: {"operator_files": [bad], "session_id": bad}, "a": {"type": [bad]}}})
        )
        task = operator_log.read_log(operator_text(bad, update(bad)))
        assert task.status in ("pending", "completed", "failed", "in_progress")


def test_a_dashboard_sees_a_new_line_of_an_operator_log(repo: Repo, tmp_path: Path) -> None:
    folder = big3(tmp_path / "content")
    imi("workspace", "watch", str(folder), cwd=repo.path)
    with subprocess.Popen(imi_argv("watch"), stdout=subprocess.DEVNULL, cwd=repo.path) as watching:
        try:
            log = folder / "agents" / "claude_code" / "ada" / "task-20261101130000.md"
            wait_for(lambda: sessions(repo, "big3"))
            log.write_text(log.read_text() + update("Task completed successfully."))

            def status() -> str:
                items = imi("items", "--all", "--json", cwd=repo.path).data["items"]
                return str(next(one["status"] for one in items if one["title"] == "rest"))

            wait_for(lambda: status() == "completed")
        finally:
            watching.terminate()
            watching.wait(LIMIT)
