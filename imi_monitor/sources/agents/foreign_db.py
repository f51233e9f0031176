"""Reads another program's SQLite database without leaving a trace: read only, briefly, creating no file.

This is the only place outside `store/` with SQL: these databases are foreign formats like the programs' JSON files, and
imi's registry is not among them. A connection is opened for one read and closed again, because an open one would keep
the other program from checkpointing its log. A database without a log is opened as `immutable`: the usual way would
create two files beside it that nothing deletes.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from imi_monitor.model import times
from imi_monitor.store import read_only_file

_LOCK_TIMEOUT = 0.2  # seconds
_CLOCK_STEP = 0.05  # seconds in which two writes may carry the same time

Row = dict[str, Any]
DatabaseStamp = tuple[tuple[int, int, int], ...]


class Unreadable(Exception):
    """The database is not readable now, or does not have the expected shape; the text says why."""


class ForeignDatabase:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, question: str, *values: object) -> list[Row]:
        try:
            cursor = self._connection.execute(question, values)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise Unreadable(str(error)) from None

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of the table's columns; empty if the table does not exist."""
        return frozenset(str(row["name"]) for row in self.rows("select name from pragma_table_info(?)", table))


@contextmanager
def opened(path: str) -> Iterator[ForeignDatabase]:
    """The database, for one read."""
    try:
        connection = sqlite3.connect(_uri(path), uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None)
    except sqlite3.Error as error:
        raise Unreadable(str(error)) from None
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        yield ForeignDatabase(connection)
    finally:
        connection.close()


def rows(path: str, question: str, *values: object) -> list[Row]:
    """The answer to one question; empty if the database does not exist or has another shape."""
    try:
        with opened(path) as database:
            return database.rows(question, *values)
    except (Unreadable, OSError):
        return []


def stamp(path: str) -> DatabaseStamp | None:
    """Differs after any write; None without a database. A file written just now never equals itself."""
    files = []
    for name in (path, path + "-wal"):
        try:
            stat = os.stat(name)
        except OSError:
            files.append((0, 0, 0))
            continue
        if abs(times.clock() / 1e9 - stat.st_mtime) < _CLOCK_STEP:
            files.append((time.monotonic_ns(), 0, 0))
        files.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return None if files[0] == (0, 0, 0) else tuple(files)


def placeholders(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _uri(path: str) -> str:
    found = read_only_file.uri(path)
    if found is None:
        raise Unreadable(f"{os.path.basename(path)} has a log without an index: to read it would write beside it")
    return found
