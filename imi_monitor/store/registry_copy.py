"""Copies of the registry by SQLite's backup API, and replacing its content by that of a copy in one transaction.

Replacing the rows instead of the file keeps every open connection of other processes on the one registry there is.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.text import count, safe
from imi_monitor.store import claims, db, events, registry_identity

_PAGES = 512  # copied between two looks for a cancellation
# Rows about this machine's disk and this file at this moment: a copy never replaces them.
_KEPT = ("operations", "claim_queue", "trust", "registry")
# Rows that are added from a copy where they are missing: what was removed since the copy stays restorable, in its repository.
_ADDED = ("repositories", "trash")


def copy_registry(path: str, target: str, cancelled: Callable[[], bool] = lambda: False) -> None:
    """Copy the registry at `path` into a new private file, as one consistent state while others write."""

    def check(_status: int, _remaining: int, _total: int) -> None:
        if cancelled():
            raise ImiError("the backup was cancelled: nothing was changed", code="cancelled")

    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    source = db.connect(path, create=False)
    try:
        copy = sqlite3.connect(target)
        try:
            source.backup(copy, pages=_PAGES, progress=check)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        finally:
            copy.close()
    except db.Error as error:
        raise db.registry_error(error, path) from error
    finally:
        source.close()


def check_copy(path: str) -> None:
    """Bring a copy to the current schema; RegistryError if it is damaged or no registry. Its unfinished operations are
    dropped, because the disk has changed since."""
    connection = db.connect(path, create=False)
    try:
        damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise RegistryError(f"the registry in the backup is damaged ({safe(str(damage), 120)}): use another backup")
        db.transact(connection, _drop_present)
        connection.execute("PRAGMA journal_mode = DELETE")
    except db.Error as error:
        raise db.registry_error(error, path) from error
    finally:
        connection.close()


def _drop_present(connection: sqlite3.Connection) -> None:
    """Drop the rows that describe the moment of the copy, and mark the content as restored."""
    connection.execute("DELETE FROM operations")
    connection.execute("DELETE FROM claim_queue")
    registry_identity.raise_generation(connection)


def restore_copy(
    connection: sqlite3.Connection, path: str, copy: str, aside: str, reason: str | None
) -> list[tuple[str, str]]:
    """Replace the content of the registry at `path` by that of `copy`, and keep the present content in the file `aside`.

    Refuses (RegistryError `claimed`) while worktrees are claimed, unless a reason is given. No epoch gets lower: a holder
    whose claim is lost cannot act with it. Returns repository and name of the worktrees whose claim may have changed.
    """
    connection.execute("ATTACH ? AS copy", (copy,))
    try:
        return db.transact(connection, _replace_content, path, aside, reason)
    finally:
        connection.execute("DETACH copy")


def _replace_content(
    connection: sqlite3.Connection, path: str, aside: str, reason: str | None
) -> list[tuple[str, str]]:
    held = [claim.key for claim in claims.list_held(connection)]
    if held and reason is None:
        raise claimed_error(held)
    if not os.path.exists(aside):
        copy_registry(path, aside)  # sees what is committed: no other process can write now
    epochs = connection.execute("SELECT repo_name, worktree_name, epoch FROM main.claims").fetchall()
    connection.execute("PRAGMA defer_foreign_keys = ON")
    for table in _tables(connection):
        if table not in _ADDED:
            connection.execute(f"DELETE FROM main.{table}")
        names = ", ".join(_columns(connection, table))
        connection.execute(f"INSERT OR IGNORE INTO main.{table} ({names}) SELECT {names} FROM copy.{table}")
    connection.executemany(
        "INSERT INTO main.claims (repo_name, worktree_name, epoch) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET epoch = max(epoch, excluded.epoch)",
        epochs,
    )
    registry_identity.raise_generation(connection)
    _adopt_identity(connection)
    events.record(connection, "registry.restored", data={"kept_as": aside, "reason": reason, "claims_lost": len(held)})
    return sorted({*held, *(claim.key for claim in claims.list_held(connection))})


def _adopt_identity(connection: sqlite3.Connection) -> None:
    """The registry keeps its id; traces that name the id of a copy of another one count as its own."""
    copied, earlier = connection.execute("SELECT id, predecessors FROM copy.registry").fetchone()
    if copied != registry_identity.registry_id(connection):
        registry_identity.add_predecessors(connection, [str(copied), *str(earlier or "").split()])


def claimed_error(held: list[tuple[str, str]]) -> RegistryError:
    names = ", ".join(safe(name, 60) for _, name in held[:5]) + (", …" if len(held) > 5 else "")
    return RegistryError(
        f"{count(len(held), 'worktree')} {'is' if len(held) == 1 else 'are'} claimed ({names}), and restoring would end "
        "what the backup does not have: release first, or use --force --reason TEXT",
        code="claimed",
    )


def _tables(connection: sqlite3.Connection) -> list[str]:
    """The tables that both files have and that a copy replaces."""
    here, there = (
        {str(row[0]) for row in connection.execute(f"SELECT name FROM {schema}.sqlite_master WHERE type = 'table'")}
        for schema in ("main", "copy")
    )
    return sorted(name for name in here & there if not name.startswith("sqlite_") and name not in _KEPT)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    here, there = (
        [str(row[1]) for row in connection.execute(f"PRAGMA {schema}.table_info({table})")]
        for schema in ("main", "copy")
    )
    return [name for name in here if name in there]
