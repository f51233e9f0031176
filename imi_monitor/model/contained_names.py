"""Names in a contained workspace: of workspaces and of the files in one. A name is one plain word, never a path."""

from __future__ import annotations

from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

DEFAULT = "default"
# in place of a repository: workspaces outside of git belong to none
HOME, RUNS_HOME, WATCHED_HOME = "~contained", "~runs", "~watched"
HOMES = (HOME, RUNS_HOME, WATCHED_HOME)
REGISTRY_FILE = "workspace_metadata.json"
_LONGEST = 200  # bytes; a temporary name is a little longer


def in_git(repo: str) -> bool:
    """Whether what has this in its key belongs to a repository: a worktree does, other workspaces do not."""
    return repo not in HOMES


def shown_repository(repo: str) -> str:
    """The name in the registry as a person reads it: what is in no repository is `contained`, `runs` or `watched`."""
    return repo if in_git(repo) else repo.removeprefix("~")


def check_file(name: str) -> str:
    """Return the name; UsageError for a path, a hidden file, or what no terminal shows."""
    if "/" in name or "\\" in name:
        plain = name.replace("\\", "/").rstrip("/").rpartition("/")[2] or "report.md"
        raise UsageError(
            f"{safe(name, 80)!r} is a path: files have plain names here, use {safe(plain, 80)}", code="bad-name"
        )
    problem = _problem(name)
    if problem is None and name == REGISTRY_FILE:
        problem = "is the workspace's own registry"
    if problem is not None:
        raise UsageError(f"the file name {safe(name, 80)!r} {problem}", code="bad-name")
    return name


def check_workspace(name: str) -> str:
    """Return the name of a contained workspace; UsageError for anything but a plain word."""
    problem = _problem(name) or ("contains a slash" if "/" in name else None)
    if problem is not None:
        raise UsageError(f"the workspace name {safe(name, 80)!r} {problem}", code="bad-name")
    return name


def _problem(name: str) -> str | None:
    if not name:
        return "is empty"
    if name.startswith((".", "-")):
        return "begins with a dot or a dash"
    if not name.isprintable() or any("\ud800" <= sign <= "\udfff" for sign in name):
        return "has characters that cannot be shown"
    return "is too long" if len(name.encode()) > _LONGEST else None
