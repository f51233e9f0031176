"""One reading of a worktree against the least that any reading can be, and `imi status --line` against an empty Python."""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from functools import partial

from bench.common import IMI, PYTHON, Row, interleaved, process, ratio
from bench.worlds import World, build, git
from imi_monitor.git import worktree_state
from imi_monitor.git.runner import Git
from imi_monitor.git.worktree_state import TrunkPosition

_SIZES = ((500, 3.3, 21), (50_000, 1.7, 7))


def run() -> Iterator[Row]:
    for files, budget, rounds in _SIZES:
        with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
            yield _measure(build(base, trees=1, files=files, per_folder=20), files, budget, rounds)

    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        yield _measure_line(build(base, trees=20, files=100, per_folder=20))


def _measure_line(world: World) -> Row:
    """A bar runs it every few seconds: the milliseconds that it takes longer than a Python that does nothing."""
    env = {**os.environ, "HOME": os.path.dirname(world.main)}
    line = partial(process, [IMI, "status", "--line"], env, world.trees[0])
    process([IMI, "claim", os.path.basename(world.trees[0]), "--agent", "bench"], env, world.main)
    line()
    floor, taken = interleaved(31, partial(process, [PYTHON, "-I", "-c", "pass"]), line)
    return Row("imi status --line, 20 worktrees / over python -I -c pass", taken - floor, "ms", floor, "", None, 20.0)


def _measure(world: World, files: int, budget: float, rounds: int) -> Row:
    tree = world.trees[0]
    time.sleep(1.1)  # what was written in the same second as the index is compared by content until somebody
    git(tree, "status")  # runs a `git status` later: every person does, we never write an index
    admin = git(tree, "rev-parse", "--absolute-git-dir").strip()
    trunk = TrunkPosition("refs/heads/main", git(world.main, "rev-parse", "main").strip())
    one = Git(world.common_dir, admin, tree)
    before = worktree_state.read_state(one, trunk, None, None, linked=True)
    # what never changes (the commit, distances) is remembered, as it is in the engine
    again = partial(worktree_state.read_state, one, trunk, before, None, linked=True)
    names = [os.fsencode(os.path.join(tree, name)) for name in git(tree, "ls-files", "-z").split("\0") if name]
    floor, again_ms = interleaved(rounds, partial(_floor, names), again)
    return ratio(f"one status of {files:,} files", again_ms, floor, "lstat of each + one git process", budget)


def _floor(names: list[bytes]) -> None:
    """What any program must do that asks git and answers by looking: one process, and a look at each file."""
    deque(map(os.lstat, names), maxlen=0)
    nothing = os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0
    os.waitpid(os.posix_spawnp("git", ["git", "version"], os.environ, file_actions=[nothing]), 0)
