"""A growing file of lines, read from where we were: the end first, the rest later and in slices.

A transcript may hold 50 MB of which only the last lines tell the state. So a new file is read from its last `window`
bytes; `older` then gives what lies before them, oldest first, a bounded slice a call, for those who count from the
beginning. A torn last line waits until it is whole. A file that shrank or was replaced is begun anew.

By what a file that others write is known to have changed since the last look, and when it did.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_SLICE = 1 << 20
_MOST = 8 << 20  # of one call, so that a look stays short whatever was written
_LONGEST_LINE = 64 << 20


class Tail:
    """Call `new` again and again; `begun_anew` says that what was known of the file no longer holds."""

    def __init__(self, path: str, window: int = 256 << 10) -> None:
        self.path = path
        self.begun_anew = False
        self.behind = False  # `new` left something for the next call
        self._window = window
        self._identity: tuple[int, int] | None = None
        self._at = 0
        self._rest = b""
        self._older_at = 0
        self._older_end = 0

    @property
    def size(self) -> int:
        return self._at

    def new(self) -> list[bytes]:
        """Whole lines that were added since the last call, without their ends; empty when the file is gone."""
        try:
            with open(self.path, "rb") as file:
                stat = os.fstat(file.fileno())
                self._follow(stat, file)
                file.seek(self._at)
                data = file.read(_MOST)
        except OSError:
            return []
        self._at += len(data)
        self.behind = self._at < stat.st_size
        return self._lines(data)

    def older(self, most: int = _SLICE) -> Iterator[bytes]:
        """Whole lines of the next slice in front of what was read first, oldest slice first; nothing when all is read."""
        if self._older_at >= self._older_end:
            return
        try:
            with open(self.path, "rb") as file:
                file.seek(self._older_at)
                data = file.read(min(most, self._older_end - self._older_at))
                if self._older_at + len(data) < self._older_end:  # up to the end of a line
                    data += file.readline(_LONGEST_LINE)
        except OSError:
            self._older_at = self._older_end
            return
        self._older_at = self._older_at + len(data) if data else self._older_end
        yield from (line for line in data.split(b"\n") if line)

    @property
    def has_older(self) -> bool:
        return self._older_at < self._older_end

    def _follow(self, stat: os.stat_result, file: BinaryIO) -> None:
        identity = (stat.st_dev, stat.st_ino)
        self.begun_anew = False
        if self._identity == identity and stat.st_size >= self._at:
            return
        self.begun_anew = self._identity is not None
        self._identity = identity
        self._rest = b""
        self._older_at = self._older_end = 0
        self._at = max(0, stat.st_size - self._window)
        if self._at:
            self._to_a_line(file, stat.st_size)
            self._older_end = self._at

    def _to_a_line(self, file: BinaryIO, end: int) -> None:
        """Move `_at` forward to the beginning of a line; back first, while the last line is longer than the window."""
        start, back = self._at, self._window
        while True:
            file.seek(start)
            if start:
                file.readline()
            at = file.tell()
            if at < end or start == 0:
                self._at = at
                return
            start, back = max(0, start - back), back * 2  # further and further: a line may be as long as the file

    def _lines(self, data: bytes) -> list[bytes]:
        if not data:
            return []
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return [line for line in lines if line]


class FileStamp(NamedTuple):
    """Another one when a file was written or put in another's place."""

    moved_ns: int
    size: int
    inode: int

    @property
    def moved_at(self) -> float:
        return self.moved_ns / 1e9


def stamp_of(path: str) -> FileStamp | None:
    """None where nothing is, or nothing may be seen."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return FileStamp(stat.st_mtime_ns, stat.st_size, stat.st_ino)


def modified_at(path: str) -> float | None:
    """Seconds since 1970."""
    found = stamp_of(path)
    return found.moved_at if found else None
