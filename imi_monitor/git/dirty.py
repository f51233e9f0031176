"""Whether a worktree has uncommitted changes: the only git question of a hot command.

It takes one status process, which does not enter nested repositories because their configuration was not scanned. Each nested
repository gets its own git process. A failure is an error, never "clean".
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
    """Return whether files are modified, staged, untracked or in conflict, here or in a nested repository.

    `meanwhile` is called once while git runs, so that the caller's own work takes no extra time.
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
    """Return a `cancelled` function that does `work` at its first call and never cancels."""
    left = [work]

    def never_cancelled() -> bool:
        while left:
            left.pop()()
        return False

    return never_cancelled


def _nested_dirty(git: Git, path: str) -> bool:
    inner = nested_repositories.open_nested(git, path)
    if inner is not None:
        return is_dirty(inner)
    # the repository is absent, and git ignores files in its folder
    return os.path.isdir(path) and bool(os.listdir(path))
