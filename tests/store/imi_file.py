"""A registry as iMi 2.0.2 writes it: its four tables, its way of writing, and its statements.

Facts about iMi that the rows stand for: uuid4 ids, RFC 3339 moments with 0, 3, 6 or 9 digits of fraction, branches with
and without refs/heads/, the type `pr` that is in no table, removed worktrees as inactive rows that keep their owner.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

TABLES = (
    "CREATE TABLE IF NOT EXISTS repositories (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, path TEXT NOT NULL,"
    " remote_url TEXT NOT NULL, default_branch TEXT NOT NULL DEFAULT 'main', created_at TEXT NOT NULL,"
    " updated_at TEXT NOT NULL, active BOOLEAN NOT NULL DEFAULT TRUE)",
    "CREATE TABLE IF NOT EXISTS worktree_types (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
    " branch_prefix TEXT NOT NULL, worktree_prefix TEXT NOT NULL, description TEXT,"
    " is_builtin BOOLEAN NOT NULL DEFAULT 0, created_at TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS worktrees (id TEXT PRIMARY KEY, repo_name TEXT NOT NULL, worktree_name TEXT NOT NULL,"
    " branch_name TEXT NOT NULL, worktree_type TEXT NOT NULL, path TEXT NOT NULL, created_at TEXT NOT NULL,"
    " updated_at TEXT NOT NULL, active BOOLEAN NOT NULL DEFAULT TRUE, agent_id TEXT,"
    " FOREIGN KEY (repo_name) REFERENCES repositories (name), UNIQUE(repo_name, worktree_name))",
    "CREATE TABLE IF NOT EXISTS agent_activities (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL,"
    " worktree_id TEXT NOT NULL, activity_type TEXT NOT NULL, file_path TEXT, description TEXT NOT NULL,"
    " created_at TEXT NOT NULL, FOREIGN KEY (worktree_id) REFERENCES worktrees (id))",
    "CREATE INDEX IF NOT EXISTS idx_worktrees_repo_name ON worktrees (repo_name)",
    "CREATE INDEX IF NOT EXISTS idx_worktrees_active ON worktrees (active)",
    "CREATE INDEX IF NOT EXISTS idx_agent_activities_worktree_id ON agent_activities (worktree_id)",
)
COLUMNS = {
    "repositories": ["id", "name", "path", "remote_url", "default_branch", "created_at", "updated_at", "active"],
    "worktree_types": ["id", "name", "branch_prefix", "worktree_prefix", "description", "is_builtin", "created_at"],
    "worktrees": [
        "id",
        "repo_name",
        "worktree_name",
        "branch_name",
        "worktree_type",
        "path",
        "created_at",
        "updated_at",
        "active",
        "agent_id",
    ],
    "agent_activities": ["id", "agent_id", "worktree_id", "activity_type", "file_path", "description", "created_at"],
}
_NINE, _SIX = "2025-12-30T14:15:09.470006187+00:00", "2025-12-30T14:20:00.000123+00:00"
_THREE, _NONE, _ZULU = "2025-12-30T14:17:00.500+00:00", "2025-12-30T14:16:00+00:00", "2025-12-29T10:00:00Z"
_TYPES = (
    ("feat", "feat/", "feat-"),
    ("fix", "fix/", "fix-"),
    ("aiops", "aiops/", "aiops-"),
    ("devops", "devops/", "devops-"),
    ("review", "pr-review/", "pr-review-"),
)
# (name, branch, type, created, updated, active, owner)
WORKTREES = (
    ("feat-user-auth", "feat/user-auth", "feat", _NINE, _NINE, 1, None),
    ("pr-123", "feat-add-auth", "pr", _NONE, _SIX, 1, None),
    ("trunk-main", "refs/heads/main", "trunk", _THREE, _THREE, 1, None),
    ("feat-found", "refs/heads/feat/found", "unknown", _SIX, _SIX, 1, "claude-1"),
    ("fix-old", "fix/old", "fix", _ZULU, _NONE, 0, "long-gone"),
)


def make(path: Path, trunk: Path | None = None) -> None:
    """The file, in SQLite's own default journal mode, which iMi leaves alone."""
    home = trunk or Path("/somewhere/coolcode/trunk-main")
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in TABLES:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO repositories VALUES ('550e8400-e29b-41d4-a716-446655440000', 'coolcode', ?, ?, 'main', ?, ?, 1)",
        (str(home), "git@example.invalid:acme/coolcode.git", _NINE, _THREE),
    )
    for name, branch_prefix, directory_prefix in _TYPES:
        connection.execute(
            "INSERT INTO worktree_types (name, branch_prefix, worktree_prefix, description, is_builtin, created_at)"
            " VALUES (?, ?, ?, ?, 1, ?)",
            (name, branch_prefix, directory_prefix, f"iMi's words for {name}", _NINE),
        )
    for number, (name, branch, kind, created, updated, active, owner) in enumerate(WORKTREES):
        connection.execute(
            "INSERT INTO worktrees VALUES (?, 'coolcode', ?, ?, ?, ?, ?, ?, ?, ?)",
            (identity(number), name, branch, kind, str(home.parent / name), created, updated, active, owner),
        )
    connection.execute(
        "INSERT INTO agent_activities VALUES (?, 'file-monitor', ?, 'modified', 'src/api.ts', 'File modified', ?)",
        ("770e8400-e29b-41d4-a716-446655440002", identity(0), _SIX),
    )
    connection.close()


def identity(number: int) -> str:
    return f"660e8400-e29b-41d4-a716-44665544{number:04}"


def rows(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """iMi's columns of iMi's tables, with SQLite's storage class of each value: equal means unchanged."""
    found = {}
    for table, columns in COLUMNS.items():
        wanted = ", ".join(f"{column}, typeof({column})" for column in columns)
        found[table] = connection.execute(f"SELECT {wanted} FROM {table} ORDER BY id").fetchall()
    return found
