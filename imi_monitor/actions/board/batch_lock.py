"""The lock of a batch: one process orchestrates it at a time. It ends with its process."""

from __future__ import annotations

import fcntl
import os
import zlib

from imi_monitor import paths
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe


class BatchLock:
    """`flock` on a file that is named after registry, repository and batch; it holds the process for people."""

    def __init__(self, database: str, common_dir: str, batch: str) -> None:
        key = "\0".join((os.path.realpath(database), common_dir, batch)).encode("utf-8", "surrogateescape")
        self._path = os.path.join(paths.state_dir(), "batches", f"{zlib.crc32(key):08x}.lock")
        self._batch = batch
        self._handle: int | None = None

    def acquire(self) -> None:
        """Hold the lock; Refused while another process orchestrates the batch."""
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
            os.close(handle)
            raise Refused(
                f"{safe(self._batch, 200)} is under way already, in process {safe(holder)}: `imi board` shows it",
                code="under-way",
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._handle = handle

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
