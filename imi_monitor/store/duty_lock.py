"""The lock on a file beside the registry: the process that holds it has the duties of this home. It ends with its process."""

from __future__ import annotations

import fcntl
import os

from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import safe


class DutyLock:
    """`flock` on `<registry>.team`; the file names the holder for people."""

    def __init__(self, database: str) -> None:
        self.path = f"{os.path.realpath(database)}.team"
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Hold the lock if no other process does; True while this object holds it."""
        if self._handle is not None:
            return True
        try:
            # another user's link in its place must not be followed; the lock must not pass to programs that imi starts
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RegistryError(
                f"cannot open {safe(self.path)} ({error.strerror}): without it no process publishes for this machine"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def is_held(self) -> bool:
        """Whether a process has the duties at this moment."""
        if self._handle is None and self.acquire():
            self.release()
            return False
        return True

    def holder(self) -> int | None:
        """The process that wrote its number last; None when it is unknown."""
        try:
            with open(self.path, encoding="ascii", errors="replace") as file:
                text = file.read(20).strip()
        except OSError:
            return None
        return int(text) if text.isdecimal() else None
