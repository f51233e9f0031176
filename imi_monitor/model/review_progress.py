"""Which parts of a diff a person has read, by content: a part that changes is unread again, one that comes back is read.

A part is what can be read on its own (`diff_identity.reviewable_parts`); those that were read are kept with their file's path.
A renamed file keeps what was read under its old name: git names it, or it is a new file whose other name is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from imi_monitor.model import diff_identity
from imi_monitor.model.diff import Diff, FileDiff
from imi_monitor.model.text import count

ReadPart = tuple[str, str]
"""The path of a file, as `storable` gives it, and the id of one of its parts."""


def storable(path: str) -> str:
    """Return the path as text that a database takes; bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """How many parts of a diff there are and how many are unread; `partial` when the diff was not read to its end."""

    unread: int
    total: int
    partial: bool = False

    @property
    def words(self) -> str:
        """`3/12 unread`, `3/12+ unread`, `all 12 read`, or `nothing to read`."""
        if not self.total:
            return "nothing to read"
        if not self.unread and not self.partial:
            return f"{count(self.total, 'part')} read"
        return f"{self.unread}/{self.total}{'+' if self.partial else ''} unread"

    def data(self) -> dict[str, object]:
        return {"unread": self.unread, "total": self.total, "partial": self.partial}


@dataclass(frozen=True, slots=True)
class ReviewedFile:
    """One file of a diff, the ids of its parts (first those of its hunks), and those that were read."""

    file: FileDiff
    parts: tuple[str, ...]
    read: frozenset[str]

    @property
    def unread(self) -> int:
        return sum(part not in self.read for part in self.parts)

    def hunk_is_read(self, hunk: int) -> bool:
        return self.file.hunks != () and self.parts[hunk] in self.read

    def only_unread(self) -> ReviewedFile | None:
        """Return the file with its unread hunks alone; None when all of it was read."""
        if not self.unread:
            return None
        kept = [index for index in range(len(self.file.hunks)) if not self.hunk_is_read(index)]
        parts = (*(self.parts[index] for index in kept), *self.parts[len(self.file.hunks) :])
        hunks = tuple(self.file.hunks[index] for index in kept)
        return ReviewedFile(replace(self.file, hunks=hunks), parts, self.read)


def reviewed(diff: Diff, kept: Collection[ReadPart]) -> tuple[ReviewedFile, ...]:
    """Return the files of the diff with what was read of each."""
    names = {storable(file.path) for file in diff.files}
    whole = not diff.omitted and diff.unfinished is None
    left = {part for path, part in kept if path not in names} if whole else set()
    found = []
    for file in diff.files:
        parts = diff_identity.reviewable_parts(file)
        origin = storable(file.origin) if file.origin is not None else None
        read = {
            part
            for part in parts
            if (storable(file.path), part) in kept or (origin is not None and (origin, part) in kept)
        }
        if file.state in "A?":  # moved without git's knowledge
            read |= left.intersection(parts)
        found.append(ReviewedFile(file, parts, frozenset(read)))
    return tuple(found)


def progress(diff: Diff, files: Iterable[ReviewedFile]) -> ReviewProgress:
    """Return how much of the diff is unread."""
    listed = tuple(files)
    partial = diff.omitted > 0 or diff.unfinished is not None
    return ReviewProgress(sum(one.unread for one in listed), sum(len(one.parts) for one in listed), partial)
