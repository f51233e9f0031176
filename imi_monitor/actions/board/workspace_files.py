"""Files of other programs, read without writing a byte: whole small ones, and the ends of logs."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.model.run import RunFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 256 << 10
_MOST_LISTED, _MOST_READ, _DEPTH = 200, 2000, 3
_LONGEST_LINE = 1 << 20


def list_names(folder: str) -> list[str]:
    """The sorted names in a folder; none if it cannot be read."""
    with suppress(OSError):
        return sorted(os.listdir(folder))
    return []


def read_text(folder: str, name: str, ending: str = "", most: int = MOST_BYTES) -> str | None:
    """The text of a plain file that is not larger; None for anything else."""
    if name.startswith(".") or not name.endswith(ending):
        return None
    with suppress(OSError):
        handle = _open(os.path.join(folder, name))
        with open(handle, "rb") as file:
            info = os.fstat(handle)
            if stat.S_ISREG(info.st_mode) and info.st_size <= most:
                return file.read(most).decode("utf-8", "replace")
    return None


def list_files(folder: str) -> tuple[RunFile, ...]:
    """The newest plain files below a folder, by relative path; no links, nothing hidden, not deeper than three folders."""
    found = sorted(_walk(folder, "", _DEPTH, [_MOST_READ]), key=lambda one: (one.changed_at, one.path), reverse=True)
    return tuple(found[:_MOST_LISTED])


def _walk(folder: str, below: str, depth: int, left: list[int]) -> Iterator[RunFile]:
    """`left`: how many entries may still be read."""
    with suppress(OSError), os.scandir(os.path.join(folder, below)) as entries:
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                return
            path = os.path.join(below, entry.name)
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(folder, path, depth - 1, left) if depth else ()
            elif entry.is_file(follow_symlinks=False):
                info = entry.stat(follow_symlinks=False)
                yield RunFile(path, info.st_size, times.stamp(datetime.fromtimestamp(info.st_mtime, UTC)))


class LogTail:
    """The lines of a growing log, from `most` bytes before its end; OSError if it is no plain file."""

    def __init__(self, path: str, most: int) -> None:
        self._path = path
        self._most = most
        handle = _open(path)
        with open(handle, "rb"):
            info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(f"{path} is no plain file")
        self._position = max(0, info.st_size - most)
        self._cut = self._position > 0  # the first line is a part of one
        self._rest = b""

    def read(self) -> list[str]:
        """The whole lines since the last call; after a log was cut or replaced, from its beginning."""
        with open(_open(self._path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < self._position:
                self._position, self._rest, self._cut = 0, b"", False
            if size - self._position > self._most:  # more at once than is shown: its end
                self._position, self._rest, self._cut = size - self._most, b"", True
            file.seek(self._position)
            data = file.read(self._most)
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""  # a line without an end
        if self._cut and lines:
            del lines[0]
            self._cut = False
        return [line.rstrip(b"\r").decode("utf-8", "replace") for line in lines]

    def unfinished(self) -> str:
        """Return the text after the last line end."""
        return self._rest.decode("utf-8", "replace")


def _open(path: str) -> int:
    """A file that is no link; a pipe does not block."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
