"""Walls and doors: what a wall adds to a start, the file door, a request of a walled agent to its answer, and `imi mcp`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from bench.common import IMI, Row, interleaved, process
from bench.runs import RunWorld
from imi_monitor.runs import walls
from imi_monitor.runs.contained import file_delivery, request_folder
from imi_monitor.runs.contained.file_door import FileDoor
from imi_monitor.runs.run_wall import RunWall
from imi_monitor.runs.walls import landlock_alone

CALLS = int(os.environ.get("BENCH_CALLS", "60"))
_REST_SECONDS = 10.0
_MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        world = RunWorld(Path(base))
        try:
            yield from _starts(Path(base))
            yield from _door(Path(base))
            yield from _requests(world)
            yield from _tools(Path(base))
        finally:
            world.end()


def _starts(base: Path) -> Iterator[Row]:
    """`true` behind a wall of the contained kind, minus `true` alone."""
    place = base / "place"
    place.mkdir()
    found = {"best wall": walls.find()}
    if landlock_alone.problem() is None:
        found["Landlock alone"] = walls.Wall(walls.LANDLOCK_ALONE)
    for name, wall in found.items():
        made = RunWall(walls.STRICT, wall, "claude", "/bin/true", flat=True)
        argv = made.command(["/bin/true"], str(place), str(place), dict(os.environ))
        inside, bare = interleaved(15, lambda argv=argv: process(argv), lambda: process(["/bin/true"]))
        yield Row(f"start behind the {name}, beyond the bare one", inside - bare, "ms", budget=60.0)


def _door(base: Path) -> Iterator[Row]:
    place, out = base / "flat", base / "out"
    place.mkdir()
    out.mkdir()
    with FileDoor(str(place), "bench") as door:
        taken = _timed(200, lambda number: door.write(f"file-{number}.md", b"x" * 4096))
        yield Row("file door: write 4 KB, p95", _p95(taken), "ms", budget=10.0)
        taken = _timed(50, lambda number: file_delivery.deliver(door, f"file-{number}.md", str(out / f"{number}.md")))
        yield Row("file door: deliver, p95", _p95(taken), "ms")
    taken = _timed(9, lambda number: process([IMI, "file", "write", f"{number}.md", "--content", "x"], cwd=str(base)))
    yield Row("imi file write, the process included", statistics.median(taken), "ms")


def _requests(world: RunWorld) -> Iterator[Row]:
    """A request in the folder of a walled run to its answer there, by the follower and `imi mcp`."""
    process([IMI, "start", "claude", "--prompt", "hello", "--sandbox", "strict", "--quiet"], cwd=str(world.base))
    [row] = world.rows()
    folder = os.path.join(row.folder, "requests")

    def ask(number: int) -> None:
        time.sleep(0.013 * (number % 8))  # at each place between two rounds of the follower
        begun = time.perf_counter()
        request_folder.call(folder, "where_am_i", {}, 5.0, lambda: False)
        taken.append((time.perf_counter() - begun) * 1000)

    taken: list[float] = []
    ask(0)
    yield Row("request answered: the first, with the start of its server", taken.pop(), "ms")
    time.sleep(2.0)
    followers = [psutil.Process(pid) for pid in world.processes(b"imi_monitor.runs.follower")]
    before = _cpu(followers)
    time.sleep(_REST_SECONDS)
    rest = (_cpu(followers) - before) / _REST_SECONDS
    before, began = _cpu(followers), time.perf_counter()
    for number in range(CALLS):
        ask(number)
    spent = _cpu(followers) - before - rest * (time.perf_counter() - began)
    yield Row("request answered, median", statistics.median(taken), "ms")
    yield Row("request answered, p95", _p95(taken), "ms", budget=50.0)
    yield Row("CPU of the follower for each request", spent / CALLS * 1000, "ms")
    yield Row("CPU of the follower with one resting run", rest * 100, "%")


def _tools(base: Path) -> Iterator[Row]:
    """`imi mcp`, in a repository."""
    repo = str(base / "app")
    process(["git", "init", "-q", repo])
    process(
        ["git", "-C", repo, "-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "--allow-empty", "-m", "x"]
    )
    begun = time.perf_counter()
    with subprocess.Popen([IMI, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=repo) as server:
        assert server.stdin is not None and server.stdout is not None

        def call(method: str, **params: object) -> None:
            assert server.stdin is not None and server.stdout is not None
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**_MODERN, **params}}
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            if "error" in answer:
                raise RuntimeError(answer["error"])

        call("server/discover")
        yield Row("imi mcp: up", (time.perf_counter() - begun) * 1000, "ms", budget=150.0)
        call("tools/call", name="overview", arguments={})
        taken = _timed(CALLS, lambda _: call("tools/call", name="overview", arguments={}))
        yield Row("imi mcp: a call of overview, median", statistics.median(taken), "ms", budget=10.0)
        yield Row("imi mcp: memory", psutil.Process(server.pid).memory_info().rss / 1e6, "MB", budget=20.0)
        server.stdin.close()


def _timed(times: int, act: Callable[[int], object]) -> list[float]:
    taken = []
    for number in range(times):
        begun = time.perf_counter()
        act(number)
        taken.append((time.perf_counter() - begun) * 1000)
    return taken


def _p95(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=20)[-1]


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)
