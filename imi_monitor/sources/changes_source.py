"""File changes: follows every worktree, every repository's git files and the registry's folder through one back end,
turns raw events into changes, and tells the other sources where it is worth looking again.

An event is a hint, a look is the truth: whatever may have been missed is passed on as "everything may have changed".
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence

from imi_monitor.git import layout
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.files.change_coalescer import GRACE, ChangeCoalescer
from imi_monitor.sources.files.ignore_rules import IgnoreRules
from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchRoot
from imi_monitor.sources.source import ReadingReceiver, RosterEntry

# what lies in a git directory and changes all the time without meaning anything to us
_NOISE = (".lock", "COMMIT_EDITMSG", "FETCH_HEAD", "gc.pid", "ORIG_HEAD~")
_REFS = ("heads", "remotes", "tags")
_REGISTRY = "registry"


class Listeners:
    """Whom to tell. The engine fills these in; sources do not know each other."""

    def __init__(
        self,
        *,
        touched: Callable[[Key, frozenset[str] | None], None],
        git_dir: Callable[[str], None],
        refs: Callable[[str], None],
        glance: Callable[[str | None], None],
        roster: Callable[[], None],
        registry: Callable[[], None],
    ) -> None:
        self.touched = touched
        self.git_dir = git_dir
        self.refs = refs
        self.glance = glance
        self.roster = roster
        self.registry = registry


class ChangesSource:
    """The sink of the back end."""

    name = "files"

    def __init__(
        self,
        events: FileWatcher,
        listeners: Listeners,
        database: str,
        excludes: str | None = None,
        first: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`first` is waited for before worktrees are followed: what happens meanwhile is looked at when that begins."""
        self._events = events
        self._tell = listeners
        self._database = database
        self._excludes = excludes
        self._first = first
        self._board: ReadingReceiver | None = None
        self._entries: dict[str, RosterEntry] = {}  # root name -> worktree
        self._repositories: dict[str, tuple[str, ...]] = {}  # common dir -> admin dirs
        self._settles: dict[str, ChangeCoalescer] = {}
        self._ignores: dict[str, IgnoreRules] = {}
        self._modes: dict[str, str] = {}
        self._anew: set[str] = set()  # roots of which a folder is gone or another one
        self._flush: asyncio.TimerHandle | None = None
        self._wanted: asyncio.Queue[tuple[RosterEntry, ...]] = asyncio.Queue()

    def follow(self, entries: tuple[RosterEntry, ...]) -> None:
        """The roster changed; called by the engine."""
        self._wanted.put_nowait(entries)

    async def run(self, board: ReadingReceiver) -> None:
        self._board = board
        await self._events.start(self)
        try:
            await self._follow_registry()
            board.well(self.name)
            while True:
                entries = await self._wanted.get()
                if self._first is not None:
                    await self._first()
                    self._first = None
                while not self._wanted.empty():
                    entries = self._wanted.get_nowait()
                await self._follow(entries)
        except OSError as error:
            board.fail(self.name, "following files", str(error))
            await asyncio.Event().wait()  # the other sources go on by their slow sweeps
        finally:
            await self._events.close()

    async def _follow(self, entries: tuple[RosterEntry, ...]) -> None:
        wanted = {_root_name(entry): entry for entry in entries if not entry.missing and entry.admin_dir}
        anew, self._anew = self._anew, set()
        for name in [name for name in self._entries if name not in wanted or _moved(self._entries[name], wanted[name])]:
            self._drop(name)
        if _REGISTRY in anew:
            await self._follow_registry()
        await self._follow_git(entries, anew)
        others = tuple(entry.path for entry in entries)
        for name, entry in wanted.items():
            if name not in self._entries or name in anew:
                await self._follow_one(name, entry, others)

    async def _follow_one(self, name: str, entry: RosterEntry, others: Sequence[str]) -> None:
        ignore = IgnoreRules(entry.path, entry.admin_dir, entry.common_dir, self._excludes)
        self._entries[name], self._ignores[name] = entry, ignore
        if name not in self._settles:  # followed anew, it goes on with what waits there
            self._settles[name] = ChangeCoalescer(
                entry.path,
                entry.key.repo,
                entry.key.worktree,
                lambda path: self._ignores[name].ignores(path, is_dir=False),
                lambda path: self._ignores[name].tracks(path, is_dir=False),
            )
        foreign = frozenset(path for path in others if path.startswith(entry.path + os.sep))

        def descend(path: str) -> bool:
            if path in foreign or os.path.basename(path) == ".git":
                return False
            return not ignore.prunes(path[len(entry.path) + 1 :])

        await self._events.add(WatchRoot(name, (entry.path,), deep=True, descend=descend))

    def _drop(self, name: str) -> None:
        self._events.remove(name)
        for table in (self._entries, self._settles, self._ignores, self._modes):
            table.pop(name, None)

    async def _follow_registry(self) -> None:
        await self._events.add(WatchRoot(_REGISTRY, (os.path.dirname(self._database),)))

    async def _follow_git(self, entries: tuple[RosterEntry, ...], anew: set[str]) -> None:
        found: dict[str, list[str]] = {}
        for entry in entries:
            admins = found.setdefault(entry.common_dir, [])
            if entry.admin_dir and entry.admin_dir != entry.common_dir:
                admins.append(entry.admin_dir)
        for common in [common for common in self._repositories if common not in found]:
            self._forget_repository(common)
        for common, admins in found.items():
            new = common not in self._repositories
            if new or f"refs {common}" in anew:
                await self._follow_refs(common)
            if new or f"sync {common}" in anew:
                await self._follow_shared(common, next(e.key.repo for e in entries if e.common_dir == common))
            if self._repositories.get(common) != tuple(admins) or f"git {common}" in anew:
                self._repositories[common] = tuple(admins)
                folders = (common, os.path.join(common, "worktrees"), os.path.join(common, "info"), *admins)
                await self._events.add(WatchRoot(f"git {common}", folders))

    async def _follow_refs(self, common: str) -> None:
        refs = os.path.join(common, "refs")

        def descend(path: str) -> bool:
            return path[len(refs) + 1 :].partition(os.sep)[0] in _REFS

        await self._events.add(WatchRoot(f"refs {common}", (refs,), deep=True, descend=descend))

    async def _follow_shared(self, common: str, repo: str) -> None:
        """The cluster's `sync/`: what is edited there changes in every worktree at once, through its links."""
        folder = await asyncio.to_thread(_shared_folder, common)
        if folder is not None:
            name = f"sync {common}"
            self._settles[name] = ChangeCoalescer(folder, repo, "sync", lambda _path: False, lambda _path: False)
            await self._events.add(WatchRoot(name, (folder,), deep=True))

    # -- the sink ---------------------------------------------------------------------------------------------------

    def touched(self, root: str, batch: Sequence[FileEvent]) -> None:
        if root in self._entries:
            self._worktree_touched(root, batch)
        elif root.startswith("git "):
            self._git_touched(root[4:], batch)
        elif root.startswith("sync "):
            self._settle(root, batch)
        elif root.startswith("refs "):
            if any(not event.path.endswith(".lock") for event in batch):
                self._tell.refs(root[5:])
        elif any(os.path.basename(event.path).startswith(os.path.basename(self._database)) for event in batch):
            self._tell.registry()

    def lost(self, root: str | None, why: str) -> None:
        """Everything there is looked at again."""
        for name in [root] if root is not None else list(self._entries):
            entry = self._entries.get(name)
            if entry is not None:
                self._ignores[name].forget()
                self._tell.touched(entry.key, None)
        if root is None or root not in self._entries:
            self._tell.registry()
            for common in self._repositories:
                self._tell.refs(common)
        self._tell.roster()

    def doubt(self) -> None:
        self._tell.glance(None)

    def gone(self, root: str, folder: str) -> None:
        """What else the root names goes on being followed; it is followed anew if the roster still has it."""
        self._anew.add(root)
        self._tell.roster()

    def _forget_repository(self, common: str) -> None:
        del self._repositories[common]
        self._events.remove(f"git {common}")
        self._events.remove(f"refs {common}")
        if self._settles.pop(f"sync {common}", None) is not None:
            self._events.remove(f"sync {common}")

    def mode(self, root: str, how: str, why: str | None) -> None:
        assert self._board is not None
        if how == "live":
            self._began(root)
        entry = self._entries.get(root)
        if entry is not None:
            self._modes[root] = how
            self._board.watched(entry.key, how, why)
            polled = sum(how == "polling" for how in self._modes.values())
            self._board.well(
                self.name, f"polling {polled} of {len(self._entries)} worktrees: {why}" if polled else None
            )

    def _began(self, root: str) -> None:
        """What happened there before it was followed is in no event."""
        kind, _, common = root.partition(" ")
        if root in self._entries:
            self._tell.touched(self._entries[root].key, None)
        elif kind == "git":
            self._tell.glance(common)
            self._tell.roster()
        elif kind == "refs":
            self._tell.refs(common)
        elif root == _REGISTRY:
            self._tell.registry()

    # -- what an event means ----------------------------------------------------------------------------------------

    def _worktree_touched(self, root: str, batch: Sequence[FileEvent]) -> None:
        entry, ignore = self._entries[root], self._ignores[root]
        if any(os.path.basename(event.path) == ".gitignore" for event in batch):
            ignore.forget()
        self._settle(root, batch)
        paths = {os.path.relpath(event.path, entry.path) for event in batch if not event.is_dir}
        moved = any(event.is_dir and event.kind in ("moved_from", "moved_to", "deleted") for event in batch)
        wanted = {path for path in paths if not ignore.ignores(path, is_dir=False)}
        if moved or ".git" in paths or ".gitignore" in {os.path.basename(path) for path in paths}:
            self._tell.touched(entry.key, None)
        elif wanted:
            self._tell.touched(entry.key, frozenset(wanted))

    def _settle(self, root: str, batch: Sequence[FileEvent]) -> None:
        assert self._board is not None
        changes = self._settles[root].take(batch, time.monotonic(), times.stamp())
        if changes:
            self._board.changes(changes)
        self._arm()

    def _git_touched(self, common: str, batch: Sequence[FileEvent]) -> None:
        folders = set()
        for event in batch:
            folder, name = os.path.split(event.path)
            if name.endswith(_NOISE):
                continue
            if folder == os.path.join(common, "worktrees") or (folder == common and name == "worktrees"):
                self._tell.roster()
            elif folder == os.path.join(common, "info"):
                self._forget(common)
            elif folder == common and name in ("packed-refs", "config"):
                self._tell.refs(common)
            else:
                if name in ("HEAD", "gitdir", "locked"):
                    self._tell.roster()
                folders.add(folder)
        for folder in folders:
            self._tell.git_dir(folder)

    def _forget(self, common: str) -> None:
        for name, entry in self._entries.items():
            if entry.common_dir == common:
                self._ignores[name].forget()
                self._tell.touched(entry.key, None)

    # -- what waits -------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """One timer for all waiting rooms."""
        if self._flush is None:
            due = [settle.due for settle in self._settles.values()]
            first = min((moment for moment in due if moment is not None), default=None)
            if first is not None:
                pause = max(0.001, first + GRACE - time.monotonic())
                self._flush = asyncio.get_running_loop().call_later(pause, self._flush_now)

    def _flush_now(self) -> None:
        assert self._board is not None
        self._flush = None
        now, at = time.monotonic(), times.stamp()
        for settle in self._settles.values():
            changes = settle.flush(now, at) if settle.due is not None else []
            if changes:
                self._board.changes(changes)
        self._arm()


def _shared_folder(common_dir: str) -> str | None:
    """Where a cluster keeps what its worktrees share; None when there is no such folder."""
    try:
        cluster = layout.repository_at(common_dir).cluster
    except ImiError:
        return None
    folder = os.path.join(cluster, "sync") if cluster else None
    return folder if folder and os.path.isdir(folder) else None


def _root_name(entry: RosterEntry) -> str:
    return f"worktree {entry.key.repo} {entry.key.worktree}"


def _moved(before: RosterEntry, now: RosterEntry) -> bool:
    return (before.path, before.admin_dir) != (now.path, now.admin_dir)
