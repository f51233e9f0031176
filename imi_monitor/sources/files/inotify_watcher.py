"""File events by raw inotify (Linux): one queue for everything, folders added and dropped at will, losses visible.

The mask leaves out opening and reading, so that an agent's `grep -r` over followed trees costs nobody anything. A new
folder is followed first and listed then, so nothing that appears in it meanwhile is missed.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Iterator

from imi_monitor.sources.files.watcher import FileEvent, FileEventKind, WatchRoot, WatchSink, list_folder, walk_folders
from imi_monitor.sources.timers import StallDetector

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
_SLICE = 200  # folders added before the loop gets its turn again
_MOST_AT_ONCE = 20_000  # events of one turn that are still looked at one by one


class InotifyWatcher:
    """One inotify instance for all roots."""

    name = "inotify"

    def __init__(self) -> None:
        from inotify_simple import INotify

        self._queue = INotify(nonblocking=True)
        self._sink: WatchSink | None = None
        self._roots: dict[str, WatchRoot] = {}
        self._owners: dict[int, tuple[str, str]] = {}  # watch -> (root, folder)
        self._watches: dict[str, dict[str, int]] = {}  # root -> folder -> watch
        self._stall = StallDetector()
        self._full: str | None = None

    @property
    def watches(self) -> int:
        return len(self._owners)

    async def start(self, sink: WatchSink) -> None:
        self._sink = sink
        asyncio.get_running_loop().add_reader(self._queue.fileno(), self._read)
        self._stall.start(lambda why: sink.lost(None, why))

    async def close(self) -> None:
        self._stall.stop()
        asyncio.get_running_loop().remove_reader(self._queue.fileno())
        self._queue.close()

    async def add(self, root: WatchRoot) -> None:
        """Follow all its folders, a slice at a time, so that the loop never waits for more than some milliseconds.

        One that is followed already goes on being followed meanwhile: the kernel gives a folder the same watch again.
        """
        assert self._sink is not None
        self._roots[root.name] = root
        watches = self._watches.setdefault(root.name, {})
        before, wanted = dict(watches), set()
        for done, folder in enumerate(walk_folders(root), 1):
            if self._roots.get(root.name) is not root:
                return  # dropped, or told anew, while we were adding
            if not self._watch(root.name, folder):
                break
            wanted.add(folder)
            if done % _SLICE == 0:
                await asyncio.sleep(0)
        for folder in [folder for folder in before if folder not in wanted and watches.get(folder) == before[folder]]:
            self._let_go(watches.pop(folder))
        missing = not any(folder in watches for folder in root.folders)
        self._say(root.name, missing)

    def remove(self, name: str) -> None:
        self._roots.pop(name, None)
        for watch in self._watches.pop(name, {}).values():
            self._let_go(watch)

    def _say(self, name: str, missing: bool) -> None:
        assert self._sink is not None
        if self._full is not None:
            self._sink.mode(name, "polling", self._full)
        elif missing:
            self._sink.mode(name, "off", "its folder is gone")
        else:
            self._sink.mode(name, "live", None)

    def _watch(self, name: str, folder: str) -> bool:
        """Follow one folder; False when the kernel's limit is reached, which is said once and never hidden."""
        try:
            watch = self._queue.add_watch(folder, _MASK)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EMFILE, errno.ENOMEM):
                self._full = "the kernel's limit of watches is reached (fs.inotify.max_user_watches)"
                return False
            return True  # gone meanwhile, or not ours to read: there is nothing to follow
        self._full = None
        self._owners[watch] = (name, folder)
        self._watches[name][folder] = watch
        return True

    def _let_go(self, watch: int) -> None:
        if self._owners.pop(watch, None) is not None:
            self._drop(watch)

    def _drop(self, watch: int) -> None:
        try:
            self._queue.rm_watch(watch)
        except OSError:
            return  # the kernel dropped it before us

    def _read(self) -> None:
        assert self._sink is not None
        self._stall.alive()
        batches: dict[str, list[FileEvent]] = {}
        seen = 0
        for event in self._queue.read(timeout=0):
            seen += 1
            if event.mask & _Q_OVERFLOW:
                self._sink.lost(None, "more happened than the kernel keeps")
                continue
            owner = self._owners.get(event.wd)
            if owner is None:
                continue
            if event.mask & (_GONE | _IGNORED):
                self._gone(event.wd, event.mask, owner, batches)
            elif seen <= _MOST_AT_ONCE:
                self._event(owner, event.mask, event.cookie, event.name, batches)
        for name, batch in batches.items():
            self._sink.touched(name, batch)

    def _event(
        self, owner: tuple[str, str], mask: int, cookie: int, name: str, batches: dict[str, list[FileEvent]]
    ) -> None:
        root, folder = owner
        path = f"{folder}/{name}"
        is_dir = bool(mask & _ISDIR)
        batch = batches.setdefault(root, [])
        for bit, kind in _KINDS:
            if mask & bit:
                batch.append(FileEvent(path, kind, is_dir, cookie))
        if is_dir and mask & (_CREATE | _MOVED_TO):
            batch.extend(self._enter(root, path))
        elif is_dir and mask & _MOVED_FROM:
            self._leave(root, path)

    def _enter(self, name: str, folder: str) -> Iterator[FileEvent]:
        """A folder appeared: follow it and what is below, and tell what is in it already."""
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
        if self._full is not None:
            self._say(name, False)

    def _leave(self, name: str, folder: str) -> None:
        """A folder was renamed: its watches would go on telling the old path. What it is now called is entered anew."""
        watches = self._watches.get(name, {})
        for path in [path for path in watches if path == folder or path.startswith(folder + "/")]:
            self._let_go(watches.pop(path))

    def _gone(self, watch: int, mask: int, owner: tuple[str, str], batches: dict[str, list[FileEvent]]) -> None:
        assert self._sink is not None
        name, folder = owner
        root = self._roots.get(name)
        if mask & (_IGNORED | _GONE):
            self._owners.pop(watch, None)
            watches = self._watches.get(name, {})
            if watches.get(folder) == watch:
                del watches[folder]
        if mask & _MOVE_SELF:
            self._drop(watch)
        if root is not None and folder in root.folders and mask & (_GONE | _IGNORED):
            self._sink.gone(name, folder)
