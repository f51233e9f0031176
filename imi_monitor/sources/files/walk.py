"""The folders of a root, without those that need not be followed; links are never entered."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

from imi_monitor.sources.files.port import Plan, Root


def folders(root: Root) -> Iterator[str]:
    """The root's own folders and, if it is deep, those below. A folder is listed only after it was given out, so that
    a caller who follows it first misses nothing."""
    pending = deque(root.folders)
    while pending:
        folder = pending.popleft()
        yield folder
        if root.deep:
            pending.extend(
                entry.path
                for entry in listed(folder)
                if entry.is_dir(follow_symlinks=False) and root.descend(entry.path)
            )


def plan(root: Root, most: int) -> Plan | None:
    """How the root is best followed, by one walk over it; None where it has more folders than `most`."""
    if not root.deep:
        return Plan([], [folder for folder in root.folders if os.path.isdir(folder)], len(root.folders))
    found = [(folder, -1) for folder in root.folders]  # each folder and the place of the one above it
    pruned = bytearray(len(found))  # whether something below is not to be followed
    for place, (folder, _above) in enumerate(found):  # grows while it is gone through
        if len(found) > most:
            return None
        for entry in listed(folder):
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
    return Plan(deep, [folder for place, (folder, _above) in enumerate(found) if pruned[place]], len(found))


def listed(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing when it is gone or closed to us."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
