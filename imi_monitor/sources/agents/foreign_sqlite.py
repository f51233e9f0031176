"""Rows of a database that belongs to another program: read, never written, never locked for longer than one question.

This is the one place outside `store/` with SQL, because it is a reading of a foreign format like any other here: our
own registry is not known in this room, and nothing here can write.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from urllib.parse import quote

_BUSY = 0.05  # seconds: its owner comes first
_MOST = 2000


def rows(path: str, question: str, given: Sequence[object] = ()) -> list[dict[str, object]]:
    """What it answers, by column; nothing where the file or its shape is another than was thought."""
    try:
        with closing(sqlite3.connect(_address(path), uri=True, timeout=_BUSY)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(question, given).fetchmany(_MOST)]
    except sqlite3.Error:
        return []


def _address(path: str) -> str:
    """Opening a closed WAL database, even to read, would lay two files beside it: so it is read as it lies there."""
    closed = "" if os.path.exists(path + "-wal") else "&immutable=1"
    return f"file:{quote(path)}?mode=ro{closed}"
