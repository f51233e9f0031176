"""Hand-written runs: asking, at work, in the queue, crashed; in worktrees and in run folders alone."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from imi_monitor.model import agent as states
from imi_monitor.model import run as words
from imi_monitor.model import watched_run
from imi_monitor.model.agent import SessionFacts, ToolCall
from imi_monitor.model.foreign_run import ForeignRun
from imi_monitor.model.run import Question, Run, RunFile
from imi_monitor.model.run_agents import RunAgents
from imi_monitor.model.snapshot import Snapshot, SourceHealth
from imi_monitor.runs import follower_process, launch_folder
from imi_monitor.store import db, runs
from tests.ui import sample_agents, sample_snapshots
from tests.ui.sample_snapshots import NOW, ago, key

FOLDER = "/home/ada/.local/share/imi/AGENT_RUN_WORKSPACES/session_20260127_140000"


def run(ident: str, program: str, where: str | None, shown: str, **other: Any) -> Run:
    """A run whose agent works since a minute, if `other` says nothing else."""
    made = Run(
        id=ident * 4,
        program=program,
        agent=f"{program}-{ident}",
        way="task",
        status=words.ALIVE,
        state=states.RUNNING,
        shown=shown,
        since=ago(60),
        detail=None,
        session=f"s-{ident}",
        key=None if where is None else key(where),
        cwd=FOLDER if where is None else f"/home/ada/code/app/{where}",
        folder=f"{FOLDER}_{ident}",
        mode="ask",
        dangerous=False,
        prompt="write the login page",
        pid=sample_agents.pid(ident),
        pid_started="1",
        created_at=ago(90),
        ended_at=None,
        facts=SessionFacts(started_at=ago(80), tokens_in=12_000, tokens_out=2_400),
    )
    return replace(made, **other)


FILES = (
    RunFile("work_products/report.md", 2140, ago(40)),
    RunFile("search_results/oauth-device-flow_140101_c3.json", 18_200, ago(55)),
    RunFile("workbench_activity/log.txt", 640, ago(58)),
)
ASKS = run(
    "1b2c3d4e",
    "claude",
    None,
    "asks",
    state=states.WAITING,
    question=Question("q1", "Bash", "permission for Bash npm publish --dry-run", ago(45)),
    files=FILES,
)
WORKS = run("5a6b7c8d", "codex", "fix-bug", "works", tool=ToolCall("Bash", "cargo test"), files=FILES[:1])
QUEUED = run(
    "9e8f7a6b", "gemini", None, "queued", status=words.QUEUED, state=None, session=None, pid=None, place=1, facts=None
)
CRASHED = run(
    "0c1d2e3f",
    "claude",
    "devops-ci",
    "crashed",
    status=words.CRASHED,
    detail="its process ended by signal -9 in the middle of its work",
    ended_at=ago(600),
    since=ago(600),
    resumable=True,
)
DONE = run(
    "4d5e6f70",
    "opencode",
    None,
    "completed",
    status="completed",
    state=states.COMPLETED,
    ended_at=ago(900),
    since=ago(900),
    prompt="collect what others write about device login",
    files=FILES[1:],
)


def with_runs(world: Snapshot, *runs: Run) -> Snapshot:
    """The snapshot with these runs, as the engine makes it; the dashboard adds the rows of those without a worktree."""
    health = (*world.health, SourceHealth("runs", NOW.isoformat(), None))
    agents = RunAgents().join(world.agents, runs)
    return replace(world, runs=runs, agents=agents, health=health)


def walled() -> Snapshot:
    """The same, with an agent behind a wall in a worktree, and one in a contained workspace."""
    works, queued = (
        replace(WORKS, wall="write"),
        replace(QUEUED, wall="strict", workspace="/tmp/denker_workspace/default"),
    )
    return with_runs(sample_snapshots.busy(), queued, ASKS, works, CRASHED, DONE)


def shared() -> Snapshot:
    """Two agents in one contained workspace, of which one asks, and one that is done in a run folder."""
    flat = {"wall": "strict", "workspace": "/tmp/denker_workspace/default"}
    return with_runs(sample_snapshots.busy(), replace(QUEUED, **flat), replace(ASKS, **flat), DONE)


def started() -> Snapshot:
    """Two agents of the user and five runs: one asks, one works, one waits in the queue, one crashed, one is done."""
    world = sample_agents.with_agents(sample_snapshots.busy(), sample_agents.EDITS, sample_agents.ASKS)
    return with_runs(world, QUEUED, ASKS, WORKS, CRASHED, DONE)


def _watched(name: str, status: str, **other: Any) -> Run:
    """A run of universal_agent, as its workspace says it, if `other` says nothing else."""
    given: dict[str, Any] = {
        "name": name,
        "folder": f"/srv/agent/AGENT_RUN_WORKSPACES/{name}",
        "status": status,
        "started_at": ago(900),
        "updated_at": ago(40),
        "prompt": "compare the offers of three suppliers",
        "log": f"/srv/agent/AGENT_RUN_WORKSPACES/{name}/run.log",
    }
    files = other.pop("files", ())
    return replace(watched_run.of_run(ForeignRun(**{**given, **other})), files=files)


WATCHED_FILES = (
    RunFile("run.log", 18_400, ago(40)),
    RunFile("work_products/report.html", 9_120, ago(95)),
    RunFile("search_results/crawl_140055.json", 41_000, ago(400)),
)
WATCHED_WORKS = _watched("session_20260127_134711_6b32690a", states.RUNNING, files=WATCHED_FILES)
WATCHED_ASKS = _watched("run_42", states.WAITING, prompt="which of the two contracts?", updated_at=ago(300))
WATCHED_FAILED = _watched("codex/reviewer", states.FAILED, program="big3", agent="reviewer", problem="no network")
WATCHED_DONE = _watched("job-1770000000000-abc1234", states.COMPLETED, program="be-agents", updated_at=ago(1200))


def watching() -> Snapshot:
    """Two agents of the user, a run of the user, and four of other programs."""
    world = sample_agents.with_agents(sample_snapshots.busy(), sample_agents.EDITS, sample_agents.ASKS)
    watched = (WATCHED_WORKS, WATCHED_ASKS, WATCHED_FAILED, WATCHED_DONE)
    agents = RunAgents().join(world.agents, (ASKS, *watched))
    health = (*world.health, SourceHealth("runs", NOW.isoformat(), None))
    return replace(world, runs=(ASKS,), watched=watched, agents=agents, health=health)


STALLED = run(
    "7f8091a2",
    "claude",
    "feat-ui",
    "stalled",
    since=ago(1500),
    created_at=ago(1500),
    mode="edits",
    prompt="draw the settings page anew",
)
FAILED = run(
    "8091a2b3",
    "gemini",
    "feat-docs",
    "failed",
    status="failed",
    state=states.FAILED,
    detail="its process ended with exit status 7 in the middle of its work",
    ended_at=ago(4000),
    since=ago(4000),
    created_at=ago(4100),
)


def jobs() -> Snapshot:
    """Runs in each state, the newest first, and two of other programs."""
    queued, crashed, done = (
        replace(QUEUED, created_at=ago(20)),
        replace(CRASHED, created_at=ago(2000)),
        replace(DONE, created_at=ago(3000)),
    )
    asks = replace(ASKS, created_at=ago(60))
    world = with_runs(sample_snapshots.busy(), queued, asks, WORKS, STALLED, crashed, done, FAILED)
    return replace(world, watched=(WATCHED_WORKS, WATCHED_FAILED))


_SAID = (
    (88, "user", [{"type": "text", "text": "write the login page\nwith a device code"}]),
    (84, "assistant", [{"type": "text", "text": "I look at how the other pages are made first."}]),
    (83, "assistant", [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "npm test -- login"}}]),
    (62, "user", [{"type": "tool_result", "tool_use_id": "c1", "content": "2 failing", "is_error": True}]),
    (
        50,
        "assistant",
        [{"type": "text", "text": "Both fail because the page is missing. It is written; now the package."}],
    ),
    (
        45,
        "assistant",
        [{"type": "tool_use", "id": "c2", "name": "Bash", "input": {"command": "npm publish --dry-run"}}],
    ),
)


@contextmanager
def kept(database: str, snapshot: Snapshot) -> Iterator[None]:
    """The runs of a world in a registry, and what the first one that asks has said. Nothing follows them."""
    lock = follower_process.lock(database)
    assert lock is not None
    connection = db.connect(database)
    try:
        for one in sorted(snapshot.runs, key=lambda one: one.created_at):
            db.transact(connection, _store, one)
        _write_output(ASKS)
        yield
    finally:
        connection.close()
        os.close(lock)


def _store(connection: sqlite3.Connection, one: Run) -> None:
    values = {
        "id": one.id,
        "program": one.program,
        "way": one.way,
        "agent_id": one.agent,
        "user": "ada",
        "session": one.session,
        "repo_name": None if one.key is None else one.key.repo,
        "worktree_name": None if one.key is None else one.key.worktree,
        "cwd": one.cwd,
        "folder": one.folder,
        "prompt": one.prompt,
    }
    row = runs.insert(connection, values, {"mode": one.mode, "dangerous": one.dangerous})
    now = {
        "status": one.status,
        "state": one.state,
        "detail": one.detail,
        "created_at": one.created_at,
        "started_at": None if one.status == words.QUEUED else one.created_at,
        "active_at": one.since if one.shown == words.STALLED else ago(1),
        "ended_at": one.ended_at,
    }
    connection.execute(
        f"UPDATE runs SET {', '.join(f'{name} = ?' for name in now)} WHERE seq = ?", (*now.values(), row.seq)
    )
    if one.question is not None:
        runs.record_asks(connection, row.seq, [one.question], [])


def _write_output(one: Run) -> None:
    folder = launch_folder.folder_of(one.id)
    shutil.rmtree(folder.path, ignore_errors=True)  # of an earlier pass over the same pictures
    folder.make({}, {}, one.prompt or "")
    with open(folder.file("out"), "w", encoding="utf-8") as file:
        for seconds, kind, content in _SAID:
            said = {"role": kind, "content": content}
            record = {"type": kind, "timestamp": ago(seconds), "session_id": one.session, "message": said}
            file.write(json.dumps(record) + "\n")
