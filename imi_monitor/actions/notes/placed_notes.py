"""The notes of a worktree with where they stand now, and the text of a round for an agent."""

from __future__ import annotations

import os

from imi_monitor.actions.files import review_diff
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.git_diff import read_beginning
from imi_monitor.model import note_place
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, notes
from imi_monitor.store.notes import NoteRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target

CHANGED = "the code has changed"
_MOST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class PlacedNote:
    """A note and the present path and number of its line; `line` None: the code has changed, or it is unknown (`problem`)."""

    note: NoteRow
    path: str
    line: int | None
    problem: str | None = None

    @property
    def place(self) -> str:
        """`src/api.py:41`, or `src/api.py (line 41, the code has changed)`."""
        if self.line is not None:
            return f"{safe(self.path, 300)}:{self.line}"
        why = self.problem or CHANGED
        return f"{safe(self.note.path or '?', 300)} (line {self.note.line}, {safe(why, 200)})"

    def data(self) -> dict[str, object]:
        note = self.note
        return {
            "id": note.seq,
            **{name: getattr(note, name) for name in NoteRow.columns.split(", ") if name != "seq"},
            "state": note.state,
            "path_now": self.path if self.line is not None else None,
            "line_now": self.line,
            "code_has_changed": self.line is None and self.problem is None,
        }


def open_notes(context: Context, target: Target) -> tuple[NoteRow, ...]:
    return tuple(db.read(context.connection, notes.list_notes, target.repo_name or "", target.name))


def list_placed(context: Context, target: Target, *, done: bool = False) -> list[PlacedNote]:
    """The notes of the worktree, oldest first, with where they stand now."""
    found = db.read(context.connection, notes.list_notes, target.repo_name or "", target.name, done=done)
    return place(context, target, found)


def place(context: Context, target: Target, found: Sequence[NoteRow]) -> list[PlacedNote]:
    if not found:
        return []
    try:
        diff = review_diff.read(context, target).diff
    except ImiError as error:
        return [PlacedNote(one, one.path or "", None, error.sentence) for one in found]
    placed = []
    for one in found:
        where = note_place.find_place(
            diff, one.path or "", one.side or note_place.NEW, one.line or 0, one.excerpt or ""
        )
        if where is not None:
            placed.append(PlacedNote(one, diff.files[where.file].path, where.number))
        else:
            placed.append(PlacedNote(one, one.path or "", _line_in_file(target, one)))
    return placed


def _line_in_file(target: Target, note: NoteRow) -> int | None:
    """The nearest line with the note's text in the file itself: it may not differ from the trunk any more."""
    if note.side != note_place.NEW or not note.path or note.excerpt is None:
        return None
    folder = os.path.realpath(target.path)
    full = os.path.join(folder, note.path)
    if os.path.dirname(os.path.realpath(full)) != os.path.dirname(full):
        return None  # through a link, out of the worktree
    try:
        lines = read_beginning(full, _MOST_BYTES).decode("utf-8", "backslashreplace").split("\n")
    except (OSError, ValueError):
        return None
    alike = [number for number, text in enumerate(lines, 1) if text[: len(note.excerpt)] == note.excerpt]
    wanted = note.line or 0
    return min(alike, key=lambda number: abs(number - wanted), default=None)


def round_text(target: Target, placed: Sequence[PlacedNote]) -> str:
    """Return the message to the agent: all notes of the round, numbered, each with its place, its line and its id."""
    head = (
        f"Review of {target.name}: {count(len(placed), 'note')}. Handle all of them, then run `imi notes done ID` for "
        'each, or `imi notes answer ID "TEXT"` where you disagree or have a question.'
    )
    parts = [head]
    for number, one in enumerate(placed, 1):
        excerpt = f"\n   > {one.note.excerpt}" if one.note.excerpt else ""
        text = one.note.text.replace("\n", "\n   ")
        parts.append(f"{number}. [note {one.note.seq}] {one.place}{excerpt}\n   {text}")
    return "\n\n".join(parts)
