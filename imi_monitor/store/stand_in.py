"""In place of a registry that cannot be written: an empty one in memory, or the real one for reading alone."""

from __future__ import annotations

import os
import sqlite3

from imi_monitor.store import db, read_only_file, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.errors import RegistryError


def open_stand_in(problem: RegistryError, path: str) -> sqlite3.Connection:
    """A connection whose reads find nothing, and on which `db.transact` raises `problem`. `path` is the real one's."""
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=db.RegistryConnection)
    connection.path = path
    for script in schema.MIGRATIONS:
        for statement in schema.statements(script):
            connection.execute(statement)
    connection.execute("PRAGMA query_only = ON")
    connection.stands_in_for = problem
    return connection


def open_read_only(problem: RegistryError, path: str) -> sqlite3.Connection | None:
    """A connection that reads the real one and makes no file, and on which `db.transact` raises `problem`; None where that
    does not work: its schema is another one, or its log cannot be read."""
    real = os.path.realpath(path)
    try:
        address = read_only_file.uri(real)
        if address is None:
            return None
        connection = sqlite3.connect(address, uri=True, isolation_level=None, factory=db.RegistryConnection)
    except (OSError, sqlite3.Error):
        return None
    connection.path = real
    connection.stands_in_for = problem
    try:
        if db.schema_version(connection) == schema.VERSION:
            return connection
    except sqlite3.Error:
        pass  # its log cannot be read, or it is no registry
    connection.close()
    return None
