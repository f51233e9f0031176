"""The search in the embedded archive: newest first, by words, time, agent, repository, worktree and type.

All words must occur; the last one may be the beginning of a word. Filters are words of the index as well, so that a rare
agent is found as fast as a rare word. Ranking is left out: it reads every hit (`bench/history.py`).
"""

from __future__ import annotations

import sqlite3

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.store import history_file, registry_identity
from imi_monitor.store.history_file import HistoryEntry

FORGOTTEN = "(forgotten)"
_TEXTS_OF_NOTES = {
    "intent.logged": "text",
    "lesson.logged": "text",
    "milestone.logged": "text",
    "note.added": "text",
    "note.answered": "answer",
}
_PREFIX = 3  # characters from which the last word may be a beginning


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """What is wanted; None: everything. `types` may end in `.*`."""

    words: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    agent: str | None = None
    repo_name: str | None = None
    worktree_name: str | None = None
    types: tuple[str, ...] = ()
    before: int | None = None  # only entries with a smaller number: the next page


@dataclass(frozen=True, slots=True)
class HistoryHit(HistoryEntry):
    """One entry that was found, with its number in `history.db`; 0: it is from another archive."""

    seq: int = 0


_COLUMNS = ", ".join(f"e.{name}" for name in HistoryHit.__match_args__)


def search(connection: sqlite3.Connection, query: HistoryQuery, limit: int) -> list[HistoryHit]:
    """The newest entries that match, newest first."""
    where: list[str] = []
    values: list[object] = []
    index = history_file.has_index(connection)
    match = _match(query) if index else ""
    source, number = (
        ("found AS f JOIN entries AS e ON e.seq = f.rowid", "f.rowid") if match else ("entries AS e", "e.seq")
    )
    if match:
        where.append("found MATCH ?")
        values.append(match)
    elif not index:
        _scan(query, where, values)
    if query.since is not None:
        where.append(f"{number} >= ?")
        values.append(history_file.number_at(query.since))
    if query.until is not None:
        where.append(f"{number} < ?")
        values.append(history_file.number_at(query.until))
    if query.before is not None:
        where.append(f"{number} < ?")
        values.append(query.before)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM {source}{' WHERE ' if where else ''}{' AND '.join(where)}"
        f" ORDER BY {number} DESC LIMIT ?",
        (*values, limit),
    )
    return [HistoryHit(*row) for row in rows]


def find(connection: sqlite3.Connection, prefix: str, limit: int = 5) -> list[HistoryHit]:
    """The entries whose id begins so."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM entries AS e WHERE e.id >= ? AND e.id < ? ORDER BY e.id LIMIT ?",
        (prefix, prefix + "\U0010ffff", limit),
    )
    return [HistoryHit(*row) for row in rows]


def number_of(connection: sqlite3.Connection, ident: str | None) -> int | None:
    """The number of the entry with this id; None if there is none."""
    row = connection.execute("SELECT seq FROM entries WHERE id = ?", (ident,)).fetchone()
    return None if row is None else int(row[0])


def events_before(
    connection: sqlite3.Connection, number: int | None, limit: int, repositories: tuple[str, ...] | None
) -> list[HistoryHit]:
    """The newest events in front of an entry (None: of all) that are about these repositories, newest first."""
    where, values = ["e.type <> 'session.prompt'"], []  # type: tuple[list[str], list[object]]
    if number is not None:
        where.append("e.seq < ?")
        values.append(number)
    if repositories is not None:
        where.append(f"(e.repo_name IN ({', '.join('?' for _ in repositories)}))")
        values.extend(repositories)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM entries AS e WHERE {' AND '.join(where)} ORDER BY e.seq DESC LIMIT ?", (*values, limit)
    )
    return [HistoryHit(*row) for row in rows]


def _match(query: HistoryQuery) -> str:
    """The words and filters in FTS5's language; every word is quoted, so that none is an operator."""
    terms = []
    words = [word for word in query.words if any(map(str.isalnum, word))]
    for place, word in enumerate(words):
        quoted = '"' + word.replace('"', '""') + '"'
        last = place == len(words) - 1 and len(word) >= _PREFIX and word[-1].isalnum()
        terms.append(f"words : {quoted}{' *' if last else ''}")
    pairs = (("xa", query.agent), ("xr", query.repo_name), ("xw", query.worktree_name))
    terms += [f"labels : {history_file.label(kind, value)}" for kind, value in pairs if value is not None]
    if query.types:
        terms.append("(" + " OR ".join(f"labels : {_type_label(one)}" for one in query.types) + ")")
    return " AND ".join(terms)


def _type_label(pattern: str) -> str:
    if pattern.endswith(".*"):
        return history_file.label("xf", pattern[:-2])
    return history_file.label("xt", pattern)


def _scan(query: HistoryQuery, where: list[str], values: list[object]) -> None:
    """Search without an index: scan all entries."""
    for word in query.words:
        where.append("e.words LIKE ? ESCAPE '!'")
        values.append("%" + word.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%")
    for column, value in (
        ("agent_id", query.agent),
        ("repo_name", query.repo_name),
        ("worktree_name", query.worktree_name),
    ):
        if value is not None:
            where.append(f"e.{column} = ?")
            values.append(value)
    if query.types:
        where.append("(" + " OR ".join("e.type GLOB ?" for _ in query.types) + ")")
        values.extend(query.types)


def forget_in_registry(connection: sqlite3.Connection, hit: HistoryHit) -> None:
    """Delete what the registry has of an entry: its event, and the texts of a prompt, session or note. Call it inside a
    transaction."""
    connection.execute("DELETE FROM events WHERE id = ?", (hit.id,))
    from imi_monitor.fast import json_reader

    data = json_reader.loads(hit.data)
    if not isinstance(data, dict):
        return
    if hit.type == "session.prompt":
        _forget_prompt(connection, hit, data)
    elif hit.type == "session.ended":
        connection.execute(
            "UPDATE sessions SET title = NULL, prompt = NULL, last_message = NULL WHERE host = ? AND id = ?",
            (hit.host, data.get("session")),
        )
    elif hit.type in _TEXTS_OF_NOTES and hit.registry == registry_identity.registry_id(connection):
        column = _TEXTS_OF_NOTES[hit.type]
        connection.execute(f"UPDATE notes SET {column} = ? WHERE seq = ?", (FORGOTTEN, data.get("note")))


def _forget_prompt(connection: sqlite3.Connection, hit: HistoryHit, data: dict[str, object]) -> None:
    where = "(SELECT seq FROM sessions WHERE host = ? AND id = ?)"
    place = (hit.host, data.get("session"))
    connection.execute(
        f"UPDATE sessions SET prompt = NULL WHERE seq = {where} AND prompt ="
        f" (SELECT text FROM session_events WHERE id = ? AND session = {where})",
        (*place, data.get("event"), *place),
    )
    connection.execute(
        f"UPDATE session_events SET text = NULL WHERE id = ? AND session = {where}", (data.get("event"), *place)
    )
