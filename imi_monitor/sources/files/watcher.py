"""What all file watchers have in common: watch roots with their sinks, raw events, and the walk over a root's folders."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

NO_INSTANCE = "this user has no inotify instance left (fs.inotify.max_user_instances)"
NO_WATCHES = "the kernel's limit of watches is reached (fs.inotify.max_user_watches)"

FileEventKind = Literal["created", "modified", "deleted", "moved_from", "moved_to"]


@dataclass(frozen=True, slots=True)
class FileEvent:
    """One raw event. `path` is absolute; the two halves of a rename share a `cookie` if the system provides one."""

    path: str
    kind: FileEventKind
    is_dir: bool = False
    cookie: int = 0


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """Which folders of a root need a watch of their own."""

    deep: list[str]  # nothing below is pruned: one recursive watch is enough
    flat: list[str]  # watched without their subfolders
    folders: int  # all of them, including those below the deep ones


class WatchSink:
    """Receives what happens below a watch root. All methods are called on the event loop; by default they do nothing."""

    def events(self, batch: Sequence[FileEvent]) -> None: ...

    def lost(self, why: str) -> None:
        """Events are missing: what is there now has to be read again."""

    def uncertain(self) -> None:
        """An event may be missing, which is rare: worth a cheap check."""

    def gone(self, folder: str) -> None:
        """One of the root's folders was removed or replaced; the others are still watched."""

    def mode_changed(self, mode: str, why: str | None) -> None:
        """`starting`, `live`, `polling` or `off`, and why it is not live.

        `live` is reported after every addition; what happened before it is in no event.
        """


@dataclass(frozen=True, slots=True)
class WatchRoot:
    """Folders to watch together, and the sink that receives their events."""

    name: str  # unique
    folders: tuple[str, ...]
    sink: WatchSink
    deep: bool = False  # False: only these folders, without their subfolders
    descend: Callable[[str], bool] = lambda _path: (
        True
    )  # whether to watch this folder (absolute path) below a deep root
    plan: WatchPlan | None = None  # set if the root has been walked already


class FileWatcher:
    """Watches files by one technique."""

    name: str
    slow_start = False  # True: adding roots uses so much of the machine that other readings should come first
    activity = 0  # grows with every batch of events and every loss; unchanged means that no watched file changed

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def add(self, root: WatchRoot) -> None:
        """Watch a root. A root of the same name is replaced without missing an event.

        Never raises for a folder that cannot be watched: the sink gets the mode.
        """
        raise NotImplementedError

    def remove(self, name: str) -> None:
        raise NotImplementedError

    def _deliver(self, root: WatchRoot, batch: Sequence[FileEvent]) -> None:
        self.activity += 1
        root.sink.events(batch)

    def _report_loss(self, roots: Iterable[WatchRoot], why: str) -> None:
        self.activity += 1
        for root in list(roots):
            root.sink.lost(why)


def walk_folders(root: WatchRoot) -> Iterator[str]:
    """Yield the root's folders and, if it is deep, those below; symbolic links are never entered.

    A folder is listed only after it was yielded: a caller that watches it first misses nothing.
    """
    pending = deque(root.folders)
    while pending:
        folder = pending.popleft()
        yield folder
        if root.deep:
            pending.extend(
                entry.path
                for entry in list_folder(folder)
                if entry.is_dir(follow_symlinks=False) and root.descend(entry.path)
            )


def plan_watches(root: WatchRoot, most: int) -> WatchPlan | None:
    """Walk over the root once and return how to watch it; None if it has more folders than `most`.

    An unreadable folder is left out: at the first one, watchfiles would end its walk and miss the folders that follow.
    """
    if not root.deep:
        return WatchPlan([], [folder for folder in root.folders if os.path.isdir(folder)], len(root.folders))
    found = [(folder, -1) for folder in root.folders]  # each folder and the index of its parent
    pruned = bytearray(len(found))  # 1: a folder below is not watched
    for index, (folder, _parent) in enumerate(found):  # grows during the loop
        if len(found) > most:
            return None
        for entry in list_folder(folder):
            if not entry.is_dir(follow_symlinks=False):
                continue
            if root.descend(entry.path) and os.access(entry.path, os.R_OK):
                found.append((entry.path, index))
                pruned.append(0)
            else:
                pruned[index] = 1
    for index in range(len(found) - 1, -1, -1):
        if pruned[index] and found[index][1] >= 0:
            pruned[found[index][1]] = 1
    deep = [folder for index, (folder, up) in enumerate(found) if not pruned[index] and (up < 0 or pruned[up])]
    flat = [folder for index, (folder, _up) in enumerate(found) if pruned[index]]
    return WatchPlan(deep, flat, len(found))


def list_folder(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it is gone or unreadable."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
