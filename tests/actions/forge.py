"""A code forge on this disk: bare repositories below `forge/`, which `https://github.com/…` leads to by `insteadOf`."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.helpers import Repo, git


@dataclass(frozen=True)
class Forge:
    """`acme/app` with pull request 123 from its own branch, 124 from alice's fork, and merge request 7."""

    root: Path
    app: Repo  # a clone of acme/app, where `imi` is run
    work: Repo  # another clone, where the authors work

    @classmethod
    def create(cls, tmp_path: Path) -> Forge:
        root = tmp_path / "forge"
        git("config", "--global", f"url.{root}/.insteadOf", "https://github.com/", cwd=tmp_path)
        work = Repo.create(tmp_path / "work")
        for project in ("acme/app", "alice/app", "alice/app-fork"):
            git("init", "-q", "--bare", "-b", "main", str(root / f"{project}.git"), cwd=tmp_path)
            work.git("push", "-q", f"https://github.com/{project}.git", "main")
        git("clone", "-q", "https://github.com/acme/app.git", str(tmp_path / "app"), cwd=tmp_path)
        made = cls(root, Repo(tmp_path / "app"), work)
        made.propose(123, "feat-add-auth", to="acme/app")
        made.propose(124, "fix/typo", to="alice/app-fork")
        made.push_ref("refs/merge-requests/7/head", made.propose(None, "mr-branch"))
        return made

    @classmethod
    def copy(cls, pattern: Path, tmp_path: Path) -> Forge:
        """The same again; its repositories know each other by `https://github.com/…` only, so they can be moved."""
        for name in ("forge", "app", "work"):
            shutil.copytree(pattern / name, tmp_path / name, symlinks=True)
        git("config", "--global", f"url.{tmp_path / 'forge'}/.insteadOf", "https://github.com/", cwd=tmp_path)
        return cls(tmp_path / "forge", Repo(tmp_path / "app"), Repo(tmp_path / "work"))

    def bare(self, project: str = "acme/app") -> Path:
        return self.root / f"{project}.git"

    def propose(self, number: int | None, branch: str, *, to: str | None = None, start: str = "main") -> str:
        """A commit on `branch` in the project `to`, and the forge's ref for it."""
        self.work.git("switch", "-q", "-C", branch, start)
        sha = self.add_commit(f"{branch}.txt")
        if to is not None:
            self.work.git("push", "-q", "-f", f"https://github.com/{to}.git", branch)
        if number is not None:
            self.push_ref(f"refs/pull/{number}/head", sha)
        return sha

    def more(self, number: int, branch: str, *, to: str = "acme/app", name: str = "more.txt") -> str:
        """Another commit of the author's."""
        self.work.git("switch", "-q", branch)
        sha = self.add_commit(name)
        self.work.git("push", "-q", "-f", f"https://github.com/{to}.git", branch)
        self.push_ref(f"refs/pull/{number}/head", sha)
        return sha

    def add_commit(self, name: str) -> str:
        target = self.work.path / name
        old = target.read_text() if target.exists() else ""
        self.work.write(name, f"{old}{os.urandom(4).hex()}\n")
        return self.work.commit(f"change {name}")

    def push_ref(self, ref: str, sha: str, project: str = "acme/app") -> None:
        self.work.git("push", "-q", "-f", f"https://github.com/{project}.git", f"{sha}:{ref}")

    def at(self, branch: str, project: str = "acme/app") -> str:
        return git("rev-parse", f"refs/heads/{branch}", cwd=self.bare(project))
