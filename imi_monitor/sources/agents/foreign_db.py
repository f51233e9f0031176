"""Another program's SQLite database, looked into without leaving a trace: read only, for a moment, nothing created.

This is the one place outside `store/` that speaks SQL: these are formats of others, like their JSON files, and our
registry is not among them. A connection is opened for one look and closed again, since an open one would keep the
other program from tidying up its log. A database at rest is read as it lies (`immutable`): opening it in the usual way
would create two files beside it, which nobody deletes.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

_PATIENCE = 0.2  # seconds for a lock
_COARSE = 0.05  # seconds in which two writes may carry the same time

Row = dict[str, Any]
Stamp = tuple[tuple[int, int, int], ...]


class Unreadable(Exception):
    """Not readable at this moment, or not what it was taken for; the sentence says why."""


class Database:
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
        """None of them when there is no such table."""
        return frozenset(str(row["name"]) for row in self.rows("select name from pragma_table_info(?)", table))


@contextmanager
def opened(path: str) -> Iterator[Database]:
    """For one look."""
    try:
        connection = sqlite3.connect(_address(path), uri=True, timeout=_PATIENCE, isolation_level=None)
    except sqlite3.Error as error:
        raise Unreadable(str(error)) from None
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        yield Database(connection)
    finally:
        connection.close()


def rows(path: str, question: str, *values: object) -> list[Row]:
    """What it answers, by column; nothing where the file or its shape is another than was thought."""
    try:
        with opened(path) as database:
            return database.rows(question, *values)
    except (Unreadable, OSError):
        return []


def stamp(path: str) -> Stamp | None:
    """Another one whenever something was written; None when there is no database. Too fresh to be sure: never equal."""
    files = []
    for name in (path, path + "-wal"):
        try:
            stat = os.stat(name)
        except OSError:
            files.append((0, 0, 0))
            continue
        if abs(time.time() - stat.st_mtime) < _COARSE:
            files.append((time.monotonic_ns(), 0, 0))
        files.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return None if files[0] == (0, 0, 0) else tuple(files)


def placeholders(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _address(path: str) -> str:
    log, index = path + "-wal", path + "-shm"
    address = f"file:{quote(os.path.abspath(path))}?mode=ro"
    if not os.path.exists(log) or os.path.getsize(log) == 0:
        return f"{address}&immutable=1"
    if not os.path.exists(index):
        raise Unreadable(f"{os.path.basename(path)} has a log without an index: to read it would write beside it")
    return address
