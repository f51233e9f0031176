"""What every way of following files looks like: folders in, raw events out, and an honest word when something was missed.

The folders of a root, without those that need not be followed; links are never entered.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

FileEventKind = Literal["created", "modified", "deleted", "moved_from", "moved_to"]


@dataclass(frozen=True, slots=True)
class FileEvent:
    """One raw event. `path` is absolute; two halves of a rename share a `cookie` where the system tells."""

    path: str
    kind: FileEventKind
    is_dir: bool = False
    cookie: int = 0


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """The folders of a root: those that may be followed with everything below them, as nothing there is pruned, and
    those that are followed alone; `folders` is how many there are in all, below the first too."""

    deep: list[str]
    flat: list[str]
    folders: int


@dataclass(frozen=True, slots=True)
class WatchRoot:
    """Something to follow. `descend` says whether to look into a folder below (given its absolute path); with
    `deep` False only the folders named are followed, each for itself."""

    name: str  # what it is known by; unique
    folders: tuple[str, ...]
    deep: bool = False
    descend: Callable[[str], bool] = lambda _path: True
    plan: WatchPlan | None = None  # where somebody has walked over it already


class WatchSink(Protocol):
    """Who is told. All of it is called on the loop."""

    def touched(self, root: str, batch: Sequence[FileEvent]) -> None: ...

    def lost(self, root: str | None, why: str) -> None:
        """Events are missing (None: anywhere): what is there now has to be looked at."""

    def doubt(self) -> None:
        """An event may be missing, though hardly ever is: what costs next to nothing is worth a look."""

    def gone(self, root: str, folder: str) -> None:
        """One of the folders that a root names is not there, or is another one now; the others are followed still."""

    def mode(self, root: str, how: str, why: str | None) -> None:
        """`live`, `polling`, `starting`, or `off`, and why it is not live. `live` is said of every addition, when it
        is true: whatever happened before is in no event."""


class FileWatcher(Protocol):
    """A back end."""

    name: str

    async def start(self, sink: WatchSink) -> None: ...

    async def close(self) -> None: ...

    async def add(self, root: WatchRoot) -> None:
        """Follow it; what could not be followed is said through `mode`, never raised. A root that is added again under
        its name has changed: what it had before is followed without a gap."""

    def remove(self, name: str) -> None: ...


def walk_folders(root: WatchRoot) -> Iterator[str]:
    """The root's own folders and, if it is deep, those below. A folder is listed only after it was given out, so that
    a caller who follows it first misses nothing."""
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
    """How the root is best followed, by one walk over it; None where it has more folders than `most`."""
    if not root.deep:
        return WatchPlan([], [folder for folder in root.folders if os.path.isdir(folder)], len(root.folders))
    found = [(folder, -1) for folder in root.folders]  # each folder and the place of the one above it
    pruned = bytearray(len(found))  # whether something below is not to be followed
    for place, (folder, _above) in enumerate(found):  # grows while it is gone through
        if len(found) > most:
            return None
        for entry in list_folder(folder):
            if not entry.is_dir(follow_symlinks=False):
                continue
            if root.descend(entry.path):
                found.append((entry.path, place))
                pruned.append(0)
            else:
                pruned[place] = 1
    for place in range(len(found) - 1, -1, -1):
        if pruned[place] and found[place][1] >= 0:
            pruned[found[place][1]] = 1
    deep = [folder for place, (folder, above) in enumerate(found) if not pruned[place] and (above < 0 or pruned[above])]
    return WatchPlan(deep, [folder for place, (folder, _above) in enumerate(found) if pruned[place]], len(found))


def list_folder(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing when it is gone or closed to us."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
