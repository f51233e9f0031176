"""Where the files that agents write belong, and how large they are.

They are looked at from outside only, never opened: an agent may name any file, the registry's own among them, and closing
that would drop the locks SQLite has on it.
"""

from __future__ import annotations

import os
import stat

from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError

_MOST_ROOTS = 1000


def size(path: str, root: str | None) -> int | None:
    """Of a plain file in its worktree as it is now; None for what cannot be told, or is none of ours to look at."""
    if root is None or not path.startswith(root.rstrip("/") + "/"):
        return None
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None


class Roots:
    """The worktree that a folder lies in, looked up once."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def of(self, cwd: str | None) -> str | None:
        if cwd is None:
            return None
        if cwd not in self._found:
            if len(self._found) >= _MOST_ROOTS:
                self._found.clear()
            self._found[cwd] = _root(cwd)
        return self._found[cwd]


def _root(cwd: str) -> str:
    try:
        place = layout.discover(cwd)
    except (ImiError, OSError):
        place = None
    return place.path if place is not None and place.path else cwd
