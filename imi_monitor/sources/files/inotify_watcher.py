"""Watching by raw inotify (Linux): one queue for all roots, folders added and removed at any time, losses reported.

The mask leaves out opening and reading, so that an agent's `grep -r` over watched trees causes no events. A new folder
is watched first and listed then, so nothing that appears in it meanwhile is missed.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Iterator

from imi_monitor.sources.files.watcher import (
    NO_WATCHES,
    FileEvent,
    FileEventKind,
    FileWatcher,
    WatchRoot,
    list_folder,
    walk_folders,
)
from imi_monitor.sources.timers import StallDetector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inotify_simple import INotify

_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _Q_OVERFLOW, _IGNORED, _ISDIR = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLYDIR, _DONT_FOLLOW, _EXCL_UNLINK = 0x01000000, 0x02000000, 0x04000000
_MASK = (
    _MODIFY
    | _CLOSE_WRITE
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
    | _ONLYDIR
    | _DONT_FOLLOW
    | _EXCL_UNLINK
)
_GONE = _DELETE_SELF | _MOVE_SELF | _UNMOUNT
_KINDS: tuple[tuple[int, FileEventKind], ...] = (
    (_MODIFY, "modified"),
    (_CLOSE_WRITE, "modified"),
    (_CREATE, "created"),
    (_DELETE, "deleted"),
    (_MOVED_FROM, "moved_from"),
    (_MOVED_TO, "moved_to"),
)
Place = tuple[str, str]  # (root, folder)
_SLICE = 200  # folders added before the event loop runs again
_REST = 0.003  # seconds between two reads of the queue, at least: one commit of the registry causes twenty events
_MOST_AT_ONCE = 20_000  # events of one read that are delivered; the rest only removes watches


class InotifyWatcher(FileWatcher):
    """One inotify instance for all roots."""

    name = "inotify"

    def __init__(self, stall: StallDetector | None = None, queue: INotify | None = None) -> None:
        from inotify_simple import INotify

        self._queue = queue or INotify(nonblocking=True)
        self._roots: dict[str, WatchRoot] = {}
        # watch -> (root, folder); the kernel has one watch for all paths of a folder that is mounted in several places
        self._folders: dict[int, tuple[Place, ...]] = {}
        self._watches: dict[str, dict[str, int]] = {}  # root -> folder -> watch
        self._stall = stall or StallDetector()
        self._limit_reached: str | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._read_at = float("-inf")  # by the loop's clock

    @property
    def watches(self) -> int:
        """How many folders are watched."""
        return len(self._folders)

    async def start(self) -> None:
        self._resume()
        self._stall.start(lambda why: self._report_loss(self._roots.values(), why))

    async def close(self) -> None:
        self._stall.stop()
        if self._rest is not None:
            self._rest.cancel()
        asyncio.get_running_loop().remove_reader(self._queue.fileno())
        self._queue.close()

    async def add(self, root: WatchRoot) -> None:
        """Watch all folders of the root, a slice at a time, so that the event loop is never blocked for long.

        Folders that are watched already stay watched meanwhile: the kernel gives a folder the same watch again.
        """
        self._roots[root.name] = root
        watches = self._watches.setdefault(root.name, {})
        before, wanted = dict(watches), set()
        for done, folder in enumerate(walk_folders(root), 1):
            if self._roots.get(root.name) is not root:
                return  # removed or replaced meanwhile
            if not self._watch(root.name, folder):
                break
            wanted.add(folder)
            if done % _SLICE == 0:
                await asyncio.sleep(0)
        for folder in [folder for folder in before if folder not in wanted and watches.get(folder) == before[folder]]:
            self._unwatch(watches.pop(folder), (root.name, folder))
        self._report_mode(root, missing=not any(folder in watches for folder in root.folders))

    def remove(self, name: str) -> None:
        self._roots.pop(name, None)
        for folder, watch in self._watches.pop(name, {}).items():
            self._unwatch(watch, (name, folder))

    def _report_mode(self, root: WatchRoot, *, missing: bool = False) -> None:
        if self._limit_reached is not None:
            root.sink.mode_changed("polling", self._limit_reached)
        elif missing:
            root.sink.mode_changed("off", "its folder is gone")
        else:
            root.sink.mode_changed("live", None)

    def _watch(self, name: str, folder: str) -> bool:
        """Watch one folder; False if the kernel's limit is reached."""
        try:
            watch = self._queue.add_watch(folder, _MASK)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EMFILE, errno.ENOMEM):
                self._limit_reached = NO_WATCHES
                return False
            return True  # removed meanwhile, or not readable: nothing to watch
        self._limit_reached = None
        others = self._folders.get(watch, ())
        if (name, folder) not in others:
            self._folders[watch] = (*(place for place in others if _is_same(place[1], folder)), (name, folder))
        before = self._watches[name].get(folder)
        if before is not None and before != watch:  # another folder is in its place, as after a mount
            self._unwatch(before, (name, folder))
        self._watches[name][folder] = watch
        return True

    def _unwatch(self, watch: int, place: Place) -> None:
        others = tuple(other for other in self._folders.get(watch, ()) if other != place)
        if others:
            self._folders[watch] = others
        elif self._folders.pop(watch, None) is not None:
            self._remove_watch(watch)

    def _remove_watch(self, watch: int) -> None:
        try:
            self._queue.rm_watch(watch)
        except OSError:
            return  # the kernel removed it already

    def _resume(self) -> None:
        asyncio.get_running_loop().add_reader(self._queue.fileno(), self._readable)

    def _readable(self) -> None:
        """Deliver what is in the queue. The events that follow at once are delivered together, after a rest."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._read_at < _REST:
            loop.remove_reader(self._queue.fileno())
            self._rest = loop.call_at(self._read_at + _REST, self._resume)
            return
        self._read_at = now
        self._read()

    def _read(self) -> None:
        self._stall.check()
        batches: dict[str, list[FileEvent]] = {}
        seen = 0
        for event in self._queue.read(timeout=0):
            seen += 1
            if event.mask & _Q_OVERFLOW:
                self._report_loss(self._roots.values(), "the kernel's event queue was full")
                continue
            places = self._folders.get(event.wd, ())
            if event.mask & (_GONE | _IGNORED):
                self._folder_gone(event.wd, event.mask, places)
            elif seen <= _MOST_AT_ONCE:
                for place in places:
                    self._convert(*place, event.mask, event.cookie, event.name, batches.setdefault(place[0], []))
        for name, batch in batches.items():
            root = self._roots.get(name)
            if root is not None and batch:
                self._deliver(root, batch)

    def _convert(self, name: str, folder: str, mask: int, cookie: int, file: str, batch: list[FileEvent]) -> None:
        """Append the events that one inotify event stands for."""
        path = f"{folder}/{file}"
        is_dir = bool(mask & _ISDIR)
        for bit, kind in _KINDS:
            if mask & bit:
                batch.append(FileEvent(path, kind, is_dir, cookie))
        if is_dir and mask & (_CREATE | _MOVED_TO):
            batch.extend(self._watch_new_folder(name, path))
        elif is_dir and mask & _MOVED_FROM:
            self._unwatch_below(name, path)

    def _watch_new_folder(self, name: str, folder: str) -> Iterator[FileEvent]:
        """Watch a folder that appeared and those below, and yield an event for everything that is in them already."""
        root = self._roots.get(name)
        if root is None or not root.deep:
            return
        pending = deque([folder])
        while pending:
            current = pending.popleft()
            if not root.descend(current) or not self._watch(name, current):
                continue
            for entry in list_folder(current):
                is_dir = entry.is_dir(follow_symlinks=False)
                yield FileEvent(entry.path, "created", is_dir)
                if is_dir:
                    pending.append(entry.path)
        if self._limit_reached is not None:
            self._report_mode(root)

    def _unwatch_below(self, name: str, folder: str) -> None:
        """A folder was renamed: its watches would report the old path. It is watched anew under its new name."""
        watches = self._watches.get(name, {})
        for path in [path for path in watches if path == folder or path.startswith(folder + "/")]:
            self._unwatch(watches.pop(path), (name, path))

    def _folder_gone(self, watch: int, mask: int, places: tuple[Place, ...]) -> None:
        if self._folders.pop(watch, None) is not None and mask & _MOVE_SELF:
            self._remove_watch(watch)
        for name, folder in places:
            watches = self._watches.get(name, {})
            if watches.get(folder) == watch:
                del watches[folder]
            root = self._roots.get(name)
            if root is not None and folder in root.folders:
                root.sink.gone(folder)


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is gone
        return False
