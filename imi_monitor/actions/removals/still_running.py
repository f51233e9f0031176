"""A mark that lives as long as anybody works on a creation: us, or the git that outlives us when we are killed.

It is a lock on a file that git and its children inherit. No process id could tell this: when imi is killed, its git goes
on for a while, and nobody must take the worktree back under its hands.
"""

from __future__ import annotations

import errno
import fcntl
import os

from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe


class Mark:
    """The lock, held."""

    __slots__ = ("_handle", "path")

    def __init__(self, handle: int, path: str) -> None:
        self._handle = handle
        self.path = path

    def remove(self) -> None:
        """The work is done or taken back: nobody needs to ask any more."""
        if os.path.lexists(self.path):  # nobody else removes it while we hold it
            os.unlink(self.path)
        os.close(self._handle)


def begin(common_dir: str, operation: str) -> Mark:
    """The mark of an act that starts now; processes started before it is removed hold it too."""
    path = _path(common_dir, operation)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Refused(
            f"cannot write in {safe(common_dir)}: {error.strerror}; nothing was made", code="not-writable"
        ) from error
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.set_inheritable(handle, True)
    return Mark(handle, path)


def take(common_dir: str, operation: str) -> Mark | None:
    """The mark of an act whose imi is dead; None while its git, or another recovery, is still at work."""
    path = _path(common_dir, operation)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return Mark(handle, path)


def _path(common_dir: str, operation: str) -> str:
    return os.path.join(common_dir, f"imi-create-{operation}.lock")
