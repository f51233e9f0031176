"""By what a file that others write is known to have changed since the last look, and when it did."""

from __future__ import annotations

import os
from typing import NamedTuple


class Mark(NamedTuple):
    """Another one when a file was written or put in another's place."""

    moved_ns: int
    size: int
    inode: int

    @property
    def moved_at(self) -> float:
        return self.moved_ns / 1e9


def mark(path: str) -> Mark | None:
    """None where nothing is, or nothing may be seen."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return Mark(stat.st_mtime_ns, stat.st_size, stat.st_ino)


def moved_at(path: str) -> float | None:
    """Seconds since 1970."""
    found = mark(path)
    return found.moved_at if found else None
