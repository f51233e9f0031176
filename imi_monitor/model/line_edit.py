"""Changes between two texts as ranges of lines, and a text in which only some of them are made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from imi_monitor.model.diff import ADDED, CONTEXT, REMOVED, DiffHunk

_HEAD = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines from `start` up to `end`, counted from 0; empty ones are places between two lines."""

    start: int
    end: int

    def meets(self, other: LineRange) -> bool:
        """True if both ranges share a line, or if one is empty and lies in or at the edge of the other."""
        if self.start == self.end or other.start == other.end:
            return self.start <= other.end and other.start <= self.end
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class LineChange:
    """Lines of the old text that lines of the new text replace."""

    old: LineRange
    new: LineRange

    @property
    def reverse(self) -> LineChange:
        return LineChange(self.new, self.old)


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines with their ends; only the last one can have none."""
    return [line for line in re.split(rb"(?<=\n)", data) if line]


def parse_changes(patch: bytes) -> list[LineChange]:
    """Return the changes of a patch of one file without context lines (`--unified=0`)."""
    return [LineChange(_range(head[1], head[2]), _range(head[3], head[4])) for head in _HEAD.finditer(patch)]


def shown_changes(hunk: DiffHunk) -> list[LineChange]:
    """Return the runs of changed lines of a hunk."""
    old = hunk.old - any(line.sign in (REMOVED, CONTEXT) for line in hunk.lines)
    new = hunk.new - any(line.sign in (ADDED, CONTEXT) for line in hunk.lines)
    found: list[LineChange] = []
    begin: tuple[int, int] | None = None
    for sign in (*(line.sign for line in hunk.lines), CONTEXT):
        if sign == CONTEXT and begin is not None:
            found.append(LineChange(LineRange(begin[0], old), LineRange(begin[1], new)))
            begin = None
        elif sign in (REMOVED, ADDED) and begin is None:
            begin = (old, new)
        old += sign in (REMOVED, CONTEXT)
        new += sign in (ADDED, CONTEXT)
    return found


def make_changes(old: Sequence[bytes], new: Sequence[bytes], changes: Iterable[LineChange]) -> bytes:
    """Return the old text with these changes to the new one, which are in order."""
    parts: list[bytes] = []
    at = 0
    for change in changes:
        parts += old[at : change.old.start]
        parts += new[change.new.start : change.new.end]
        at = change.old.end
    return b"".join([*parts, *old[at:]])


def _range(start: bytes, count: bytes | None) -> LineRange:
    first, lines = int(start), 1 if count is None else int(count)
    return LineRange(first - 1, first - 1 + lines) if lines else LineRange(first, first)
