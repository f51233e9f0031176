"""What we know about repositories and worktrees beside git: iMi's two tables and our nullable columns.

Git decides which worktrees exist; a row adds type, base, pull request and owner. A row is never deleted, only
deactivated, and bringing a worktree back updates it in place, because iMi's rows may have children.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


class RepositoryRow:
    __slots__ = ("active", "default_branch", "name", "path", "remote_url")

    def __init__(self, name: str, path: str, remote_url: str, default_branch: str, active: bool) -> None:
        self.name = name
        self.path = path
        self.remote_url = remote_url
        self.default_branch = default_branch
        self.active = active


class WorktreeRow:
    """A row of `worktrees`; `branch` is without `refs/heads/`, whichever way it was written."""

    __slots__ = (
        "active",
        "agent_id",
        "base_branch",
        "branch",
        "claimed_at",
        "closed_how",
        "created_at",
        "name",
        "path",
        "pr_number",
        "released_at",
        "repo_name",
        "type",
        "updated_at",
    )

    def __init__(self, row: tuple[object, ...]) -> None:
        def text(value: object) -> str | None:
            return None if value is None else str(value)

        self.repo_name = str(row[0])
        self.name = str(row[1])
        self.branch = str(row[2]).removeprefix("refs/heads/")
        self.type = str(row[3])
        self.path = str(row[4])
        self.created_at = str(row[5])
        self.updated_at = str(row[6])
        self.active = bool(row[7])
        self.agent_id = text(row[8])
        self.claimed_at = text(row[9])
        self.released_at = text(row[10])
        self.pr_number = None if row[11] is None else int(str(row[11]))
        self.base_branch = text(row[12])
        self.closed_how = text(row[13])


_COLUMNS = (
    "repo_name, worktree_name, branch_name, worktree_type, path, created_at, updated_at, active, agent_id,"
    " claimed_at, released_at, pr_number, base_branch, closed_how"
)


def repositories(connection: sqlite3.Connection) -> list[RepositoryRow]:
    rows = connection.execute("SELECT name, path, remote_url, default_branch, active FROM repositories ORDER BY name")
    return [RepositoryRow(str(r[0]), str(r[1]), str(r[2]), str(r[3]), bool(r[4])) for r in rows]


def common_dirs(connection: sqlite3.Connection) -> dict[str, str]:
    """Repository name -> common git directory, for the repositories of this machine."""
    rows = connection.execute("SELECT repo_name, common_dir FROM places WHERE host = ?", (host.hostname(),))
    return {str(name): str(common_dir) for name, common_dir in rows}


def repository_of(connection: sqlite3.Connection, common_dir: str, main_path: str | None) -> str | None:
    """The name a repository on this disk is registered under: by its git directory, else by iMi's trunk path."""
    row = connection.execute(
        "SELECT repo_name FROM places WHERE host = ? AND common_dir = ?", (host.hostname(), common_dir)
    ).fetchone()
    if row is None and main_path is not None:
        for name, path in connection.execute("SELECT name, path FROM repositories WHERE active = 1"):
            if os.path.realpath(str(path)) == main_path and not _placed(connection, str(name)):
                return str(name)
    return None if row is None else str(row[0])


def register_repository(
    connection: sqlite3.Connection, wanted: str, *, common_dir: str, path: str, remote_url: str, default_branch: str
) -> str:
    """Make sure the repository has a row and a place; gives its name, which is `wanted` unless another one has that.

    Two repositories of the same name get `name@parent` and so on: worktrees are keyed by the repository's name.
    """
    known = repository_of(connection, common_dir, path)
    at = times.stamp()
    name = known or _free_name(connection, wanted, path)
    path = _as_known(connection, name, path)
    connection.execute(
        "INSERT INTO repositories (id, name, path, remote_url, default_branch, created_at, updated_at, active)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (name) DO UPDATE SET path = excluded.path,"
        " default_branch = excluded.default_branch, updated_at = excluded.updated_at, active = 1"
        " WHERE path <> excluded.path OR default_branch <> excluded.default_branch OR active <> 1",
        (new_id(), name, path, _without_password(remote_url), default_branch, at, at),
    )
    connection.execute(
        "INSERT INTO places (repo_name, host, common_dir) VALUES (?, ?, ?)"
        " ON CONFLICT (repo_name) DO UPDATE SET host = excluded.host, common_dir = excluded.common_dir"
        " WHERE host <> excluded.host OR common_dir <> excluded.common_dir",
        (name, host.hostname(), common_dir),
    )
    return name


def _as_known(connection: sqlite3.Connection, name: str, path: str) -> str:
    """The path as the row spells it, if that is the same place: iMi may have come through a link."""
    row = connection.execute("SELECT path FROM repositories WHERE name = ?", (name,)).fetchone()
    same = row is not None and os.path.realpath(str(row[0])) == os.path.realpath(path)
    return str(row[0]) if same else path


def _without_password(url: str) -> str:
    if "://" not in url or "@" not in url:
        return url
    from imi_monitor.model.redact import redact

    return redact(url)


def _free_name(connection: sqlite3.Connection, wanted: str, path: str) -> str:
    taken = {str(row[0]) for row in connection.execute("SELECT name FROM repositories")}
    parent = os.path.basename(os.path.dirname(path)) or "root"
    candidates = [wanted, f"{wanted}@{parent}", *(f"{wanted}@{parent}-{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in candidates if name not in taken)


def _placed(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM places WHERE repo_name = ?", (name,)).fetchone() is not None


def worktree(connection: sqlite3.Connection, repo_name: str, name: str) -> WorktreeRow | None:
    """One row, active or not."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM worktrees WHERE repo_name = ? AND worktree_name = ?", (repo_name, name)
    ).fetchone()
    return None if row is None else WorktreeRow(row)


def worktrees(
    connection: sqlite3.Connection, repo_name: str | None = None, *, inactive: bool = False
) -> list[WorktreeRow]:
    """The rows of one repository or of all, active ones only unless asked otherwise."""
    where = [] if inactive else ["active = 1"]
    values: list[str] = []
    if repo_name is not None:
        where.append("repo_name = ?")
        values.append(repo_name)
    sql = f"SELECT {_COLUMNS} FROM worktrees" + (f" WHERE {' AND '.join(where)}" if where else "")
    return [WorktreeRow(row) for row in connection.execute(sql + " ORDER BY repo_name, worktree_name", values)]


def put_worktree(
    connection: sqlite3.Connection,
    repo_name: str,
    name: str,
    *,
    branch: str,
    kind: str,
    path: str,
    base_branch: str | None = None,
    pr_number: int | None = None,
) -> None:
    """Register a worktree, or bring its old row back to life under the same id with nobody's claim on it.

    iMi leaves the owner's name on rows it deactivates: it must not come back with them.
    """
    at = times.stamp()
    connection.execute(
        "INSERT INTO worktrees (id, repo_name, worktree_name, branch_name, worktree_type, path, created_at, updated_at,"
        " active, base_branch, pr_number) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)"
        " ON CONFLICT (repo_name, worktree_name) DO UPDATE SET branch_name = excluded.branch_name,"
        " worktree_type = excluded.worktree_type, path = excluded.path, updated_at = excluded.updated_at, active = 1,"
        " base_branch = excluded.base_branch, pr_number = excluded.pr_number, closed_how = NULL,"
        " agent_id = CASE WHEN worktrees.active THEN worktrees.agent_id END",
        (new_id(), repo_name, name, branch, kind, path, at, at, base_branch, pr_number),
    )


def close_worktree(connection: sqlite3.Connection, repo_name: str, name: str, how: str) -> None:
    """The worktree is gone from its place: removed, closed, merged or missing. Its row and history stay."""
    connection.execute(
        "UPDATE worktrees SET active = 0, agent_id = NULL, closed_how = ?, updated_at = ?"
        " WHERE repo_name = ? AND worktree_name = ?",
        (how, times.stamp(), repo_name, name),
    )


def reopen_worktree(connection: sqlite3.Connection, repo_name: str, name: str, path: str) -> None:
    """A closed worktree is back in its place; nobody holds it."""
    connection.execute(
        "UPDATE worktrees SET active = 1, agent_id = NULL, closed_how = NULL, path = ?, updated_at = ?"
        " WHERE repo_name = ? AND worktree_name = ?",
        (path, times.stamp(), repo_name, name),
    )
