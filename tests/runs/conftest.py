"""A world for each test of runs; what a test leaves running is ended with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import ROOT, Repo
from tests.runs.run_kit import RunWorld, install, kill_runs


@pytest.fixture
def world(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunWorld]:
    monkeypatch.setenv("PATH", f"{install(tmp_path / 'bin', 'claude', 'codex', 'gemini')}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the follower, which the fork server does not start
    home = os.environ["HOME"]
    yield RunWorld(repo, repo.worktree("feat-x"))
    kill_runs(home)
