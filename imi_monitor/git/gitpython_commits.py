"""Reads commits with GitPython, for commands that list the commits of many sessions. It never writes.

GitPython takes 49 ms and 9 MB to import and is slower than one git process (20 commits: 5.4 against 3.6 ms), so no hot command
and no part of the dashboard's loop uses it; only the functions import it. Refs are read in process, objects by one
`git cat-file --batch` in the environment of all our git processes, no configuration with includes. Where GitPython fails (names
that are not UTF-8, other ref formats, foreign GIT_* variables), git itself is run.
"""

from __future__ import annotations

import os

from imi_monitor.git.commits import UNALTERED_HISTORY, commit_time, list_commits
from imi_monitor.git.environment import git_environment, git_path
from imi_monitor.git.refs import check_revision, resolve
from imi_monitor.git.runner import Git
from imi_monitor.git.safety import neutral_settings
from imi_monitor.model.commit import Commit
from imi_monitor.model.errors import GitError
from imi_monitor.model.names import is_commit_id
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    import git as gitpython


def recent_commits(common_dir: str, ref: str = "HEAD", limit: int = 20) -> list[Commit]:
    """Return the last commits of a full ref, a full id or the main worktree's HEAD, newest first; none when unborn."""
    check_revision(ref)
    found = _read_with_gitpython(common_dir, ref, limit)
    return _read_with_git(common_dir, ref, limit) if found is None else found


def _read_with_git(common_dir: str, ref: str, limit: int) -> list[Commit]:
    git = Git(common_dir)
    sha = resolve(git, ref)
    if sha is None and ref != "HEAD":
        raise GitError(f"{safe(ref)} does not exist here", code="no-ref")
    return list_commits(git, sha, limit=limit) if sha else []


def _read_with_gitpython(common_dir: str, ref: str, limit: int) -> list[Commit] | None:
    """Return the commits, or None when GitPython cannot read them."""
    env = {**git_environment(neutral_settings(common_dir, common_dir, False)), **UNALTERED_HISTORY}
    # GitPython uses all our variables and passes them to git: one that we would drop could name another repository.
    if any(name.startswith("GIT_") and name not in env and not name.startswith("GIT_PYTHON_") for name in os.environ):
        return None
    gitpython = _import_gitpython()
    unreadable = (gitpython.exc.GitError, gitpython.exc.ODBError, ValueError, TypeError, AssertionError, OSError)
    try:
        repo = gitpython.Repo(common_dir, expand_vars=False)
    except (gitpython.exc.GitError, OSError, ValueError) as problem:
        raise GitError(f"{safe(common_dir)} is not a readable git repository", code="no-repository") from problem
    with repo:
        repo.git.update_environment(**env, GIT_DIR=common_dir)
        try:
            tip = ref if is_commit_id(ref) else gitpython.SymbolicReference.dereference_recursive(repo, ref)
            return [_commit(found) for found in repo.iter_commits(tip, max_count=limit)]
        except unreadable:
            return None


def _import_gitpython() -> ModuleType:
    """Import GitPython, which runs `git version` at once: with our git instead of one that it looks up itself."""
    variable = "GIT_PYTHON_GIT_EXECUTABLE"
    before, os.environ[variable] = os.environ.get(variable), git_path()
    try:
        import git as gitpython
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
    gitpython.Git.GIT_PYTHON_GIT_EXECUTABLE = git_path()  # it may have been imported with another PATH
    return gitpython


def _commit(found: gitpython.Commit) -> Commit:
    return Commit(found.hexsha, str(found.summary), found.author.name or "", commit_time(found.committed_date))
