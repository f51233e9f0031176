"""The column of unread changes over 200 worktrees with changes: until all are counted, at rest, and while one changes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator

from bench.common import IMI, Row
from bench.ui import SECONDS, TREES, Pane, wait_until_calm
from bench.worlds import World, build

_REST = 0.3  # percent of a core
_SETTLE = 15.0  # seconds after the last count
_KEYS = (b"s", b"r")  # sort, by what is unread
_WRITES = 10
_COUNTED = b"unread"  # the heading of the column


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        world = build(base, trees=TREES, files=60)
        for tree in world.trees:
            _change(world, tree)
        os.environ["IMI_DATABASE_PATH"] = os.path.join(base, "iMi.db")
        os.environ["XDG_STATE_HOME"] = os.path.join(base, "state")
        with Pane([IMI, "monitor"], world.main) as pane:
            pane.first(b"feat-0")
            wait_until_calm(pane)
            time.sleep(_SETTLE)
            yield Row(f"at rest, {TREES} changed worktrees, no column", _share(pane), "%", budget=_REST)
            yield from _column(pane)
            yield from _work(pane, world)


def _change(world: World, tree: str) -> None:
    """Two hunks in a tracked file, one in another, and a new file, an hour ago: younger ages count seconds on the screen."""
    first, second = world.files[0], world.files[1]
    hour_ago = time.time() - 3600
    for name, text in (
        (first, "# changed\n" + "x = 1\n" * 20 + "y = 2\n"),
        (second, f"# {second}\n" + "x = 2\n" * 20),
        ("new.py", "x = 1\n"),
    ):
        _write(tree, name, text)
        os.utime(os.path.join(tree, name), (hour_ago, hour_ago))


def _column(pane: Pane) -> Iterator[Row]:
    cpu, since, started = pane.cpu(), len(pane.arrivals), time.perf_counter()
    for key in _KEYS:
        pane.send(key)
        time.sleep(0.5)
    pane.first(_COUNTED, since)
    wait_until_calm(pane)
    yield Row("unread column: until all are counted", time.perf_counter() - started, "s")
    yield Row("unread column: CPU to count all", pane.cpu() - cpu, "s")
    time.sleep(_SETTLE)
    yield Row("unread column: at rest", _share(pane), "%", budget=_REST)


def _work(pane: Pane, world: World) -> Iterator[Row]:
    """A file of one worktree is written each second."""
    cpu = pane.cpu()
    for number in range(_WRITES):
        _write(world.trees[number % 3], "new.py", f"x = {number}\n")
        time.sleep(1)
    yield Row("unread column: CPU for a change", (pane.cpu() - cpu) / _WRITES * 1000, "ms")


def _share(pane: Pane) -> float:
    cpu, started = pane.cpu(), time.perf_counter()
    time.sleep(SECONDS)
    return (pane.cpu() - cpu) / (time.perf_counter() - started) * 100


def _write(tree: str, name: str, text: str) -> None:
    with open(os.path.join(tree, name), "w", encoding="ascii") as file:
        file.write(text)
