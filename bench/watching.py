"""File watching in hard cases: ignored folders, one busy worktree, a program that reads everything, storms of new files,
and more folders than the kernel's limit of watches.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from bench.common import Row
from bench.engine import _cpu, _rss, _watches
from bench.worlds import World, build, git
from imi_monitor import engine
from imi_monitor.model.snapshot import Snapshot

_IGNORED_FOLDERS = 30_000
_TIERED_TREES = int(os.environ.get("BENCH_TIERED", "200"))
_TIERED_FOLDERS = 2_500
_BUSY_TREES = 100
_STORM = 100_000
_SECONDS = float(os.environ.get("BENCH_WATCHING", "30"))


def run() -> Iterator[Row]:
    for part in (_ignored, _busy, _grep, _storm, _storm_while_stopped, _tiers):
        with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
            yield from asyncio.run(part(base))


@asynccontextmanager
async def _live(base: str, world: World) -> AsyncIterator[engine.Engine]:
    """Open an engine, and wait until it has read and watches everything."""
    async with engine.open_engine(os.path.join(base, "registry.db"), [world.common_dir]) as live:
        async for snapshot in live.snapshots():
            if snapshot.complete and all(tree.watched in ("live", "polling") for tree in snapshot.worktrees):
                break
        await asyncio.sleep(5)
        yield live


class _Share:
    """CPU used between the start and `percent()`."""

    def __init__(self) -> None:
        self._cpu, self._at = _cpu(), time.monotonic()

    def percent(self) -> float:
        return (_cpu() - self._cpu) / (time.monotonic() - self._at) * 100


async def _ignored(base: str) -> list[Row]:
    """The watches for 30,000 ignored folders."""
    world = build(base, trees=1, files=100)
    async with _live(base, world):
        before = _watches()
    for number in range(_IGNORED_FOLDERS // 300):
        for inner in range(300):
            os.makedirs(os.path.join(world.trees[0], "node_modules", f"p{number}", f"d{inner}"))
    async with _live(base, world):
        return [Row("30,000 ignored folders: watches more", _watches() - before, "", budget=5)]


async def _busy(base: str) -> list[Row]:
    """One of a hundred worktrees is written five times a second."""
    world = build(base, trees=_BUSY_TREES, files=200)
    async with _live(base, world) as live:
        asked = _readings(live.snapshot)
        share, until = _Share(), time.monotonic() + _SECONDS
        while time.monotonic() < until:
            with open(os.path.join(world.trees[7], world.files[3]), "a", encoding="ascii") as file:
                file.write("x\n")
            await asyncio.sleep(0.2)
        used = share.percent()
        now = _readings(live.snapshot)
        others = sum(now[name] != at for name, at in asked.items() if name != "feat-007")
        return [
            Row("one busy of 100: CPU", used, "%", budget=10),
            Row("one busy of 100: other worktrees read by the sweep", others, "", budget=_SECONDS / 5 + 1),
        ]


def _readings(snapshot: Snapshot) -> dict[str, str]:
    return {tree.key.worktree: tree.git.read_at for tree in snapshot.worktrees if tree.git is not None}


async def _grep(base: str) -> list[Row]:
    """`grep -r` over all worktrees with and without an engine: reading causes no events."""
    world = build(base, trees=50, files=500)
    paths = [world.main, *world.trees]

    def grep() -> float:
        started = time.perf_counter()
        subprocess.run(["grep", "-rl", "no such line", *paths], capture_output=True, check=False)
        return time.perf_counter() - started

    grep()
    alone, beside = [], []
    for _ in range(3):
        alone += [await asyncio.to_thread(grep) for _ in range(5)]
        async with _live(base, world):
            beside += [await asyncio.to_thread(grep) for _ in range(5)]
    floor, value = sorted(alone)[len(alone) // 2], sorted(beside)[len(beside) // 2]
    return [Row("grep -r over 50 watched worktrees", value, "s", floor, "grep -r alone", value / floor, 1.1)]


_WRITER = """
import os, sys
folder, number = sys.argv[1], int(sys.argv[2])
for index in range(number):
    path = os.path.join(folder, f"s{index % 100}", f"f{index}")
    if index < 100: os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file: file.write("x")
for path in sys.argv[3:]:
    with open(os.path.join(folder, path), "a") as file: file.write("the last act\\n")
"""
_LAST = 50  # tracked files that change last: if they are seen, no event of the end was lost


async def _storm(base: str) -> list[Row]:
    """100,000 new files as fast as they can be written."""
    world = build(base, trees=5, files=100)
    async with _live(base, world) as live:
        memory = _rss()
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _WRITER, world.trees[1], str(_STORM), *world.files[:_LAST]
        )
        await writer.wait()
        return await _after_the_storm(live, world, memory, "a storm of 100,000 writes")


async def _after_the_storm(live: engine.Engine, world: World, memory: float, name: str) -> list[Row]:
    ended = time.monotonic()
    while (counts := _counts(live.snapshot)) != (_LAST, 100):  # the new files lie in 100 new folders
        if time.monotonic() - ended > 60:
            raise RuntimeError(f"{name}: never right: {counts}")
        await asyncio.sleep(0.05)
    right = time.monotonic() - ended
    if _counts_by_git(world.trees[1]) != (_LAST, 100):
        raise RuntimeError(f"{name}: the benchmark expects something else than git says")
    await asyncio.sleep(10)
    share = _Share()
    await asyncio.sleep(_SECONDS)
    return [
        Row(f"{name}: right after", right, "s", budget=2.0),
        Row(f"{name}: memory more", _rss() - memory, "MB", budget=100),
        Row(f"{name}: CPU afterwards", share.percent(), "%", budget=0.5),
    ]


def _counts(snapshot: Snapshot) -> tuple[int, int]:
    """Return the changed and the new files of the worktree with the storm."""
    state = next((tree.git for tree in snapshot.worktrees if tree.key.worktree == "feat-001"), None)
    return (state.unstaged, state.untracked) if state else (-1, -1)


def _counts_by_git(path: str) -> tuple[int, int]:
    lines = git(path, "status", "--porcelain").splitlines()
    return sum(line.startswith(" M") for line in lines), sum(line.startswith("??") for line in lines)


async def _storm_while_stopped(base: str) -> list[Row]:
    """The same while this process is stopped: events are lost, but the state must be right."""
    world = build(base, trees=5, files=100)
    async with _live(base, world) as live:
        memory = _rss()
        stopper = (
            "import os, signal, subprocess, sys, time\n"
            f"os.kill({os.getpid()}, signal.SIGSTOP)\n"
            f"subprocess.run([sys.executable, '-c', {_WRITER!r}, {world.trees[1]!r}, '{_STORM}', *{world.files[:_LAST]!r}])\n"
            "time.sleep(5)\n"
            f"os.kill({os.getpid()}, signal.SIGCONT)\n"
        )
        process = subprocess.Popen([sys.executable, "-c", stopper])
        while process.poll() is None:
            await asyncio.sleep(0.01)
        return await _after_the_storm(live, world, memory, "100,000 writes while we were stopped")


async def _tiers(base: str) -> list[Row]:
    """More folders than the kernel's limit of watches."""
    world = build(base, trees=_TIERED_TREES, files=20)
    for tree in world.trees:
        for number in range(_TIERED_FOLDERS):
            os.makedirs(os.path.join(tree, f"a{number // 50}", f"b{number % 50}"))
    async with _live(base, world) as live:
        polled = sum(tree.watched == "polling" for tree in live.snapshot.worktrees)
        said = next((one.note for one in live.snapshot.health if one.source == "files"), None)
        await asyncio.sleep(30)
        share = _Share()
        await asyncio.sleep(max(60.0, _SECONDS))
        rows = [
            Row(f"{_TIERED_TREES} x 2,500 folders: CPU, the rest polled", share.percent(), "%", budget=5.0),
            Row(f"{_TIERED_TREES} x 2,500 folders: worktrees polled and reported", polled if said else -1, ""),
            Row(f"{_TIERED_TREES} x 2,500 folders: memory", _rss(), "MB"),
        ]
    shutil.rmtree(base, ignore_errors=True)
    os.makedirs(base)
    return rows
