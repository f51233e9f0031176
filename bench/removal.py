"""R7: the verdict, the removal and the undo of a worktree with 50,000 tracked and 10,000 ignored files.

The floor of the verdict is `git status --ignored` alone; that of the removal plain `git status`, because it looks once more
right before it moves; that of the undo one `rename` of the same folder there and back.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.common import Row
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import inspection, restore, safe_removal
from imi_monitor.store import trash

TRACKED = 50_000
IGNORED = 10_000
ROUNDS = 5


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        tree = _build(Path(base))
        with Context(str(tree.parent / "app"), database=str(Path(base) / "iMi.db")) as context:
            return _measure(context, tree)


def _measure(context: Context, tree: Path) -> list[Row]:
    names = ("status", "verdict", "second look", "remove", "undo", "rename")
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        with _timed(times["status"]):
            _git(tree, "status", "--porcelain", "--ignored", "--untracked-files=all")
        found = worktree_lookup.find_worktree(context, "feat-x")
        with _timed(times["verdict"]):
            look = inspection.inspect_worktree(context, found, "bench")
        assert look.verdict.safe, look.verdict
        with _timed(times["second look"]):
            _git(tree, "--no-optional-locks", "status", "--porcelain", "--untracked-files=all")
        with _timed(times["remove"]):
            safe_removal.remove_worktree(context, found, agent="bench", inspected=look)
        assert not tree.exists()
        entry = trash.list_kept(context.connection)[0]
        with _timed(times["undo"]):
            restore.restore_worktree(context, entry, agent="bench")
        assert tree.exists()
        with _timed(times["rename"]):
            _there_and_back(tree)
    middle = {name: statistics.median(each) for name, each in times.items()}
    size = f"{TRACKED // 1000}k+{IGNORED // 1000}k files"
    return [
        Row(f"verdict, {size}, warm", middle["verdict"], "ms", middle["status"], "git status --ignored", None, 300),
        Row(
            f"remove, {size}, without the verdict",
            middle["remove"],
            "ms",
            middle["second look"],
            "git status",
            None,
            100,
        ),
        Row(f"undo, {size}", middle["undo"], "ms", middle["rename"], "2 renames", None, 100),
    ]


def _build(base: Path) -> Path:
    app = base / "app"
    app.mkdir()
    for number in range(TRACKED):
        if number % 500 == 0:
            folder = app / f"pkg{number // 500:03}"
            folder.mkdir()
        (folder / f"file{number:05}.py").write_text(f"value = {number}\n")
    (app / ".gitignore").write_text("node_modules/\n")
    environment = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "b", "GIT_AUTHOR_EMAIL": "b@example.invalid"}
    os.environ.update(environment, GIT_COMMITTER_NAME="b", GIT_COMMITTER_EMAIL="b@example.invalid")
    _git(app, "init", "-q", "-b", "main")
    _git(app, "add", "-A")
    _git(app, "commit", "-q", "-m", "first")
    tree = base / "feat-x"
    _git(app, "worktree", "add", "-q", "-b", "feat/x", str(tree))
    for number in range(IGNORED):
        folder = tree / "node_modules" / f"dep{number // 20:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"index{number % 20}.js").write_text("x" * 200)
    return tree


def _git(cwd: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def _there_and_back(tree: Path) -> None:
    aside = tree.with_name("aside")
    os.rename(tree, aside)
    os.rename(aside, tree)


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    into.append((time.perf_counter() - start) * 1000)
