"""Reasons against a removal from the submodules, at any depth: the same as those from the worktree's own files.

The repository of a submodule is inside the worktree or its git directory, so that it goes into the trash as a whole: its
stash and its unpushed commits, too.
"""

from __future__ import annotations

import os

from imi_monitor.actions.removal import file_checks
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.removal.inspection import WorktreeInspection
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git


def check_submodules(inspected: WorktreeInspection, git: Git) -> None:
    """Check every submodule below the work tree of `git`."""
    from imi_monitor.git import nested_repositories

    paths = inspected.query("which submodules there are", lambda: list(nested_repositories.nested_paths(git)))
    for path in paths or []:
        name = os.path.relpath(path, inspected.found.path)
        if not os.path.lexists(os.path.join(path, ".git")):
            _check_absent(inspected, path, name)  # and there is none to open

        def opened(path: str = path) -> Git | None:
            return _open_submodule(inspected.found, git, path)

        inner = inspected.query(_state_of(name), opened)
        if inner is not None:
            _check_submodule(inspected, inner, path, name)
            check_submodules(inspected, inner)


def _state_of(name: str) -> str:
    return f"the state of submodule {safe(name)}"


def _check_absent(inspected: WorktreeInspection, path: str, name: str) -> None:
    files = inspected.query(_state_of(name), lambda: os.listdir(path) if os.path.isdir(path) else [])
    if files:
        inspected.add("submodule", f"submodule {safe(name)} has files, but is not initialised")


def _open_submodule(found: Target, git: Git, path: str) -> Git | None:
    """Return git in the submodule; GitError if its repository is somewhere else."""
    from imi_monitor.git import nested_repositories

    inner = nested_repositories.open_nested(git, path)
    homes = (os.path.join(found.admin_dir or "", "modules"), os.path.join(found.repository.common_dir, "modules"), path)
    if inner is not None and not inner.admin_dir.startswith(tuple(os.path.realpath(home) + os.sep for home in homes)):
        raise GitError(f"its .git file names {safe(inner.admin_dir)}, which is no place for a submodule")
    return inner


def _check_submodule(inspected: WorktreeInspection, inner: Git, path: str, name: str) -> None:
    from imi_monitor.git import commits, git_status

    status = inspected.query(_state_of(name), lambda: git_status.read_status(inner, ignored=True))
    if status is None:
        return
    shown = f"submodule {safe(name)}"
    changed = [file for _, _, files in file_checks.uncommitted_files(status) for file in files]
    if changed:
        inspected.add("submodule", f"{shown} has uncommitted changes", file_checks.below(name, changed))
    file_checks.check_ignored(inspected, path, status, name)
    file_checks.check_hidden_edits(inspected, inner, name)
    in_progress = inspected.query(_state_of(name), lambda: git_status.operation_in_progress(inner.admin_dir))
    if in_progress:
        inspected.add("submodule", f"{shown} has a {in_progress} in progress")
    stashed = inspected.query(_state_of(name), lambda: git_status.all_stashes(inner))
    if stashed:
        inspected.add("submodule", f"{shown} has {count(len(stashed), 'stash entry', 'stash entries')}", stashed)
    options = ("--branches", "--not", "--remotes", "--not")
    head = ("HEAD",) if status.oid else ()
    own = inspected.query(_state_of(name), lambda: commits.list_commits(inner, *head, options=options))
    if own:
        inspected.add("submodule", f"{shown} has {count(len(own), 'commit')} on no remote")
