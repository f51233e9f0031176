"""Lists the worktrees of a repository with their names: git's own list joined with the rows of the registry.

Actions and engine share it, so that a name means the same worktree everywhere. It includes worktrees made by plain git, and rows
whose folder is missing, but not worktrees in our trash.
"""

from __future__ import annotations

import os

from imi_monitor.git import layout
from imi_monitor.model import names
from imi_monitor.store import repositories, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

KNOWN_PREFIXES = ["feat-", "fix-", "aiops-", "devops-", "review-", "pr-", "pr-review-", "trunk-"]


class Target:
    """One worktree: git's record (`linked`, None for the main or a missing one) and the registry's row, if any."""

    __slots__ = ("admin_dir", "is_main", "linked", "name", "path", "repo_name", "repository", "row")

    def __init__(
        self,
        repository: layout.Repository,
        repo_name: str | None,
        name: str,
        path: str,
        linked: layout.LinkedWorktree | None,
        row: worktrees.WorktreeRow | None,
        is_main: bool,
    ) -> None:
        self.repository = repository
        self.repo_name = repo_name
        self.name = name
        self.path = path
        self.linked = linked
        self.row = row
        self.is_main = is_main
        self.admin_dir = repository.common_dir if is_main else (linked.admin_dir if linked else None)

    @property
    def branch(self) -> str | None:
        """The checked-out branch, from git; from the row when git no longer has the worktree."""
        if self.is_main:
            return layout.read_head(self.repository.common_dir, self.repository.common_dir)[0]
        return self.linked.branch if self.linked else (self.row.branch if self.row else None)

    @property
    def missing(self) -> bool:
        return not os.path.isdir(self.path)

    @property
    def kind(self) -> str:
        """The worktree's type: feat, fix, review, trunk …; `unknown` when neither row nor name gives it."""
        if self.row is not None:
            return "review" if self.row.type == "pr" else self.row.type
        if self.is_main:
            return "trunk"
        if names.pull_request_of(self.name) is not None:
            return "review"
        head = self.name.split("-", 1)[0]
        return head if f"{head}-" in KNOWN_PREFIXES else "unknown"


def list_worktrees(
    connection: sqlite3.Connection, repository: layout.Repository, repo_name: str | None
) -> list[Target]:
    """Return every worktree of the repository: git's, and active rows whose worktree git no longer has."""
    rows = worktrees.list_worktrees(connection, repo_name) if repo_name else []
    real = _RealPath()
    by_path = {real(row.path): row for row in rows}
    found: list[Target] = []
    if repository.main_path is not None:
        row = by_path.pop(repository.main_path, None)
        name = row.name if row else os.path.basename(repository.main_path)
        found.append(Target(repository, repo_name, name, repository.main_path, None, row, True))
    linked = layout.linked_worktrees(repository.common_dir)
    matched = [(item, by_path.pop(real(item.path), None)) for item in linked if not _in_trash(item)]
    taken = (
        {row.name for _, row in matched if row} | {target.name for target in found} | {r.name for r in by_path.values()}
    )
    for item, row in matched:
        name = row.name if row else _unique_name(item, taken)
        taken.add(name)
        found.append(Target(repository, repo_name, name, item.path, item, row, False))
    found.extend(Target(repository, repo_name, row.name, row.path, None, row, False) for row in by_path.values())
    return found


def known_repositories(connection: sqlite3.Connection) -> list[layout.Repository]:
    """Return the repositories of the registry that exist on this machine."""
    found = {}
    for common_dir in repositories.list_common_dirs(connection).values():
        if os.path.isdir(common_dir):
            found[common_dir] = layout.repository_at(common_dir)
    for row in repositories.list_repositories(connection):
        if row.active and os.path.isdir(os.path.join(row.path, ".git")):  # written by iMi, without our common_dir
            repository = layout.repository_at(os.path.join(row.path, ".git"))
            found.setdefault(repository.common_dir, repository)
    return list(found.values())


class _RealPath:
    """`os.path.realpath` that resolves each parent folder once, for many folders in the same place."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        above, name = os.path.split(path)
        if name in ("", ".", "..") or os.path.islink(path):
            return os.path.realpath(path)
        if above not in self._above:
            self._above[above] = os.path.realpath(above)
        return os.path.join(self._above[above], name)


def _unique_name(item: layout.LinkedWorktree, taken: set[str]) -> str:
    name = os.path.basename(item.path)
    if name not in taken:
        return name
    parent = os.path.basename(os.path.dirname(item.path))
    with_parent = f"{name}@{parent}"
    return with_parent if with_parent not in taken else f"{name}@{os.path.basename(item.admin_dir)}"


def _in_trash(item: layout.LinkedWorktree) -> bool:
    return (item.locked or "").startswith("imi trash ")
