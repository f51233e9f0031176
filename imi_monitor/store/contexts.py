"""Terminals and what belongs to them: intent and milestones (`notes`), tabs and panes. All survive the terminal.

A context belongs to one running terminal, named by its `place`; a new one in the same terminal after a crash or reboot gets a
context of its own, and the earlier one is offered to it until it is settled: continued, or dismissed.
"""

from __future__ import annotations

from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import times
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


class ContextRow(Row):
    """One terminal. `layout` is JSON as it was captured; `settled_at`: it was continued in another one, or dismissed."""

    id: str
    place: str
    kind: str
    name: str | None
    folder: str | None
    layout: str | None
    saved_at: str | None
    began_at: str
    changed_at: str
    settled_at: str | None
    revision: int
    sent: int


def at_place(connection: sqlite3.Connection, place: str, kind: str, *, name: str | None, folder: str) -> str:
    """The id of the context of this running terminal, which is made if there is none. Call it inside a transaction."""
    row = connection.execute("SELECT id FROM contexts WHERE place = ?", (place,)).fetchone()
    if row is not None:
        return str(row[0])
    ident, at = new_id(), times.stamp()
    connection.execute(
        "INSERT INTO contexts (id, place, kind, name, folder, began_at, changed_at, revision) VALUES (?, ?, ?, ?, ?, ?, ?, 1)",
        (ident, place, kind, name, folder, at, at),
    )
    return ident


def find(connection: sqlite3.Connection, place: str) -> ContextRow | None:
    return _one(connection, "place = ?", place)


def get(connection: sqlite3.Connection, ident: str) -> ContextRow | None:
    return _one(connection, "id = ?", ident)


def list_contexts(connection: sqlite3.Connection, *, limit: int = 100) -> list[ContextRow]:
    """The contexts, the last changed first."""
    rows = connection.execute(
        f"SELECT {ContextRow.columns} FROM contexts ORDER BY changed_at DESC, id LIMIT ?", (limit,)
    )
    return [ContextRow(row) for row in rows]


def mark_changed(connection: sqlite3.Connection, ident: str) -> None:
    connection.execute(
        "UPDATE contexts SET revision = revision + 1, changed_at = ? WHERE id = ?", (times.stamp(), ident)
    )


def save_layout(
    connection: sqlite3.Connection, ident: str, *, name: str | None, folder: str | None, layout: str
) -> bool:
    """Store the captured tabs and panes; False if they are those that are stored."""
    changed = connection.execute(
        "UPDATE contexts SET layout = ?, name = coalesce(?, name), folder = coalesce(?, folder), saved_at = ?"
        " WHERE id = ? AND (layout IS NOT ? OR name IS NOT coalesce(?, name))",
        (layout, name, folder, times.stamp(), ident, layout, name),
    ).rowcount
    if changed == 1:
        mark_changed(connection, ident)
    return bool(changed == 1)


def settle(connection: sqlite3.Connection, ident: str) -> None:
    """Do not offer the context again."""
    connection.execute("UPDATE contexts SET settled_at = ? WHERE id = ? AND settled_at IS NULL", (times.stamp(), ident))


def continue_in(connection: sqlite3.Connection, earlier: str, present: str) -> None:
    """Let the notes of an earlier context go on in the present one; the earlier one is settled."""
    connection.execute("UPDATE notes SET context = ? WHERE context = ?", (present, earlier))
    settle(connection, earlier)
    for ident in (earlier, present):
        mark_changed(connection, ident)


def list_unsent(connection: sqlite3.Connection, *, limit: int = 50) -> list[ContextRow]:
    """The contexts whose present revision the team's Redis has not, the longest unchanged first."""
    rows = connection.execute(
        f"SELECT {ContextRow.columns} FROM contexts WHERE sent < revision ORDER BY changed_at, id LIMIT ?", (limit,)
    )
    return [ContextRow(row) for row in rows]


def mark_sent(connection: sqlite3.Connection, ident: str, revision: int) -> None:
    """The team's Redis has this revision."""
    connection.execute("UPDATE contexts SET sent = max(sent, ?) WHERE id = ?", (revision, ident))


def mark_unsent(connection: sqlite3.Connection, since: str) -> None:
    """The team's Redis lost its data: what changed since that moment is sent again."""
    connection.execute("UPDATE contexts SET sent = 0 WHERE changed_at >= ?", (since,))


def _one(connection: sqlite3.Connection, where: str, value: str) -> ContextRow | None:
    row = connection.execute(f"SELECT {ContextRow.columns} FROM contexts WHERE {where}", (value,)).fetchone()
    return None if row is None else ContextRow(row)
