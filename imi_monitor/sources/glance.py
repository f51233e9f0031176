"""What can be shown at once: the worktrees from git's own files, and who holds them. No git is asked and nothing is watched.

The sources find out the same, and more, and go on looking; this is only what a first paint need not wait for.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from imi_monitor.sources import registry, worktrees
from imi_monitor.sources.base import Entry, RegistryPicture
from imi_monitor.sources.worktrees import Scope
from imi_monitor.store import db


class Glance(NamedTuple):
    """One look, at one moment."""

    entries: tuple[Entry, ...]
    claims: RegistryPicture


def at(database: str, scope: Scope) -> Glance:
    """Look now, in this thread; ImiError or OSError when something is in the way."""
    connection = db.connect(database)
    try:
        return db.reading(connection, _look, scope, database)
    finally:
        connection.close()


def _look(connection: sqlite3.Connection, scope: Scope, database: str) -> Glance:
    entries, _ = worktrees.read_roster(connection, scope, database)
    return Glance(entries, registry.read_claims(connection))
