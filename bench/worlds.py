"""Repositories to measure on, built once a run in a temporary folder."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

_ENV = {
    **os.environ,
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.invalid",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",  # ages that stand
}


def git(folder: str, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, env=_ENV, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"git {args}: {done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class World:
    """A repository with linked worktrees."""

    main: str
    trees: tuple[str, ...]
    files: tuple[str, ...]  # tracked, relative

    @property
    def common_dir(self) -> str:
        return os.path.join(self.main, ".git")


def build(base: str, *, trees: int, files: int, per_folder: int = 10, ignored_folders: int = 0) -> World:
    """`trees` worktrees of `files` tracked files each, two commits ahead of main, some with ignored folders."""
    main = os.path.join(base, "main")
    os.makedirs(main)
    git(main, "init", "-q", "-b", "main")
    names = [f"src/d{number // per_folder:04d}/f{number % per_folder:02d}.py" for number in range(files)]
    for name in names:
        path = os.path.join(main, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"# {name}\n" + "x = 1\n" * 20)
    with open(os.path.join(main, ".gitignore"), "w", encoding="ascii") as file:
        file.write("node_modules/\n*.log\nbuild/\n")
    git(main, "add", "-A")
    git(main, "commit", "-q", "-m", "base")
    paths = []
    for number in range(trees):
        path = os.path.join(base, f"feat-{number:03d}")
        git(main, "worktree", "add", "-q", "-b", f"feat/{number:03d}", path)
        for folder in range(ignored_folders):
            os.makedirs(os.path.join(path, "node_modules", f"p{folder // 50}", f"l{folder % 50}"))
        paths.append(path)
    return World(main, tuple(paths), tuple(names))
