"""Whether a worktree has anything uncommitted: the one question of git that a hot verb asks.

One status process. It does not enter nested repositories, whose configuration nobody has looked at; only where there
are some, each is asked by a git of its own, fenced like any other. What cannot be told is an error, never "clean".
"""

from __future__ import annotations

import os

from imi_monitor.git import nested_repositories
from imi_monitor.model.errors import GitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.git.runner import Git

_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--no-ahead-behind", "--ignore-submodules=dirty")
_TIMEOUT = 30.0  # a cold tree of 50,000 files on a slow disk


def is_dirty(git: Git, meanwhile: Callable[[], None] | None = None) -> bool:
    """Modified, staged, untracked or conflicted files, here or in a nested repository.

    `meanwhile` is done once while git is at work, for somebody who has something else to do.
    """
    during = _once(meanwhile) if meanwhile else None
    try:
        if git.run(*_STATUS, "--untracked-files=normal", timeout=_TIMEOUT, cap=1 << 16, cancelled=during).stdout:
            return True
    except GitError as error:
        if error.code == "git-too-much":  # more changes than fit are changes
            return True
        raise
    return any(_nested_dirty(git, path) for path in nested_repositories.nested_paths(git))


def _once(work: Callable[[], None]) -> Callable[[], bool]:
    """`work` in the place of somebody who may cancel, and never does."""
    left = [work]

    def asked() -> bool:
        while left:
            left.pop()()
        return False

    return asked


def _nested_dirty(git: Git, path: str) -> bool:
    inner = nested_repositories.open_nested(git, path)
    if inner is not None:
        return is_dirty(inner)
    # the place of a repository that is not there: git never looks at files in it
    return os.path.isdir(path) and bool(os.listdir(path))
