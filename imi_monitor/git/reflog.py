"""The reflog of a worktree's HEAD: which commits were made in it, and when.

Usually it is a file, which is read without git. Where git stores refs in tables (reftable), git prints it.
"""

from __future__ import annotations

import os
import re

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.layout import has_reftable
from imi_monitor.model.errors import GitError
from imi_monitor.model.names import is_commit_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git

_MOST_ENTRIES = 2000  # that git prints
_NUMBER = re.compile(r"@\{(\d{1,12})\}$")
_MOST_BYTES = 1 << 18  # of the end of the file
_MADE = ("commit", "cherry-pick", "revert", "am")  # `commit (amend)` and the like begin so


@dataclass(frozen=True, slots=True)
class ReflogEntry:
    """One move of HEAD to the commit `new`, at `at` in seconds since 1970. `what` is git's own text."""

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


def read_reflog(git: Git) -> list[ReflogEntry]:
    """The last entries, oldest first; empty if there is no reflog, or none that can be read."""
    return _from_tables(git) if has_reftable(git.admin_dir) else _from_file(git.admin_dir)


def _from_tables(git: Git) -> list[ReflogEntry]:
    words = ("log", "--walk-reflogs", "-z", "--no-show-signature", "--date=unix", "--format=%H%x09%gd%x09%gs")
    try:
        lines = git.lines0(*words, f"--max-count={_MOST_ENTRIES}", "HEAD", "--")
    except GitError:  # no commit yet, or what git_status_source reports as well
        return []
    found = []
    for line in reversed(lines):
        new, _, rest = line.partition("\t")
        place, _, what = rest.partition("\t")
        moment = _NUMBER.search(place)
        if is_commit_id(new) and moment is not None:
            found.append(ReflogEntry(new, int(moment[1]), what))
    return found


def _from_file(admin_dir: str) -> list[ReflogEntry]:
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
    return ReflogEntry(words[1], int(moment[:12]), what)
