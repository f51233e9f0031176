"""The user's own git settings: of the system and of the user, never of a repository, which agents write."""

from __future__ import annotations

import os
import subprocess

from imi_monitor.git.environment import git_environment, git_path
from imi_monitor.model.errors import GitError

_TIMEOUT = 5.0


def read_user_setting(name: str) -> str | None:
    """Return the value that counts of one setting, such as `core.pager`; None if there is none or git cannot say."""
    for scope in ("--global", "--system"):
        value = _read(scope, name)
        if value is not None:
            return value
    return None


def _read(scope: str, name: str) -> str | None:
    try:
        argv = [git_path(), "config", scope, "--includes", "--null", "--get", name]
        # without a repository, so that no `includeIf` of the user's settings depends on one
        done = subprocess.run(
            argv,
            cwd=os.sep,
            env={**git_environment([]), "GIT_DIR": os.devnull},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (GitError, OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout).rstrip("\0") if done.returncode == 0 else None
