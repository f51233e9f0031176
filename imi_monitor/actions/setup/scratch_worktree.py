"""Makes a repository with a worktree in a temporary folder, to find out whether git can do here what imi needs."""

from __future__ import annotations

import os
import tempfile

from imi_monitor.git.environment import git_environment, git_path
from imi_monitor.git.spawn import spawn
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

_TIMEOUT = 20.0
_IDENTITY = {
    "GIT_AUTHOR_NAME": "imi doctor",
    "GIT_AUTHOR_EMAIL": "",
    "GIT_COMMITTER_NAME": "imi doctor",
    "GIT_COMMITTER_EMAIL": "",
}


def find_problem() -> str | None:
    """Return why git cannot make a worktree here; None if it can. The folder is removed again."""
    try:
        with tempfile.TemporaryDirectory(prefix="imi-doctor-", ignore_cleanup_errors=True) as folder:
            main = os.path.join(folder, "main")
            steps = (
                ("init", "-q", main),
                ("-C", main, "commit", "-q", "--allow-empty", "-m", "scratch"),
                ("-C", main, "worktree", "add", "-q", "-b", "scratch", os.path.join(folder, "scratch")),
                ("-C", os.path.join(folder, "scratch"), "status", "--porcelain=v2", "--branch"),
            )
            return next(filter(None, (_failure(step) for step in steps)), None)
    except (OSError, GitError) as error:
        return safe(error.sentence if isinstance(error, GitError) else str(error), 200)


def _failure(words: tuple[str, ...]) -> str | None:
    settings = [("commit.gpgSign", "false"), ("core.hooksPath", os.devnull), ("init.templateDir", "")]
    env = {**git_environment(settings), **_IDENTITY}
    done = spawn([git_path(), *words], env=env, cwd=os.sep, timeout=_TIMEOUT, cap=1 << 16)
    if done.returncode == 0:
        return None
    verb = next(word for word in words if word in ("init", "commit", "worktree", "status"))
    return f"git {verb} failed: {safe(done.stderr.decode('utf-8', 'replace').strip(), 200)}"
