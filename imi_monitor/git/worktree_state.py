"""Reads the git state of one worktree for the snapshot, with as few git processes as its change needs.

`git status` gives most of it. The distance to the trunk, the last commit and the changed lines are read only when the commits or
files they depend on have changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from imi_monitor.git import commits, distances
from imi_monitor.git.git_status import GitStatus, operation_in_progress, read_status
from imi_monitor.git.layout import points_back
from imi_monitor.git.runner import Git
from imi_monitor.model import times
from imi_monitor.model.commit import Commit
from imi_monitor.model.errors import GitError
from imi_monitor.model.snapshot import FileState, GitState

_MOST_FILES = 5000  # files kept of one worktree; the counts include the rest
_MOST_COUNTED = 2000  # changed files whose lines are still counted


@dataclass(frozen=True, slots=True)
class TrunkPosition:
    """The ref of the trunk and its commit, from which all distances are measured."""

    ref: str | None
    sha: str | None

    @property
    def name(self) -> str | None:
        return None if self.ref is None else self.ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")


def read_state(
    git: Git, trunk: TrunkPosition, before: GitState | None, paths: Sequence[str] | None, *, linked: bool
) -> GitState:
    """Read the state. With `paths` only those are read, and the others are taken from `before`."""
    assert git.work_tree is not None
    if linked and not points_back(git.admin_dir, git.work_tree):
        raise GitError(
            "its .git file names another repository (tampered with, or a copy): git was not run", code="tampered"
        )
    partial = paths is not None and before is not None
    status = read_status(git, untracked="normal", paths=paths if partial and paths else ())
    files = _merged(before, status, paths) if partial and before and paths else _files(status)
    lines = _lines(git, status, paths if partial else None)
    files = tuple(
        replace(file, added=lines[file.path][0], removed=lines[file.path][1]) if file.path in lines else file
        for file in files
    )
    return _state(git, trunk, before, status, files, partial=partial)


def update_trunk_distance(git: Git, trunk: TrunkPosition, state: GitState) -> GitState:
    """Return the state after the trunk moved: only the distance is read."""
    ahead, behind = _trunk_distance(git, trunk, state.head)
    merged = _is_merged(git, trunk, state.branch, ahead)
    return replace(state, trunk=trunk.name, trunk_ahead=ahead, trunk_behind=behind, merged=merged)


def has_history(common_dir: str, branch: str) -> bool:
    """Return whether the branch was changed after its creation: a new one has a single reflog line."""
    try:
        with open(os.path.join(common_dir, "logs", "refs", "heads", branch), "rb") as file:
            return sum(1 for _ in file) > 1
    except OSError:
        return False  # without a reflog a finished branch looks like a new one


def stash_count(common_dir: str) -> int | None:
    """Return the number of stash entries, from the stash's reflog; None when it cannot be read."""
    try:
        with open(os.path.join(common_dir, "logs", "refs", "stash"), "rb") as file:
            return sum(1 for _ in file)
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def _state(
    git: Git,
    trunk: TrunkPosition,
    before: GitState | None,
    status: GitStatus,
    files: tuple[FileState, ...],
    *,
    partial: bool,
) -> GitState:
    same_commit = before is not None and before.head == status.oid
    known_added = [file.added for file in files if file.added is not None]
    known_removed = [file.removed for file in files if file.removed is not None]
    ahead, behind = _trunk_distance(git, trunk, status.oid)
    return GitState(
        read_at=times.stamp(),
        branch=status.branch,
        head=status.oid,
        upstream=status.upstream,
        ahead=status.ahead,
        behind=status.behind,
        trunk=trunk.name,
        trunk_ahead=ahead,
        trunk_behind=behind,
        files=files[:_MOST_FILES],
        staged=sum(file.index not in ".?!U" for file in files),
        unstaged=sum(file.tree not in ".?!U" for file in files),
        untracked=sum(file.index == "?" for file in files),
        conflicted=sum(file.index == "U" for file in files),
        operation=operation_in_progress(git.admin_dir),
        stashes=stash_count(git.common_dir),
        last_commit=before.last_commit if same_commit and before else _commit(git, status.oid),
        added=sum(known_added) if len(files) <= _MOST_COUNTED else None,
        removed=sum(known_removed) if len(files) <= _MOST_COUNTED else None,
        partial=partial,
        merged=_is_merged(git, trunk, status.branch, ahead),
    )


def _files(status: GitStatus) -> tuple[FileState, ...]:
    return tuple(FileState(entry.path, entry.index, entry.tree, entry.origin) for entry in status.entries)


def _merged(before: GitState, status: GitStatus, paths: Sequence[str]) -> tuple[FileState, ...]:
    """Return the files of `before`, with those of `paths` replaced by the new status."""
    changed = set(paths)

    def replaced(path: str) -> bool:
        # an untracked folder `new/` stands for the files in it
        return path in changed or (path.endswith("/") and any(name.startswith(path) for name in changed))

    kept = [file for file in before.files if not replaced(file.path)]
    return tuple(sorted([*kept, *_files(status)], key=lambda file: file.path))


def _trunk_distance(git: Git, trunk: TrunkPosition, head: str | None) -> tuple[int | None, int | None]:
    return (None, None) if trunk.sha is None or head is None else distances.find_distance(git, head, trunk.sha)


def _is_merged(git: Git, trunk: TrunkPosition, branch: str | None, ahead: int | None) -> bool:
    """Return whether the trunk has all commits of a branch that had work of its own."""
    if ahead != 0 or branch is None or trunk.ref in (None, f"refs/heads/{branch}"):
        return False
    return not (trunk.ref or "").endswith(f"/{branch}") and has_history(git.common_dir, branch)


def _commit(git: Git, head: str | None) -> Commit | None:
    return None if head is None else commits.find_commit(git, head)


def _lines(git: Git, status: GitStatus, paths: Sequence[str] | None) -> dict[str, tuple[int | None, int | None]]:
    """Return path -> (lines added, lines removed) against HEAD for tracked files; None for binary ones."""
    changed = [entry.path for entry in status.entries if entry.index not in "?!U"]
    if not changed or len(changed) > _MOST_COUNTED or status.oid is None:
        return {}
    only = [f":(top,literal){path}" for path in changed] if paths is not None else []
    try:
        fields = git.lines0("diff", "--numstat", "-z", "--no-renames", "--ignore-submodules=dirty", "HEAD", "--", *only)
    except GitError:
        return {}
    return {path: (_number(added), _number(removed)) for added, removed, path in (f.split("\t", 2) for f in fields)}


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
