"""Watching by listing folders again and again: where the kernel offers no events, or no more watches.

Each root is walked in a thread and compared with the walk before. The pauses grow with the cost, so that all polled
roots together stay below a twentieth of a core.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchRoot, list_folder

CPU_SHARE = 0.05  # the share of one core that polling all roots may take
_SHORTEST = 2.0
_LONGEST = 300.0
_MOST_FILES = 200_000  # of one root; the rest is not compared

FileStamp = tuple[int, int, int]


class PollWatcher(FileWatcher):
    """One task that walks over the roots in turn."""

    name = "polling"

    def __init__(self, why: str = "IMI_WATCHER=polling", *, shortest: float = _SHORTEST) -> None:
        """`why` is what the sinks are told as the reason for polling."""
        self._why = why
        self._shortest = shortest
        self._roots: dict[str, WatchRoot] = {}
        self._stamps: dict[str, dict[str, FileStamp]] = {}
        self._task: asyncio.Task[None] | None = None
        self._has_roots = asyncio.Event()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._poll_roots(), name="polling")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def add(self, root: WatchRoot) -> None:
        self._roots[root.name] = root
        self._stamps.pop(root.name, None)
        self._has_roots.set()
        root.sink.mode_changed("polling", self._why)

    def remove(self, name: str) -> None:
        self._roots.pop(name, None)
        self._stamps.pop(name, None)
        if not self._roots:
            self._has_roots.clear()

    async def _poll_roots(self) -> None:
        """Walk over one root after the other, with a rest after each."""
        loop = asyncio.get_running_loop()
        while True:
            await self._has_roots.wait()
            started = loop.time()
            for root in list(self._roots.values()):
                cost = await self._poll(root)
                await asyncio.sleep(min(_LONGEST, cost / CPU_SHARE))
            await asyncio.sleep(max(0.05, started + self._shortest - loop.time()))

    async def _poll(self, root: WatchRoot) -> float:
        """Walk over one root, deliver what changed since the last walk, return the CPU seconds of the walk."""
        now, cost = await asyncio.to_thread(_walk, root)
        before = self._stamps.get(root.name)
        if self._roots.get(root.name) is not root:
            return cost
        self._stamps[root.name] = now
        if before is None:
            self._report_loss([root], "polling begins")
        elif batch := _compare(before, now):
            self._deliver(root, batch)
        return cost


def _walk(root: WatchRoot) -> tuple[dict[str, FileStamp], float]:
    """Return the stamp of every file, and the CPU seconds it took."""
    started = time.thread_time()
    found: dict[str, FileStamp] = {}
    pending = deque(root.folders)
    while pending and len(found) < _MOST_FILES:
        folder = pending.popleft()
        for entry in list_folder(folder):
            try:
                if entry.is_dir(follow_symlinks=False):
                    if root.deep and root.descend(entry.path):
                        pending.append(entry.path)
                    continue
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # removed since the folder was listed
            found[entry.path] = (info.st_mtime_ns, info.st_size, info.st_ino)
    return found, time.thread_time() - started


def _compare(before: dict[str, FileStamp], now: dict[str, FileStamp]) -> list[FileEvent]:
    batch = [FileEvent(path, "deleted") for path in before if path not in now]
    for path, stamp in now.items():
        old = before.get(path)
        if old is None:
            batch.append(FileEvent(path, "created"))
        elif old != stamp:
            batch.append(FileEvent(path, "modified"))
    return batch
