"""Following by looking again and again: where the kernel tells nothing, or has told all it may.

Each root is walked in a thread and compared with what it was. The pause grows with the cost, so that all polled roots
together stay below a twentieth of a core.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from imi_monitor.sources.files.watcher import FileEvent, WatchRoot, WatchSink, list_folder

SHARE = 0.05  # of one core, for all polled roots together
_SHORTEST = 2.0
_LONGEST = 300.0
_MOST_FILES = 200_000  # of one root; beyond it only folders are compared

Mark = tuple[int, int, int]


class PollingWatcher:
    """One task that visits the roots in turn."""

    name = "polling"

    def __init__(self, *, shortest: float = _SHORTEST) -> None:
        self._shortest = shortest
        self._roots: dict[str, WatchRoot] = {}
        self._seen: dict[str, dict[str, Mark]] = {}
        self._sink: WatchSink | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()  # whether there are any

    async def start(self, sink: WatchSink) -> None:
        self._sink = sink
        self._task = asyncio.create_task(self._visit(), name="polling")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def add(self, root: WatchRoot) -> None:
        self._roots[root.name] = root
        self._seen.pop(root.name, None)
        self._wanted.set()

    def remove(self, name: str) -> None:
        self._roots.pop(name, None)
        self._seen.pop(name, None)
        if not self._roots:
            self._wanted.clear()

    async def _visit(self) -> None:
        """One root after the other, with a rest after each: never seconds of work on end."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            started = loop.time()
            for root in list(self._roots.values()):
                cost = await self._look(root)
                await asyncio.sleep(min(_LONGEST, cost / SHARE))
            await asyncio.sleep(max(0.05, started + self._shortest - loop.time()))

    async def _look(self, root: WatchRoot) -> float:
        """Walk one root and tell what changed since the last time; gives the seconds of work."""
        now, cost = await asyncio.to_thread(_walk, root)
        before = self._seen.get(root.name)
        if root.name not in self._roots:
            return cost
        self._seen[root.name] = now
        if self._sink is None:
            return cost
        if before is None:
            self._sink.lost(root.name, "it is polled from now on")
        elif batch := _compare(before, now):
            self._sink.touched(root.name, batch)
        return cost


def _walk(root: WatchRoot) -> tuple[dict[str, Mark], float]:
    """(path -> mark of every file, CPU seconds it took)."""
    started = time.thread_time()
    found: dict[str, Mark] = {}
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
                continue  # gone between listing and looking
            found[entry.path] = (info.st_mtime_ns, info.st_size, info.st_ino)
    return found, time.thread_time() - started


def _compare(before: dict[str, Mark], now: dict[str, Mark]) -> list[FileEvent]:
    batch = [FileEvent(path, "deleted") for path in before if path not in now]
    for path, mark in now.items():
        old = before.get(path)
        if old is None:
            batch.append(FileEvent(path, "created"))
        elif old != mark:
            batch.append(FileEvent(path, "modified"))
    return batch
