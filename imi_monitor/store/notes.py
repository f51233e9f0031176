"""Notes: on a line of a worktree's diff (kind review), and intents, milestones and lessons. A note is never deleted.

What happens to a note is an event, so that the archive has it.

An intent, milestone or lesson is written by `log`, with its event. The newest intent of a worktree or of a terminal that is
not done is its present one.
"""

from __future__ import annotations

from imi_monitor.fast import json_reader, json_writer
from imi_monitor.model import times
from imi_monitor.model.redact import redact
from imi_monitor.store import contexts, events
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from imi_monitor.model.snapshot import Intent

REVIEW, INTENT, MILESTONE, LESSON = "review", "intent", "milestone", "lesson"
LOGGED = (INTENT, MILESTONE, LESSON)


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
    context: str | None
    artifacts: str | None

    @property
    def artifact_list(self) -> list[str]:
        found = json_reader.loads(self.artifacts) if self.artifacts else []
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []

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
    path: str | None = None,
    side: str | None = None,
    line: int | None = None,
    part: str | None = None,
    excerpt: str | None = None,
) -> int:
    """Add a note on a line of a diff, with its event, and return its id."""
    place = (path, side, line, part, excerpt)
    made = connection.execute(
        "INSERT INTO notes (kind, repo_name, worktree_name, author, text, made_at, path, side, line, part, excerpt)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (REVIEW, repo_name, worktree_name, author, text, times.stamp(), *place),
    )
    assert made.lastrowid is not None
    where = f"{path}:{line}" if line is not None else path
    data: dict[str, object] = {"note": made.lastrowid, "place": where, "remark": redact(text)}
    events.record(connection, "note.added", repo_name, worktree_name, agent_id=author, data=data)
    return made.lastrowid


def log(
    connection: sqlite3.Connection,
    kind: str,
    repo_name: str,
    worktree_name: str,
    *,
    author: str,
    text: str,
    context: str | None = None,
    artifacts: Sequence[str] = (),
) -> int:
    """Add an intent, milestone or lesson with its event, and return its id; the team's Redis gets it later."""
    stored = json_writer.dumps(list(artifacts)) if artifacts else None
    made = connection.execute(
        "INSERT INTO notes (kind, repo_name, worktree_name, author, text, made_at, context, artifacts)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (kind, repo_name, worktree_name, author, text, times.stamp(), context, stored),
    )
    assert made.lastrowid is not None
    data: dict[str, object] = {"note": made.lastrowid, "text": text, "context": context, "artifacts": list(artifacts)}
    where = (repo_name or None, worktree_name or None)
    events.record(connection, f"{kind}.logged", *where, agent_id=author, data=data)
    if context is not None:
        contexts.mark_changed(connection, context)
    return made.lastrowid


def list_logged(
    connection: sqlite3.Connection,
    kinds: Sequence[str] = LOGGED,
    *,
    repo_name: str | None = None,
    worktree_name: str | None = None,
    context: str | None = None,
    limit: int = 100,
) -> list[NoteRow]:
    """The newest intents, milestones and lessons of a repository, a worktree or a terminal, oldest first."""
    where, values = [f"kind IN ({', '.join('?' for _ in kinds)})"], list[object](kinds)
    for column, value in (("repo_name", repo_name), ("worktree_name", worktree_name), ("context", context)):
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    rows = connection.execute(
        f"SELECT {NoteRow.columns} FROM notes WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?", (*values, limit)
    )
    return [NoteRow(row) for row in rows][::-1]


def current_intent(
    connection: sqlite3.Connection,
    *,
    repo_name: str | None = None,
    worktree_name: str | None = None,
    context: str | None = None,
) -> NoteRow | None:
    """The newest intent of the worktree or terminal, unless it is done."""
    found = list_logged(
        connection, (INTENT,), repo_name=repo_name, worktree_name=worktree_name, context=context, limit=1
    )
    return found[0] if found and found[0].done_at is None else None


def list_intents(connection: sqlite3.Connection) -> list[tuple[tuple[str, str], Intent]]:
    """The present intent of each worktree that has one, by (repository, worktree), with the last milestone behind it."""
    from imi_monitor.model.snapshot import Intent  # the hot verbs need none

    rows = connection.execute(
        f"SELECT {NoteRow.columns} FROM notes WHERE seq IN (SELECT max(seq) FROM notes WHERE kind = 'intent'"
        " AND worktree_name <> '' GROUP BY repo_name, worktree_name) AND done_at IS NULL"
    ).fetchall()
    found = []
    for intent in map(NoteRow, rows):
        key = (intent.repo_name, intent.worktree_name)
        last = list_logged(connection, (MILESTONE,), repo_name=key[0], worktree_name=key[1], limit=1)
        reached = last[0] if last and last[0].seq > intent.seq else None
        since = (reached.text, reached.made_at) if reached is not None else (None, None)
        found.append((key, Intent(intent.text, intent.author, intent.made_at, *since)))
    return found


def get(connection: sqlite3.Connection, seq: int) -> NoteRow | None:
    row = connection.execute(f"SELECT {NoteRow.columns} FROM notes WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else NoteRow(row)


def list_notes(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str | None = None, *, done: bool = False
) -> list[NoteRow]:
    """The notes on the diffs of a repository or of one worktree, oldest first; with `done` also those that are handled."""
    where, values = "kind = ? AND repo_name = ?", [REVIEW, repo_name]
    if worktree_name is not None:
        where, values = f"{where} AND worktree_name = ?", [*values, worktree_name]
    open_only = "" if done else " AND done_at IS NULL"
    rows = connection.execute(f"SELECT {NoteRow.columns} FROM notes WHERE {where}{open_only} ORDER BY seq", values)
    return [NoteRow(row) for row in rows]


def answer(connection: sqlite3.Connection, seq: int, text: str, by: str) -> bool:
    """Set the answer; False for a note that is done."""
    values = (text, by, times.stamp())
    said: dict[str, object] = {"remark": redact(text)}
    return _set(connection, "answer = ?, answered_by = ?, answered_at = ?", values, seq, "note.answered", said)


def finish(connection: sqlite3.Connection, seq: int, by: str) -> bool:
    """Mark the note as handled; False if it is already."""
    return _set(connection, "done_by = ?, done_at = ?", (by, times.stamp()), seq, "note.done", {})


def _set(
    connection: sqlite3.Connection,
    what: str,
    values: tuple[str, str] | tuple[str, str, str],
    seq: int,
    event: str,
    data: dict[str, object],
) -> bool:
    """Change a note that is not done, with the event; the agent or person is the last value but one."""
    row = connection.execute(
        f"UPDATE notes SET {what} WHERE seq = ? AND done_at IS NULL RETURNING repo_name, worktree_name", (*values, seq)
    ).fetchone()
    if row is not None:
        where = (row[0] or None, row[1] or None)
        events.record(connection, event, *where, agent_id=values[-2], data={"note": seq, **data})
    return row is not None


def begin_round(connection: sqlite3.Connection, repo_name: str, worktree_name: str, to: str, by: str) -> list[NoteRow]:
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
    if waiting:
        data: dict[str, object] = {"notes": [one.seq for one in waiting], "round": last + 1, "agent": to}
        events.record(connection, "note.sent", repo_name, worktree_name, agent_id=by, data=data)
    return waiting


def withdraw_round(connection: sqlite3.Connection, sent: Sequence[NoteRow]) -> None:
    """Take back the numbers of a round that did not go out."""
    connection.executemany(
        "UPDATE notes SET round = NULL, sent_to = NULL, sent_at = NULL WHERE seq = ?", [(one.seq,) for one in sent]
    )
    if sent:
        data: dict[str, object] = {"notes": [one.seq for one in sent]}
        events.record(connection, "note.withdrawn", sent[0].repo_name, sent[0].worktree_name, data=data)
