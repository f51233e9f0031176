"""The reflog of a worktree's HEAD: which commits were made in it, and when. A file is read, no git runs.

A repository with another format of refs (reftable) has no such file; then nothing is known.
"""

from __future__ import annotations

import os

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.names import is_commit_id

_MOST_BYTES = 1 << 18  # of the end of the file
_MADE = ("commit", "cherry-pick", "revert", "am")  # `commit (amend)` and the like begin so


@dataclass(frozen=True, slots=True)
class ReflogEntry:
    """One move of HEAD to the commit `new`, at `at` in seconds since 1970. `what` is git's own text."""

    old: str
    new: str
    at: int
    what: str

    @property
    def is_new_commit(self) -> bool:
        """Whether the commit was made by it, and not only checked out."""
        verb, _, rest = self.what.partition(":")
        kind = verb.partition(" ")[0]
        return kind in _MADE or (kind == "merge" and "Fast-forward" not in rest)

    @property
    def subject(self) -> str:
        return self.what.partition(": ")[2] if not self.what.startswith("merge ") else self.what.partition(":")[0]


def read_reflog(admin_dir: str) -> list[ReflogEntry]:
    """The last entries, oldest first; empty if there is no reflog."""
    try:
        # a named pipe in its place must not block
        handle = os.open(os.path.join(admin_dir, "logs", "HEAD"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        size = os.fstat(handle).st_size
        start = max(0, size - _MOST_BYTES)
        raw = os.pread(handle, _MOST_BYTES, start)
    except OSError:
        return []
    finally:
        os.close(handle)
    lines = raw.split(b"\n")
    if start:
        del lines[0]  # the rest of a line
    del lines[-1:]  # behind the last line end: empty, or a line that is being written
    return [entry for line in lines if (entry := _entry(line)) is not None]


def _entry(line: bytes) -> ReflogEntry | None:
    head, _, what = line.decode("utf-8", "replace").partition("\t")
    words = head.split(" ")
    moment = words[-2] if len(words) > 3 else ""
    if not (is_commit_id(words[0]) and is_commit_id(words[1]) and moment.isascii() and moment.isdecimal()):
        return None
    return ReflogEntry(words[0], words[1], int(moment[:12]), what)
