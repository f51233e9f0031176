"""Who gets the kernel's attention when there is not enough for all: the worktrees that are busy. The rest is polled.

The kernel's watches are limited for the user as a whole. We take half of them at most, count what a root needs before it
is added, and hand the least recently active roots to the poller; one that becomes active changes places.

Which back end follows files here: raw inotify on Linux, watchfiles elsewhere, polling where nothing else works.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from imi_monitor.model.errors import UsageError
from imi_monitor.sources.files.polling_watcher import PollingWatcher
from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchRoot, WatchSink, plan_watches

OUR_SHARE = 0.5
_FALLBACK_LIMIT = 8192


class TieredWatcher:
    """A back end made of two: live as far as the watches reach, polling behind."""

    def __init__(self, live: FileWatcher, polling: PollingWatcher | None = None, *, limit: int | None = None) -> None:
        self.name = live.name
        self._live = live
        self._polling = polling or PollingWatcher()
        self._limit = int((limit or kernel_limit()) * OUR_SHARE)
        self._needs: dict[str, int] = {}  # root -> watches, oldest activity first; only live ones
        self._polled: dict[str, WatchRoot] = {}
        self._roots: dict[str, WatchRoot] = {}
        self._sink: WatchSink | None = None
        self._moves: set[asyncio.Task[None]] = set()

    async def start(self, sink: WatchSink) -> None:
        self._sink = sink
        await self._live.start(self)
        await self._polling.start(self)

    async def close(self) -> None:
        for task in self._moves:
            task.cancel()
        await asyncio.gather(*self._moves, return_exceptions=True)
        await self._live.close()
        await self._polling.close()

    async def add(self, root: WatchRoot) -> None:
        """Follow it; one that is followed already is never unfollowed in between."""
        self._roots[root.name] = root
        found = await asyncio.to_thread(plan_watches, root, self._limit)
        if self._roots.get(root.name) is not root:
            return
        taken = sum(need for name, need in self._needs.items() if name != root.name)
        if found is not None and found.folders <= self._limit - taken:
            self._needs[root.name] = found.folders
            await self._live.add(replace(root, plan=found))
            if self._polled.pop(root.name, None) is not None:
                self._polling.remove(root.name)
        else:
            await self._poll(root)
            if self._needs.pop(root.name, None) is not None:
                self._live.remove(root.name)

    def remove(self, name: str) -> None:
        self._roots.pop(name, None)
        if self._needs.pop(name, None) is not None:
            self._live.remove(name)
        if self._polled.pop(name, None) is not None:
            self._polling.remove(name)

    def touched(self, root: str, batch: Sequence[FileEvent]) -> None:
        assert self._sink is not None
        self._active(root)
        self._sink.touched(root, batch)

    def lost(self, root: str | None, why: str) -> None:
        assert self._sink is not None
        self._sink.lost(root, why)

    def doubt(self) -> None:
        assert self._sink is not None
        self._sink.doubt()

    def gone(self, root: str, folder: str) -> None:
        assert self._sink is not None
        self._sink.gone(root, folder)

    def mode(self, root: str, how: str, why: str | None) -> None:
        assert self._sink is not None
        if how == "polling" and root in self._needs:  # the limit came earlier than we had counted
            self._task(self._demote(root))
        else:
            self._sink.mode(root, how, why)

    def _active(self, name: str) -> None:
        """The root is busy: it is the last to lose its place, and if it has none it gets one."""
        if name in self._needs:
            self._needs[name] = self._needs.pop(name)
        elif name in self._polled:
            self._task(self._promote(name))

    def _task(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._moves.add(task)
        task.add_done_callback(self._moves.discard)

    async def _promote(self, name: str) -> None:
        root = self._polled.get(name)
        if root is None:
            return
        found = await asyncio.to_thread(plan_watches, root, self._limit)
        if found is None or found.folders > self._limit or self._polled.get(name) is not root:
            return
        while found.folders > self._limit - sum(self._needs.values()):
            await self._demote(next(iter(self._needs)))
        if self._polled.pop(name, None) is None:
            return
        self._polling.remove(name)
        self._needs[name] = found.folders
        await self._live.add(replace(root, plan=found))

    async def _demote(self, name: str) -> None:
        if self._needs.pop(name, None) is None:
            return
        self._live.remove(name)
        root = self._roots.get(name)
        if root is not None:
            await self._poll(root)

    async def _poll(self, root: WatchRoot) -> None:
        assert self._sink is not None
        self._polled[root.name] = root
        await self._polling.add(root)
        self._sink.mode(root.name, "polling", "there are more folders than the kernel lets us watch")


def kernel_limit() -> int:
    """How many watches one user may have."""
    try:
        with open("/proc/sys/fs/inotify/max_user_watches", "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return _FALLBACK_LIMIT


VARIABLE = "IMI_WATCHER"
CHOICES = ("auto", "inotify", "watchfiles", "polling")


def starts_slowly(events: FileWatcher) -> bool:
    """Whether to begin following takes so much of the machine that a first picture had better come before."""
    return events.name == "watchfiles"


def choose_watcher(wanted: str | None = None) -> FileWatcher:
    """The back end asked for by name or by the environment, else the best there is."""
    name = wanted or os.environ.get(VARIABLE) or "auto"
    if name not in CHOICES:
        raise UsageError(f"{VARIABLE} must be one of {', '.join(CHOICES)}, not {name!r}", code="bad-setting")
    if name == "auto":
        name = "inotify" if sys.platform.startswith("linux") else "watchfiles"
    if name == "polling":
        return PollingWatcher()
    if name == "watchfiles":
        from imi_monitor.sources.files.watchfiles_watcher import WatchfilesWatcher

        return TieredWatcher(WatchfilesWatcher())
    from imi_monitor.sources.files.inotify_watcher import InotifyWatcher

    try:
        return TieredWatcher(InotifyWatcher())
    except OSError:  # no instance left for this user: looking again and again still works
        return PollingWatcher()
