"""Where a note on a line of a diff stands now: at the same text, however far it moved, or nowhere when the code has changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from imi_monitor.model.diff import ADDED, CONTEXT, REMOVED, Diff, DiffLine, FileDiff
from imi_monitor.model.review_progress import storable

NEW, OLD = "new", "old"
_SIGNS = {NEW: (ADDED, CONTEXT), OLD: (REMOVED, CONTEXT)}
_EXCERPT = 300


class NotePlace(NamedTuple):
    """A line of a diff: the indexes of its file, hunk and line, and the line's number on the note's side."""

    file: int
    hunk: int
    line: int
    number: int


def side_of(line: DiffLine) -> str:
    return OLD if line.sign == REMOVED else NEW


def number_of(line: DiffLine, side: str) -> int:
    return (line.old if side == OLD else line.new) or 0


def excerpt_of(line: DiffLine) -> str:
    """Return the line's text as it is kept with a note."""
    return storable(line.text[:_EXCERPT])


def find_place(diff: Diff, path: str, side: str, number: int, excerpt: str) -> NotePlace | None:
    """Return the nearest line with this text in the file, also under its new name; None when the code has changed."""
    found = [
        place
        for index, file in enumerate(diff.files)
        if path in (storable(file.path), storable(file.origin or ""))
        for place in _alike(index, file, side, excerpt)
    ]
    return min(found, key=lambda place: abs(place.number - number), default=None)


def _alike(index: int, file: FileDiff, side: str, excerpt: str) -> Iterable[NotePlace]:
    for hunk_index, hunk in enumerate(file.hunks):
        for line_index, line in enumerate(hunk.lines):
            if line.sign in _SIGNS[side] and excerpt_of(line) == excerpt:
                yield NotePlace(index, hunk_index, line_index, number_of(line, side))
