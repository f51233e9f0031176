"""What a person has read of the diffs: parts by content, for each worktree. What is not shown any more stays for some time."""

from __future__ import annotations

from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from imi_monitor.model.review_progress import ReadPart

_MOST = 20_000  # parts that are kept for one worktree

_OF = "WHERE repo_name = ? AND worktree_name = ?"


def list_parts(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> frozenset[ReadPart]:
    rows = connection.execute(f"SELECT path, part FROM read_parts {_OF}", (repo_name, worktree_name))
    return frozenset((str(path), str(part)) for path, part in rows)


def list_repository(connection: sqlite3.Connection, repo_name: str) -> dict[str, frozenset[ReadPart]]:
    """Return the parts of every worktree of a repository of which something was read."""
    found: dict[str, set[ReadPart]] = {}
    rows = connection.execute("SELECT worktree_name, path, part FROM read_parts WHERE repo_name = ?", (repo_name,))
    for name, path, part in rows:
        found.setdefault(str(name), set()).add((str(path), str(part)))
    return {name: frozenset(parts) for name, parts in found.items()}


def add(connection: sqlite3.Connection, repo_name: str, worktree_name: str, parts: Iterable[ReadPart]) -> None:
    """Count these parts as read; of too many the oldest are forgotten."""
    at = times.stamp()
    connection.executemany(
        "INSERT INTO read_parts (repo_name, worktree_name, path, part, read_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET read_at = excluded.read_at",
        [(repo_name, worktree_name, path, part, at) for path, part in parts],
    )
    connection.execute(
        f"DELETE FROM read_parts {_OF} AND (path, part) IN"
        f" (SELECT path, part FROM read_parts {_OF} ORDER BY read_at DESC LIMIT -1 OFFSET ?)",
        (repo_name, worktree_name, repo_name, worktree_name, _MOST),
    )


def remove(connection: sqlite3.Connection, repo_name: str, worktree_name: str, parts: Iterable[ReadPart]) -> None:
    """Count these parts as unread."""
    connection.executemany(
        f"DELETE FROM read_parts {_OF} AND path = ? AND part = ?",
        [(repo_name, worktree_name, path, part) for path, part in parts],
    )
