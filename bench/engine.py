"""The engine: time from a write to its snapshot, cost at rest, time of the first statuses."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from bench.common import Row
from bench.worlds import World, build
from imi_monitor import engine

TREES = int(os.environ.get("BENCH_TREES", "200"))
FILES = 500
WRITES = 200
IDLE_SECONDS = float(os.environ.get("BENCH_IDLE", "60"))
_WRITER = """
import sys, time
for line in sys.stdin:
    path = line.strip()
    now = time.monotonic()
    with open(path, 'a') as file: file.write('# written\\n')
    print(now, flush=True)
"""


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        world = build(base, trees=TREES, files=FILES)
        bare = _bare_calls(world)
        for back_end in ("inotify", "watchfiles"):
            os.environ["IMI_WATCHER"] = back_end
            yield from asyncio.run(_measure(world, base, back_end, bare))
        yield from _loop(world)


async def _measure(world: World, base: str, back_end: str, bare: float) -> list[Row]:
    rows = []
    database = os.path.join(base, f"{back_end}.db")
    started = time.perf_counter()
    stall = _Stall()
    async with engine.open_engine(database, [world.common_dir]) as live:
        watch = asyncio.create_task(stall.run())
        async for snapshot in live.snapshots():
            if snapshot.complete:
                break
        first = time.perf_counter() - started
        async for snapshot in live.snapshots():
            if all(tree.watched in ("live", "polling") for tree in snapshot.worktrees):
                break
        await asyncio.sleep(3)
        watch.cancel()
        rows.append(
            Row(f"{back_end}: all {TREES + 1} statuses", first, "s", bare, "same git calls bare", first / bare, 3.0)
        )
        rows.append(Row(f"{back_end}: longest stall of the loop while starting", stall.longest * 1000, "ms", budget=30))
        rows += await _idle(back_end)
        rows += await _latency(live, world, back_end)
    return rows


class _Stall:
    """Measures the longest time in which the event loop did not run."""

    longest = 0.0

    async def run(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            self.longest = max(self.longest, time.perf_counter() - before - 0.005)


async def _idle(back_end: str) -> list[Row]:
    await asyncio.sleep(5)
    watches, rss = _watches(), _rss()
    cpu = _cpu()  # counting the watches costs more than 15 seconds at rest: it comes after the measurement
    started = time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    share = (_cpu() - cpu) / (time.monotonic() - started) * 100
    budget = 0.1 if back_end == "inotify" else 0.3
    return [
        Row(f"{back_end}: idle CPU, {TREES} worktrees, {IDLE_SECONDS:.0f} s", share, "%", budget=budget),
        Row(f"{back_end}: memory", _rss(), "MB"),
        Row(f"{back_end}: memory grown while idle", _rss() - rss, "MB", budget=1.0),
        Row(f"{back_end}: watches", _watches(), "", budget=max(watches, 1) * 1.0 if watches else None),
    ]


async def _latency(live: engine.Engine, world: World, back_end: str) -> list[Row]:
    arrived: dict[str, float] = {}

    async def listen() -> None:
        seen = 0
        async for snapshot in live.snapshots():
            now = time.monotonic()
            for change in snapshot.changes[-50:]:
                arrived.setdefault(f"{change.worktree}/{change.path}", now)
            seen = len(snapshot.changes)
        del seen

    task = asyncio.create_task(listen())
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WRITER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdin is not None and writer.stdout is not None
    written: dict[str, float] = {}
    for number in range(WRITES):
        tree = world.trees[(number * 37) % len(world.trees)]
        name = world.files[(number * 101) % len(world.files)]
        writer.stdin.write(f"{os.path.join(tree, name)}\n".encode())
        written[f"{os.path.basename(tree)}/{name}"] = float(await writer.stdout.readline())
        await asyncio.sleep(0.15)
    await asyncio.sleep(1)
    writer.stdin.close()
    await writer.wait()
    task.cancel()
    times = sorted((arrived[key] - at) * 1000 for key, at in written.items() if key in arrived)
    lost = len(written) - len(times)
    p50_budget = 2.0 if back_end == "inotify" else 20.0
    return [
        Row(f"{back_end}: write -> snapshot p50", times[len(times) // 2], "ms", budget=p50_budget),
        Row(f"{back_end}: write -> snapshot p99", times[int(len(times) * 0.99)], "ms", budget=60),
        Row(f"{back_end}: write -> snapshot worst", times[-1], "ms", budget=100),
        Row(f"{back_end}: writes not seen", lost, "", budget=0),
    ]


def _bare_calls(world: World) -> float:
    """Return the seconds for the git calls of the first statuses, two at a time, by posix_spawn alone."""
    import concurrent.futures

    def call(path: str) -> None:
        for args in (["status", "--porcelain=v2", "--branch", "-z"], ["rev-list", "--max-count=1", "HEAD"]):
            pid = os.posix_spawnp(
                "git",
                ["git", "--no-optional-locks", "-C", path, *args],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)],
            )
            os.waitpid(pid, 0)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        started = time.perf_counter()
        list(pool.map(call, (world.main, *world.trees)))
        return time.perf_counter() - started


def _loop(world: World) -> Iterator[Row]:
    """The alternative without imi: `watch -n1` over git status of every worktree."""
    script = (
        "while :; do for d in " + " ".join(world.trees) + '; do git -C "$d" status -sb >/dev/null; done; sleep 1; done'
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(["/bin/sh", "-c", f"ulimit -t 60; {script}"])
    started = time.monotonic()
    time.sleep(10)
    process.kill()
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    share = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / (time.monotonic() - started) * 100
    yield Row(f"a loop of git status over {len(world.trees)} worktrees", share, "%")


def _cpu() -> float:
    """Return the CPU seconds of this process, its ended children and the watcher process."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(one.ru_utime + one.ru_stime for one in used)
    for pid in _children():
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _children() -> list[str]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return file.read().split()


def _rss() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _watches() -> int:
    number = 0
    for fd in os.listdir("/proc/self/fdinfo"):
        try:
            with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
                number += file.read().count("inotify wd:")
        except OSError:
            continue
    return number
