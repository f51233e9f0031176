"""File changes: watches every worktree, the workspaces of runs, every repository's git files and the registry's folder.

Events of worktrees become changes; all events become hints for the other sources. What may have been missed becomes a
hint that everything there may have changed.
"""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress

from imi_monitor.model import times
from imi_monitor.sources.files.change_coalescer import GRACE, ChangeCoalescer
from imi_monitor.sources.files.ignore_rules import IgnoreRules, global_ignore_file
from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchRoot
from imi_monitor.sources.hints import AllStatusesRead, Hint, OpenRunsRead, RosterRead, WorktreeListChanged
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.sources.watch_sinks import (
    GitDirSink,
    RefsSink,
    RegistrySink,
    SharedFolderSink,
    WorkspaceSink,
    WorktreeSink,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.run import Run

_REFS = ("heads", "remotes", "tags")
_REGISTRY = "registry"
_LONGEST_DELAY = 5.0  # seconds that a watcher with a slow start waits for the first git statuses


class ChangesSource(Source):
    """Keeps the watch roots in line with the roster."""

    name = "files"

    def __init__(
        self,
        watcher: FileWatcher,
        database: str,
        find_shared_folders: Callable[[str], tuple[str, tuple[str, ...]] | None],
    ) -> None:
        self._find_shared_folders = find_shared_folders
        self._watcher = watcher
        self._database = database
        self._ignore_file = global_ignore_file()
        self._worktrees: dict[str, WorktreeSink] = {}  # by root name
        self._shared_folders: dict[str, SharedFolderSink] = {}  # by root name
        self._workspaces: dict[str, WorkspaceSink] = {}  # by root name
        self._runs: tuple[Run, ...] = ()  # open, without a worktree
        self._roster: tuple[RosterEntry, ...] | None = None
        self._admin_dirs: dict[str, tuple[str, ...]] = {}  # by repository
        self._polled: dict[str, WorktreeSink] = {}  # sinks of the polled worktrees; the one polled last is at the end
        self._replaced: set[str] = set()  # roots with a folder that is gone or replaced
        self._began = False  # the worktrees that were there at the start are watched
        self._flush_timer: asyncio.TimerHandle | None = None
        self._rosters: asyncio.Queue[tuple[RosterEntry, ...]] = asyncio.Queue()
        self._statuses_read = asyncio.Event()

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._roster = entries
                self._rosters.put_nowait(entries)
            case OpenRunsRead(runs):
                places = [(one.id, one.workspace) for one in runs]
                if places != [(one.id, one.workspace) for one in self._runs]:
                    self._runs = runs
                    if self._roster is not None:
                        self._rosters.put_nowait(self._roster)
            case AllStatusesRead():
                self._statuses_read.set()

    async def run(self, receiver: ReadingReceiver) -> None:
        self.receiver = receiver
        try:
            await self._watch_registry()
            receiver.set_healthy(self.name)
            entries = await self._rosters.get()
            if self._watcher.slow_start:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LONGEST_DELAY):
                        await self._statuses_read.wait()
            while True:
                while not self._rosters.empty():
                    entries = self._rosters.get_nowait()
                await self._watch(entries)
                entries = await self._rosters.get()
        except OSError as error:
            receiver.set_failure(self.name, "watching files", str(error))
            await asyncio.Event().wait()  # the other sources continue with their slow sweeps
        finally:
            if self._flush_timer is not None:
                self._flush_timer.cancel()

    # -- roots ------------------------------------------------------------------------------------------------------

    async def _watch(self, entries: tuple[RosterEntry, ...]) -> None:
        wanted = {_root_name(entry): entry for entry in entries if not entry.missing and entry.admin_dir}
        replaced, self._replaced = self._replaced, set()
        for name, sink in list(self._worktrees.items()):
            if name not in wanted or sink.has_moved(wanted[name]):
                self._watcher.remove(name)
                del self._worktrees[name]
                self._polled.pop(name, None)
        if _REGISTRY in replaced:
            await self._watch_registry()
        await self._watch_repositories(entries, replaced)
        paths = sorted(entry.path for entry in entries)
        for name, entry in wanted.items():
            if name not in self._worktrees or name in replaced:
                await self._watch_worktree(name, entry, paths)
        await self._watch_workspaces(replaced)
        self._began = True

    async def _watch_workspaces(self, replaced: set[str]) -> None:
        """Watch the folder of each run; what several share is shown with the first of them, and without an author."""
        wanted: dict[str, WorkspaceSink] = {}
        for one in self._runs:
            name = f"workspace {one.workspace or one.folder}"
            wanted[name] = WorkspaceSink(self, name, one, shared=name in wanted)
        for name in [name for name, sink in self._workspaces.items() if sink.about != _about(wanted.get(name))]:
            self._watcher.remove(name)
            del self._workspaces[name]
        for name, sink in wanted.items():
            if name not in self._workspaces or name in replaced:
                self._workspaces[name] = sink
                await self._watcher.add(WatchRoot(name, (sink.path,), sink, deep=True, descend=sink.descend))

    async def _watch_worktree(self, name: str, entry: RosterEntry, sorted_paths: Sequence[str]) -> None:
        rules = IgnoreRules(entry.path, entry.admin_dir, entry.common_dir, self._ignore_file)
        sink = self._worktrees.get(name)
        if sink is None:
            sink = self._worktrees[name] = WorktreeSink(self, name, entry, rules, new=self._began)
        else:  # its changes that wait are kept
            sink.rules = rules
        inner = frozenset(list_inside(entry.path, sorted_paths))

        def descend(path: str) -> bool:
            if path in inner or os.path.basename(path) == ".git":
                return False
            return not rules.prunes(path[len(entry.path) + 1 :])

        await self._watcher.add(WatchRoot(name, (entry.path,), sink, deep=True, descend=descend))

    async def _watch_registry(self) -> None:
        sink = RegistrySink(self, _REGISTRY, os.path.basename(self._database))
        await self._watcher.add(WatchRoot(_REGISTRY, (os.path.dirname(self._database),), sink))

    async def _watch_repositories(self, entries: tuple[RosterEntry, ...], replaced: set[str]) -> None:
        found: dict[str, list[str]] = {}
        for entry in entries:
            admin_dirs = found.setdefault(entry.common_dir, [])
            if entry.admin_dir and entry.admin_dir != entry.common_dir:
                admin_dirs.append(entry.admin_dir)
        for common in [common for common in self._admin_dirs if common not in found]:
            self._unwatch_repository(common)
        for common, admin_dirs in found.items():
            new = common not in self._admin_dirs
            if new or f"refs {common}" in replaced:
                await self._watch_refs(common)
            listed_anew = self._admin_dirs.get(common) != tuple(admin_dirs)
            sync = f"sync {common}"
            # its folder may have been made with the first worktree
            if new or sync in replaced or (listed_anew and sync not in self._shared_folders):
                await self._watch_shared_folders(common, next(e.key.repo for e in entries if e.common_dir == common))
            if listed_anew or f"git {common}" in replaced:
                self._admin_dirs[common] = tuple(admin_dirs)
                folders = (common, os.path.join(common, "worktrees"), os.path.join(common, "info"), *admin_dirs)
                name = f"git {common}"
                await self._watcher.add(WatchRoot(name, folders, GitDirSink(self, name, common)))

    def _unwatch_repository(self, common: str) -> None:
        del self._admin_dirs[common]
        for name in (f"git {common}", f"refs {common}"):
            self._watcher.remove(name)
        if self._shared_folders.pop(f"sync {common}", None) is not None:
            self._watcher.remove(f"sync {common}")

    async def _watch_refs(self, common: str) -> None:
        refs, name = os.path.join(common, "refs"), f"refs {common}"

        def descend(path: str) -> bool:
            return path[len(refs) + 1 :].partition(os.sep)[0] in _REFS

        await self._watcher.add(WatchRoot(name, (refs,), RefsSink(self, name, common), deep=True, descend=descend))

    async def _watch_shared_folders(self, common: str, repo: str) -> None:
        """Watch `sync/` and the folder it is or will be in: a change there is a change in every worktree, through its links."""
        found = await asyncio.to_thread(self._find_shared_folders, common)
        if found is not None:
            home, folders = found
            name = f"sync {common}"
            sink = self._shared_folders[name] = SharedFolderSink(self, name, home, folders, common, repo)
            await self._watcher.add(WatchRoot(name, (home,), sink, deep=True, descend=sink.descend))

    # -- for the sinks ----------------------------------------------------------------------------------------------

    def watch_again(self, root: str) -> None:
        """Watch the root anew, if the next roster still has it."""
        self._replaced.add(root)
        self.receiver.send_hint(WorktreeListChanged())

    def forget_ignore_rules(self, common: str) -> None:
        """`info/exclude` changed: read the ignore rules of the repository's worktrees again."""
        for sink in self._worktrees.values():
            if sink.entry.common_dir == common:
                sink.read_again()

    def coalesce(self, coalescer: ChangeCoalescer, batch: Sequence[FileEvent]) -> None:
        """Report the changes that the events complete; the others follow when their wait is over."""
        changes = coalescer.add(batch, time.monotonic(), times.stamp())
        if changes:
            self.receiver.add_changes(changes)
        self._schedule_flush()

    def report_mode(self, root: str, sink: WorktreeSink) -> None:
        """Report how many worktrees are polled now that this one's mode has changed."""
        self._polled.pop(root, None)
        if sink.mode == "polling" and self._worktrees.get(root) is sink:
            self._polled[root] = sink
        note = None
        if self._polled:
            last = self._polled[next(reversed(self._polled))]
            note = f"polling {len(self._polled)} of {len(self._worktrees)} worktrees: {last.mode_reason}"
        self.receiver.set_healthy(self.name, note)

    def _coalescers(self) -> list[ChangeCoalescer]:
        shared = [sink.coalescer for sink in self._shared_folders.values()]
        workspaces = [sink.coalescer for sink in self._workspaces.values()]
        return [*(sink.coalescer for sink in self._worktrees.values()), *shared, *workspaces]

    def _schedule_flush(self) -> None:
        if self._flush_timer is None:
            due = [coalescer.waiting_since for coalescer in self._coalescers()]
            first = min((moment for moment in due if moment is not None), default=None)
            if first is not None:
                pause = max(0.001, first + GRACE - time.monotonic())
                self._flush_timer = asyncio.get_running_loop().call_later(pause, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        now, at = time.monotonic(), times.stamp()
        for coalescer in self._coalescers():
            changes = coalescer.flush(now, at) if coalescer.waiting_since is not None else []
            if changes:
                self.receiver.add_changes(changes)
        self._schedule_flush()


def make_source(context: SourceContext) -> ChangesSource:
    return ChangesSource(context.watcher, context.database, context.find_shared_folders)


def list_inside(folder: str, sorted_paths: Sequence[str]) -> Sequence[str]:
    """Return the paths below the folder; in a sorted list they are neighbours."""
    begin, end = folder + os.sep, folder + chr(ord(os.sep) + 1)
    return sorted_paths[bisect_left(sorted_paths, begin) : bisect_left(sorted_paths, end)]


def _about(sink: WorkspaceSink | None) -> tuple[str, str | None] | None:
    return None if sink is None else sink.about


def _root_name(entry: RosterEntry) -> str:
    return f"worktree {entry.key.repo} {entry.key.worktree}"
