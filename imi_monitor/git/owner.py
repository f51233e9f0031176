"""Whose repository it is. git refuses to work in somebody else's ("dubious ownership"), but only where it discovers it.

We name the git directory, so git does not look; this looks instead. A foreign repository is a state to show: only the
user's own `safe.directory` opens it, and we never add one.
"""

from __future__ import annotations

import os
import time

from imi_monitor.git.environ import environment, git_path
from imi_monitor.git.scan import HABITS, LOCKED
from imi_monitor.git.spawn import spawn
from imi_monitor.model.errors import GitError

_SECONDS = 30.0  # how long git's answer about a foreign repository is believed
_allowed_until: dict[str, float] = {}


def check(common_dir: str, admin_dir: str, work_tree: str | None) -> None:
    """GitError "dubious-ownership" when the repository is another user's and git has not been told to accept it."""
    me = os.geteuid()
    for path in (work_tree, admin_dir, common_dir):
        if path is not None and _owner(path) not in (me, None):
            _ask_git(work_tree or common_dir, path)
            return


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:  # git will say what is wrong with it
        return None


def _ask_git(where: str, foreign: str) -> None:
    if time.monotonic() < _allowed_until.get(where, 0.0):
        return
    env = environment([*HABITS[1:], *LOCKED])  # discovery on purpose, also of a bare repository
    done = spawn([git_path(), "--no-pager", "-C", where, "rev-parse", "--git-dir"], env=env, timeout=10.0, cap=1 << 16)
    if done.returncode:
        raise _foreign(where, foreign, done.stderr)
    _allowed_until[where] = time.monotonic() + _SECONDS


def _foreign(where: str, foreign: str, stderr: bytes) -> GitError:
    from imi_monitor.model.redact import shown
    from imi_monitor.model.text import safe

    return GitError(
        f"{safe(foreign)} belongs to another user, so git does not work in it; "
        f"if you trust it: git config --global --add safe.directory {safe(where)}",
        code="dubious-ownership",
        stderr="\n".join(shown(stderr)),
    )
