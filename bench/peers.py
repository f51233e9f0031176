"""imi beside other worktree programs, on the same worktrees in one run (`make bench ARGS=peers`).

A peer takes part if its program is on PATH; the others are named at the end. Every figure is the median time of a whole
process, or what a dashboard costs at rest. Budgets hold for imi alone. `wt list`, `lazyworktree list` and `workmux list` show
git states, so `imi status` is what they stand beside.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from bench.common import IMI, Row
from bench.creation import environment
from bench.ui import Pane
from bench.worlds import World, build, git

_FILES = 500
_ROUNDS = {20: 15, 200: 7}
_SETTLE_SECONDS, _REST_SECONDS = 10, float(os.environ.get("BENCH_IDLE", "30"))
_LIST, _STATUS_20, _CREATE_EXTRA, _REMOVE, _STATUS_RATIO = 35, 90, 30, 80, 3


@dataclass(frozen=True)
class Peer:
    """A program and its commands; `{name}` is the branch of a worktree, `{path}` its folder. None: it has no such command."""

    program: str
    status: tuple[str, ...] | None = None
    create: tuple[str, ...] | None = None
    remove: tuple[str, ...] | None = None
    dashboard: tuple[str, ...] | None = None


_PEERS = (
    Peer(
        "wt",
        ("list",),
        ("switch", "--create", "{name}", "--no-cd", "-y"),
        ("remove", "--foreground", "--no-delete-branch", "-y", "{name}"),
    ),
    Peer("workmux", ("list",)),  # its `add` needs a running multiplexer
    Peer(
        "lazyworktree",
        ("list",),
        ("create", "--silent", "--from-branch=main", "{name}"),
        ("delete", "--silent", "--no-branch", "{path}"),
        (),
    ),
    Peer("ccmanager", dashboard=()),
    Peer("gwq", ("status",)),
    Peer("terris", ("--list",)),
)


def run() -> Iterator[Row]:
    found = [peer for peer in _PEERS if shutil.which(peer.program)]
    for trees, rounds in _ROUNDS.items():
        with tempfile.TemporaryDirectory(prefix="imi-bench-") as folder:
            place = _Place(folder, trees)
            yield from _reading(place, found, rounds)
            if trees == 20:
                yield from _changing(place, found, rounds)
                yield from _resting(place, found)
    missing = ", ".join(peer.program for peer in _PEERS if peer not in found)
    if missing:
        print(f"not on PATH, so not measured: {missing}", file=sys.stderr)


class _Place:
    """A repository with worktrees, two commits ahead each and a fifth of them with uncommitted files, and a home."""

    def __init__(self, folder: str, trees: int) -> None:
        self.env = {**environment(folder), "NO_COLOR": "1"}
        self.world: World = build(folder, trees=trees, files=_FILES)
        self.names = count()
        for number, tree in enumerate(self.world.trees):
            for name in ("one", "two"):
                _write(tree, f"{name}.py")
                git(tree, "add", "-A")
                git(tree, "commit", "-q", "-m", name)
            if number % 5 == 0:
                _write(tree, self.world.files[0])
                _write(tree, "untracked.py")

    def new_name(self) -> str:
        return f"new{next(self.names)}"

    def run(self, program: str, *args: str) -> None:
        """Run a program in the main worktree without reading its output; a failure is an error."""
        argv = [shutil.which(program) or program, *args]
        if status := _wait(_start(argv, self.env, self.world.main)):
            raise RuntimeError(f"{argv} ended with {os.waitstatus_to_exitcode(status)}")


def status_round(trees: Sequence[str], env: dict[str, str]) -> None:
    """The floor of every status: `git status` in each worktree, as many at once as there are processors."""
    running: list[int] = []
    for tree in trees:
        if len(running) >= (os.cpu_count() or 1):
            _wait(running.pop(0))
        running.append(_start(["git", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z"], env, tree))
    for pid in running:
        _wait(pid)


def _reading(place: _Place, peers: Sequence[Peer], rounds: int) -> Iterator[Row]:
    trees = len(place.world.trees)
    work: dict[str, Callable[[], object]] = {
        "git status in each": partial(status_round, place.world.trees, place.env),
        "git worktree list": partial(place.run, "git", "worktree", "list"),
        "imi list": partial(place.run, IMI, "list"),
        "imi status": partial(place.run, IMI, "status"),
        **{
            _title(peer.program, peer.status): partial(place.run, peer.program, *peer.status)
            for peer in peers
            if peer.status
        },
    }
    times = _medians(rounds, work)
    floor = times["git status in each"]
    for name, value in times.items():
        budget = {"imi list": _LIST, "imi status": _STATUS_20}.get(name) if trees == 20 else None
        ratio = value / floor if name.endswith(("status", "list")) and name != "imi list" else None
        shown = None if budget else ratio
        limit = _STATUS_RATIO if trees > 20 and name == "imi status" else budget
        yield Row(f"{trees} worktrees: {name}", value, "ms", floor if shown else None, "", shown, limit)


def _changing(place: _Place, peers: Sequence[Peer], rounds: int) -> Iterator[Row]:
    creators, removers = _creators(place, peers), _removers(place, peers)
    created = _medians(rounds, creators)
    bare = created["git worktree add"]
    for name, value in created.items():
        yield Row(f"create: {name}", value, "ms", bare, "", value / bare)
    yield Row("create: imi feat beyond git", created["imi feat"] - bare, "ms", budget=_CREATE_EXTRA)
    for name, value in _removals(place, removers, rounds).items():
        yield Row(f"remove: {name}", value, "ms", budget=_REMOVE if name == "imi remove" else None)


def _resting(place: _Place, peers: Sequence[Peer]) -> Iterator[Row]:
    """The processor time and memory of dashboards that show these worktrees while nothing happens."""
    dashboards = {"imi": [IMI, "monitor"]}
    dashboards |= {
        peer.program: [shutil.which(peer.program) or peer.program, *peer.dashboard]
        for peer in peers
        if peer.dashboard is not None
    }
    for name, argv in dashboards.items():
        with Pane(argv, place.world.main, place.env) as pane:
            time.sleep(_SETTLE_SECONDS)
            before, begun = pane.cpu(), time.perf_counter()
            time.sleep(_REST_SECONDS)
            used = (pane.cpu() - before) / (time.perf_counter() - begun) * 100
            if pane.process.poll() is not None:
                print(f"{name} ended at once: it is not measured at rest", file=sys.stderr)
                continue
            yield Row(f"at rest: {name}", used, "%")
            yield Row(f"memory: {name}", pane.rss(), "MB")


def _creators(place: _Place, peers: Sequence[Peer]) -> dict[str, Callable[[], object]]:
    def bare() -> None:
        name = place.new_name()
        place.run("git", "worktree", "add", "-q", "-b", name, f"{place.world.main}.{name}", "HEAD")

    def peers_own(peer: Peer) -> None:
        place.run(peer.program, *_named(peer.create or (), place.new_name()))

    found: dict[str, Callable[[], object]] = {
        "git worktree add": bare,
        "imi feat": lambda: place.run(IMI, "feat", place.new_name()),
    }
    return found | {_title(peer.program, peer.create): partial(peers_own, peer) for peer in peers if peer.create}


def _removers(place: _Place, peers: Sequence[Peer]) -> dict[str, Callable[[str, str], object]]:
    """Each removes a clean worktree, given its folder and its branch; the branch stays."""
    found: dict[str, Callable[[str, str], object]] = {
        "git worktree remove": lambda path, _: place.run("git", "worktree", "remove", path),
        "imi remove": lambda path, _: place.run(IMI, "remove", os.path.basename(path)),
    }
    for peer in peers:
        if peer.remove:
            command = peer.remove
            found[_title(peer.program, command)] = lambda path, branch, peer=peer, command=command: place.run(  # type: ignore[misc]
                peer.program, *_named(command, branch, path)
            )
    return found


def _removals(place: _Place, removers: dict[str, Callable[[str, str], object]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in removers}
    for _ in range(rounds):
        for name, remove in removers.items():
            branch = place.new_name()
            path = f"{place.world.main}.{branch}"
            git(place.world.main, "worktree", "add", "-q", "-b", branch, path, "HEAD")
            times[name].append(_timed(partial(remove, path, branch)))
    return {name: statistics.median(each) for name, each in times.items()}


def _medians(rounds: int, work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median milliseconds of each, taken in turns, after one that does not count (caches, the registry)."""
    for act in work.values():
        act()
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, act in work.items():
            times[name].append(_timed(act))
    return {name: statistics.median(each) for name, each in times.items()}


def _timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def _start(argv: Sequence[str], env: dict[str, str], cwd: str) -> int:
    nowhere = [(os.POSIX_SPAWN_OPEN, at, os.devnull, os.O_RDWR, 0) for at in (0, 1, 2)]
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(cwd)
        return os.posix_spawnp(argv[0], list(argv), env, file_actions=nowhere)
    finally:
        os.fchdir(here)
        os.close(here)


def _wait(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def _named(command: Sequence[str], name: str, path: str = "") -> list[str]:
    return [word.replace("{name}", name).replace("{path}", path) for word in command]


def _title(program: str, command: Sequence[str] | None) -> str:
    return " ".join([program, *(word for word in command or () if not word.startswith(("-", "{")))])


def _write(folder: str, name: str) -> None:
    with open(os.path.join(folder, name), "a", encoding="ascii") as file:
        file.write("y = 2\n")
