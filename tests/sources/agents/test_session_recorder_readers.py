"""Sessions of a real reader in the registry: the right state after each step, and nothing new from a second read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.actions.history import session_timeline
from imi_monitor.model import session_record
from imi_monitor.model import session_status as life
from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, RUNNING, WAITING
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.agents import session_recorder
from imi_monitor.sources.agents.claude.reader import ClaudeReader
from imi_monitor.sources.agents.sighting_merge import as_agent
from imi_monitor.store import db, session_writer, sessions
from tests.sources.agents.claude_kit import Scene
from tests.store.session_kit import all_rows, registry


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(registry(tmp_path / "iMi.db")) as connection:
        yield connection


def read(scene: Scene, connection: sqlite3.Connection, whole: bool = False) -> tuple[str, sessions.SessionRow]:
    """Read once and record it: (the state now, the recorded row)."""
    now = datetime.fromtimestamp(scene.time, UTC)
    seen = [as_agent(one, Key(host.hostname(), "app", "feat-x"), now) for one in scene.read(whole)]
    for one in seen:
        session = session_record.session_state(one.agent, host.hostname(), host.boot(), now)
        made = session_record.session_record(session, str(scene.worktree), one.events, now, session_recorder.file_size)
        db.transact(connection, session_writer.record, [made])
    return seen[0].agent.state, sessions.find(connection, sessions.SessionFilter())[0]


def shown(row: sessions.SessionRow) -> str:
    """The status shown, independent of the scene's clock."""
    return life.displayed_status(row.status, row.lost)


def test_a_recorded_turn_with_every_kind_of_event(scene: Scene, kept: sqlite3.Connection) -> None:
    claude = scene.claude()
    claude.start()
    read(scene, kept)

    def step(expected: str, seconds: float = 2) -> None:
        state, row = read(scene, kept)
        assert (state, shown(row)) == (expected, expected)
        scene.wait(seconds)

    scene.wait(5)
    claude.prompt("make it with password=hunter2hunter2")
    step(RUNNING)
    claude.tool("Bash", command="export GITHUB_TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ; make")
    step(RUNNING)
    claude.ask()
    step(WAITING, 20)
    claude.result("made", ok=True)
    step(RUNNING)
    claude.tool("Write", file_path=str(scene.worktree / "src" / "new.py"))
    step(RUNNING)
    claude.result("written", ok=True)
    step(RUNNING)
    claude.question("red or blue?")
    step(WAITING, 10)
    claude.result("blue", ok=True)
    step(RUNNING)
    claude.finish("it is blue")
    step(COMPLETED, 30)
    claude.prompt("and now?")
    step(RUNNING, 4)
    claude.esc()
    step(CANCELLED)

    before = all_rows(kept)
    scene.reader = ClaudeReader()  # another monitor, from the beginning
    for _ in range(3):
        read(scene, kept, whole=True)
    assert all_rows(kept) == before, "read again, kept once"

    row = sessions.find(kept, sessions.SessionFilter())[0]
    lines = session_timeline.timeline(kept, row.seq)
    words = [line.word for line in lines]
    assert words.count("tool") == 3 and words.count("prompt") == 2 and words.count("asks") == 2, words
    assert [line.outcome for line in lines if line.word == "tool"] == ["success"] * 3
    assert words[-1] == "stopped" and "finished" in words
    dumped = "\n".join(kept.iterdump())
    assert "hunter2" not in dumped and "ghp_0123456789" not in dumped
    assert [path for (path,) in kept.execute("SELECT path FROM artifacts")] == ["src/new.py"]


def test_a_recorded_session_that_was_killed_and_resumed(scene: Scene, kept: sqlite3.Connection) -> None:
    from tests.sources.agents.test_claude_processes import killed

    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.tool("Bash", command="make")
    assert shown(read(scene, kept)[1]) == RUNNING
    killed(scene, claude)
    state, row = read(scene, kept)
    assert (state, shown(row), row.ended_at is not None) == (DEAD, "interrupted", True)
    scene.wait(60)
    again = scene.claude(claude.session)
    again.start()
    again.prompt("go on")
    state, row = read(scene, kept)
    assert (state, shown(row), row.ended_at) == (RUNNING, RUNNING, None)
    again.finish("done")
    assert shown(read(scene, kept)[1]) == COMPLETED
    assert kept.execute("SELECT count(*) FROM sessions").fetchone() == (1,), "one session through both lives"
