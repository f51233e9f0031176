"""State files: what runs and batches write comes back after the registry is gone; those of be-agents-service are read."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model import state_file
from tests.helpers import Repo, imi, wait_for
from tests.runs.conftest import world as world
from tests.runs.run_kit import RunWorld, kill_followers, registry
from tests.ui.payloads import PAYLOADS

_COLUMNS = (
    "id, title, text, status, priority, batch, source, agent_id, worktree_name, session_id, run_id, error, retries"
)


def rows(sql: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{registry()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))


def be_agents(folder: Path) -> Path:
    """A session as be-agents-service leaves it."""
    session = folder / ".compound-state" / "session-1770537842"
    write(
        session,
        session={
            "sessionId": "session-1770537842",
            "createdAt": "2026-02-08T08:04:02Z",
            "status": "active",
            "agents": ["orchestrator", "backend", "verification"],
        },
        orchestrator={
            "status": "planning",
            "startTime": "2026-02-08T08:04:02Z",
            "targetRepo": "/x/repo",
            "priorityFile": "reports/priorities-2026-02-08.md",
            "branchName": "feature/task-name",
            "prUrl": "https://github.com/x/repo/pull/1",
            "endTime": "2026-02-08T09:00:00Z",
        },
        backend={
            "agentName": "backend",
            "status": "success",
            "startTime": "2026-02-08T08:05:00Z",
            "endTime": "2026-02-08T08:30:00Z",
            "completedTasks": [{"id": "x", "description": "Implemented GraphQL resolvers"}],
        },
        verification={
            "status": "blocked",
            "startedAt": "2026-02-08T08:31:00Z",
            "blockers": [{"type": "error", "message": "Build failed", "requiresHuman": False}],
        },
    )
    return session


def test_registry_deleted_and_rebuilt_from_its_state_files(
    world: RunWorld,
) -> None:  # S4.18 S4.19 S4.22 S4.23 S4.24 S4.30
    world.repo.write("reports/priorities-2026-11-19.md", "# Priority 1\nsay hello\n# Priority 2\nfail [[die]]\n")
    for _ in range(2):
        world.imi(
            "batch", "reports/priorities-2026-11-19.md", "--agent", "claude", "--parallel", "2", cwd=world.repo.path
        )
    kill_followers()
    items, sessions = (
        rows(f"SELECT {_COLUMNS} FROM items ORDER BY id"),
        rows("SELECT id, agent_id, worktree_name, status, branch FROM sessions WHERE cli = 'claude' ORDER BY id"),
    )
    assert [row[3] for row in items] == ["completed", "failed"] and len(sessions) == 2
    for end in ("", "-wal", "-shm"):
        Path(registry() + end).unlink(missing_ok=True)
    assert world.imi("sync-state", "--all", cwd=world.repo.path).code == 1, (
        "a registry that vanished is never made in silence"
    )
    world.imi("doctor", "--new-registry", cwd=world.repo.path)
    assert world.imi("sync-state", "--all", cwd=world.repo.path).code == 0
    assert rows(f"SELECT {_COLUMNS} FROM items ORDER BY id") == items
    kept = "SELECT id, agent_id, worktree_name, status, branch FROM sessions WHERE cli = 'claude' ORDER BY id"
    assert rows(kept) == sessions
    again = world.imi("sync-state", "--all", "--json", cwd=world.repo.path).data
    assert (again["items"], again["sessions"]) == (0, 0), "the same files give the same rows"
    world.imi("item", "edit", "item-1", "--title", "newer", cwd=world.repo.path)
    world.imi("sync-state", "--all", cwd=world.repo.path)
    assert rows("SELECT title FROM items WHERE id = 'item-1'") == [("newer",)]
    assert "added item-3" in world.imi("item", "add", "next", cwd=world.repo.path).out


def test_a_run_writes_its_state_when_it_starts_and_ends(world: RunWorld) -> None:  # S4.17 S4.34
    world.imi("item", "add", "ask me", "--text", "[[ask]]", cwd=world.repo.path)
    ran = world.imi("item", "start", "1", "claude", "--in", "feat-x", "--way", "task", "--json")
    assert ran.code == 0, ran
    run = ran.data["id"]
    home = world.repo.path.parent / "app.worktrees" / ".compound-state"
    (folder,) = home.iterdir()
    assert folder.name.startswith("session-") and folder.name.removeprefix("session-").isdecimal()
    agent = next(one for one in folder.glob("claude-*.json"))
    assert json.loads(agent.read_text())["status"] in ("pending", "in_progress")
    world.wait(run, "asks")
    again = world.imi("item", "start", "1", "claude")
    assert again.code == 1 and "works on item-1" in again.err
    world.imi("answer", run, "yes")
    world.wait(run, "idle")
    world.imi("stop", run)
    wait_for(lambda: json.loads(agent.read_text())["status"] == "completed")
    state = json.loads(agent.read_text())
    assert state["completedTasks"] == [{"id": "item-1", "description": "ask me"}] and state["endTime"]
    ours = state["imi"]
    assert ours["branch"] == "feat/x" and ours["durationSeconds"] > 0 and ours["session"]["status"]
    assert json.loads((folder / "session.json").read_text())["agents"] == [agent.stem]
    assert [one.name for one in folder.iterdir() if one.name.startswith(".")] == [], "no temporary file is left"


def test_a_session_of_be_agents_service(repo: Repo, tmp_path: Path) -> None:
    be_agents(tmp_path / "service")
    for changed in (3, 0):
        ran = imi("sync-state", "--all", "--from", str(tmp_path / "service"), "--json", cwd=repo.path)
        assert ran.data["sessions"] == changed, ran
    found = rows("SELECT external_id, title, status, error, agent_id, batch, started_at FROM items ORDER BY seq")
    batch = "reports/priorities-2026-02-08.md"
    begun = ("2026-02-08T08:05:00.000000+00:00", "2026-02-08T08:31:00.000000+00:00")
    assert found == [
        *[
            (
                "task-session-1770537842-backend",
                "Implemented GraphQL resolvers",
                "completed",
                None,
                "backend",
                batch,
                begun[0],
            )
        ],
        (
            *("task-session-1770537842-verification", "verification of session-1770537842", "blocked", "Build failed"),
            *("verification", batch, begun[1]),
        ),
    ]
    leader = rows("SELECT id, status, branch, metadata FROM sessions WHERE agent_id = 'orchestrator'")[0]
    assert leader[:3] == ("session-1770537842", "planning", "feature/task-name")
    assert json.loads(leader[3])["pr_url"] == "https://github.com/x/repo/pull/1"


def test_files_that_are_torn_or_hostile_cost_only_themselves(repo: Repo, tmp_path: Path) -> None:
    folder = be_agents(tmp_path / "service")
    (folder / "torn.json").write_text('{"status": "run')
    (folder / "list.json").write_text("[]")
    os.mkfifo(folder / "pipe.json")
    (folder / "link.json").symlink_to("/etc/passwd")
    for number, bad in enumerate(PAYLOADS.values()):
        own = {
            "item": {"id": bad, "title": bad, "status": "pending"},
            "session": {"id": bad, "agent_id": bad, "cli": bad},
        }
        text = {"agentName": bad, "status": bad, "description": bad, "blockers": [bad], "startTime": bad, "imi": own}
        write(folder, **{f"bad{number}": text})
    ran = imi("sync-state", "--all", "--from", str(folder), cwd=repo.path)
    assert ran.code == 0 and "torn.json is no JSON object" in ran.err and "list.json is no JSON object" in ran.err
    shown = imi("items", cwd=repo.path).out + imi("sessions", cwd=repo.path).out
    assert "\x1b[2J" not in shown and "\u202e" not in shown


def test_a_hundred_sessions_take_less_than_a_second(repo: Repo, tmp_path: Path) -> None:
    for number in range(100):
        os.rename(be_agents(tmp_path), tmp_path / ".compound-state" / f"session-{1_770_000_000 + number}")
        session = tmp_path / ".compound-state" / f"session-{1_770_000_000 + number}" / "session.json"
        session.write_text(json.dumps({"sessionId": session.parent.name, "createdAt": "2026-02-08T08:04:02Z"}))
    begun = time.process_time(), time.monotonic()
    ran = imi("sync-state", "--all", "--from", str(tmp_path), "--json", cwd=repo.path)
    assert ran.data == {"folders": 100, "sessions": 300, "items": 200, "problems": []}
    assert time.monotonic() - begun[1] < 10


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--all",), 1, "there are no state files in "),
        (("session-1", "--all"), 2, "give one session or --all, not both"),
        (("session-1", "--from", "/nowhere"), 1, "there are no session session-1 in /nowhere"),
    ],
)
def test_bad_input_is_one_sentence(repo: Repo, words: tuple[str, ...], code: int, sentence: str) -> None:
    ran = imi("sync-state", *words, cwd=repo.path)
    assert ran.code == code and ran.err.startswith(f"imi: {sentence}") and ran.err.count("\n") == 1


def test_file_names_of_agents_hold_no_path() -> None:
    names = [state_file.agent_file(one) for one in ("claude-1", "../../x", "orchestrator", "", "a\0b/c")]
    assert names == ["claude-1.json", "-..-x.json", "agent-orchestrator.json", "agent-.json", "a-b-c.json"]
