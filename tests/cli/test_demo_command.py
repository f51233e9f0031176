"""`imi demo`: each front end on the temporary repository, which is deleted however the command ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.helpers import ROOT, imi, imi_argv, use_temporary_folder
from tests.limits import LIMIT, read_line
from tests.ui import tmux_kit
from tests.ui.tmux_kit import MISSING, Tmux

NAMES = {"feat-api", "feat-ui", "fix-bug", "devops-ci", "feat-search", "review-123", "trunk-main"}


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where demonstrations build their worlds, to see what stays."""
    folder = tmp_path / "room"
    folder.mkdir()
    use_temporary_folder(monkeypatch, folder)
    return folder


def test_demo_status_prints_once_and_deletes_its_folder(room: Path) -> None:
    told = imi("demo", "status", "--once")
    assert told.code == 0, told.err
    assert {line.split()[0] for line in told.out.splitlines()[1:] if line} >= NAMES
    assert list(room.glob("imi-demo-*")) == []


def test_demo_watch_streams_for_the_given_seconds(room: Path) -> None:
    told = imi("demo", "watch", "--seconds", "6", "--pace", "0.2")
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert {tree["worktree"] for tree in lines[0]["worktrees"]} == NAMES
    assert any(line["type"] == "change" for line in lines), "the agents did nothing"
    agents = [*lines[0]["agents"], *(line["agent"] for line in lines if line["type"] == "agent")]
    assert {agent["cli"] for agent in agents} == {"claude", "codex", "gemini"}
    assert {"running"} <= {agent["state"] for agent in agents if agent["cli"] == "claude"}
    assert any(agent["tool"] and agent["tool"]["name"] == "Edit" for agent in agents if agent["cli"] == "claude")
    assert any(line["type"] == "run" or line.get("runs") for line in lines), "imi started no agent"
    assert list(room.glob("imi-demo-*")) == []


def test_a_terminated_demo_deletes_its_folder(room: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(imi_argv("demo", "watch"), stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert '"snapshot"' in read_line(process.stdout)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert list(room.glob("imi-demo-*")) == []


def test_the_demo_dashboard_needs_a_terminal(room: Path) -> None:
    refused = imi("demo", "dashboard")
    assert (refused.code, refused.out) == (1, "")
    assert "needs a terminal" in refused.err
    assert list(room.glob("imi-demo-*")) == []


@pytest.mark.skipif(MISSING, reason="tmux is not installed here")
def test_on_a_terminal_the_demo_is_the_dashboard(tmp_path: Path, room: Path) -> None:
    with Tmux(tmp_path, (140, 40), [*tmux_kit.imi("demo"), "--pace", "0.3"]) as tmux:
        tmux.until(lambda now: "7 worktrees" in now and all(name in now for name in NAMES))
        tmux.until("codex-1")
        tmux.keys("q")
        tmux.until(lambda _: not list(room.glob("imi-demo-*")))
