"""Five repositories with 1,000 worktrees beside one with 200: nothing may grow worse than linearly.

Every figure is of a whole process: the lists from their start to their end, the dashboard in a pty from outside.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial

from bench.common import IMI, Row, interleaved, process, ratio
from bench.peers import status_round
from bench.ui import Pane, family, wait_until_calm
from bench.worlds import World, build, git

_TREES = int(os.environ.get("BENCH_TREES", "200"))  # of each repository
_FILES = 60
_ROUNDS = 5
_IDLE_SECONDS = float(os.environ.get("BENCH_IDLE", "30"))
_IDLE = 0.3  # percent of a core
_GROWTH = 5  # times the worktrees
_LINEAR = _GROWTH * 1.1  # times the cost; two measurements of the same thing differ by some percent


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        os.environ["HOME"] = os.path.join(base, "home")
        worlds = [_world(os.path.join(base, f"repo{number}")) for number in range(_GROWTH)]
        one, all_of_them = _Registry(base, worlds[:1]), _Registry(base, worlds)
        yield from _lists(one, all_of_them)
        few, many = _dashboard(one), _dashboard(all_of_them)
        for (name, unit, small), (_, _, large) in zip(few, many, strict=True):
            yield Row(f"{one.title}: {name}", small, unit, budget=_IDLE if unit == "%" else None)
            if unit == "%":  # often zero, which has no ratio
                yield Row(f"{all_of_them.title}: {name}", large, unit, budget=_IDLE * _GROWTH)
            else:
                yield ratio(f"{all_of_them.title}: {name}", large, small, one.title, _LINEAR, unit)


class _Registry:
    """A registry with some of the repositories."""

    def __init__(self, base: str, worlds: list[World]) -> None:
        self.worlds = worlds
        self.database = os.path.join(base, f"{len(worlds)}.db")
        self.title = f"{len(worlds) * _TREES:,} worktrees"
        self.env = {**os.environ, "IMI_DATABASE_PATH": self.database}
        for world in worlds:
            process([IMI, "claim", "feat-000", "--agent", "bench"], self.env, world.main)

    def run(self, *words: str) -> None:
        process([IMI, *words], self.env, os.path.dirname(self.database))


def _world(folder: str) -> World:
    os.makedirs(folder)
    world = build(folder, trees=_TREES, files=_FILES)
    os.rename(world.main, world.main + os.path.basename(folder))  # the folder names the repository
    main = world.main + os.path.basename(folder)
    git(main, "worktree", "repair", *world.trees)
    return World(main, world.trees, world.files)


def _lists(one: _Registry, all_of_them: _Registry) -> Iterator[Row]:
    for words in (("list", "--all"), ("status", "--all")):
        small, large = interleaved(_ROUNDS, partial(one.run, *words), partial(all_of_them.run, *words))
        name = f"imi {' '.join(words)}"
        yield Row(f"{one.title}: {name}", small, "ms")
        yield ratio(f"{all_of_them.title}: {name}", large, small, one.title, _LINEAR)
    trees = [tree for world in all_of_them.worlds for tree in world.trees]
    bare, ours = interleaved(
        3, partial(status_round, trees, all_of_them.env), partial(all_of_them.run, "status", "--all")
    )
    yield ratio(f"{all_of_them.title}: imi status --all", ours, bare, "git status in each", 3)


def _dashboard(registry: _Registry) -> list[tuple[str, str, float]]:
    mains = [world.main for world in registry.worlds]
    with Pane(
        [IMI, "monitor", *mains], os.path.dirname(registry.database), {"IMI_DATABASE_PATH": registry.database}
    ) as pane:
        started = pane.first(b"feat-0") - pane.started
        wait_until_calm(pane)
        settled, cpu = pane.cpu(), pane.cpu()
        begun = time.perf_counter()
        time.sleep(_IDLE_SECONDS)
        idle = (pane.cpu() - cpu) / (time.perf_counter() - begun) * 100
        return [
            ("dashboard, first worktree painted", "ms", started * 1000),
            ("dashboard, CPU until all is read", "s", settled),
            ("dashboard, CPU at rest", "%", idle),
            ("dashboard, memory", "MB", pane.rss()),
            ("dashboard, watches", "", _watches(pane)),
        ]


def _watches(pane: Pane) -> int:
    number = 0
    for pid in family(pane.process.pid):
        for fd in os.listdir(f"/proc/{pid}/fdinfo"):
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
                number += file.read().count("inotify wd:")
    return number
