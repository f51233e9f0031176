"""Migration of a registry to the current schema: of iMi's file, an older one of ours, or a new one. Imported only then.

Everything including the version is one transaction: a process killed in the middle leaves the file as it was.
"""

from __future__ import annotations

import sqlite3
import time

from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import lost_registry, registry_file, registry_identity, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.registry_file import RefuseLost

_IMI_COLUMNS = {
    "repositories": {"name", "path", "remote_url", "default_branch", "created_at", "updated_at", "active"},
    "worktrees": {"repo_name", "worktree_name", "branch_name", "worktree_type", "path", "active", "agent_id"},
}
_BUSY = 5


def upgrade(connection: sqlite3.Connection, path: str, timeout: float, refuse_lost: RefuseLost) -> None:
    """Check that the file is a registry and run the missing migrations; `timeout` is how long to wait for other processes.

    A file that becomes a registry of imi now is refused by `refuse_lost` if it replaces one that vanished.
    """
    if _check_version(connection, path) == 0:
        _refuse_lost(connection, path, refuse_lost)
    enable_wal(connection, timeout)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another process may have migrated it first: decide under the lock
        version = _check_version(connection, path)
        for script in schema.MIGRATIONS[version:]:
            for statement in schema.statements(script):
                if not _column_exists(connection, statement):
                    connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {schema.VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    _leave_name(connection, path)


def _refuse_lost(connection: sqlite3.Connection, path: str, refuse_lost: RefuseLost) -> None:
    has_tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0] > 0
    try:
        refuse_lost(path, lost_registry.REPLACED if has_tables else lost_registry.EMPTY)
    except RegistryError:
        if _check_version(connection, path) == 0:  # otherwise another process has created it meanwhile
            raise


def _leave_name(connection: sqlite3.Connection, path: str) -> None:
    """Name the registry in its ballast: after the commit, because before it there is no registry to name."""
    registry_file.lay_ballast(path)
    ident = registry_identity.registry_id(connection)
    if ident is not None:
        registry_file.name_ballast(path, ident)


def _check_version(connection: sqlite3.Connection, path: str) -> int:
    """The schema's version; RegistryError for a file that is no registry of imi or iMi, or a newer one."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == schema.APPLICATION_ID
    if ours and version > schema.VERSION:
        raise RegistryError(
            f"the registry {safe(path)} was made by a newer imi (schema {version}, this one knows {schema.VERSION}): "
            "update imi; nothing was changed",
            code="registry-newer",
        )
    if not ours and (version or not _is_imi(connection, path)):
        raise RegistryError(
            f"{safe(path)} is an SQLite database but no registry of imi: name another file with --db",
            code="registry-foreign-schema",
        )
    return version


def _is_imi(connection: sqlite3.Connection, path: str) -> bool:
    """True for an empty database or one of iMi 2.0.2."""
    tables = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return True
    if not _IMI_COLUMNS.keys() <= tables:
        return False
    for table, wanted in _IMI_COLUMNS.items():
        missing = wanted - _columns(connection, table)
        if missing:
            raise RegistryError(
                f"the registry {safe(path)} was made by an iMi older than 2.0.2 ({table} has no {min(missing)}): let "
                "iMi 2.0.2 open it once, or use --db; nothing was changed",
                code="registry-old",
            )
    return True


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _column_exists(connection: sqlite3.Connection, statement: str) -> bool:
    """True if this is an ADD COLUMN whose column exists."""
    words = statement.split()
    return (
        words[:2] == ["ALTER", "TABLE"]
        and words[3:5] == ["ADD", "COLUMN"]
        and words[5] in _columns(connection, words[2])
    )


def enable_wal(connection: sqlite3.Connection, timeout: float) -> None:
    """Switch to the write-ahead log. SQLite fails at once while another process has the file open, so this retries."""
    until = time.monotonic() + timeout
    while True:
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal" or time.monotonic() > until:
                return
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != _BUSY or time.monotonic() > until:
                raise
        time.sleep(0.005)
