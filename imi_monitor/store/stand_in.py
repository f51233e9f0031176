"""An empty registry in memory, for what git alone can answer while the real one cannot be used."""

from __future__ import annotations

import sqlite3

from imi_monitor.store import db, schema

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
