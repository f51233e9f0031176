"""Homes of a team for tests: each with a HOME, a registry and a repository of its own, and the real `imi` in processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import ROOT, Ran, Repo, imi, imi_argv
from tests.limits import LIMIT
from tests.ui.pty_kit import Terminal

REMOTE = "git@github.com:acme/App.git"


class TeamHome:
    """One machine: its name, its HOME, its clone `app` with the worktree `feat-NAME`."""

    def __init__(self, folder: Path, name: str, redis: str, *, host: str | None = None) -> None:
        self.name = name
        self.home = folder / name
        self.home.mkdir(parents=True)
        (self.home / ".gitconfig").write_text(Path(os.environ["GIT_CONFIG_GLOBAL"]).read_text())
        self.env = {"HOME": str(self.home), "IMI_HOST": host or name, "IMI_REDIS_URL": redis, "USER": "ada"}
        self.env["GIT_CONFIG_GLOBAL"] = str(self.home / ".gitconfig")
        self.repo = Repo.create(self.home / "app")
        self.repo.git("remote", "add", "origin", REMOTE)
        self.tree = self.repo.worktree(f"feat-{name}")
        assert self.imi("claim", f"feat-{name}", "--agent", f"agent-{name}").code == 0

    def imi(self, *words: str) -> Ran:
        return imi(*words, cwd=self.repo.path, env=self.env)

    def dashboard(self) -> Terminal:
        """The dashboard in a terminal of its own."""
        return Terminal(imi_argv("monitor"), cwd=self.repo.path, size=(140, 40), env=self.env)

    @contextmanager
    def process(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`imi WORDS` in the background; it is ended by SIGTERM, and by force if that does not help."""
        process = subprocess.Popen(
            imi_argv(*words),
            cwd=self.repo.path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate(timeout=LIMIT)
                raise
