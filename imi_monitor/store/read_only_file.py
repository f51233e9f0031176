"""Opening a SQLite database without a trace: no file is made or changed, whatever the query."""

from __future__ import annotations

import os
from urllib.parse import quote


def uri(path: str) -> str | None:
    """The address under which SQLite makes no file beside the database; None if it has a log that cannot be read so.

    A database without a log is opened as `immutable`: the usual way would create two files beside it that nothing deletes.
    """
    log, index = path + "-wal", path + "-shm"
    address = f"file:{quote(os.path.abspath(path))}?mode=ro"
    if not os.path.exists(log) or os.path.getsize(log) == 0:
        return f"{address}&immutable=1"
    return address if os.path.exists(index) else None


def own_uri(path: str) -> str:
    """The address of a database that imi itself writes: its log is read as it grows."""
    return f"file:{quote(os.path.abspath(path))}?mode=ro"
