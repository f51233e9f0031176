"""Items: what is to be done, on the board. Their claims are attempts (`store.attempts`); moves by these in `item_moves`."""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.model import board, session_record, times
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, item_moves
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

PREFIX = "item-"
_ORDER = (
    "CASE priority WHEN 'high' THEN 0 WHEN 'low' THEN 2 ELSE 1 END, position, seq"  # the same order as `board.rank_of`
)


class ItemRow(Row):
    """One item. `position` is its place among those of its priority; `run_id` its last run, `session_id` its batch's."""

    seq: int
    id: str
    title: str
    text: str
    status: str
    priority: str
    position: float
    batch: str | None
    kind: str | None
    source: str | None
    source_sha256: str | None
    external_id: str | None
    correlation_id: str | None
    team: str | None
    agent_id: str | None
    repo_name: str | None
    worktree_name: str | None
    session_id: str | None
    run_id: str | None
    error: str | None
    retries: int
    created_at: str
    started_at: str | None
    ended_at: str | None
    updated_at: str

    def data(self) -> dict[str, object]:
        """The item for `--json`."""
        return {name: getattr(self, name) for name in self.__annotations__ if name not in ("seq", "source_sha256")}


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to add. `external_id`: its id in another system. `source` and `source_sha256`: the place and content in a file."""

    title: str
    text: str = ""
    priority: str = board.MEDIUM
    status: str = board.PENDING
    batch: str | None = None
    kind: str | None = None
    source: str | None = None
    source_sha256: str | None = None
    external_id: str | None = None
    correlation_id: str | None = None
    team: str | None = None
    agent_id: str | None = None
    repo_name: str | None = None
    worktree_name: str | None = None


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """The wanted items; None: all."""

    repo_name: str | None = None
    status: str | None = None
    batch: str | None = None
    team: str | None = None
    agent: str | None = None


def add(connection: sqlite3.Connection, new: NewItem, by: str | None = None) -> tuple[ItemRow, bool]:
    """Add an item, unless one with its external id, or with its content in the same batch, exists; (item, whether it is
    new). Call it inside a transaction."""
    known = _same(connection, new)
    if known is not None:
        return known, False
    at = times.stamp()
    number = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM items").fetchone()[0]
    values: dict[str, object] = {name: getattr(new, name) for name in NewItem.__dataclass_fields__}
    values |= {
        "seq": number,
        "id": f"{PREFIX}{number}",
        "title": stored_title(new.title),
        "text": session_record.stored_text(new.text, board.MOST_TEXT) or "",
        "position": float(number),
        "created_at": at,
        "updated_at": at,
    }
    return insert(connection, values, by), True


def insert(connection: sqlite3.Connection, values: dict[str, object], by: str | None = None) -> ItemRow:
    """Insert an item with all its values, and record its event."""
    connection.execute(
        f"INSERT INTO items ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values())
    )
    made = get(connection, str(values["id"]))
    assert made is not None
    data: dict[str, object] = {"task": made.id, "title": made.title, "priority": made.priority, "source": made.source}
    data |= {"batch": made.batch, "external_id": made.external_id, "correlation_id": made.correlation_id}
    given = {name: value for name, value in data.items() if value is not None}
    events.record(connection, "task.created", made.repo_name, made.worktree_name, agent_id=by, data=given)
    if made.agent_id is not None:
        record_assignment(connection, made, by)
    return made


def stored_title(title: str) -> str:
    """The title as it is stored: one line, redacted, without control characters."""
    return safe(" ".join(session_record.clean(title).split()), board.MOST_TITLE)


def _same(connection: sqlite3.Connection, new: NewItem) -> ItemRow | None:
    if new.external_id is not None:
        found = _one(connection, "external_id = ?", new.external_id)
        if found is not None:
            return found
    if new.source_sha256 is None:
        return None
    same = "repo_name IS ? AND batch IS ? AND source_sha256 = ?"
    return _one(connection, same, new.repo_name, new.batch, new.source_sha256)


def _one(connection: sqlite3.Connection, where: str, *values: object) -> ItemRow | None:
    row = connection.execute(f"SELECT {ItemRow.columns} FROM items WHERE {where} LIMIT 1", values).fetchone()
    return None if row is None else ItemRow(row)


def get(connection: sqlite3.Connection, word: str) -> ItemRow | None:
    """The item of this id, this number, or this id in another system."""
    found = _one(connection, "id = ?", f"{PREFIX}{word}" if word.isascii() and word.isdigit() else word)
    return found or _one(connection, "external_id = ?", word)


def list_items(connection: sqlite3.Connection, wanted: ItemFilter = ItemFilter(), limit: int = -1) -> list[ItemRow]:
    """The wanted items in the board's order: by priority, then by place."""
    asked = {"status": wanted.status, "batch": wanted.batch, "team": wanted.team, "agent_id": wanted.agent}
    where, values = db.where(**asked)
    if wanted.repo_name is not None:  # an item that came without a repository is for any
        where = f"{where or ' WHERE 1'} AND (repo_name = ? OR repo_name IS NULL)"
        values.append(wanted.repo_name)
    rows = connection.execute(f"SELECT {ItemRow.columns} FROM items{where} ORDER BY {_ORDER} LIMIT ?", (*values, limit))
    return [ItemRow(row) for row in rows]


def edit(connection: sqlite3.Connection, item: ItemRow, changes: dict[str, object], by: str | None) -> ItemRow:
    """Change columns of an item."""
    new = {name: value for name, value in changes.items() if getattr(item, name) != value}
    if new:
        item_moves.put(connection, item.id, {**new, "updated_at": times.stamp()})
        data: dict[str, object] = {"task": item.id, "changed": sorted(new)}
        events.record(connection, "task.edited", item.repo_name, item.worktree_name, agent_id=by, data=data)
    return get(connection, item.id) or item


def assign(connection: sqlite3.Connection, item: ItemRow, agent: str | None, by: str | None) -> ItemRow:
    """Give the item to an agent or person, or with None to no one."""
    if agent != item.agent_id:
        item_moves.put(connection, item.id, {"agent_id": agent, "updated_at": times.stamp()})
    now = get(connection, item.id) or item
    if agent != item.agent_id:
        record_assignment(connection, now, by)
    return now


def record_assignment(connection: sqlite3.Connection, item: ItemRow, by: str | None) -> None:
    data: dict[str, object] = {"task": item.id, "agent": item.agent_id}
    if item.external_id is not None:
        data["external_id"] = item.external_id
    events.record(connection, "task.assigned", item.repo_name, item.worktree_name, agent_id=by, data=data)


def place_before(connection: sqlite3.Connection, item: ItemRow, other: ItemRow) -> dict[str, object]:
    """The changes that put an item directly in front of another one: its priority, and a place behind the one before."""
    row = connection.execute(
        "SELECT max(position) FROM items WHERE priority = ? AND position < ? AND id <> ?",
        (other.priority, other.position, item.id),
    ).fetchone()
    before = other.position - 1.0 if row[0] is None else float(row[0])
    return {"priority": other.priority, "position": (before + other.position) / 2}


def place_last(connection: sqlite3.Connection) -> dict[str, object]:
    """The change that puts an item behind all others of its priority."""
    return {"position": float(connection.execute("SELECT coalesce(max(position), 0) + 1 FROM items").fetchone()[0])}


def list_batches(connection: sqlite3.Connection, repo_name: str | None = None) -> Sequence[tuple[str, int, int]]:
    """(batch, number of its items, number of those that are over), the newest first."""
    over = ", ".join(f"'{one}'" for one in board.OVER)
    where, values = db.where(repo_name=repo_name)
    rows = connection.execute(
        f"SELECT batch, count(*), sum(status IN ({over})) FROM items{where or ' WHERE 1'} AND batch IS NOT NULL"
        " GROUP BY batch ORDER BY max(seq) DESC",
        values,
    )
    return [(str(row[0]), int(row[1]), int(row[2])) for row in rows]
