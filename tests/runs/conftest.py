"""A world for each test of runs; what a test leaves running is ended with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from imi_monitor import host
from tests.helpers import ROOT, Repo
from tests.runs.run_kit import RunWorld, install, kill_followers


@pytest.fixture
def world(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunWorld]:
    monkeypatch.setenv("PATH", f"{install(tmp_path / 'bin', 'claude', 'codex', 'gemini')}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the follower, which the fork server does not start
    home = os.environ["HOME"]
    yield RunWorld(repo, repo.worktree("feat-x"))
    kill_followers()
    for pids in host.processes_by_variable("IMI_RUN_DIR").values():
        for pid in pids:
            if f"HOME={home}".encode() in _environment(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
