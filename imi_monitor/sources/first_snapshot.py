"""The first snapshot of the dashboard: worktrees and claims from git's files and the registry, without running git.

Imports little: it is read in a second process while the dashboard's libraries are imported.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.snapshot import RegistryState, Snapshot
from imi_monitor.sources.registry_source import read_claims
from imi_monitor.sources.worktrees_source import read_roster
from imi_monitor.store import db


def read_first_snapshot(database: str, common_dirs: Sequence[str] | None) -> Snapshot | None:
    """Return a snapshot for the engine to start with, or None on an error, which the sources will report."""
    try:
        try:
            return _read_and_close(db.connect(database), common_dirs, database, None)
        except RegistryError as error:
            from imi_monitor.store import stand_in

            return _read_and_close(stand_in.open_stand_in(error, database), common_dirs, database, error.sentence)
    except (ImiError, OSError):
        return None


def _read_and_close(
    connection: sqlite3.Connection, common_dirs: Sequence[str] | None, database: str, problem: str | None
) -> Snapshot:
    try:
        return db.read(connection, _read_snapshot, common_dirs, database, problem)
    finally:
        connection.close()


def _read_snapshot(
    connection: sqlite3.Connection, common_dirs: Sequence[str] | None, database: str, problem: str | None
) -> Snapshot:
    entries, _ = read_roster(connection, common_dirs, database)
    reading = read_claims(connection)
    claims = None if problem is not None else {claim.key: claim for claim in reading.claims}
    return Snapshot(
        1,
        times.stamp(),
        host.hostname(),
        tuple(entry.worktree(claims) for entry in entries),
        waiting=reading.waiting,
        repositories=tuple(dict.fromkeys(entry.key.repo for entry in entries)),
        registry=RegistryState(problem=problem),
    )
