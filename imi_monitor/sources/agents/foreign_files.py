"""Files that agent programs write while imi reads them: stamps that show a change, growing files, files of records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Generic, NamedTuple, Protocol, TypeVar

from imi_monitor.model.agent import AgentEvent
from imi_monitor.sources.agents import fields

_SLICE = 1 << 20
_LONGEST_READ = 8 << 20  # bytes per call, so that one call stays short whatever was written
_LONGEST_LINE = 64 << 20


class FileStamp(NamedTuple):
    """Differs after a file was written or replaced."""

    modified_ns: int
    size: int
    inode: int

    @property
    def modified_at(self) -> float:
        return self.modified_ns / 1e9


def stamp_of(path: str) -> FileStamp | None:
    """Return the stamp of the file; None if the file does not exist or is not accessible."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return FileStamp(stat.st_mtime_ns, stat.st_size, stat.st_ino)


def modified_at(path: str) -> float | None:
    """Seconds since 1970."""
    stamp = stamp_of(path)
    return stamp.modified_at if stamp else None


class Tail:
    """Reads a growing file of lines from its end.

    A transcript may hold 50 MB of which the last lines decide the state. A new file is therefore read from its last
    `window` bytes; `read_older` then returns what lies before them, oldest first, in bounded slices. A torn last line
    waits until it is complete. A file that shrank or was replaced is read again from its new end.
    """

    def __init__(self, path: str, window: int = 256 << 10, longest_read: int = _LONGEST_READ) -> None:
        self.path = path
        self._longest_read = longest_read
        self.restarted = False  # the last `read_new` found another file: forget what was read before
        self.has_more = False  # the last `read_new` did not reach the end
        self._window = window
        self._identity: tuple[int, int] | None = None
        self._at = 0
        self._rest = b""
        self._older_at = 0
        self._older_end = 0

    @property
    def size(self) -> int:
        """Bytes up to the place that was read."""
        return self._at

    def read_new(self) -> list[bytes]:
        """Complete lines added since the last call, without line ends; empty if the file does not exist."""
        try:
            with open(self.path, "rb") as file:
                stat = os.fstat(file.fileno())
                self._find_start(stat, file)
                file.seek(self._at)
                data = file.read(self._longest_read)
        except OSError:
            return []
        self._at += len(data)
        self.has_more = self._at < stat.st_size
        return self._split(data)

    def read_older(self, most: int = _SLICE) -> Iterator[bytes]:
        """Complete lines of the next slice before the part that was read first; nothing when all is read."""
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

    def _find_start(self, stat: os.stat_result, file: BinaryIO) -> None:
        identity = (stat.st_dev, stat.st_ino)
        self.restarted = False
        if self._identity == identity and stat.st_size >= self._at:
            return
        self.restarted = self._identity is not None
        self._identity = identity
        self._rest = b""
        self._older_at = self._older_end = 0
        self._at = max(0, stat.st_size - self._window)
        if self._at:
            self._move_to_line_start(file, stat.st_size)
            self._older_end = self._at

    def _move_to_line_start(self, file: BinaryIO, end: int) -> None:
        """Move `_at` to the first line start in the window; widen the window while the last line is longer than it."""
        start, back = self._at, self._window
        while True:
            file.seek(start)
            if start:
                file.readline()
            at = file.tell()
            if at < end or start == 0:
                self._at = at
                return
            start, back = max(0, start - back), back * 2

    def _split(self, data: bytes) -> list[bytes]:
        if not data:
            return []
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return [line for line in lines if line]


MOST_WRITTEN = 200  # files that are kept of one session


class WrittenFiles:
    """The files that a session wrote, the latest last; only the last `MOST_WRITTEN` are kept."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def add(self, *paths: str) -> None:
        for path in paths:
            self._paths.pop(path, None)
            self._paths[path] = None
        for path in list(self._paths)[:-MOST_WRITTEN]:
            del self._paths[path]

    def inherit(self, older: WrittenFiles) -> None:
        """Put the files of older records before these."""
        newer = tuple(self)
        self._paths = dict.fromkeys(older)
        self.add(*newer)


ReducerType = TypeVar("ReducerType", bound="Reducer")


class Reducer(Protocol):
    """Folds the records of one session, oldest first, into its state, its facts and its events."""

    def add(self, line: bytes, at: str) -> None:
        """Take in one line. `at`: the time to use for a record without one."""

    def inherit(self: ReducerType, older: ReducerType) -> None:
        """Fill in what the older records say and the newer ones do not."""

    def take_events(self) -> tuple[AgentEvent, ...]:
        """The events since the last call."""


class RecordFile(Generic[ReducerType]):
    """A file of records with its reducer: the end first, for the current state; the rest later in slices, for totals.

    Older records go into a reducer of their own. `reducer` inherits from it once the beginning of the file is read.
    """

    def __init__(self, path: str, new_reducer: Callable[[], ReducerType], window: int) -> None:
        self.path = path
        self.modified_at = modified_at(path) or 0.0
        self.tail = Tail(path, window)
        self.reducer = new_reducer()
        self._new_reducer = new_reducer
        self._older: ReducerType | None = None
        self._older_events: tuple[AgentEvent, ...] = ()

    def read(self) -> bool:
        """Read what was added; False if nothing was."""
        lines = self.tail.read_new()
        if self.tail.restarted:
            self.restart()
        if lines:
            self.modified_at = modified_at(self.path) or self.modified_at
            self._feed(self.reducer, lines)
        if self.tail.has_older and self._older is None:
            self._older = self._new_reducer()
        return bool(lines)

    def restart(self) -> None:
        """Forget what was read."""
        self.reducer, self._older = self._new_reducer(), None

    @property
    def has_older(self) -> bool:
        """True until the beginning of the file is read."""
        return self._older is not None

    @property
    def has_more(self) -> bool:
        return self.tail.has_more or self.has_older

    def read_older(self) -> None:
        """Read one slice of what lies before the part that was read first."""
        if self._older is None:
            return
        self._feed(self._older, self.tail.read_older())
        self._older_events += self._older.take_events()
        if not self.tail.has_older:
            self.reducer.inherit(self._older)
            self._older = None

    def take_events(self) -> tuple[AgentEvent, ...]:
        """The events read since the last call, those of older records first."""
        older, self._older_events = self._older_events, ()
        return older + self.reducer.take_events()

    def _feed(self, reducer: ReducerType, lines: Iterable[bytes]) -> None:
        at = fields.at(self.modified_at)
        for line in lines:
            reducer.add(line, at)
