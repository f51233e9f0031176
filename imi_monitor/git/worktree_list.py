"""Lists worktrees with `git worktree list`. It removes and prunes nothing."""

from __future__ import annotations

import os

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.layout import linked_worktrees, points_back, read_small
from imi_monitor.git.runner import git_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git

_NUL_SINCE = (2, 36, 0)


@dataclass(frozen=True, slots=True)
class GitWorktree:
    """One line of `git worktree list`. `locked` and `prunable` hold the reason (which may be empty) or None."""

    path: str
    head: str | None
    branch: str | None
    bare: bool
    detached: bool
    locked: str | None
    prunable: str | None
    admin_dir: str | None
    main: bool  # the repository's own place, bare or not


def list_worktrees(git: Git) -> list[GitWorktree]:
    """Return all worktrees, the main one (or the bare repository) first."""
    separator, options = ("\0", ["-z"]) if git_version() >= _NUL_SINCE else ("\n", [])
    text = os.fsdecode(git.at(git.common_dir, None).run("worktree", "list", "--porcelain", *options).stdout)
    admins = _admin_dirs(git.common_dir)
    blocks = [block.split(separator) for block in text.split(separator * 2) if block.strip(separator)]
    return [_worktree(lines, admins, git.common_dir if index == 0 else None) for index, lines in enumerate(blocks)]


def worktrees_using_branch(git: Git, branch: str) -> list[str]:
    """Return the worktrees that have a branch checked out, or are rebasing or bisecting it: it must not be moved there."""
    return [tree.path for tree in list_worktrees(git) if tree.branch == branch or branch in _hidden_branches(tree)]


def _admin_dirs(common_dir: str) -> dict[str, str]:
    """Return path -> admin directory; of two for the same path, the one that the path's `.git` file names."""
    found: dict[str, str] = {}
    for linked in linked_worktrees(common_dir):
        if linked.path not in found or points_back(linked.admin_dir, linked.path):
            found[linked.path] = linked.admin_dir
    return found


def _worktree(lines: list[str], admins: dict[str, str], main: str | None) -> GitWorktree:
    words = {key: value for key, _, value in (line.partition(" ") for line in lines)}
    path, head, branch = words["worktree"], words.get("HEAD", ""), words.get("branch")
    return GitWorktree(
        path=path,
        head=head if head.strip("0") else None,
        branch=branch.removeprefix("refs/heads/") if branch else None,
        bare="bare" in words,
        detached="detached" in words,
        locked=words.get("locked"),
        prunable=words.get("prunable"),
        admin_dir=main or admins.get(path) or admins.get(os.path.realpath(path)),
        main=main is not None,
    )


def _hidden_branches(tree: GitWorktree) -> list[str]:
    """Return the branches a worktree uses without showing them: during a rebase or bisect, and as the HEAD of a bare one."""
    if tree.admin_dir is None:
        return []
    names = ("HEAD", "rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
    found = [read_small(os.path.join(tree.admin_dir, name)) for name in names]
    # rebase --update-refs writes three lines each: a ref, its old and its new commit
    found += (read_small(os.path.join(tree.admin_dir, "rebase-merge", "update-refs")) or "").split("\n")[::3]
    return [name.removeprefix("ref: ").removeprefix("refs/heads/") for name in found if name]
