"""Live watching as far as the kernel's watches reach, polling for the rest; and the choice of the watcher.

The kernel limits the watches of a user. At most half of them are used: the watches a root needs are counted before it
is added, and the roots without recent activity are polled. A polled root that becomes active is watched live again. Other
programs use watches, too: if the kernel refuses earlier than counted, fewer are used for some minutes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Coroutine, Sequence, Set
from dataclasses import replace

from imi_monitor.model.errors import UsageError
from imi_monitor.sources.files.mount_watch import MountWatch
from imi_monitor.sources.files.poll_watcher import PollWatcher
from imi_monitor.sources.files.watcher import (
    NO_INSTANCE,
    FileEvent,
    FileWatcher,
    WatchPlan,
    WatchRoot,
    WatchSink,
    plan_watches,
)

SHARE_OF_WATCHES = 0.5
_TOO_MANY_FOLDERS = "the kernel's limit of watches is smaller than the number of folders"
_SMALLER_FOR = 600.0  # seconds that a refusal of the kernel lowers the limit
_FALLBACK_LIMIT = 8192
_VARIABLE = "IMI_WATCHER"
_CHOICES = ("auto", "inotify", "watchfiles", "polling")


class TieredWatcher(FileWatcher):
    """Distributes roots between a live watcher and a poller."""

    def __init__(self, live: FileWatcher, polling: PollWatcher | None = None, *, limit: int | None = None) -> None:
        self.name = live.name
        self.slow_start = live.slow_start
        self._live = live
        self._polling = polling or PollWatcher()
        self._most = self._limit = int((limit or kernel_limit()) * SHARE_OF_WATCHES)
        self._why_limited = _TOO_MANY_FOLDERS
        self._lowered_at = 0.0
        self._mounts = MountWatch()
        self._watches: dict[str, int] = {}  # live root -> number of watches, least recent activity first
        self._used = 0  # watches of all live roots
        self._polled: dict[str, WatchRoot] = {}
        self._roots: dict[str, WatchRoot] = {}
        self._moves: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self._live.start()
        await self._polling.start()
        self._mounts.start(self._mounts_changed)

    async def close(self) -> None:
        self._mounts.close()
        for task in self._moves:
            task.cancel()
        await asyncio.gather(*self._moves, return_exceptions=True)
        await self._live.close()
        await self._polling.close()

    async def add(self, root: WatchRoot) -> None:
        self._roots[root.name] = root
        plan = await asyncio.to_thread(plan_watches, root, self._limit)
        if self._roots.get(root.name) is not root:
            return  # removed or replaced meanwhile
        used = self._used - self._watches.get(root.name, 0)
        if plan is not None and plan.folders <= self._limit - used:
            await self._watch_live(root, plan)
            if self._polled.pop(root.name, None) is not None:
                self._polling.remove(root.name)
        else:
            if self._uncount(root.name):
                self._live.remove(root.name)
            await self._poll(root)

    def remove(self, name: str) -> None:
        self._roots.pop(name, None)
        if self._uncount(name):
            self._live.remove(name)
        if self._polled.pop(name, None) is not None:
            self._polling.remove(name)

    def note_activity(self, name: str) -> None:
        """Make the root the last to lose its live watches; a polled root gets them now."""
        if name in self._watches:
            self._watches[name] = self._watches.pop(name)
        elif name in self._polled:
            self._move(self._promote(name))

    def accept_mode(self, name: str, mode: str, why: str | None) -> bool:
        """False if the root is moved to the poller instead: the kernel's limit was reached earlier than counted."""
        if mode == "polling" and name in self._watches:
            self._limit = min(self._limit, max(0, self._used - 1))
            self._why_limited, self._lowered_at = why or _TOO_MANY_FOLDERS, time.monotonic()
            self._move(self._demote(name))
            return False
        return True

    def _mounts_changed(self, points: Set[str]) -> None:
        for root in list(self._roots.values()):
            if any(_is_affected(root, point) for point in points):
                self._move(self._watch_again(root))

    async def _watch_again(self, root: WatchRoot) -> None:
        if self._roots.get(root.name) is root:
            await self.add(root)
            root.sink.lost("a file system was mounted or unmounted")

    def _move(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._moves.add(task)
        task.add_done_callback(self._moves.discard)

    async def _promote(self, name: str) -> None:
        root = self._polled.get(name)
        if root is None:
            return
        if time.monotonic() - self._lowered_at > _SMALLER_FOR:
            self._limit, self._why_limited = self._most, _TOO_MANY_FOLDERS
        plan = await asyncio.to_thread(plan_watches, root, self._limit)
        if plan is None or plan.folders > self._limit or self._polled.get(name) is not root:
            return
        while plan.folders > self._limit - self._used:
            await self._demote(next(iter(self._watches)))
        if self._polled.pop(name, None) is None:
            return
        self._polling.remove(name)
        await self._watch_live(root, plan)

    async def _demote(self, name: str) -> None:
        if not self._uncount(name):
            return
        self._live.remove(name)
        root = self._roots.get(name)
        if root is not None:
            await self._poll(root)

    async def _watch_live(self, root: WatchRoot, plan: WatchPlan) -> None:
        self._uncount(root.name)
        self._watches[root.name] = plan.folders
        self._used += plan.folders
        await self._live.add(replace(root, plan=plan, sink=_TierSink(self, root)))

    def _uncount(self, name: str) -> bool:
        """Forget the watches of a root; False if it had none."""
        watches = self._watches.pop(name, None)
        self._used -= watches or 0
        return watches is not None

    async def _poll(self, root: WatchRoot) -> None:
        self._polled[root.name] = root
        await self._polling.add(replace(root, sink=_TierSink(self, root, self._why_limited)))


class _TierSink(WatchSink):
    """Passes everything on to the root's own sink, and notes which roots are active."""

    def __init__(self, tiers: TieredWatcher, root: WatchRoot, polled_because: str | None = None) -> None:
        self._tiers = tiers
        self._root = root
        self._polled_because = polled_because

    def events(self, batch: Sequence[FileEvent]) -> None:
        self._tiers.note_activity(self._root.name)
        self._tiers.activity += 1
        self._root.sink.events(batch)

    def lost(self, why: str) -> None:
        self._tiers.activity += 1
        self._root.sink.lost(why)

    def uncertain(self) -> None:
        self._root.sink.uncertain()

    def gone(self, folder: str) -> None:
        self._root.sink.gone(folder)

    def mode_changed(self, mode: str, why: str | None) -> None:
        if self._polled_because is not None or self._tiers.accept_mode(self._root.name, mode, why):
            self._root.sink.mode_changed(mode, self._polled_because or why)


def _is_affected(root: WatchRoot, mount_point: str) -> bool:
    """True if a mount there changes which folders the root has."""
    above = f"{mount_point.rstrip('/')}/"
    return any(
        f"{folder}/".startswith(above) or (root.deep and mount_point.startswith(f"{folder}/"))
        for folder in root.folders
    )


def kernel_limit() -> int:
    """Return how many watches one user may have."""
    try:
        with open("/proc/sys/fs/inotify/max_user_watches", "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return _FALLBACK_LIMIT


def choose_watcher(wanted: str | None = None) -> FileWatcher:
    """Return the watcher named by `wanted` or IMI_WATCHER, else the best one: inotify on Linux, watchfiles elsewhere."""
    name = wanted or os.environ.get(_VARIABLE) or "auto"
    if name not in _CHOICES:
        raise UsageError(f"{_VARIABLE} must be one of {', '.join(_CHOICES)}, not {name!r}", code="bad-setting")
    if name == "auto":
        name = "inotify" if sys.platform.startswith("linux") else "watchfiles"
    if name == "polling":
        return PollWatcher()
    if name == "watchfiles":
        from imi_monitor.sources.files.watchfiles_watcher import WatchfilesWatcher

        return TieredWatcher(WatchfilesWatcher())
    from imi_monitor.sources.files.inotify_watcher import InotifyWatcher

    try:
        return TieredWatcher(InotifyWatcher())
    except OSError:
        return PollWatcher(NO_INSTANCE)
