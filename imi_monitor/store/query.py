"""Read-only SQL with limits of time, rows and memory: over the registry with `query_views`, or over any other database.

Nothing can be written: the file is opened read-only, and an authorizer allows only to select, to read and to call functions.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import query_views, read_only_file
from imi_monitor.store.schema import APPLICATION_ID, statements

SECONDS = 10.0
MOST_ROWS = 10_000
MOST_BYTES = 64 << 20
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"load_extension", "fts3_tokenizer", "writefile", "readfile", "edit", "zipfile"}


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The rows with the names of their columns; `cut`: there are more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class QueryLimits:
    seconds: float = SECONDS
    rows: int = MOST_ROWS
    bytes: int = MOST_BYTES
    whole_process: bool = (
        False  # SQLite's memory in this process is limited for good: for a process that ends afterwards
    )


def ask(
    path: str,
    sql: str,
    *,
    own: bool,
    traceless: bool = True,
    limits: QueryLimits = QueryLimits(),
    integrations: Sequence[tuple[str, ...]] = (),
    cancelled: Callable[[], bool] = lambda: False,
) -> QueryAnswer:
    """The answer of a database. `own`: it is a registry of imi, with the views and with `integrations`. Unless `traceless`,
    SQLite may make the files beside it that its writers use as well."""
    address = read_only_file.uri(path) if traceless else read_only_file.own_uri(path)
    if address is None:
        raise Refused(
            f"{safe(path, 200)} has a log without an index: reading it would write beside it. Close its program first",
            code="unreadable",
        )
    until = time.monotonic() + limits.seconds
    why: list[str] = []

    def watch() -> int:
        if time.monotonic() > until:
            why.append(f"it takes longer than {limits.seconds:g} seconds")
        elif cancelled():
            why.append("it was cancelled")
        return 1 if why else 0

    try:
        connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=1.0)
        try:
            return _ask(connection, sql, own, limits, integrations, watch)
        finally:
            connection.close()
    except sqlite3.Error as error:
        if "out of memory" in str(error):
            raise _too_much(limits) from error
        if why:
            raise Refused(f"the query was stopped: {why[0]}", code="stopped") from error
        raise _refusal(error, path) from error
    except MemoryError as error:
        raise _too_much(limits) from error


def _too_much(limits: QueryLimits) -> Refused:
    return Refused(f"the query was stopped: it takes more than {limits.bytes >> 20} MB", code="stopped")


def is_registry(path: str) -> bool:
    """Whether the file is a registry of imi, by its header."""
    try:
        with open(path, "rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head[:16] == b"SQLite format 3\0" and int.from_bytes(head[68:72], "big") == APPLICATION_ID


def _ask(
    connection: sqlite3.Connection,
    sql: str,
    own: bool,
    limits: QueryLimits,
    integrations: Sequence[tuple[str, ...]],
    watch: Callable[[], int],
) -> QueryAnswer:
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cache_size = -8000")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.bytes // 4)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    if limits.whole_process:
        connection.execute(f"PRAGMA hard_heap_limit = {limits.bytes}")
    if own:
        _add_views(connection, integrations)
    connection.set_progress_handler(watch, _STEPS)
    connection.set_authorizer(_authorize)
    cursor = connection.execute(sql)
    names = tuple(str(column[0]) for column in cursor.description or ())
    if not names:
        raise UsageError("give one SELECT: the query returns no columns", code="bad-query")
    rows: list[tuple[object, ...]] = []
    size = 0
    for row in cursor:
        if len(rows) == limits.rows:
            return QueryAnswer(names, tuple(rows), cut=True)
        size += sum(64 + (len(value) if isinstance(value, str | bytes) else 0) for value in row)
        if size > limits.bytes:
            raise MemoryError
        rows.append(row)
    return QueryAnswer(names, tuple(rows), cut=False)


def _add_views(connection: sqlite3.Connection, integrations: Sequence[tuple[str, ...]]) -> None:
    for statement in statements(query_views.VIEWS):
        connection.execute(statement)
    connection.execute("CREATE TEMP TABLE integrations (id TEXT, name TEXT, type TEXT, status TEXT, since TEXT)")
    connection.executemany("INSERT INTO integrations VALUES (?, ?, ?, ?, ?)", integrations)


def _authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _refusal(error: sqlite3.Error, path: str) -> ImiError:
    text = safe(str(error), 300)
    if "not authorized" in text or "prohibited" in text or "readonly" in text:
        return Refused("a query may only read: give one SELECT", code="read-only")
    if isinstance(error, sqlite3.ProgrammingError) or "one statement" in text:
        return UsageError("give one statement, without parameters", code="bad-query")
    if "not a database" in text or "unable to open" in text or "malformed" in text:
        return Refused(f"{safe(path, 200)} cannot be read: {text}", code="unreadable")
    if "string or blob too big" in text:
        return Refused(f"the query was stopped: {text}", code="stopped")
    return UsageError(f"the query is wrong: {text}", code="bad-query")
