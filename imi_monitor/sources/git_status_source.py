"""Runs git status for a worktree after a change in it, and for one worktree after the other by a slow sweep.

Each worktree has at most one git status running and uses at most a tenth of a core; all together use at most as many
processes as there are cores. In a big worktree only the changed paths are read, and all of it when it is quiet again.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from imi_monitor.git import commits, distances, refs, spawn, worktree_state
from imi_monitor.git.runner import Git
from imi_monitor.git.worktree_state import TrunkPosition
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import GitState, Key
from imi_monitor.sources.files.checkout import is_checked_out_now
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
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.sources.timers import sleep_aligned

_SHORTEST = 0.5  # seconds between two reads of one worktree
_CPU_SHARE = 0.1  # of a core, for one busy worktree
_GRACE = 0.03  # seconds after an event: a save is several events
_REFS_GRACE = 0.1
_SWEEP_CPU_SHARE = 0.0002  # the share of a core for finding changes without an event
_SWEEP_INTERVAL = 5.0
_STAMPS_PER_SWEEP = 20  # worktrees whose time stamps are compared at each sweep
_BIG_INDEX = 600_000  # bytes of an index (about 5,000 files) from which reading single paths is faster
_MOST_PATHS = 20
_QUIET = 3.0  # seconds without events until a partial status is replaced by a whole one
_LONGEST_RETRY = 60.0
_LOCKED_PAUSE = 0.1  # until it is asked again whether git still writes the worktree
_LONGEST_LOCK = 5.0  # seconds that a read waits for git, unless it is the first one


@dataclass
class _Tree:
    """One worktree and its schedule."""

    entry: RosterEntry
    state: GitState | None = None
    read_at: float = 0.0
    cost: float = 0.0  # CPU seconds of the last read
    reading: bool = False
    changed: bool = True  # since the last read began
    paths: set[str] | None = None  # that changed; None: all may have
    failures: int = 0
    timer: asyncio.TimerHandle | None = None
    stamps: tuple[int, ...] = ()  # of its index and HEAD when the last read began


@dataclass(frozen=True)
class TrunkSettings:
    """The configured remote and default branch, which decide what the trunk is."""

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
        self._trunk_lock = threading.Lock()
        self._refs_timers: dict[str, asyncio.TimerHandle] = {}
        self._receiver: ReadingReceiver | None = None
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._unread: set[Key] = set()  # worktrees without a first status or failure
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
            self._unread.discard(key)
        common_dirs = {entry.common_dir for entry in current.values()}
        self._trunks = {common: trunk for common, trunk in self._trunks.items() if common in common_dirs}
        for key, entry in current.items():
            tree = self._trees.get(key)
            if tree is None or tree.entry.path != entry.path or tree.entry.admin_dir != entry.admin_dir:
                self._trees[key] = _Tree(entry)
                self._unread.add(key)
                self._queue.put_nowait(key)
            else:
                before, tree.entry = tree.entry, entry
                if (before.branch, before.head, before.trusted) != (entry.branch, entry.head, entry.trusted):
                    self._mark_changed(key, None)
        self._report_all_read()

    def _note_first_read(self, key: Key) -> None:
        if key in self._unread:
            self._unread.remove(key)
            self._report_all_read()

    def _report_all_read(self) -> None:
        if not self._unread and self._receiver is not None:
            self._receiver.send_hint(AllStatusesRead())

    def _mark_changed(self, key: Key, paths: frozenset[str] | None) -> None:
        tree = self._trees.get(key)
        if tree is None:
            return
        if paths is None or (tree.changed and tree.paths is None):
            tree.paths = None
        else:
            tree.paths = (tree.paths or set()) | paths
        tree.changed = True
        self._schedule(tree, _GRACE)

    def _compare_stamps(self, trees: Sequence[_Tree]) -> None:
        """Find an index or HEAD that was written without an event, by two `stat` calls for each worktree."""
        for tree in trees:
            if not tree.changed and _stamps(tree.entry.admin_dir) != tree.stamps:
                self._mark_changed(tree.entry.key, None)

    def _schedule_refs(self, common_dir: str) -> None:
        """Read the branches soon: when they moved, the distances of all worktrees may have changed."""
        if common_dir not in self._refs_timers and self._receiver is not None:
            loop = asyncio.get_running_loop()
            self._refs_timers[common_dir] = loop.call_later(_REFS_GRACE, self._start_reading_refs, common_dir)

    # -- reading ----------------------------------------------------------------------------------------------------

    async def run(self, receiver: ReadingReceiver) -> None:
        self._receiver = receiver
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(os.cpu_count() or 2):
                    group.create_task(self._read_queued())
                group.create_task(self._sweep())
        finally:
            self._stopping = True  # threads that run git then kill their child processes
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _read_queued(self) -> None:
        while True:
            key = await self._queue.get()
            tree = self._trees.get(key)
            if tree is not None and tree.changed and not tree.reading:
                if _is_being_written(tree):
                    self._schedule(tree, _LOCKED_PAUSE)
                else:
                    await self._read(tree)

    async def _read(self, tree: _Tree) -> None:
        assert self._receiver is not None
        paths = self._paths_of(tree)
        tree.reading, tree.changed, tree.paths = True, False, set()
        tree.stamps = _stamps(tree.entry.admin_dir)
        key, loop = tree.entry.key, asyncio.get_running_loop()
        try:
            state = await loop.run_in_executor(self._pool, self._run_git, tree, paths)
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
            self._note_first_read(key)
            tree.reading = False
            tree.read_at = time.monotonic()
        self._schedule_next(tree)

    def _schedule_next(self, tree: _Tree) -> None:
        """Schedule a read after changes meanwhile, after a failure, or after a partial status."""
        if self._trees.get(tree.entry.key) is not tree:
            return
        if tree.changed:
            self._schedule(tree, _GRACE)
        elif tree.failures:
            tree.changed, tree.paths = True, None
            self._schedule(tree, min(_LONGEST_RETRY, 2.0**tree.failures))
        elif tree.state is not None and tree.state.partial:
            tree.changed, tree.paths = True, None
            self._schedule(tree, max(_QUIET, 10 * tree.cost))

    def _paths_of(self, tree: _Tree) -> list[str] | None:
        """Return the paths to read, or None for the whole worktree."""
        if tree.paths is None or tree.state is None or not tree.paths or len(tree.paths) > _MOST_PATHS:
            return None
        try:
            big = os.stat(os.path.join(tree.entry.admin_dir, "index")).st_size > _BIG_INDEX
        except OSError:
            return None
        return sorted(tree.paths) if big else None

    def _schedule(self, tree: _Tree, pause: float) -> None:
        """Read after `pause`, but not before this worktree may use the CPU again."""
        if tree.reading or self._receiver is None:
            return
        rest = tree.read_at + max(_SHORTEST, tree.cost / _CPU_SHARE) - time.monotonic() if tree.read_at else 0.0
        delay = max(pause, rest)
        self._cancel(tree)
        tree.timer = asyncio.get_running_loop().call_later(delay, self._queue.put_nowait, tree.entry.key)

    def _cancel(self, tree: _Tree) -> None:
        if tree.timer is not None:
            tree.timer.cancel()
            tree.timer = None

    async def _sweep(self) -> None:
        """Read one worktree after the other, for changes without an event."""
        next_at = 0.0
        for turn in itertools.count():
            await sleep_aligned(_SWEEP_INTERVAL)
            idle = [tree for tree in self._trees.values() if not tree.reading and not tree.changed]
            first = turn * _STAMPS_PER_SWEEP % max(1, len(idle))
            self._compare_stamps(idle[first : first + _STAMPS_PER_SWEEP])
            if idle and time.monotonic() >= next_at:
                oldest = min(idle, key=lambda tree: tree.read_at)
                oldest.changed, oldest.paths = True, None
                await self._read(oldest)
                if oldest.entry.is_main:  # once in each round of the sweep
                    self._schedule_refs(oldest.entry.common_dir)
                next_at = time.monotonic() + oldest.cost / _SWEEP_CPU_SHARE

    # -- in a thread of the pool ------------------------------------------------------------------------------------

    def _run_git(self, tree: _Tree, paths: Sequence[str] | None) -> GitState:
        entry, before = tree.entry, spawn.child_cpu_seconds() + time.thread_time()
        git = self._git(entry)
        try:
            with self._trunk_lock:  # one thread reads what all worktrees of a repository share
                trunk = self._trunks.get(entry.common_dir) or self._find_trunk(entry.common_dir, git)
            return worktree_state.read_state(git, trunk, tree.state, paths, linked=not entry.is_main)
        finally:
            tree.cost = spawn.child_cpu_seconds() + time.thread_time() - before

    def _git(self, entry: RosterEntry) -> Git:
        """Return git for the worktree; its processes are killed when the source ends."""
        return Git(
            entry.common_dir, entry.admin_dir, entry.path, trusted=entry.trusted, cancelled=lambda: self._stopping
        )

    def _find_trunk(self, common_dir: str, git: Git) -> TrunkPosition:
        main = git.at(common_dir, None)
        trunk = refs.find_trunk(main, self._settings.remote, self._settings.configured)
        heads = [tree.entry.head for tree in list(self._trees.values()) if tree.entry.common_dir == common_dir]
        known = [head for head in heads if head is not None]
        if trunk.sha is not None:
            distances.read_distances(main, known, trunk.sha)  # of all worktrees, so that each needs git status only
        commits.read_commits(main, known)
        found = self._trunks[common_dir] = TrunkPosition(trunk.ref, trunk.sha)
        return found

    # -- refs -------------------------------------------------------------------------------------------------------

    def _start_reading_refs(self, common_dir: str) -> None:
        self._refs_timers.pop(common_dir, None)
        task = asyncio.ensure_future(self._read_refs_until_stopped(common_dir))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _read_refs_until_stopped(self, common_dir: str) -> None:
        try:
            await self._read_refs(common_dir)
        except RuntimeError:  # the pool takes no more work
            if not self._stopping:
                raise

    async def _read_refs(self, common_dir: str) -> None:
        """Read the distances of all branches to their upstreams by one process; read more only of what moved."""
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
            updated = replace(state, ahead=branch.ahead, behind=branch.behind) if branch is not None else state
            if branch is not None and branch.sha != state.head:
                self._mark_changed(tree.entry.key, None)
            elif before is not None and before != trunk:
                await self._update_trunk_distance(tree, updated, trunk)
            elif updated != state:
                tree.state = updated
                self._receiver.set_git_state(tree.entry.key, updated)

    async def _update_trunk_distance(self, tree: _Tree, updated: GitState, trunk: TrunkPosition) -> None:
        assert self._receiver is not None
        loop, state = asyncio.get_running_loop(), tree.state
        measured = await loop.run_in_executor(
            self._pool, worktree_state.update_trunk_distance, self._git(tree.entry), trunk, updated
        )
        if tree.reading or tree.state is not state:
            self._mark_changed(tree.entry.key, None)  # a read came in between: the distance may be older than it
        elif self._trees.get(tree.entry.key) is tree:
            tree.state = measured
            self._receiver.set_git_state(tree.entry.key, measured)


def make_source(context: SourceContext) -> GitStatusSource:
    remote = context.settings.text("git.remote_name")
    return GitStatusSource(TrunkSettings(remote, context.settings.text("git.default_branch") or None))


def _is_being_written(tree: _Tree) -> bool:
    """Whether git writes the worktree now: its status would show files that are about to be written as deleted."""
    if tree.state is None:
        return is_checked_out_now(tree.entry.admin_dir)
    return is_checked_out_now(tree.entry.admin_dir, longest=_LONGEST_LOCK)


def _stamps(admin_dir: str) -> tuple[int, ...]:
    """Return when index and HEAD were written; empty if one is missing."""
    try:
        return tuple(os.stat(f"{admin_dir}/{name}").st_mtime_ns for name in ("index", "HEAD"))
    except OSError:
        return ()
