"""The events of a session, its tool calls and the files it wrote.

Writers run inside a transaction. A tool call has two records, its start and its end, which may be read in either order,
because old records are read after new ones.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from imi_monitor.fast import json_writer
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model.session_record import SessionRecord, StreamEntry, ToolCallRecord, WrittenFile

_IDS_PER_QUERY = 500  # values per query


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """One event with the columns of its tool call."""

    seq: int
    id: str
    type: str
    kind: str
    at: str
    status: str | None
    text: str | None
    data: str
    call: str | None
    tool: str | None
    input: str | None
    output: str | None
    call_status: str | None
    started_at: str | None
    finished_at: str | None
    subagent: str | None


@dataclass(frozen=True, slots=True)
class Artifact:
    id: str
    path: str
    kind: str
    size: int | None
    subagent: str | None
    created_at: str
    updated_at: str


_ADD_EVENT = (
    "INSERT OR IGNORE INTO session_events (session, id, type, kind, at, status, call, text, data)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_LINE = (
    "e.seq, e.id, e.type, e.kind, e.at, e.status, e.text, e.data, e.call, c.name, c.input, c.output, c.status,"
    " c.started_at, c.finished_at, c.subagent"
    " FROM session_events AS e LEFT JOIN tool_calls AS c ON c.session = e.session AND c.id = e.call"
)


@dataclass(frozen=True, slots=True)
class CallRow:
    """One tool call. `status` is running, success, failure or cancelled."""

    id: str
    name: str
    input: str | None
    output: str | None
    status: str
    subagent: str | None
    started_at: str | None
    finished_at: str | None


def add_record(connection: sqlite3.Connection, session: int, record: SessionRecord) -> None:
    add_acts(connection, session, record.entries, record.calls, record.files)


def add_acts(
    connection: sqlite3.Connection,
    session: int,
    entries: Iterable[StreamEntry],
    calls: Iterable[ToolCallRecord],
    files: Iterable[WrittenFile],
) -> None:
    """Add entries, tool calls and files; those that exist stay, and a call gets its end."""
    connection.executemany(
        _ADD_EVENT,
        [
            (session, one.id, one.type, one.kind, one.at, one.status, one.call, one.text, json_writer.dumps(one.data))
            for one in entries
        ],
    )
    for call in calls:
        _add_call(connection, session, call)
    for file in files:
        _add_file(connection, session, file)


def add_event(
    connection: sqlite3.Connection,
    session: int,
    ident: str,
    type: str,
    kind: str,
    at: str,
    *,
    status: str | None = None,
    call: str | None = None,
    text: str | None = None,
    data: dict[str, object] | None = None,
) -> None:
    """Add an event; an existing one with this id stays as it is."""
    connection.execute(_ADD_EVENT, (session, ident, type, kind, at, status, call, text, json_writer.dumps(data or {})))


def known_ids(connection: sqlite3.Connection, session: int | None, ids: Sequence[str]) -> set[str]:
    """The ids that exist, of those given."""
    if session is None:
        return set()
    found: set[str] = set()
    for first in range(0, len(ids), _IDS_PER_QUERY):
        some = ids[first : first + _IDS_PER_QUERY]
        marks = ", ".join("?" * len(some))
        rows = connection.execute(
            f"SELECT id FROM session_events WHERE session = ? AND id IN ({marks})", (session, *some)
        )
        found.update(str(row[0]) for row in rows)
    return found


def cancel_calls(connection: sqlite3.Connection, session: int, at: str) -> None:
    """Mark running tool calls as cancelled because the turn ended; an end that is read later replaces this."""
    connection.execute(
        "UPDATE tool_calls SET status = 'cancelled', finished_at = coalesce(finished_at, ?)"
        " WHERE session = ? AND status = 'running'",
        (at, session),
    )


def list_session_events(
    connection: sqlite3.Connection, session: int, behind: int = 0, limit: int = 1000
) -> list[SessionEvent]:
    """The last `limit` events after number `behind`, in the order in which they happened."""
    rows = connection.execute(
        f"SELECT {_LINE} WHERE e.session = ? AND e.seq > ? ORDER BY e.at DESC, e.seq DESC LIMIT ?",
        (session, behind, limit),
    ).fetchall()
    return [SessionEvent(*row) for row in reversed(rows)]


def last_seq(connection: sqlite3.Connection, session: int) -> int:
    found = connection.execute("SELECT max(seq) FROM session_events WHERE session = ?", (session,)).fetchone()[0]
    return int(found or 0)


def list_artifacts(connection: sqlite3.Connection, session: int, limit: int = 1000) -> list[Artifact]:
    rows = connection.execute(
        "SELECT id, path, kind, size, subagent, created_at, updated_at FROM artifacts WHERE session = ?"
        " ORDER BY updated_at DESC, path LIMIT ?",
        (session, limit),
    )
    return [Artifact(*row) for row in rows][::-1]


def newest_artifacts(connection: sqlite3.Connection, session: int, most: int) -> tuple[list[dict[str, object]], int]:
    """(the files that were written last, the number of all)."""
    rows = connection.execute(
        "SELECT path, kind, size FROM artifacts WHERE session = ? ORDER BY updated_at DESC, path LIMIT ?",
        (session, most),
    ).fetchall()
    total = connection.execute("SELECT count(*) FROM artifacts WHERE session = ?", (session,)).fetchone()[0]
    return [{"path": path, "kind": kind, "size": size} for path, kind, size in rows], int(total)


def list_calls(connection: sqlite3.Connection, session: int, limit: int = 1000) -> list[CallRow]:
    """The last tool calls, in the order in which they began."""
    rows = connection.execute(
        "SELECT id, name, input, output, status, subagent, started_at, finished_at FROM tool_calls WHERE session = ?"
        " ORDER BY coalesce(started_at, finished_at) DESC, rowid DESC LIMIT ?",
        (session, limit),
    )
    return [CallRow(*row) for row in rows][::-1]


def _add_call(connection: sqlite3.Connection, session: int, call: ToolCallRecord) -> None:
    """Merge start and end into one row: the input comes from the start, the result from the end."""
    begins = call.status == "running"
    given = "coalesce(excluded.{0}, {0})" if begins else "coalesce({0}, excluded.{0})"
    connection.execute(
        "INSERT INTO tool_calls (session, id, name, input, input_sha256, output, status, subagent, started_at,"
        " finished_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, id) DO UPDATE SET"
        " name = CASE name WHEN '?' THEN excluded.name ELSE name END,"
        f" input = {given.format('input')}, input_sha256 = {given.format('input_sha256')},"
        " output = coalesce(output, excluded.output), subagent = coalesce(subagent, excluded.subagent),"
        " finished_at = CASE WHEN excluded.finished_at IS NOT NULL AND status IN ('running', 'cancelled')"
        " THEN excluded.finished_at ELSE finished_at END,"
        " started_at = coalesce(started_at, excluded.started_at),"
        " status = CASE WHEN excluded.status <> 'running' AND status IN ('running', 'cancelled')"
        " THEN excluded.status ELSE status END",
        (
            session,
            call.id,
            call.name,
            call.input,
            call.input_sha256,
            call.output,
            call.status,
            call.subagent,
            call.started_at,
            call.finished_at,
        ),
    )


def _add_file(connection: sqlite3.Connection, session: int, file: WrittenFile) -> None:
    connection.execute(
        "INSERT INTO artifacts (id, session, path, kind, size, subagent, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, path) DO UPDATE SET"
        " size = CASE WHEN excluded.updated_at >= updated_at THEN excluded.size ELSE size END,"
        " created_at = min(created_at, excluded.created_at), updated_at = max(updated_at, excluded.updated_at)",
        (new_id(), session, file.path, file.kind, file.size, file.subagent, file.at, file.at),
    )
