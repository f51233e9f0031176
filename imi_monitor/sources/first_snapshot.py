"""What can be shown at once: the worktrees from git's own files, and who holds them. No git is asked and nothing is watched.

The sources find out the same, and more, and go on looking; this is only what a first picture need not wait for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.sources import registry_source, worktrees_source
from imi_monitor.sources.worktrees_source import RepositoryScope
from imi_monitor.store import db


def read_first_snapshot(database: str, common_dirs: Sequence[str] | None) -> Snapshot | None:
    """For the engine to begin with; None when it cannot be read, which the sources will tell."""
    try:
        connection = db.connect(database)
        try:
            return db.read(
                connection,
                _read_snapshot,
                RepositoryScope(None if common_dirs is None else tuple(common_dirs)),
                database,
            )
        finally:
            connection.close()
    except (ImiError, OSError):
        return None


def _read_snapshot(connection: sqlite3.Connection, scope: RepositoryScope, database: str) -> Snapshot:
    entries, _ = worktrees_source.read_roster(connection, scope, database)
    picture = registry_source.read_claims(connection)
    claims = {claim.key: claim for claim in picture.claims}
    return Snapshot(
        1,
        times.stamp(),
        host.hostname(),
        tuple(entry.worktree(claims) for entry in entries),
        waiting=picture.waiting,
        repositories=tuple(dict.fromkeys(entry.key.repo for entry in entries)),
    )
