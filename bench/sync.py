"""`imi sync` of 100 worktrees: links per second, made and verified, and what a look at links that are right costs. # S2.53"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from bench.common import IMI, Row, process

WORKTREES = 100
NAMES = (
    ".env",
    ".jarad-config",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    "certs/dev.pem",
    "a",
    "b",
    "c",
    "d",
    "e",
)
LINKS = (WORKTREES + 1) * len(NAMES)
ROUNDS = 5
LEAST = 1000.0


def run() -> Iterator[Row]:
    with _cluster() as (home, env):
        trunk = os.path.join(home, "trunk-main")

        def sync() -> None:
            process([IMI, "sync"], env=env, cwd=trunk)

        first = _rate(sync, lambda: _clear(home))
        again = _rate(sync, lambda: None)
        floor = _rate(lambda: _plain(home), lambda: _clear(home))
    name = f"sync of {WORKTREES} worktrees, the whole command"
    yield Row(f"{name}: made", first, "link/s", floor, "os.symlink", None, LEAST, at_least=True)
    yield Row(f"{name}: only verified", again, "link/s", floor, "os.symlink", None, LEAST, at_least=True)


def _rate(act: Callable[[], None], before: Callable[[], None]) -> float:
    """Links per second, the median of some rounds."""
    seconds = []
    for _ in range(ROUNDS):
        before()
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    return LINKS / median(seconds)


@contextmanager
def _cluster() -> Iterator[tuple[str, dict[str, str]]]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as root:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "IMI_", "XDG_"))}
        env.update(HOME=root, GIT_CONFIG_NOSYSTEM="1")
        home = os.path.join(root, "cluster")
        trunk = os.path.join(home, "trunk-main")
        os.makedirs(trunk)
        identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"]

        def git(*words: str) -> None:
            subprocess.run(["git", *identity, *words], cwd=trunk, env=env, check=True, capture_output=True)

        git("init", "-q", "-b", "main")
        for number in range(200):
            path = os.path.join(trunk, f"src/{number % 10}/{number}.py")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(f"{number}\n")
        git("add", "-A")
        git("commit", "-q", "-m", "first")
        for number in range(WORKTREES):
            git("worktree", "add", "-q", "-b", f"feat/{number}", os.path.join(home, f"feat-{number}"))
        for name in NAMES:
            path = os.path.join(home, "sync", "repo", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write("shared\n")
        yield home, env


def _worktrees(home: str) -> list[str]:
    return [os.path.join(home, name) for name in os.listdir(home) if name.startswith(("feat-", "trunk-"))]


def _clear(home: str) -> None:
    for path in _worktrees(home):
        for name in NAMES:
            if os.path.lexists(os.path.join(path, name)):
                os.unlink(os.path.join(path, name))


def _plain(home: str) -> None:
    """The same links without any care: the floor."""
    for path in _worktrees(home):
        for name in NAMES:
            target = os.path.join(path, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.symlink(os.path.relpath(os.path.join(home, "sync", "repo", name), os.path.dirname(target)), target)
