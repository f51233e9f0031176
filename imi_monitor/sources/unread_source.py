"""Unread changes: counts the hunks of each worktree that a person has not read, while the list is ordered by them.

A worktree is counted when it is new, when its files, its commits or its trunk changed, and when something of it was read.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from imi_monitor.git import git_merge, worktree_review
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.review_progress import ReadPart, ReviewProgress
from imi_monitor.model.snapshot import Key, UnreadChanges
from imi_monitor.sources.hints import (
    FilesChanged,
    GitStateRead,
    Hint,
    RefreshRequested,
    RefsChanged,
    RegistryChanged,
    RosterRead,
    UnreadWanted,
)
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.store import read_parts
from imi_monitor.store.async_registry import AsyncRegistry

_TIME_SHARE = 0.1  # of the time is used for it while worktrees change all the time
_SHORTEST_PAUSE = 0.5


class UnreadSource(Source):
    """Reports the field `unread` of the snapshot."""

    name = "unread"

    def __init__(self, registry: AsyncRegistry) -> None:
        self._registry = registry
        self.counted = 0  # how many worktrees were counted, for tests
        self._entries: dict[Key, RosterEntry] = {}
        self._trunks: dict[Key, str | None] = {}
        self._found: dict[Key, UnreadChanges] = {}
        self._kept: dict[Key, frozenset[ReadPart]] = {}
        self._due: set[Key] = set()
        self._reread = False  # what was read may have changed
        self._wanted = False
        self._stopping = False
        self._woken = asyncio.Event()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="unread")

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._set_roster(entries)
            case GitStateRead(key, state):
                self._trunks[key] = state.trunk
                self._add(key)
            case FilesChanged(key, _):
                self._add(key)
            case RefsChanged(common_dir):
                self._add(*(key for key, entry in self._entries.items() if entry.common_dir == common_dir))
            case RegistryChanged():
                self._reread = True
                self._add()
            case RefreshRequested():
                self._add(*self._entries)
            case UnreadWanted(wanted) if wanted != self._wanted:
                self._wanted = wanted
                self._reread = True
                self._add(*self._entries)

    @property
    def is_busy(self) -> bool:
        return self._wanted and (self._reread or bool(self._due) or self._woken.is_set())

    def _add(self, *keys: Key) -> None:
        """Count these worktrees; they are remembered while no count is wanted."""
        self._due.update(keys)
        if self._wanted:
            self._woken.set()

    def _set_roster(self, entries: tuple[RosterEntry, ...]) -> None:
        before = self._entries
        self._entries = {entry.key: entry for entry in entries if not entry.missing and entry.admin_dir}
        for gone in before.keys() - self._entries.keys():
            for known in (self._found, self._kept, self._trunks):
                known.pop(gone, None)
        self._due &= self._entries.keys()
        self._add(*(key for key, entry in self._entries.items() if before.get(key) != entry))

    async def run(self, receiver: ReadingReceiver) -> None:
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                started = time.monotonic()
                await self._count_due(receiver)
                await asyncio.sleep(max(_SHORTEST_PAUSE, (time.monotonic() - started) * (1 / _TIME_SHARE - 1)))
        finally:
            self._stopping = True
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _count_due(self, receiver: ReadingReceiver) -> None:
        if self._reread:
            self._reread = False
            await self._read_kept(receiver)
        loop = asyncio.get_running_loop()
        for key in [key for key in self._entries if key in self._due]:
            if not self._wanted:
                return
            entry = self._entries.get(key)
            self._due.discard(key)
            if entry is None:
                continue
            try:
                kept, trunk = self._kept.get(key, frozenset()), self._trunks.get(key)
                progress = await loop.run_in_executor(self._pool, self._progress, entry, trunk, kept)
            except (ImiError, OSError) as error:
                receiver.set_failure(self.name, f"the unread changes of {key.worktree}", str(error))
                self._found[key] = UnreadChanges(key, None, None)
            else:
                receiver.set_healthy(self.name)
                self._found[key] = UnreadChanges(key, progress.unread, progress.total, progress.partial)
            self.counted += 1
            receiver.update(unread=tuple(self._found.values()))

    async def _read_kept(self, receiver: ReadingReceiver) -> None:
        """Read again what was read of each worktree; those of which it differs are due."""
        for key in list(self._entries):
            try:
                kept = await self._registry.read(read_parts.list_parts, key.repo, key.worktree)
            except RegistryError as error:
                receiver.set_failure(self.name, "what was read", str(error))
                return
            if self._kept.get(key, frozenset()) != kept:
                self._kept[key] = kept
                self._due.add(key)

    def _progress(self, entry: RosterEntry, trunk: str | None, kept: frozenset[ReadPart]) -> ReviewProgress:
        """Count one worktree, in the thread of the pool."""
        git = Git(
            entry.common_dir, entry.admin_dir, entry.path, trusted=entry.trusted, cancelled=lambda: self._stopping
        )
        sha = None
        if trunk is not None:
            with suppress(ImiError):  # the branch is being made or deleted
                sha = git_merge.trunk_sha(git, trunk)
        return worktree_review.read_review(git, sha, kept).progress


def make_source(context: SourceContext) -> UnreadSource:
    return UnreadSource(context.registry)
