"""One connection to a PostgreSQL, and the SQL of the archive in it. Imports psycopg (0.1 s), so import it only where one is set.

Everything is in the schema `imi`, which only `imi archive --init` makes. The search reads as the role `imi_reader`, if this
user may: it can change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.links.server_url import ServerAddress
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

CONNECT_SECONDS, ANSWER_MS = 5, 10_000
READER = "imi_reader"
FAULTS: tuple[type[Exception], ...] = (psycopg.Error, OSError, TimeoutError)

_SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS imi",
    """CREATE TABLE IF NOT EXISTS imi.events (
        id text PRIMARY KEY,
        registry text NOT NULL,
        seq bigint NOT NULL,
        type text NOT NULL,
        host text NOT NULL,
        repo_name text,
        worktree_name text,
        agent_id text,
        epoch bigint,
        data jsonb NOT NULL,
        at timestamptz NOT NULL,
        stored_at timestamptz NOT NULL DEFAULT now(),
        words text NOT NULL,
        found tsvector GENERATED ALWAYS AS (to_tsvector('simple', words)) STORED
    )""",
    "CREATE INDEX IF NOT EXISTS events_by_words ON imi.events USING gin (found)",
    "CREATE INDEX IF NOT EXISTS events_by_time ON imi.events (at DESC)",
    "CREATE INDEX IF NOT EXISTS events_by_agent ON imi.events (agent_id, at DESC)",
    "CREATE INDEX IF NOT EXISTS events_by_registry ON imi.events (registry, seq)",
    """CREATE TABLE IF NOT EXISTS imi.tasks (
        id text PRIMARY KEY,
        home text NOT NULL,
        at timestamptz NOT NULL DEFAULT now()
    )""",
)
_COLUMNS = (
    "id",
    "registry",
    "seq",
    "type",
    "host",
    "repo_name",
    "worktree_name",
    "agent_id",
    "epoch",
    "data",
    "at",
    "words",
)
_TYPES = ("text", "text", "bigint", "text", "text", "text", "text", "text", "bigint", "jsonb", "timestamptz", "text")
SHOWN = (
    "id",
    "registry",
    "type",
    """to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')""",
    "host",
    "repo_name",
    "worktree_name",
    "agent_id",
    "epoch",
    "data::text",
    "words",
)
_INSERT = (
    f"INSERT INTO imi.events ({', '.join(_COLUMNS)}) SELECT * FROM unnest("
    f"{', '.join(f'%s::{kind}[]' for kind in _TYPES)}) ON CONFLICT (id) DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class ArchivedEvent:
    """One event as a row of the archive; `data` is JSON text."""

    id: str
    registry: str
    seq: int
    type: str
    host: str
    repo_name: str | None
    worktree_name: str | None
    agent_id: str | None
    epoch: int | None
    data: str
    at: str
    words: str


class PostgresLink:
    """Writes from one task. After a fault: `close`, and open a new link."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._connection: Any = None

    async def open(self, registry: str) -> int:
        """Connect; returns the last event of this registry that is archived."""
        self._connection = await psycopg.AsyncConnection.connect(
            self._address.url,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            options=f"-c statement_timeout={ANSWER_MS} -c client_min_messages=error",
            application_name="imi",
        )
        row = await self._fetch("SELECT coalesce(max(seq), 0) FROM imi.events WHERE registry = %s", (registry,))
        return int(row[0])

    async def insert(self, rows: Sequence[ArchivedEvent]) -> dict[int, str]:
        """Insert what is not there; returns why the database refuses some of them, by number."""
        try:
            await self._insert(rows)
            return {}
        except (errors.DataError, errors.IntegrityError, errors.ProgramLimitExceeded) as error:
            if len(rows) == 1:
                return {rows[0].seq: _text_of(error)}
        refused: dict[int, str] = {}
        for one in rows:
            refused |= await self.insert((one,))
        return refused

    async def _insert(self, rows: Sequence[ArchivedEvent]) -> None:
        columns = [[getattr(one, name) for one in rows] for name in _COLUMNS]
        async with self._connection.cursor() as cursor:
            await cursor.execute(_INSERT, columns)

    async def reserve(self, task: str, home: str) -> bool:
        """Whether this home has the task: it took it now or before."""
        await self._run("INSERT INTO imi.tasks (id, home) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING", (task, home))
        row = await self._fetch("SELECT home FROM imi.tasks WHERE id = %s", (task,))
        return bool(row[0] == home)

    async def _run(self, sql: str, values: Sequence[object]) -> None:
        async with self._connection.cursor() as cursor:
            await cursor.execute(sql, values)

    async def _fetch(self, sql: str, values: Sequence[object]) -> Any:
        async with self._connection.cursor() as cursor:
            await cursor.execute(sql, values)
            return await cursor.fetchone()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FAULTS):
                await connection.close()


def make_schema(address: ServerAddress) -> list[str]:
    """Make the schema `imi` and the role of readers; returns what could not be done and need not be."""
    notes: list[str] = []
    with psycopg.connect(address.url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        with connection.transaction():
            for statement in _SCHEMA:
                connection.execute(statement)
        try:
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (READER,)).fetchone() is None:
                connection.execute(f"CREATE ROLE {READER} NOLOGIN")
            connection.execute(f"GRANT USAGE ON SCHEMA imi TO {READER}")
            connection.execute(f"GRANT SELECT ON imi.events TO {READER}")
            connection.execute(f"GRANT {READER} TO CURRENT_USER")
        except psycopg.Error as error:
            notes.append(f"the role {READER} was not made ({_text_of(error)}): searches read as this user")
    return notes


def search(
    address: ServerAddress, where: str, values: Sequence[object], limit: int
) -> tuple[list[tuple[Any, ...]], int]:
    """The newest rows that match, newest first, in the order of `SHOWN`, and about how many there are in all.

    It is a transaction that can only read.
    """
    with psycopg.connect(
        address.url, connect_timeout=CONNECT_SECONDS, options=f"-c statement_timeout={ANSWER_MS} -c timezone=UTC"
    ) as connection:
        connection.read_only = True
        member = connection.execute(
            "SELECT 1 FROM pg_roles WHERE rolname = %s AND pg_has_role(oid, 'MEMBER')", (READER,)
        ).fetchone()
        if member is not None:
            connection.execute(f"SET LOCAL ROLE {READER}")
        query = f"SELECT {', '.join(SHOWN)} FROM imi.events WHERE {where} ORDER BY at DESC LIMIT %s"
        rows = connection.execute(query, (*values, limit)).fetchall()
        about = connection.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = 'imi.events'::regclass"
        ).fetchone()
    return rows, max(len(rows), about[0] if about else 0)


def match(words: Sequence[str]) -> tuple[str, list[object]]:
    """The condition that all words occur, the last of them maybe as the beginning of a word."""
    parts: list[str] = []
    values: list[object] = []
    for place, word in enumerate(words):
        last = place == len(words) - 1 and word.isalnum() and len(word) >= 3
        parts.append("to_tsquery('simple', %s)" if last else "phraseto_tsquery('simple', %s)")
        values.append(f"{word}:*" if last else word)
    return (f"found @@ ({' && '.join(parts)})" if parts else "true"), values


def forget(address: ServerAddress, ident: str) -> int:
    """Delete an event; returns how many there were."""
    with psycopg.connect(address.url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
        return connection.execute("DELETE FROM imi.events WHERE id = %s", (ident,)).rowcount


def fault_of(error: Exception) -> str:
    """The end of a sentence that begins with the database: `cannot be reached`. It names no password."""
    text = _text_of(error)
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName | errors.UndefinedColumn):
        return "has no schema imi: `imi archive --init` makes it"
    if isinstance(error, errors.InsufficientPrivilege):
        return f"does not allow what imi needs ({text}): grant this user USAGE on schema imi, SELECT and INSERT on its tables"
    if isinstance(error, errors.QueryCanceled):
        return f"does not answer within {ANSWER_MS // 1000} s"
    if isinstance(error, errors.DiskFull | errors.OutOfMemory):
        return "is full and takes no more data"
    if "no pg_hba.conf entry" in text:
        return "does not let this user in over this connection: its pg_hba.conf may ask for TLS"
    if "certificate" in text or "SSL" in text:
        return f"has no encryption that can be trusted ({text}): name its CA by ?sslrootcert=FILE"
    if "password" in text.lower() or "authentication" in text.lower():
        return "refuses the user or password"
    if isinstance(error, psycopg.OperationalError | OSError | TimeoutError):
        return "cannot be reached"
    return f"refuses a command: {text}"


def _text_of(error: Exception) -> str:
    return safe(redact(str(error).partition("\n")[0]), 200)
