"""The dashboard in a terminal: start against an empty Textual app, cost at rest and at work, time to paint. # S2.57

Every figure is taken in a pty, from outside: bytes that arrive, CPU time of the process and its children.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Sequence

from bench.common import IMI, Row, ratio
from bench.worlds import World, build

TREES = int(os.environ.get("BENCH_TREES", "200"))
STARTS = int(os.environ.get("BENCH_STARTS", "7"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "20"))
WRITES = int(os.environ.get("BENCH_WRITES", "60"))
KEYS = int(os.environ.get("BENCH_KEYS", "100"))
SIZE = (140, 45)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EMPTY = (
    "from textual.app import App\nfrom textual.widgets import Static\n"
    "class Empty(App):\n    def compose(self): yield Static('useful')\nEmpty().run()"
)
_TICKS = os.sysconf("SC_CLK_TCK")


class Pane:
    """A process in a terminal that somebody reads; every arrival has its moment."""

    def __init__(self, argv: Sequence[str], cwd: str, env: dict[str, str] | None = None) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        self.arrivals: list[tuple[float, bytes]] = []
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=_environment() | (env or {}),
        )
        os.close(slave)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Pane:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.master)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                if select.select([self.master], [], [], 1.0)[0]:
                    data = os.read(self.master, 1 << 16)
                    self.arrivals.append((time.perf_counter(), data))

    def send(self, data: bytes) -> None:
        os.write(self.master, data)

    def first(self, wanted: bytes, since: int = 0, seconds: float = 60) -> float:
        """The moment at which these bytes had arrived."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            joined = b""
            for moment, data in self.arrivals[since:]:
                joined = joined[-200:] + data
                if wanted in joined:
                    return moment
            time.sleep(0.002)
        raise RuntimeError(f"{wanted!r} was not painted")

    def next_paint(self, since: int, seconds: float = 5) -> float:
        end = time.perf_counter() + seconds
        while len(self.arrivals) <= since:
            if time.perf_counter() > end:
                raise RuntimeError("nothing was painted")
            time.sleep(0.0005)
        return self.arrivals[since][0]

    def bytes(self, since: int) -> int:
        return sum(len(data) for _, data in self.arrivals[since:])

    def cpu(self) -> float:
        return sum(_cpu(pid) for pid in family(self.process.pid))

    def rss(self) -> float:
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _environment() -> dict[str, str]:
    """As a person has it: compiled modules are kept, and there are colours."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": ROOT, "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        world = build(base, trees=TREES, files=60)
        os.environ["IMI_DATABASE_PATH"] = os.path.join(base, "iMi.db")
        os.environ["XDG_STATE_HOME"] = os.path.join(base, "state")
        yield from _start(world)
        yield from _real(world)
    for share in (0.01, 1.0):
        yield from _work(share)


# -- the start ----------------------------------------------------------------------------------------------------------


def _start(world: World) -> Iterator[Row]:
    """From the start of the process to a worktree's name on the terminal, against the same for one word of an empty app."""
    ours, empty = [], []
    for number in range(STARTS + 1):
        empty.append(_until_painted([sys.executable, "-c", EMPTY], world.main, b"useful"))
        ours.append(_until_painted(_imi(), world.main, b"feat-0"))
        if not number:  # the first one compiled what it loaded, and registered the repository
            ours.clear()
    yield ratio(
        f"start to first worktree, {TREES} of them", statistics.median(ours), statistics.median(empty), "empty app", 1.3
    )


def _until_painted(argv: Sequence[str], cwd: str, wanted: bytes) -> float:
    with Pane(argv, cwd) as pane:
        return (pane.first(wanted) - pane.started) * 1000


def _imi() -> list[str]:
    return [IMI, "monitor"]  # what a person starts


# -- the real thing -----------------------------------------------------------------------------------------------------


def _real(world: World) -> Iterator[Row]:
    with Pane(_imi(), world.main) as pane:
        pane.first(b"feat-0")
        wait_until_calm(pane)
        yield Row(f"memory, {TREES} worktrees", pane.rss(), "MB", budget=60)
        yield from _rest(pane)
        yield from _writes(pane, world)


def wait_until_calm(pane: Pane) -> None:
    """Until every worktree was asked: two quiet looks in a row."""
    before = -1.0
    while pane.cpu() - before > 0.15 or before < 0:
        before = pane.cpu()
        time.sleep(3)


def _rest(pane: Pane) -> Iterator[Row]:
    since, cpu, started = len(pane.arrivals), pane.cpu(), time.perf_counter()
    time.sleep(SECONDS)
    passed = time.perf_counter() - started
    yield Row("at rest: bytes a second", pane.bytes(since) / passed, "B/s", budget=200)
    yield Row("at rest: CPU with children", (pane.cpu() - cpu) / passed * 100, "%")


def _writes(pane: Pane, world: World) -> Iterator[Row]:
    """A file is written; its name is on the terminal."""
    times = []
    for number in range(WRITES):
        tree, name = world.trees[(number * 37) % len(world.trees)], f"w{number:03d}x.py"
        since = len(pane.arrivals)
        now = time.perf_counter()
        with open(os.path.join(tree, name), "w", encoding="ascii") as file:
            file.write("x\n")
        times.append((pane.first(name.encode(), since, 10) - now) * 1000)
        time.sleep(0.25)
    times.sort()
    yield Row("write -> bytes on the terminal, median", statistics.median(times), "ms")
    yield Row("write -> bytes on the terminal, p95", times[int(len(times) * 0.95)], "ms", budget=45)
    yield Row("write -> bytes on the terminal, worst", times[-1], "ms", budget=100)


# -- rows that change ---------------------------------------------------------------------------------------------------


def _work(share: float) -> Iterator[Row]:
    """200 rows, a share of which changes every second, against the same app with rows that do not change."""
    still, moving = _cost(0.0), None
    with _changing(share) as pane:
        pane.first(b"feat-0")
        time.sleep(2)
        moving = _percent(pane)
        budget = 0.3 if share < 1 else 1.5
        name = f"{share:.0%} of {TREES} rows a second: CPU above idle"
        yield Row(name, moving - still, "%", budget=budget)
        if share == 1:
            yield from _keys(pane)


def _cost(share: float) -> float:
    with _changing(share) as pane:
        pane.first(b"feat-0")
        time.sleep(2)
        return _percent(pane)


def _percent(pane: Pane) -> float:
    cpu, started = pane.cpu(), time.perf_counter()
    time.sleep(SECONDS)
    return (pane.cpu() - cpu) / (time.perf_counter() - started) * 100


def _changing(share: float) -> Pane:
    return Pane([sys.executable, "-m", "bench.ui_rows", str(TREES), str(share)], ROOT)


def _keys(pane: Pane) -> Iterator[Row]:
    """`j` and `k` while all rows change: the cursor's move is painted."""
    times = []
    for number in range(KEYS):
        time.sleep(0.05 + (number % 7) * 0.01)
        since = len(pane.arrivals)
        now = time.perf_counter()
        pane.send(b"j" if number % 40 < 20 else b"k")
        times.append((pane.next_paint(since) - now) * 1000)
    times.sort()
    yield Row("key -> paint while all rows change, median", statistics.median(times), "ms")
    yield Row("key -> paint while all rows change, p99", times[int(len(times) * 0.99)], "ms", budget=50)


# -- processes ----------------------------------------------------------------------------------------------------------


def family(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return [pid, *(one for child in children for one in family(child))]


def _cpu(pid: int) -> float:
    """Its seconds, with those of its children that ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS
