"""Watching by watchfiles, which works on every system; the library runs in a child process (`watchfiles_process`).

watchfiles loses some events without a trace. New folders are therefore listed when they appear and twice more soon
after, and a full queue, a pause of the machine and a broken watcher are reported as losses. The two halves of a rename
are not paired: they appear as a deletion and a creation.
"""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import struct
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from imi_monitor.sources.files.watcher import (
    FileEvent,
    FileEventKind,
    FileWatcher,
    WatchRoot,
    list_folder,
    plan_watches,
)
from imi_monitor.sources.timers import StallDetector

_BATCH_ADDITIONS = 0.05  # seconds in which added folders are collected: each addition builds watchers anew
_LONGEST_BATCH = 1.0  # seconds, if roots keep being added
_UNCERTAIN_AFTER = 0.5  # seconds after an event until an event next to it may have been lost
_MERGE_AFTER = 2.0  # seconds without additions until the watchers are merged
_LIST_AGAIN = (0.05, 0.5)  # seconds after which a new folder is listed once more
_RESTART_PAUSES = (0.2, 1.0, 5.0, 30.0)
# "added" is also sent for a save by rename: like a move without its other half, it does not say whether the file existed
_KINDS: dict[int, FileEventKind] = {1: "moved_to", 2: "modified", 3: "deleted"}
_ADDED, _DELETED = 1, 3

Folders = tuple[list[str], list[str]]  # (watched with everything below, watched without subfolders)


class WatchfilesWatcher(FileWatcher):
    """Sends folders to the child process and turns its answers into events."""

    name = "watchfiles"
    slow_start = True

    def __init__(self, *, batch_pause: float = _BATCH_ADDITIONS, longest_batch: float = _LONGEST_BATCH) -> None:
        self._batch_pause = batch_pause
        self._longest_batch = longest_batch
        self._roots: dict[str, WatchRoot] = {}
        self._folders: dict[str, Folders] = {}  # root -> the folders it is watched by
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending: dict[str, Folders] = {}  # roots to add
        self._extensions: dict[str, Folders] = {}  # folders that appeared in watched roots
        self._additions_sent = 0
        self._latest_addition: dict[str, int] = {}  # root -> number of the addition with its present folders
        self._batch_timer: asyncio.TimerHandle | None = None
        self._batch_deadline = 0.0
        self._batch_grew = False
        self._merge_timer: asyncio.TimerHandle | None = None
        self._uncertain_timer: asyncio.TimerHandle | None = None
        self._stall = StallDetector()

    @property
    def pid(self) -> int | None:
        """The process id of the child."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        self._stall.start(lambda why: self._report_loss(self._roots.values(), why))
        self._spawn(self._supervise())

    async def close(self) -> None:
        self._stall.stop()
        for timer in (self._batch_timer, self._merge_timer, self._uncertain_timer):
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
        self._roots[root.name] = root
        self._latest_addition.pop(root.name, None)
        root.sink.mode_changed("starting", None)
        folders = await asyncio.to_thread(_split, root)
        if self._roots.get(root.name) is root:
            self._folders[root.name] = self._pending[root.name] = folders
            self._batch_grew = self._batch_timer is not None
            self._start_batch()

    def remove(self, name: str) -> None:
        self._roots.pop(name, None)
        self._pending.pop(name, None)
        self._latest_addition.pop(name, None)
        if self._folders.pop(name, None) is not None:
            self._send(("drop", name))

    # -- to the child -----------------------------------------------------------------------------------------------

    def _start_batch(self) -> None:
        if self._batch_timer is None:
            loop = asyncio.get_running_loop()
            self._batch_deadline = loop.time() + self._longest_batch
            self._batch_timer = loop.call_later(self._batch_pause, self._send_batch)

    def _send_batch(self) -> None:
        loop = asyncio.get_running_loop()
        if self._batch_grew and loop.time() < self._batch_deadline:
            self._batch_grew = False
            self._batch_timer = loop.call_later(self._batch_pause, self._send_batch)
            return
        self._batch_timer = None
        if self._pending:
            self._send_additions(self._pending)
        for name, (deep, flat) in self._extensions.items():
            if name in self._folders and name not in self._pending:
                self._send(("extend", name, deep, flat))
        self._pending, self._extensions = {}, {}
        if self._merge_timer is not None:
            self._merge_timer.cancel()
        # many small watchers cost more at rest than two large ones, which are slow to build
        self._merge_timer = loop.call_later(_MERGE_AFTER, self._send, ("merge",))

    def _send_additions(self, additions: dict[str, Folders]) -> None:
        self._additions_sent += 1
        self._latest_addition.update(dict.fromkeys(additions, self._additions_sent))
        self._send(("add", additions, self._additions_sent))

    def _send(self, message: tuple[Any, ...]) -> None:
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            data = marshal.dumps(message)
            self._process.stdin.write(struct.pack("<I", len(data)) + data)

    # -- the child process ------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _supervise(self) -> None:
        """Keep one child process alive; each restart is reported as a loss."""
        starts = 0
        while True:
            try:
                self._process = await _start_process()
            except OSError as error:  # no memory, or no descriptors left
                mode, why = "polling", f"the watcher process cannot be started: {error.strerror}"
            else:
                if self._folders:
                    self._send_additions(self._folders)
                    self._pending = {}
                await self._receive(self._process)
                await self._process.wait()
                mode, why = "starting", "the watcher process ended and is restarted"
            for root in list(self._roots.values()):
                root.sink.mode_changed(mode, why)
            await asyncio.sleep(_RESTART_PAUSES[min(starts, len(_RESTART_PAUSES) - 1)])
            starts += 1
            self._report_loss(self._roots.values(), "the watcher process was restarted")

    async def _receive(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                head = await process.stdout.readexactly(4)
                data = await process.stdout.readexactly(struct.unpack("<I", head)[0])
            except asyncio.IncompleteReadError:
                return
            self._handle_message(marshal.loads(data))

    def _handle_message(self, message: tuple[Any, ...]) -> None:
        verb = message[0]
        if verb == "events":
            self._stall.check()
            self._convert(message[1])
        elif verb == "ready":
            for name in message[1]:
                if self._latest_addition.get(name) == message[2]:  # otherwise the root was replaced meanwhile
                    self._roots[name].sink.mode_changed("live", None)
            self._spawn(self._find_missed_folders(message[1]))
        elif verb == "full":
            for name in message[1]:
                if name in self._roots:
                    self._roots[name].sink.mode_changed("polling", message[2])
        elif verb == "broken":
            self._report_loss(self._roots.values(), f"the watcher failed: {message[1]}")
            self._send(("rebuild",))
        else:
            self._report_loss(self._roots.values(), message[1])

    def _convert(self, found: Sequence[tuple[int, str]]) -> None:
        batches: dict[str, list[FileEvent]] = {}
        for number, path in found:
            root = self._root_of(path)
            if root is None:
                continue
            is_dir = number == _ADDED and os.path.isdir(path) and not os.path.islink(path)
            batches.setdefault(root.name, []).append(FileEvent(path, _KINDS[number], is_dir))
            if is_dir:
                self._watch_new_folder(root, path)
            if number == _DELETED and path in root.folders:
                root.sink.gone(path)
        for name, batch in batches.items():
            if name in self._roots:
                self._deliver(self._roots[name], batch)
        if self._uncertain_timer is None:
            self._uncertain_timer = asyncio.get_running_loop().call_later(_UNCERTAIN_AFTER, self._report_uncertain)

    def _report_uncertain(self) -> None:
        """watchfiles hands out its events and clears them in two steps: an event in between is lost."""
        self._uncertain_timer = None
        for root in list(self._roots.values()):
            root.sink.uncertain()

    def _root_of(self, path: str) -> WatchRoot | None:
        """Return the root whose folder is nearest above the path."""
        best, length = None, -1
        for root in self._roots.values():
            for folder in root.folders:
                inside = path == folder or path.startswith(folder + "/")
                near = root.deep or os.path.dirname(path) == folder or path == folder
                if inside and near and len(folder) > length:
                    best, length = root, len(folder)
        return best

    # -- new folders ------------------------------------------------------------------------------------------------

    async def _find_missed_folders(self, names: Sequence[str]) -> None:
        """Find folders that appeared between the walk over a root and its first watch.

        Only below folders that are watched without subfolders: watchfiles finds the others itself.
        """
        for name in names:
            root, folders = self._roots.get(name), self._folders.get(name)
            if root is None or folders is None or not root.deep or not folders[1]:
                continue
            for folder in await asyncio.to_thread(_unwatched_folders, root, *folders):
                if self._roots.get(name) is root:
                    self._watch_new_folder(root, folder)

    def _watch_new_folder(self, root: WatchRoot, folder: str) -> None:
        """Watch a folder that appeared, and deliver events for what is in it already."""
        if not root.deep or not root.descend(folder):
            return
        folders = self._folders.get(root.name)
        if folders is not None and os.path.dirname(folder) in folders[1]:
            deep, flat = _split(replace(root, folders=(folder,), plan=None))
            self._folders[root.name] = (folders[0] + deep, folders[1] + flat)
            before = self._extensions.get(root.name, ([], []))
            self._extensions[root.name] = (before[0] + deep, before[1] + flat)
            self._start_batch()
        loop = asyncio.get_running_loop()
        loop.call_soon(self._list_new_folder, root.name, folder)
        for pause in _LIST_AGAIN:
            loop.call_later(pause, self._list_new_folder, root.name, folder)

    def _list_new_folder(self, name: str, folder: str) -> None:
        root = self._roots.get(name)
        if root is None:
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
            self._deliver(root, batch)


def _split(root: WatchRoot) -> Folders:
    plan = root.plan or plan_watches(root, sys.maxsize)
    return (plan.deep, plan.flat) if plan is not None else ([], [])


def _unwatched_folders(root: WatchRoot, deep: list[str], flat: list[str]) -> list[str]:
    known = {*deep, *flat}
    inside = [entry for folder in flat for entry in list_folder(folder) if entry.path not in known]
    return [entry.path for entry in inside if entry.is_dir(follow_symlinks=False) and root.descend(entry.path)]


async def _start_process() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # neither the current folder, which may be a worktree, nor a relative entry is a place of modules
        "-m",
        "imi_monitor.sources.files.watchfiles_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))},
    )
