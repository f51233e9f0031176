"""From an agent's own records to the snapshot, the registry and the claim: the whole way, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from imi_monitor import config, engine, paths
from imi_monitor.engine import Engine
from imi_monitor.model import alert, attention
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import NOT_LOOKED_FOR, Snapshot
from imi_monitor.store import db
from tests.helpers import ROOT, Repo, imi
from tests.limits import LIMIT, read_line

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fake takes its name by prctl")
FAKE = ROOT / "tests/sources/agents/fakes/claude.py"


class Claude:
    """The fake Claude Code in its own process."""

    def __init__(self, folder: Path, tree: Path, session: str = "-") -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(FAKE), str(folder), str(tree), session],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdin and self.process.stdout
        self.session = read_line(self.process.stdout).strip()
        self.do("start")

    def do(self, command: str) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        if command not in ("crash", "exit"):
            assert read_line(self.process.stdout) == "ok\n"

    def end(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "claude"
    folder.mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    return folder


async def until(made: Engine, true: Callable[[Agent], object], seconds: float = LIMIT) -> Snapshot:
    try:
        async with asyncio.timeout(seconds):
            async for snapshot in made.snapshots():
                if any(true(agent) for agent in snapshot.agents):
                    return snapshot
    except TimeoutError:
        pytest.fail(f"did not happen: {made.snapshot.agents}, {made.snapshot.health}")
    raise AssertionError


def snapshot_then(snapshot: Snapshot, **before: bool) -> Snapshot:
    """Return the snapshot with another state of its only agent."""
    return replace(snapshot, agents=(replace(snapshot.agents[0], **before),))


def live(repo: Repo, settings: config.Settings | None = None) -> object:
    return engine.open_engine(paths.default_database(), [str(repo.path / ".git")], settings=settings)


def test_the_states_of_an_agent_appear_and_are_recorded(repo: Repo, home: Path) -> None:  # S2.14, S2.21, S3.1-S3.8
    tree = repo.worktree("feat-a")
    claude = Claude(home, tree.path)

    async def work() -> None:
        async with live(repo) as made:  # type: ignore[attr-defined]
            await until(made, lambda one: one.session == claude.session and one.state == "completed")
            claude.do("prompt make it fast")
            await until(made, lambda one: one.state == "running")
            claude.do("tool Bash pytest -q")
            seen = await until(made, lambda one: str(one.truth.tool) == "Bash pytest -q")
            (agent,) = seen.agents_in(next(one.key for one in seen.worktrees if one.key.worktree == "feat-a"))
            assert (agent.cli, agent.pid, agent.truth.source, agent.claim) == (
                "claude",
                claude.process.pid,
                "registry",
                "none",
            )
            claude.do("ask")
            await until(made, lambda one: one.state == "waiting_for_input" and str(one.truth.tool) == "Bash pytest -q")
            claude.do("register busy")
            await until(made, lambda one: one.state == "running")
            claude.process.send_signal(signal.SIGSTOP)
            stopped = await until(made, lambda one: one.suspended)
            assert stopped.agents[0].state == "running", "suspended is not dead"
            assert attention.standing(stopped.agents[0]) == "suspended"
            assert alert.find_alerts(snapshot_then(stopped, suspended=False), stopped) == [], "no alert"
            (told,) = imi("agents", "--json", cwd=repo.path).data["agents"]
            assert (told["state"], told["suspended"], told["pid"]) == ("running", True, claude.process.pid)
            assert "feat-a  suspended: " in imi("agents", cwd=repo.path).out
            assert "its process is suspended (ctrl-z" in imi("agents", "explain", "feat-a", cwd=repo.path).out
            claude.process.send_signal(signal.SIGCONT)
            going_on = await until(made, lambda one: not one.suspended)
            assert (going_on.agents[0].state, going_on.agents[0].truth.ended) == ("running", False)
            assert "suspended" not in imi("agents", cwd=repo.path).out
            claude.do("result")
            claude.do("finish it is fast now")
            await until(made, lambda one: one.state == "completed")
            claude.do("prompt and now die")
            await until(made, lambda one: one.state == "running")
            claude.do("crash")
            (dead,) = (await until(made, lambda one: one.state == "dead")).agents
            assert attention.needs_attention(dead)
            made.mark_looked_at(dead)
            seen = await until(made, lambda one: one.looked_at)
            assert (seen.agents[0].state, attention.standing(seen.agents[0])) == ("dead", "done")
            assert not attention.needs_attention(seen.agents[0])
            assert alert.find_alerts(snapshot_then(seen, looked_at=False), seen) == []

    try:
        asyncio.run(work())
    finally:
        claude.end()
    with closing(db.connect(paths.default_database())) as connection:
        sessions = connection.execute("SELECT cli, status FROM sessions").fetchall()
        calls = connection.execute("SELECT name, status FROM tool_calls").fetchall()
    assert [provider for provider, _ in sessions] == ["claude"]
    assert calls == [("Bash", "success")]
    shown = imi("session", "show", claude.session[:8], cwd=repo.path)
    assert shown.code == 0, shown.err
    assert "make it fast" in shown.out
    assert "pytest -q" in shown.out


def test_an_agent_in_a_worktree_of_another_owner_is_an_intruder(repo: Repo, home: Path) -> None:
    tree = repo.worktree("feat-a")
    assert imi("claim", "feat-a", "--agent", "codex-1", cwd=repo.path).code == 0
    claude = Claude(home, tree.path)

    async def work() -> None:
        async with live(repo) as made:  # type: ignore[attr-defined]
            seen = await until(made, lambda one: one.intruder)
            assert seen.agents[0].claimed_by == "codex-1"
            assert imi("release", "feat-a", "--agent", "codex-1", cwd=repo.path).code == 0
            await until(made, lambda one: one.claim == "none")

    try:
        asyncio.run(work())
    finally:
        claude.end()


def test_with_auto_claim_an_agent_holds_its_worktree_while_it_lives(
    repo: Repo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = repo.worktree("feat-a")
    Path(paths.config_file()).parent.mkdir(parents=True, exist_ok=True)
    Path(paths.config_file()).write_text("auto_claim = true\n")
    assert imi("list", cwd=repo.path).code == 0
    claude = Claude(home, tree.path)

    async def work() -> None:
        async with live(repo, config.load()) as made:  # type: ignore[attr-defined]
            seen = await until(made, lambda one: one.claim == "mine")
            assert seen.agents[0].name.startswith("claude-")
            assert imi("claim", "feat-a", "--agent", "codex-1", cwd=repo.path).code == 1
            claude.do("exit")
            async with asyncio.timeout(LIMIT):
                while imi("claim", "feat-a", "--agent", "codex-1", cwd=repo.path).code:
                    await asyncio.sleep(0.2)

    try:
        asyncio.run(work())
    finally:
        claude.end()


def test_agents_that_are_not_tracked_are_reported_as_such(repo: Repo) -> None:
    off = config.Settings()
    off.set("agents.track_activity", False, "test")

    async def work() -> None:
        async with live(repo, off) as made:  # type: ignore[attr-defined]
            async for snapshot in made.snapshots():
                if snapshot.has_read("agents"):
                    assert [one.note for one in snapshot.health if one.source == "agents"] == [NOT_LOOKED_FOR]
                    assert not snapshot.sees_agents
                    return

    asyncio.run(asyncio.wait_for(work(), 30))
