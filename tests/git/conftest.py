"""Programs that stand in for git, first in PATH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that puts a shell script in place of git and returns its folder; `$real_git` is the real program."""
    folder, real = tmp_path / "shim", shutil.which("git")
    folder.mkdir()

    def put(script: str) -> Path:
        program = folder / "git"
        program.write_text(f"#!/bin/sh\nreal_git='{real}'\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return folder

    return put


@pytest.fixture
def count_git(shim: Callable[[str], Path], tmp_path: Path) -> Callable[[], int]:
    """Return a function that counts the git processes of imi (not those of the test) since the start of the test."""
    log = tmp_path / "git-processes"
    log.touch()
    shim(f'[ "$GIT_OPTIONAL_LOCKS" = 0 ] && echo started >> "{log}"; exec "$real_git" "$@"')
    return lambda: len(log.read_text().splitlines())
