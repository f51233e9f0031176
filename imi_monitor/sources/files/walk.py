"""The folders of a root, without those that need not be followed; links are never entered."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

from imi_monitor.sources.files.port import Root


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


def listed(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing when it is gone or closed to us."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
