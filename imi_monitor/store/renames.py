"""Giving a worktree another name in the registry. What happened under the old name stays in the log under that name; the
sessions in it go along, as they go on there."""

from __future__ import annotations

from imi_monitor.model import times
from imi_monitor.store import events, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_SESSIONS = "UPDATE sessions SET worktree_name = ? WHERE repo_name = ? AND worktree_name = ?"


def rename(
    connection: sqlite3.Connection, repo_name: str, old: str, new: str, *, path: str, branch: str | None
) -> None:
    """Move the row to the new name; an inactive row that had it steps aside, for its history is still somebody's."""
    at = times.stamp()
    aside = worktrees.worktree(connection, repo_name, new)
    if aside is not None:
        free = _free_name(connection, repo_name, new)
        connection.execute(
            "UPDATE worktrees SET worktree_name = ? WHERE repo_name = ? AND worktree_name = ? AND active = 0",
            (free, repo_name, new),
        )
        connection.execute(_SESSIONS, (free, repo_name, new))
    connection.execute(_SESSIONS, (new, repo_name, old))
    connection.execute(
        "UPDATE worktrees SET worktree_name = ?, path = ?, branch_name = coalesce(?, branch_name), updated_at = ?"
        " WHERE repo_name = ? AND worktree_name = ?",
        (new, path, branch, at, repo_name, old),
    )
    events.record(connection, "worktree.renamed", repo_name, new, data={"from": old, "path": path, "branch": branch})


def move(connection: sqlite3.Connection, repo_name: str, name: str, path: str) -> None:
    """The worktree lies somewhere else now."""
    connection.execute(
        "UPDATE worktrees SET path = ?, updated_at = ? WHERE repo_name = ? AND worktree_name = ?",
        (path, times.stamp(), repo_name, name),
    )
    events.record(connection, "worktree.moved", repo_name, name, data={"path": path})


def move_repository(connection: sqlite3.Connection, repo_name: str, *, path: str, common_dir: str) -> None:
    """The repository itself lies somewhere else now, on the same machine."""
    connection.execute(
        "UPDATE repositories SET path = ?, updated_at = ? WHERE name = ?", (path, times.stamp(), repo_name)
    )
    connection.execute("UPDATE places SET common_dir = ? WHERE repo_name = ?", (common_dir, repo_name))
    events.record(connection, "repository.moved", repo_name, data={"path": path})


def _free_name(connection: sqlite3.Connection, repo_name: str, name: str) -> str:
    number = 1
    while worktrees.worktree(connection, repo_name, f"{name}~{number}") is not None:
        number += 1
    return f"{name}~{number}"
