"""Git status of every worktree, asked only where something happened, and by a slow rolling sweep.

Never two questions at once for one worktree, never more than there are cores, never more often than a tenth of the
time goes into it. In a big tree only the paths that changed are asked, and the whole when it is quiet again.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from imi_monitor.git import refs, spawn, worktree_state
from imi_monitor.git.refs import trunk_ref
from imi_monitor.git.runner import Git
from imi_monitor.git.worktree_state import TrunkPosition
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import GitState, Key
from imi_monitor.sources.hints import (
    AllStatusesRead,
    FilesChanged,
    GitDirChanged,
    GitDirsUncertain,
    Hint,
    RefreshRequested,
    RefsChanged,
    RosterRead,
)
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source
from imi_monitor.sources.timers import sleep_aligned

_SHORTEST = 0.5  # seconds between two questions about one worktree
_SHARE = 0.1  # of a core, for one busy worktree
_SETTLE = 0.03  # a save is several events: ask after the last of them
_SWEEP_SHARE = 0.0002  # of a core, for looking again at what nobody told us about
_SWEEP_SHORTEST = 5.0
_GLANCED_AT = 20  # worktrees each time whose index and HEAD are looked at, which costs next to nothing
_BIG_INDEX = 600_000  # bytes of an index (some 5,000 files) from which asking for single paths pays
_MOST_PATHS = 20
_QUIET = 3.0  # seconds without events until a partial answer is replaced by a whole one
_MOST_BACKOFF = 60.0


@dataclass
class _Tree:
    """What we know about asking one worktree."""

    entry: RosterEntry
    state: GitState | None = None
    asked_at: float = 0.0
    cost: float = 0.0  # seconds of a core
    running: bool = False
    wanted: bool = True
    paths: set[str] | None = None  # None: everything
    failures: int = 0
    timer: asyncio.TimerHandle | None = None
    marks: tuple[int, ...] = ()  # when git last wrote its index and HEAD, before it was asked


@dataclass(frozen=True)
class TrunkSettings:
    remote: str = "origin"
    configured: str | None = None


class GitStatusSource(Source):
    """Runs git status where hints say that something changed."""

    name = "status"

    def __init__(self, settings: TrunkSettings | None = None) -> None:
        self.reads = 0  # how many statuses were read, for tests and benchmarks
        self._settings = settings or TrunkSettings()
        self._trees: dict[Key, _Tree] = {}
        self._trunks: dict[str, TrunkPosition] = {}
        self._refs_timers: dict[str, asyncio.TimerHandle] = {}
        self._receiver: ReadingReceiver | None = None
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._unasked: set[Key] = set()  # no answer about them yet, good or bad
        self._stopping = False
        self._pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 2, thread_name_prefix="git")

    # -- hints ------------------------------------------------------------------------------------------------------

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._set_roster(entries)
            case FilesChanged(key, paths):
                self._mark_changed(key, paths)
            case GitDirChanged(admin_dir):
                for key, tree in self._trees.items():
                    if tree.entry.admin_dir == admin_dir:
                        self._mark_changed(key, None)
            case GitDirsUncertain(common_dir):
                self._compare_stamps([tree for tree in self._trees.values() if tree.entry.common_dir == common_dir])
            case RefsChanged(common_dir):
                self._schedule_refs(common_dir)
            case RefreshRequested():
                for key, tree in self._trees.items():
                    self._mark_changed(key, None)
                    self._schedule_refs(tree.entry.common_dir)

    def _set_roster(self, entries: tuple[RosterEntry, ...]) -> None:
        current = {entry.key: entry for entry in entries if not entry.missing and entry.admin_dir}
        for key in [key for key in self._trees if key not in current]:
            self._cancel(self._trees.pop(key))
            self._answered(key)
        standing = {entry.common_dir for entry in current.values()}
        self._trunks = {common: trunk for common, trunk in self._trunks.items() if common in standing}
        for key, entry in current.items():
            tree = self._trees.get(key)
            if tree is None or tree.entry.path != entry.path or tree.entry.admin_dir != entry.admin_dir:
                self._trees[key] = _Tree(entry)
                self._unasked.add(key)
                self._queue.put_nowait(key)
            else:
                moved = (tree.entry.branch, tree.entry.head, tree.entry.trusted) != (
                    entry.branch,
                    entry.head,
                    entry.trusted,
                )
                tree.entry = entry
                if moved:
                    self._mark_changed(key, None)
        self._report_all_read()

    def _answered(self, key: Key) -> None:
        if key in self._unasked:
            self._unasked.remove(key)
            self._report_all_read()

    def _report_all_read(self) -> None:
        if not self._unasked and self._receiver is not None:
            self._receiver.send_hint(AllStatusesRead())

    def _mark_changed(self, key: Key, paths: frozenset[str] | None) -> None:
        tree = self._trees.get(key)
        if tree is None:
            return
        if paths is None or (tree.wanted and tree.paths is None):
            tree.paths = None
        else:
            tree.paths = (tree.paths or set()) | paths
        tree.wanted = True
        self._schedule(tree, _SETTLE)

    def _compare_stamps(self, trees: Sequence[_Tree]) -> None:
        """Notice that git wrote an index or HEAD without an event; this costs next to nothing."""
        for tree in trees:
            if not tree.wanted and _marks(tree.entry.admin_dir) != tree.marks:
                self._mark_changed(tree.entry.key, None)

    def _schedule_refs(self, common_dir: str) -> None:
        """Branches moved: the distances of all worktrees may change."""
        if common_dir not in self._refs_timers and self._receiver is not None:
            loop = asyncio.get_running_loop()
            self._refs_timers[common_dir] = loop.call_later(0.1, self._look_at_refs, common_dir)

    # -- asking -----------------------------------------------------------------------------------------------------

    async def run(self, receiver: ReadingReceiver) -> None:
        self._receiver = receiver
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(os.cpu_count() or 2):
                    group.create_task(self._work())
                group.create_task(self._sweep())
        finally:
            self._stopping = True  # threads that run git see it and kill their child
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            tree = self._trees.get(key)
            if tree is not None and tree.wanted and not tree.running:
                await self._ask(tree)

    async def _ask(self, tree: _Tree) -> None:
        assert self._receiver is not None
        paths = self._paths_of(tree)
        tree.running, tree.wanted, tree.paths = True, False, set()
        tree.marks = _marks(tree.entry.admin_dir)
        key, loop = tree.entry.key, asyncio.get_running_loop()
        try:
            state = await loop.run_in_executor(self._pool, self._read, tree, paths)
        except (ImiError, OSError) as error:
            tree.failures += 1
            sentence = error.sentence if isinstance(error, ImiError) else str(error)
            if self._trees.get(key) is tree:
                self._receiver.set_git_failure(key, sentence)
        else:
            tree.state, tree.failures = state, 0
            if self._trees.get(key) is tree:
                self._receiver.set_git_state(key, state)
        finally:
            self.reads += 1
            self._answered(key)
            tree.running = False
            tree.asked_at = time.monotonic()
        self._afterwards(tree)

    def _afterwards(self, tree: _Tree) -> None:
        """What has to follow: what came in meanwhile, a retry, or the whole after a part."""
        if self._trees.get(tree.entry.key) is not tree:
            return
        if tree.wanted:
            self._schedule(tree, _SETTLE)
        elif tree.failures:
            tree.wanted, tree.paths = True, None
            self._schedule(tree, min(_MOST_BACKOFF, 2.0**tree.failures))
        elif tree.state is not None and tree.state.partial:
            tree.wanted, tree.paths = True, None
            self._schedule(tree, max(_QUIET, 10 * tree.cost))

    def _paths_of(self, tree: _Tree) -> list[str] | None:
        """The paths to ask about, or None for the whole tree."""
        if tree.paths is None or tree.state is None or not tree.paths or len(tree.paths) > _MOST_PATHS:
            return None
        try:
            big = os.stat(os.path.join(tree.entry.admin_dir, "index")).st_size > _BIG_INDEX
        except OSError:
            return None
        return sorted(tree.paths) if big else None

    def _schedule(self, tree: _Tree, pause: float) -> None:
        """Ask after `pause`, but not before this worktree's share of time is over."""
        if tree.running or self._receiver is None:
            return
        rest = tree.asked_at + max(_SHORTEST, tree.cost / _SHARE) - time.monotonic() if tree.asked_at else 0.0
        delay = max(pause, rest)
        self._cancel(tree)
        tree.timer = asyncio.get_running_loop().call_later(delay, self._queue.put_nowait, tree.entry.key)

    def _cancel(self, tree: _Tree) -> None:
        if tree.timer is not None:
            tree.timer.cancel()
            tree.timer = None

    async def _sweep(self) -> None:
        """Look again at one worktree after the other, so slowly that it costs nothing."""
        next_at = 0.0
        for turn in itertools.count():
            await sleep_aligned(_SWEEP_SHORTEST)
            idle = [tree for tree in self._trees.values() if not tree.running and not tree.wanted]
            first = turn * _GLANCED_AT % max(1, len(idle))
            self._compare_stamps(idle[first : first + _GLANCED_AT])
            if idle and time.monotonic() >= next_at:
                oldest = min(idle, key=lambda tree: tree.asked_at)
                oldest.wanted, oldest.paths = True, None
                await self._ask(oldest)
                if oldest.entry.is_main:  # once a lap: where the trunk stands, should nobody have told
                    self._schedule_refs(oldest.entry.common_dir)
                next_at = time.monotonic() + oldest.cost / _SWEEP_SHARE

    # -- in a thread of the pool ------------------------------------------------------------------------------------

    def _read(self, tree: _Tree, paths: Sequence[str] | None) -> GitState:
        entry, before = tree.entry, spawn.child_cpu_seconds() + time.thread_time()
        git = self._git(entry)
        try:
            trunk = self._trunks.get(entry.common_dir) or self._find_trunk(entry.common_dir, git)
            return worktree_state.read_state(git, trunk, tree.state, paths, linked=not entry.is_main)
        finally:
            tree.cost = spawn.child_cpu_seconds() + time.thread_time() - before

    def _git(self, entry: RosterEntry) -> Git:
        """git there, which ends when we do: a child must not outlive the one who asked."""
        return Git(
            entry.common_dir, entry.admin_dir, entry.path, trusted=entry.trusted, cancelled=lambda: self._stopping
        )

    def _find_trunk(self, common_dir: str, git: Git) -> TrunkPosition:
        main = git.at(common_dir, None)
        name = refs.default_branch(main, self._settings.remote, self._settings.configured)
        ref = trunk_ref(main, self._settings.remote, name)
        found = TrunkPosition(ref, refs.resolve(main, ref) if ref else None)
        self._trunks[common_dir] = found
        return found

    # -- refs -------------------------------------------------------------------------------------------------------

    def _look_at_refs(self, common_dir: str) -> None:
        self._refs_timers.pop(common_dir, None)
        task = asyncio.ensure_future(self._reread_refs(common_dir))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _reread_refs(self, common_dir: str) -> None:
        """One process tells every branch's distance to its upstream; only what moved is asked further."""
        assert self._receiver is not None
        trees = [tree for tree in self._trees.values() if tree.entry.common_dir == common_dir]
        if not trees:
            return
        git = self._git(trees[0].entry).at(common_dir, None)
        before = self._trunks.get(common_dir)
        loop = asyncio.get_running_loop()
        try:
            known = await loop.run_in_executor(self._pool, refs.tracking, git)
            trunk = await loop.run_in_executor(self._pool, self._find_trunk, common_dir, git)
        except (ImiError, OSError) as error:
            self._receiver.set_failure(self.name, "branches", str(error))
            return
        self._receiver.set_healthy(self.name)
        for tree in trees:
            branch = known.get(tree.entry.branch or "")
            state = tree.state
            if state is None:
                continue
            told = replace(state, ahead=branch.ahead, behind=branch.behind) if branch is not None else state
            if branch is not None and branch.sha != state.head:
                self._mark_changed(tree.entry.key, None)
            elif before is not None and before != trunk:
                await self._measure(tree, told, trunk)
            elif told != state:
                tree.state = told
                self._receiver.set_git_state(tree.entry.key, told)

    async def _measure(self, tree: _Tree, told: GitState, trunk: TrunkPosition) -> None:
        """How far it is from the trunk now; whoever is asked for everything meanwhile is asked once more."""
        assert self._receiver is not None
        loop, state = asyncio.get_running_loop(), tree.state
        measured = await loop.run_in_executor(
            self._pool, worktree_state.update_trunk_distance, self._git(tree.entry), trunk, told
        )
        if tree.running or tree.state is not state:
            self._mark_changed(tree.entry.key, None)
        elif self._trees.get(tree.entry.key) is tree:
            tree.state = measured
            self._receiver.set_git_state(tree.entry.key, measured)


def _marks(admin_dir: str) -> tuple[int, ...]:
    """When git last wrote its index and HEAD there; empty when there are none."""
    try:
        return tuple(os.stat(f"{admin_dir}/{name}").st_mtime_ns for name in ("index", "HEAD"))
    except OSError:
        return ()
