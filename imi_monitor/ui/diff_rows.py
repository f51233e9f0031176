"""The rows of a diff on the screen, and how the cursor's line is found again in a newer diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from imi_monitor.model import note_place
from imi_monitor.model.diff import Diff, DiffLine
from imi_monitor.model.review_progress import ReviewedFile, storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.notes import NoteRow

FILE, HUNK, LINE, CUT, GAP, END, REMARK = "file", "hunk", "line", "cut", "gap", "end", "note"


NotePlaces = dict[tuple[int, int, int], list[int]]
"""The indexes of a file, a hunk and a line -> the notes on that line; line -1: on the file's heading."""


class DiffRow(NamedTuple):
    """One row: its kind, and the indexes of its file, hunk and line; of a note its index."""

    kind: str
    file: int
    hunk: int = 0
    line: int = 0
    note: int = 0


@dataclass(frozen=True, slots=True)
class DiffAnchor:
    """The cursor's row, described so that it can be found in the next diff."""

    path: str
    row: DiffRow
    line: DiffLine | None


class DiffRows:
    """All rows of one diff."""

    def __init__(self, diff: Diff, reviewed: Sequence[ReviewedFile] = (), notes: Sequence[NoteRow] = ()) -> None:
        self.diff = diff
        self.notes = notes
        self.lost: set[int] = set()  # notes whose line is not in the diff any more
        places = self._places()
        self.reviewed = reviewed  # of each file what was read, if that is known
        self.rows: list[DiffRow] = []
        self.heads: list[int] = []  # the first row of each file
        for index in range(len(diff.files)):
            if index:
                self.rows.append(DiffRow(GAP, index - 1))
            self.heads.append(len(self.rows))
            self.rows += _of_file(diff, index, places)
        if diff.omitted or diff.unfinished:
            self.rows.append(DiffRow(END, max(0, len(diff.files) - 1)))

    def _places(self) -> NotePlaces:
        """Return where each note stands; one whose line is gone stands at the heading of its file."""
        found: NotePlaces = {}
        paths = {storable(file.path): index for index, file in enumerate(self.diff.files)}
        for index, note in enumerate(self.notes):
            place = note_place.find_place(
                self.diff, note.path or "", note.side or "", note.line or 0, note.excerpt or ""
            )
            if place is None:
                self.lost.add(index)
            file = place.file if place else paths.get(note.path or "")
            if file is not None:
                found.setdefault((file, *(place[1:3] if place else (0, -1))), []).append(index)
        return found

    def note_at(self, row: int) -> NoteRow | None:
        at = self.rows[row] if row < len(self.rows) else None
        return self.notes[at.note] if at is not None and at.kind == REMARK else None

    def __len__(self) -> int:
        return len(self.rows)

    def file_at(self, row: int) -> int:
        return self.rows[row].file if 0 <= row < len(self.rows) else 0

    def line_at(self, row: int) -> DiffLine | None:
        at = self.rows[row]
        return self.diff.files[at.file].hunks[at.hunk].lines[at.line] if at.kind == LINE else None

    def next(self, row: int, kind: str, step: int) -> int | None:
        """The next row of this kind; backwards where `step` is negative."""
        places = range(row + 1, len(self.rows)) if step > 0 else range(row - 1, -1, -1)
        return next((place for place in places if self.rows[place].kind == kind), None)

    def anchor(self, row: int) -> DiffAnchor | None:
        if not 0 <= row < len(self.rows):
            return None
        at = self.rows[row]
        return DiffAnchor(self.diff.files[at.file].path, at, self.line_at(row)) if self.diff.files else None

    def find(self, wanted: DiffAnchor) -> int:
        """The row for an anchor: the same line if it still exists, else the nearest line of the file."""
        paths = [file.path for file in self.diff.files]
        if wanted.path not in paths:
            return self.heads[min(wanted.row.file, len(self.heads) - 1)] if self.heads else 0
        file = paths.index(wanted.path)
        own = range(self.heads[file], self.heads[file + 1] if file + 1 < len(self.heads) else len(self.rows))
        if wanted.line is None:
            alike = [row for row in own if self.rows[row][:3:2] == (wanted.row.kind, wanted.row.hunk)]
            return alike[0] if alike else own.start
        lines = [(row, line) for row in own if (line := self.line_at(row)) is not None]
        same = [pair for pair in lines if (pair[1].sign, pair[1].text) == (wanted.line.sign, wanted.line.text)]
        near = min(same or lines, key=lambda pair: abs(_number(pair[1]) - _number(wanted.line)), default=None)
        return near[0] if near else own.start


def _number(line: DiffLine | None) -> int:
    return (line.new or line.old or 0) if line else 0


def _of_file(diff: Diff, index: int, notes: NotePlaces) -> Iterator[DiffRow]:
    file = diff.files[index]
    yield DiffRow(FILE, index)
    for note in notes.get((index, 0, -1), ()):
        yield DiffRow(REMARK, index, note=note)
    for place, hunk in enumerate(file.hunks):
        if hunk.lines and (hunk.old or len(file.hunks) > 1):
            yield DiffRow(HUNK, index, place)
        for line in range(len(hunk.lines)):
            yield DiffRow(LINE, index, place, line)
            for note in notes.get((index, place, line), ()):
                yield DiffRow(REMARK, index, place, line, note)
    if file.cut or (file.note and file.hunks):
        yield DiffRow(CUT, index)
