"""Where a file is in conflict: the parts between git's markers, with a few lines around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AROUND = 3  # lines shown before and after
OURS, THEIRS, BASE, SAME, CUT = "ours", "theirs", "base", "same", "cut"
_MARKS = (("<<<<<<< ", OURS), ("||||||| ", BASE), (">>>>>>> ", SAME))


@dataclass(frozen=True, slots=True)
class Line:
    """`side` says whose it is: ours, theirs, base, same (both have it), or cut (so many more are not shown)."""

    side: str
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """One conflict; `at` is the line of the merged file it begins in, counted from 1."""

    at: int
    lines: tuple[Line, ...]


def hunks(text: str, *, most_lines: int = 400) -> tuple[Hunk, ...]:
    """Every conflict in a merged file; what is beyond `most_lines` altogether is counted, not given."""
    lines = text.removesuffix("\n").split("\n")
    found: list[Hunk] = []
    room, index = most_lines, 0
    while index < len(lines):
        end = _end(lines, index) if lines[index].startswith("<<<<<<< ") else None
        if end is None:
            index += 1
            continue
        hunk = _hunk(lines, index, end, max(2, room))
        found.append(hunk)
        room -= len(hunk.lines)
        index = end + 1
        if room <= 0:
            left = sum(line.startswith("<<<<<<< ") for line in lines[index:])
            return (*found, Hunk(index + 1, (Line(CUT, f"{left} more conflicts"),))) if left else tuple(found)
    return tuple(found)


def _end(lines: Sequence[str], start: int) -> int | None:
    """The line that closes the conflict opened at `start`; None when nothing does, so that it was no marker."""
    return next((index for index in range(start + 1, len(lines)) if lines[index].startswith(">>>>>>> ")), None)


def _hunk(lines: Sequence[str], start: int, end: int, room: int) -> Hunk:
    first = max(0, start - AROUND)
    side = SAME
    given: list[Line] = []
    for line in lines[first : end + 1 + AROUND]:
        mark = next((kind for text, kind in _MARKS if line.startswith(text)), None)
        if mark is not None:
            side = mark
        elif line == "=======" and side in (OURS, BASE):
            side = THEIRS
        else:
            given.append(Line(side, line.removesuffix("\r")))
    if len(given) > room:
        given = [*given[:room], Line(CUT, f"{len(given) - room} more lines")]
    return Hunk(start + 1, tuple(given))
