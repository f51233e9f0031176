"""Notes of a worktree: on a line of its diff (kind review), later intents, milestones and lessons. A note is never deleted."""

from __future__ import annotations

from imi_monitor.model import times
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

REVIEW = "review"


class NoteRow(Row):
    """One note. `seq` is its id; `round` is None until it was sent; `side` is new or old, where `line` counts."""

    seq: int
    kind: str
    repo_name: str
    worktree_name: str
    author: str
    text: str
    made_at: str
    path: str | None
    side: str | None
    line: int | None
    part: str | None
    excerpt: str | None
    round: int | None
    sent_to: str | None
    sent_at: str | None
    answer: str | None
    answered_by: str | None
    answered_at: str | None
    done_by: str | None
    done_at: str | None

    @property
    def state(self) -> str:
        """new, sent, answered or done."""
        if self.done_at is not None:
            return "done"
        return "answered" if self.answer is not None else "sent" if self.round is not None else "new"


def add(
    connection: sqlite3.Connection,
    repo_name: str,
    worktree_name: str,
    *,
    author: str,
    text: str,
    kind: str = REVIEW,
    path: str | None = None,
    side: str | None = None,
    line: int | None = None,
    part: str | None = None,
    excerpt: str | None = None,
) -> int:
    """Add a note and return its id."""
    place = (path, side, line, part, excerpt)
    made = connection.execute(
        "INSERT INTO notes (kind, repo_name, worktree_name, author, text, made_at, path, side, line, part, excerpt)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (kind, repo_name, worktree_name, author, text, times.stamp(), *place),
    )
    assert made.lastrowid is not None
    return made.lastrowid


def get(connection: sqlite3.Connection, seq: int) -> NoteRow | None:
    row = connection.execute(f"SELECT {NoteRow.columns} FROM notes WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else NoteRow(row)


def list_notes(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str | None = None, *, done: bool = False
) -> list[NoteRow]:
    """The notes of a repository or of one worktree, oldest first; with `done` also those that are handled."""
    where, values = "repo_name = ?", [repo_name]
    if worktree_name is not None:
        where, values = f"{where} AND worktree_name = ?", [*values, worktree_name]
    open_only = "" if done else " AND done_at IS NULL"
    rows = connection.execute(f"SELECT {NoteRow.columns} FROM notes WHERE {where}{open_only} ORDER BY seq", values)
    return [NoteRow(row) for row in rows]


def answer(connection: sqlite3.Connection, seq: int, text: str, by: str) -> bool:
    """Set the answer; False for a note that is done."""
    return _set(connection, "answer = ?, answered_by = ?, answered_at = ?", (text, by, times.stamp()), seq)


def finish(connection: sqlite3.Connection, seq: int, by: str) -> bool:
    """Mark the note as handled; False if it is already."""
    return _set(connection, "done_by = ?, done_at = ?", (by, times.stamp()), seq)


def _set(connection: sqlite3.Connection, what: str, values: tuple[object, ...], seq: int) -> bool:
    changed = connection.execute(f"UPDATE notes SET {what} WHERE seq = ? AND done_at IS NULL", (*values, seq))
    return changed.rowcount == 1


def begin_round(connection: sqlite3.Connection, repo_name: str, worktree_name: str, to: str) -> list[NoteRow]:
    """Number all open notes that were never sent as one round, before it is sent: none goes out twice."""
    waiting = [one for one in list_notes(connection, repo_name, worktree_name) if one.round is None]
    last = connection.execute(
        "SELECT coalesce(max(round), 0) FROM notes WHERE repo_name = ? AND worktree_name = ?",
        (repo_name, worktree_name),
    ).fetchone()[0]
    at = times.stamp()
    connection.executemany(
        "UPDATE notes SET round = ?, sent_to = ?, sent_at = ? WHERE seq = ?",
        [(last + 1, to, at, one.seq) for one in waiting],
    )
    return waiting


def withdraw_round(connection: sqlite3.Connection, sent: Sequence[NoteRow]) -> None:
    """Take back the numbers of a round that did not go out."""
    connection.executemany(
        "UPDATE notes SET round = NULL, sent_to = NULL, sent_at = NULL WHERE seq = ?", [(one.seq,) for one in sent]
    )
