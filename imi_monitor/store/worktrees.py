"""Worktrees: iMi's table and our nullable columns beside it.

Git decides which worktrees exist; a row adds type, base, pull request and owner. A row is never deleted, only
deactivated, and bringing a worktree back updates it in place, because iMi's rows may have children. Events keep the
name a worktree had when they were recorded; its sessions follow a new name.
"""

from __future__ import annotations

from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import times
from imi_monitor.store import events
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


class WorktreeRow(Row):
    """A row of `worktrees`; `branch` has no `refs/heads/`, which iMi sometimes writes."""

    repo_name: str
    name: str
    branch: str
    type: str
    path: str
    created_at: str
    updated_at: str
    active: bool
    agent_id: str | None
    claimed_at: str | None
    released_at: str | None
    pr_number: int | None
    base_branch: str | None
    closed_how: str | None

    def __init__(self, row: tuple[object, ...]) -> None:
        super().__init__(row)
        self.branch = self.branch.removeprefix("refs/heads/")


_COLUMNS = (
    "repo_name, worktree_name, branch_name, worktree_type, path, created_at, updated_at, active, agent_id,"
    " claimed_at, released_at, pr_number, base_branch, closed_how"
)


def get(connection: sqlite3.Connection, repo_name: str, name: str) -> WorktreeRow | None:
    """One row, active or not."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM worktrees WHERE repo_name = ? AND worktree_name = ?", (repo_name, name)
    ).fetchone()
    return None if row is None else WorktreeRow(row)


def list_worktrees(
    connection: sqlite3.Connection, repo_name: str | None = None, *, inactive: bool = False
) -> list[WorktreeRow]:
    """The active rows of one repository or of all, with `inactive` also the others."""
    where = [] if inactive else ["active = 1"]
    values: list[str] = []
    if repo_name is not None:
        where.append("repo_name = ?")
        values.append(repo_name)
    sql = f"SELECT {_COLUMNS} FROM worktrees" + (f" WHERE {' AND '.join(where)}" if where else "")
    return [WorktreeRow(row) for row in connection.execute(sql + " ORDER BY repo_name, worktree_name", values)]


def register(
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
    """Add a worktree's row, or reactivate its old row under the same id and without an owner.

    iMi leaves the owner's name on rows it deactivates; it must not return with the row.
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


def close(connection: sqlite3.Connection, repo_name: str, name: str, how: str) -> None:
    """Deactivate the row of a worktree that is removed, closed, merged or missing."""
    connection.execute(
        "UPDATE worktrees SET active = 0, agent_id = NULL, closed_how = ?, updated_at = ?"
        " WHERE repo_name = ? AND worktree_name = ?",
        (how, times.stamp(), repo_name, name),
    )


def reopen(connection: sqlite3.Connection, repo_name: str, name: str, path: str) -> None:
    """Reactivate the row of a closed worktree, without an owner."""
    connection.execute(
        "UPDATE worktrees SET active = 1, agent_id = NULL, closed_how = NULL, path = ?, updated_at = ?"
        " WHERE repo_name = ? AND worktree_name = ?",
        (path, times.stamp(), repo_name, name),
    )


_NAMING = tuple(
    f"UPDATE {table} SET worktree_name = ? WHERE repo_name = ? AND worktree_name = ?"
    for table in ("sessions", "runs", "notes", "read_parts", "items")
)


def rename(
    connection: sqlite3.Connection,
    repo_name: str,
    old: str,
    new: str,
    *,
    path: str,
    branch: str | None,
    agent: str | None,
) -> None:
    """Rename the row. An inactive row of that name gets another one, because events and sessions refer to it."""
    at = times.stamp()
    if get(connection, repo_name, new) is not None:
        free = _unused_name(connection, repo_name, new)
        connection.execute(
            "UPDATE worktrees SET worktree_name = ? WHERE repo_name = ? AND worktree_name = ? AND active = 0",
            (free, repo_name, new),
        )
        _rename_elsewhere(connection, repo_name, new, free)
    _rename_elsewhere(connection, repo_name, old, new)
    connection.execute(
        "UPDATE worktrees SET worktree_name = ?, path = ?, branch_name = coalesce(?, branch_name), updated_at = ?"
        " WHERE repo_name = ? AND worktree_name = ?",
        (new, path, branch, at, repo_name, old),
    )
    data: dict[str, object] = {"from": old, "path": path, "branch": branch}
    events.record(connection, "worktree.renamed", repo_name, new, agent_id=agent, data=data)


def _rename_elsewhere(connection: sqlite3.Connection, repo_name: str, old: str, new: str) -> None:
    """Rename the worktree in the tables that name it."""
    for statement in _NAMING:
        connection.execute(statement, (new, repo_name, old))


def move(connection: sqlite3.Connection, repo_name: str, name: str, path: str) -> None:
    """Record the worktree's new path."""
    connection.execute(
        "UPDATE worktrees SET path = ?, updated_at = ? WHERE repo_name = ? AND worktree_name = ?",
        (path, times.stamp(), repo_name, name),
    )
    events.record(connection, "worktree.moved", repo_name, name, data={"path": path})


def _unused_name(connection: sqlite3.Connection, repo_name: str, name: str) -> str:
    number = 1
    while get(connection, repo_name, f"{name}~{number}") is not None:
        number += 1
    return f"{name}~{number}"
