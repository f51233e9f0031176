"""What can be restored: removed worktrees, files whose content an act on the diff replaced, and cleaned workspaces.

`data` describes what lies on disk; a row is never deleted.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.fast import json_writer
from imi_monitor.model import times
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Literal

_KEPT = "host = ? AND restored_at IS NULL AND purged_at IS NULL"

FILE_ACTS = ("discarded", "staged", "unstaged")
"""Values of `how` for entries of files."""

FOLDER_ACTS = ("cleaned", "migrated")
"""Values of `how` for folders outside of git: contained workspaces, Denker's older ones. All others are removed worktrees."""

BY_ITSELF = "imi"
"""Value of `removed_by` where imi moved a workspace away by itself, after its last run."""

_ONLY = {"worktrees": f" AND how NOT IN {FILE_ACTS + FOLDER_ACTS}", "files": f" AND how IN {FILE_ACTS}", "all": ""}


class TrashEntry(Row):
    """One removed worktree, files of one, or a workspace outside of git.

    `data` holds the intent and how long the entry was observed.
    """

    id: str
    repo_name: str
    worktree_name: str
    host: str
    path: str
    trash_path: str
    removed_at: str
    removed_by: str
    how: str
    data: dict[str, object]
    restored_at: str | None
    purged_at: str | None

    @property
    def of_files(self) -> bool:
        return self.how in FILE_ACTS

    @property
    def of_folder(self) -> bool:
        return self.how in FOLDER_ACTS

    @property
    def kind(self) -> str:
        return "files" if self.of_files else "workspace" if self.of_folder else "worktree"

    @property
    def kept(self) -> bool:
        return self.restored_at is None and self.purged_at is None


def add(
    connection: sqlite3.Connection,
    identity: str,
    repo_name: str,
    worktree_name: str,
    *,
    path: str,
    trash_path: str,
    by: str,
    how: str,
    data: dict[str, object],
) -> None:
    values = (identity, repo_name, worktree_name, path, trash_path, times.stamp(), by, how, data)
    connection.execute(_INSERT, _row(*values))


def adopt(
    connection: sqlite3.Connection,
    identity: str,
    repo_name: str,
    worktree_name: str,
    *,
    path: str,
    trash_path: str,
    at: str,
    by: str,
    how: str,
    data: dict[str, object],
) -> None:
    """Add an entry that was removed `at` an earlier time, or renew the row that this registry has of it."""
    values = (identity, repo_name, worktree_name, path, trash_path, at, by, how, data)
    connection.execute(_INSERT.replace("INSERT", "INSERT OR REPLACE", 1), _row(*values))


_INSERT = f"INSERT INTO trash ({TrashEntry.columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)"


def _row(
    identity: str,
    repo_name: str,
    worktree_name: str,
    path: str,
    trash_path: str,
    at: str,
    by: str,
    how: str,
    data: dict[str, object],
) -> tuple[str, ...]:
    places = (host.hostname(), _storable(path), _storable(trash_path))
    return (identity, repo_name, worktree_name, *places, at, by, how, json_writer.dumps(data))


def get(connection: sqlite3.Connection, identity: str) -> TrashEntry | None:
    row = connection.execute(f"SELECT {TrashEntry.columns} FROM trash WHERE id = ?", (identity,)).fetchone()
    return None if row is None else TrashEntry(row)


def list_kept(
    connection: sqlite3.Connection,
    repo_name: str | None = None,
    what: Literal["worktrees", "files", "all"] = "worktrees",
) -> list[TrashEntry]:
    """The entries that can be restored on this machine, newest first."""
    only, values = ("", ()) if repo_name is None else (" AND repo_name = ?", (repo_name,))
    rows = connection.execute(
        f"SELECT {TrashEntry.columns} FROM trash WHERE {_KEPT}{only}{_ONLY[what]} ORDER BY removed_at DESC, rowid DESC",
        (host.hostname(), *values),
    )
    return [TrashEntry(row) for row in rows]


def mark_restored(connection: sqlite3.Connection, identity: str) -> bool:
    """False when it was restored or purged already."""
    return _mark(connection, "restored_at", identity)


def mark_purged(connection: sqlite3.Connection, identity: str) -> bool:
    """False when it was restored or purged already."""
    return _mark(connection, "purged_at", identity)


def set_data(connection: sqlite3.Connection, identity: str, data: dict[str, object]) -> None:
    connection.execute("UPDATE trash SET data = ? WHERE id = ?", (json_writer.dumps(data), identity))


def _mark(connection: sqlite3.Connection, column: str, identity: str) -> bool:
    changed = connection.execute(
        f"UPDATE trash SET {column} = ? WHERE id = ? AND restored_at IS NULL AND purged_at IS NULL",
        (times.stamp(), identity),
    )
    return changed.rowcount == 1


def _storable(path: str) -> str:
    """The path for an SQLite text, which must be UTF-8; `data` holds the exact path as ASCII-escaped JSON."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")
