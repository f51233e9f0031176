"""Whether git checks a worktree out now, and which files it wrote then: they are not the work of an agent."""

from __future__ import annotations

import os
import time

from imi_monitor.model import times

_LATE = 5.0  # seconds after the checkout in which events of it may still come
_LONGEST = 120.0  # seconds that the index may be locked; a lock that is older may be left over
_INDEX_FOLLOWS = 2.0  # seconds in which git makes the first index of a worktree


class Checkout:
    """The checkout of one worktree. `new`: the worktree was not there before, so that its first files are git's."""

    def __init__(self, root: str, admin_dir: str, *, new: bool) -> None:
        self._root = root
        self._admin_dir = admin_dir
        self._expected = new or self.is_under_way()
        self._ended_at: float | None = None  # monotonic

    def is_under_way(self) -> bool:
        return is_checked_out_now(self._admin_dir)

    def wrote(self, path: str) -> bool:
        """Whether git wrote the file: while it checks out, or a file that is not newer than the index written last."""
        if not self._expected:
            return False
        if self.is_under_way():
            return True
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        self._expected = now - self._ended_at < _LATE
        try:
            index = os.stat(os.path.join(self._admin_dir, "index"))
            return os.lstat(os.path.join(self._root, path)).st_mtime_ns <= index.st_mtime_ns
        except OSError:
            return False


def is_checked_out_now(admin_dir: str, *, longest: float = _LONGEST) -> bool:
    """True while git holds the lock of the index, or has not yet made the first index of a new linked worktree."""
    locked_for = _age(f"{admin_dir}/index.lock")
    if locked_for is not None:
        return locked_for < longest
    made = _age(f"{admin_dir}/gitdir")
    return made is not None and made < _INDEX_FOLLOWS and not os.path.lexists(f"{admin_dir}/index")


def _age(path: str) -> float | None:
    """The seconds since the file was written; None if it is missing."""
    try:
        return times.clock() / 1e9 - os.stat(path).st_mtime
    except OSError:
        return None
