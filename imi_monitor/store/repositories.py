"""Repositories: iMi's table, where each one lies on which machine, and which ones the user trusts to run programs."""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import times
from imi_monitor.store import events
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection


class RepositoryRow(Row):
    name: str
    path: str
    remote_url: str
    default_branch: str
    active: bool


class RepositoryRegistration:
    """What `register` writes about a repository. `name` is used unless another repository has it."""

    __slots__ = ("common_dir", "default_branch", "name", "path", "remote_url")

    def __init__(self, name: str, *, common_dir: str, path: str, remote_url: str, default_branch: str) -> None:
        self.name = name
        self.common_dir = common_dir
        self.path = path
        self.remote_url = remote_url
        self.default_branch = default_branch


def list_repositories(connection: sqlite3.Connection) -> list[RepositoryRow]:
    rows = connection.execute("SELECT name, path, remote_url, default_branch, active FROM repositories ORDER BY name")
    return [RepositoryRow(row) for row in rows]


def list_identities(connection: sqlite3.Connection, own_home: str) -> dict[str, str]:
    """Repository name -> what all homes of a team call it."""
    from imi_monitor.model import home  # only a team needs it

    rows = list_repositories(connection)
    return {row.name: home.repository_identity(row.remote_url, own_home, row.name) for row in rows}


def list_common_dirs(connection: sqlite3.Connection) -> dict[str, str]:
    """Repository name -> common git directory, for the repositories of this machine."""
    rows = connection.execute("SELECT repo_name, common_dir FROM places WHERE host = ?", (host.hostname(),))
    return {str(name): str(common_dir) for name, common_dir in rows}


def hash_rows(connection: sqlite3.Connection) -> int:
    """A number that changes with what the registry has of repositories and their worktrees."""
    tables = ("repositories", "places", "trust", "worktrees WHERE active = 1")
    return hash(tuple([tuple(connection.execute(f"SELECT * FROM {table}")) for table in tables]))


def find_name(connection: sqlite3.Connection, common_dir: str, main_path: str | None) -> str | None:
    """The name a repository on this disk is registered under: by its git directory, else by iMi's trunk path."""
    row = connection.execute(
        "SELECT repo_name FROM places WHERE host = ? AND common_dir = ?", (host.hostname(), common_dir)
    ).fetchone()
    if row is None and main_path is not None:
        for name, path in connection.execute("SELECT name, path FROM repositories WHERE active = 1"):
            if os.path.realpath(str(path)) == main_path and not _has_place(connection, str(name)):
                return str(name)
    return None if row is None else str(row[0])


def register(connection: sqlite3.Connection, wanted: RepositoryRegistration) -> str:
    """Write the repository's row and place if they are missing or outdated; returns its name.

    Two repositories of the same name get `name@parent` and so on: worktrees are keyed by the repository's name.
    """
    name = find_name(connection, wanted.common_dir, wanted.path) or unused_name(connection, wanted.name, wanted.path)
    path, at = _spelling_in_row(connection, name, wanted.path), times.stamp()
    connection.execute(
        "INSERT INTO repositories (id, name, path, remote_url, default_branch, created_at, updated_at, active)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (name) DO UPDATE SET path = excluded.path,"
        " default_branch = excluded.default_branch, updated_at = excluded.updated_at, active = 1"
        " WHERE path <> excluded.path OR default_branch <> excluded.default_branch OR active <> 1",
        (new_id(), name, path, _without_password(wanted.remote_url), wanted.default_branch, at, at),
    )
    connection.execute(
        "INSERT INTO places (repo_name, host, common_dir) VALUES (?, ?, ?)"
        " ON CONFLICT (repo_name) DO UPDATE SET host = excluded.host, common_dir = excluded.common_dir"
        " WHERE host <> excluded.host OR common_dir <> excluded.common_dir",
        (name, host.hostname(), wanted.common_dir),
    )
    return name


def move(connection: sqlite3.Connection, repo_name: str, *, path: str, common_dir: str) -> None:
    """Record the repository's new place on this machine."""
    connection.execute(
        "UPDATE repositories SET path = ?, updated_at = ? WHERE name = ?", (path, times.stamp(), repo_name)
    )
    connection.execute("UPDATE places SET common_dir = ? WHERE repo_name = ?", (common_dir, repo_name))
    events.record(connection, "repository.moved", repo_name, data={"path": path})


def trusted_fingerprint(connection: sqlite3.Connection, common_dir: str) -> str | None:
    """The fingerprint of the programs that were trusted; None when the repository is not trusted on this machine."""
    row = connection.execute(
        "SELECT fingerprint FROM trust WHERE host = ? AND common_dir = ?", (host.hostname(), common_dir)
    ).fetchone()
    return None if row is None else str(row[0])


def store_trust(connection: sqlite3.Connection, common_dir: str, fingerprint: str) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO trust (host, common_dir, fingerprint, trusted_at) VALUES (?, ?, ?, ?)",
        (host.hostname(), common_dir, fingerprint, times.stamp()),
    )


def revoke_trust(connection: sqlite3.Connection, common_dir: str) -> bool:
    """Delete the trust; False when the repository was not trusted."""
    gone = connection.execute("DELETE FROM trust WHERE host = ? AND common_dir = ?", (host.hostname(), common_dir))
    return gone.rowcount == 1


def _spelling_in_row(connection: sqlite3.Connection, name: str, path: str) -> str:
    """The path as the row spells it if both are the same folder: iMi may have used a symbolic link."""
    row = connection.execute("SELECT path FROM repositories WHERE name = ?", (name,)).fetchone()
    same = row is not None and os.path.realpath(str(row[0])) == os.path.realpath(path)
    return str(row[0]) if same else path


def _without_password(url: str) -> str:
    if "://" not in url or "@" not in url:
        return url
    from imi_monitor.model.redact import redact

    return redact(url)


def unused_name(connection: sqlite3.Connection, wanted: str, path: str, also_taken: Collection[str] = ()) -> str:
    """The name that a repository not registered yet gets: that of its origin, unless another one has it."""
    taken = {*also_taken, *(str(row[0]) for row in connection.execute("SELECT name FROM repositories"))}
    parent = os.path.basename(os.path.dirname(path)) or "root"
    candidates = [wanted, f"{wanted}@{parent}", *(f"{wanted}@{parent}-{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in candidates if name not in taken)


def _has_place(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM places WHERE repo_name = ?", (name,)).fetchone() is not None
