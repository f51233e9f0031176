"""File events by watchfiles: the base that works everywhere, in a process of its own (see `watchfiles_child`).

What watchfiles loses silently is guarded: new folders are listed when they appear and once more a moment later, a full
queue, a stop and a broken watcher each mean "look again". It does not pair the halves of a rename; those show as deleted
and created.
"""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import struct
import sys
from collections.abc import Sequence
from typing import Any

from imi_monitor.sources.files.watcher import FileEvent, FileEventKind, WatchRoot, WatchSink, list_folder, plan_watches
from imi_monitor.sources.timers import StallDetector

_GATHER = 0.05  # seconds in which folders to add are collected: each addition builds watchers anew
_MOST_GATHERED = 1.0  # seconds that this goes on for while roots are added one after the other
_DOUBT = 0.5  # seconds after an event until it is doubted that it was the only one
_MERGE = 2.0  # seconds of quiet after which the watchers are merged
_AGAIN = (0.05, 0.5)  # when a new folder is listed once more
_RESTART = (0.2, 1.0, 5.0, 30.0)
# "added" may also be a save by rename, so nobody knows whether the file existed: as a move without its other half
_KINDS: dict[int, FileEventKind] = {1: "moved_to", 2: "modified", 3: "deleted"}


class WatchfilesWatcher:
    """The parent's side."""

    name = "watchfiles"

    def __init__(self) -> None:
        self._sink: WatchSink | None = None
        self._roots: dict[str, WatchRoot] = {}
        self._plans: dict[str, tuple[list[str], list[str]]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: dict[str, tuple[list[str], list[str]]] = {}
        self._more: dict[str, tuple[list[str], list[str]]] = {}  # folders that appeared in roots already followed
        self._number = 0  # of the additions sent
        self._latest: dict[str, int] = {}  # root -> the one that follows it as it is wanted now
        self._gather: asyncio.TimerHandle | None = None
        self._gathers_until = 0.0
        self._grown = False  # whether another root was added while it gathers
        self._merge: asyncio.TimerHandle | None = None
        self._doubt: asyncio.TimerHandle | None = None
        self._stall = StallDetector()

    async def start(self, sink: WatchSink) -> None:
        self._sink = sink
        self._stall.start(lambda why: sink.lost(None, why))
        self._spawn(self._supervise())

    async def close(self) -> None:
        self._stall.stop()
        for timer in (self._gather, self._merge, self._doubt):
            if timer is not None:
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def add(self, root: WatchRoot) -> None:
        assert self._sink is not None
        self._roots[root.name] = root
        self._latest.pop(root.name, None)
        self._sink.mode(root.name, "starting", None)
        folders = await asyncio.to_thread(_split, root)
        if self._roots.get(root.name) is root:
            self._plans[root.name] = self._pending[root.name] = folders
            self._grown = self._gather is not None
            self._begin_to_gather()

    def remove(self, name: str) -> None:
        self._roots.pop(name, None)
        self._pending.pop(name, None)
        self._latest.pop(name, None)
        if self._plans.pop(name, None) is not None:
            self._send(("drop", name))

    def _begin_to_gather(self) -> None:
        if self._gather is None:
            loop = asyncio.get_running_loop()
            self._gathers_until = loop.time() + _MOST_GATHERED
            self._gather = loop.call_later(_GATHER, self._send_pending)

    def _send_pending(self) -> None:
        loop = asyncio.get_running_loop()
        if self._grown and loop.time() < self._gathers_until:
            self._grown = False
            self._gather = loop.call_later(_GATHER, self._send_pending)
            return
        self._gather = None
        if self._pending:
            self._send_add(self._pending)
        for name, (deep, flat) in self._more.items():
            if name in self._plans and name not in self._pending:
                self._send(("extend", name, deep, flat))
        self._pending, self._more = {}, {}
        if self._merge is not None:
            self._merge.cancel()
        # many small watchers cost more at rest than two large ones: build those once nothing more is added
        self._merge = loop.call_later(_MERGE, self._send, ("merge",))

    def _send_add(self, plans: dict[str, tuple[list[str], list[str]]]) -> None:
        self._number += 1
        self._latest.update(dict.fromkeys(plans, self._number))
        self._send(("add", plans, self._number))

    def _send(self, message: tuple[Any, ...]) -> None:
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            data = marshal.dumps(message)
            self._process.stdin.write(struct.pack("<I", len(data)) + data)

    def _spawn(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _supervise(self) -> None:
        """Keep one child alive; what happened while there was none has to be looked at."""
        assert self._sink is not None
        turn = 0
        while True:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "imi_monitor.sources.files.watchfiles_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            if self._plans:
                self._send_add(self._plans)
                self._pending = {}
            await self._listen(self._process)
            await self._process.wait()
            for name in self._roots:
                self._sink.mode(name, "starting", "the watcher ended and is started again")
            await asyncio.sleep(_RESTART[min(turn, len(_RESTART) - 1)])
            turn += 1
            self._sink.lost(None, "the watcher was away")

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                head = await process.stdout.readexactly(4)
                data = await process.stdout.readexactly(struct.unpack("<I", head)[0])
            except asyncio.IncompleteReadError:
                return
            self._hear(marshal.loads(data))

    def _hear(self, message: tuple[Any, ...]) -> None:
        assert self._sink is not None
        verb = message[0]
        if verb == "events":
            self._stall.alive()
            self._events(message[1])
        elif verb == "ready":
            for name in message[1]:
                if self._latest.get(name) == message[2]:  # else it was wanted otherwise meanwhile
                    self._sink.mode(name, "live", None)
            self._spawn(self._catch_up(message[1]))
        elif verb == "full":
            for name in list(self._roots):
                self._sink.mode(name, "polling", f"the kernel's limit is reached: {message[1]}")
        elif verb == "broken":
            self._sink.lost(None, f"the watcher broke: {message[1]}")
            self._send(("rebuild",))
        else:
            self._sink.lost(None, message[1])

    def _events(self, found: Sequence[tuple[int, str]]) -> None:
        assert self._sink is not None
        batches: dict[str, list[FileEvent]] = {}
        for number, path in found:
            name = self._owner(path)
            if name is None:
                continue
            is_dir = number == 1 and os.path.isdir(path) and not os.path.islink(path)
            batches.setdefault(name, []).append(FileEvent(path, _KINDS[number], is_dir))
            if is_dir:
                self._entered(name, path)
            if number == 3 and path in self._roots[name].folders:
                self._sink.gone(name, path)
        for name, batch in batches.items():
            self._sink.touched(name, batch)
        if self._doubt is None:
            self._doubt = asyncio.get_running_loop().call_later(_DOUBT, self._doubts)

    def _doubts(self) -> None:
        """watchfiles hands out what it has seen and clears it in two steps: what comes in between is lost."""
        assert self._sink is not None
        self._doubt = None
        self._sink.doubt()

    def _owner(self, path: str) -> str | None:
        """The root that a path belongs to: the one whose folder is the nearest above it."""
        best, length = None, -1
        for name, root in self._roots.items():
            for folder in root.folders:
                inside = path == folder or path.startswith(folder + "/")
                near = root.deep or os.path.dirname(path) == folder or path == folder
                if inside and near and len(folder) > length:
                    best, length = name, len(folder)
        return best

    async def _catch_up(self, names: Sequence[str]) -> None:
        """What appeared between the walk over a root and the moment from which it is followed, where nobody else looks:
        below the folders that are followed with all in them, watchfiles finds it by itself."""
        for name in names:
            root, followed = self._roots.get(name), self._plans.get(name)
            if root is None or followed is None or not root.deep or not followed[1]:
                continue
            for folder in await asyncio.to_thread(_missed, root, *followed):
                if self._roots.get(name) is root:
                    self._entered(name, folder)

    def _entered(self, name: str, folder: str) -> None:
        """A folder appeared: follow it if it is to be followed, and tell what is in it already."""
        root = self._roots[name]
        if not root.deep or not root.descend(folder):
            return
        followed = self._plans.get(name)
        if followed is not None and os.path.dirname(folder) in followed[1]:
            # its parent is followed alone; below the others watchfiles follows new folders by itself
            deep, flat = _split(WatchRoot(name, (folder,), True, root.descend))
            self._plans[name] = (followed[0] + deep, followed[1] + flat)
            before = self._more.get(name, ([], []))
            self._more[name] = (before[0] + deep, before[1] + flat)
            self._begin_to_gather()
        loop = asyncio.get_running_loop()
        loop.call_soon(self._list, name, folder)
        for pause in _AGAIN:
            loop.call_later(pause, self._list, name, folder)

    def _list(self, name: str, folder: str) -> None:
        root = self._roots.get(name)
        if root is None or self._sink is None:
            return
        batch = []
        pending = [folder]
        while pending:
            for entry in list_folder(pending.pop()):
                if entry.is_dir(follow_symlinks=False):
                    if root.descend(entry.path):
                        pending.append(entry.path)
                else:
                    batch.append(FileEvent(entry.path, "moved_to"))
        if batch:
            self._sink.touched(name, batch)


def _split(root: WatchRoot) -> tuple[list[str], list[str]]:
    """(folders to follow with everything below, folders to follow alone)."""
    found = root.plan or plan_watches(root, sys.maxsize)
    return (found.deep, found.flat) if found is not None else ([], [])


def _missed(root: WatchRoot, deep: list[str], flat: list[str]) -> list[str]:
    """Folders that should be followed and are not."""
    known = {*deep, *flat}
    inside = [entry for folder in flat for entry in list_folder(folder) if entry.path not in known]
    return [entry.path for entry in inside if entry.is_dir(follow_symlinks=False) and root.descend(entry.path)]
