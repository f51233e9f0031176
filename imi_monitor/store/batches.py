"""The items of a batch: made of a file once, and brought up to date where the file was edited."""

from __future__ import annotations

from imi_monitor.model import board, session_record, times
from imi_monitor.store import item_moves, items
from imi_monitor.store.items import ItemFilter, ItemRow, NewItem

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from imi_monitor.model.priorities import FileItem


def load(
    connection: sqlite3.Connection, repo_name: str, batch: str, wanted: Sequence[FileItem], by: str
) -> list[ItemRow]:
    """The items of a file in its order; adds those that are new. An item that waits gets the text that the file has now.

    One transaction.
    """
    known = [one for one in items.list_items(connection, ItemFilter(repo_name, batch=batch)) if one.source_sha256]
    here = {one.sha256 for one in wanted}
    gone = {one.source: one for one in known if one.source_sha256 not in here and one.status == board.PENDING}
    made = []
    for one in wanted:
        source = f"{batch}#{one.number}"
        old = gone.get(source)
        if old is not None and all(each.source_sha256 != one.sha256 for each in known):
            made.append(_rewrite(connection, old, one, by))
            continue
        new = NewItem(
            title=one.title,
            text=one.text,
            priority=one.priority,
            batch=batch,
            kind=one.kind,
            source=source,
            source_sha256=one.sha256,
            repo_name=repo_name,
        )
        row, added = items.add(connection, new, by)
        if not added and row.source != source:  # blocks were added in front of it
            item_moves.put(connection, row.id, {"source": source})
        made.append(items.get(connection, row.id) or row)
    return list({one.id: one for one in made}.values())


def _rewrite(connection: sqlite3.Connection, old: ItemRow, one: FileItem, by: str) -> ItemRow:
    changes: dict[str, object] = {
        "title": items.stored_title(one.title),
        "text": session_record.stored_text(one.text, board.MOST_TEXT) or "",
        "priority": one.priority,
        "source_sha256": one.sha256,
    }
    return items.edit(connection, old, changes, by)


def join_session(connection: sqlite3.Connection, wanted: Sequence[ItemRow]) -> str:
    """The session of the batch: the one that was cut off, or a new one `session-<epoch>`. One transaction."""
    unfinished = [one.session_id for one in wanted if one.session_id and one.status == board.IN_PROGRESS]
    session = max(unfinished, default=None) or _new_session(connection)
    for one in wanted:
        if one.status in (board.PENDING, board.IN_PROGRESS):
            item_moves.put(connection, one.id, {"session_id": session})
    return session


def _new_session(connection: sqlite3.Connection) -> str:
    number = times.clock() // 1_000_000_000
    while connection.execute("SELECT 1 FROM items WHERE session_id = ?", (f"session-{number}",)).fetchone():
        number += 1
    return f"session-{number}"


def list_session(connection: sqlite3.Connection, session: str) -> list[ItemRow]:
    """The items of a session, in the order in which they were made."""
    rows = connection.execute(f"SELECT {ItemRow.columns} FROM items WHERE session_id = ? ORDER BY seq", (session,))
    return [ItemRow(row) for row in rows]
