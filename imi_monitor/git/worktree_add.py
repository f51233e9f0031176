"""Makes a worktree with `git worktree add`, never by force. After a failure it reports what is left for the caller to undo."""

from __future__ import annotations

import os

from imi_monitor.git.layout import linked_worktrees
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.names import branch_problem
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.git.runner import Git

_MEANINGS = (
    ("already checked out at", "checked-out"),
    ("already used by worktree", "checked-out"),
    ("already registered worktree", "registered"),
    ("already exists", "exists"),
)
_MOST_WORKERS = 8  # starting more takes longer than they save


class Leftovers:
    """What a failed attempt left on disk; None where there is nothing."""

    __slots__ = ("admin_dir", "branch", "folder", "path", "sha")

    def __init__(
        self, *, branch: str | None, sha: str | None, path: str | None, admin_dir: str | None, folder: str | None
    ) -> None:
        self.branch = branch  # a new branch, at `sha`
        self.sha = sha
        self.path = path
        self.admin_dir = admin_dir
        self.folder = folder  # the topmost parent folder that was made


class AddFailed(GitError):
    """`git worktree add` failed or was cancelled; `left` is what has to be undone."""

    def __init__(self, cause: GitError, code: str, left: Leftovers) -> None:
        super().__init__(cause.sentence, code=code, stderr=cause.stderr, returncode=cause.returncode)
        self.left = left


def add_worktree(
    git: Git,
    path: str,
    *,
    branch: str | None = None,
    new_branch: str | None = None,
    start: str = "HEAD",
    detach: bool = False,
    at: str | None = None,
    lock: str | None = None,
    timeout: float = 600.0,
    on_progress: Callable[[str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> str:
    """Make a worktree on an existing `branch`, on a `new_branch` from `start`, or with `detach` at `start`.

    `start` is a full ref, a full commit id or HEAD; only a remote branch of the same name becomes the new branch's upstream.
    `at` is the known commit of an existing branch, which saves a git process; `lock` is a reason for locking the worktree from
    the start. Returns the new worktree's admin directory; raises AddFailed.
    """
    path = os.path.abspath(path)
    if os.path.lexists(path):
        raise Refused(f"{safe(path)} already exists: nothing was changed", code="path-exists")
    options: list[str] = []
    if branch is not None and at is not None and new_branch is None and not detach:
        commit, sha = _checked_branch(branch), at
    else:
        options, commit, sha = _checkout_arguments(git, branch, new_branch, start, detach)
    options += ["--lock", f"--reason={lock}"] if lock else []
    folder = _first_missing(os.path.dirname(path))
    try:
        git.run(
            *("worktree", "add", *options, "--", path, commit),
            timeout=timeout,
            on_progress=on_progress,
            cancelled=cancelled,
            env={"GIT_PROGRESS_DELAY": "0"},
            settings=_settings(),
        )
    except GitError as problem:
        codes = [code for words, code in _MEANINGS if words in problem.stderr and problem.code == "git"]
        raise AddFailed(problem, [*codes, problem.code][0], _left(git, path, folder, new_branch, sha)) from problem
    admin = _admin_dir(git, path)
    if admin is None:
        missing = GitError(f"git made no worktree at {safe(path)}, though it reported no error")
        raise AddFailed(missing, "git", _left(git, path, folder, new_branch, sha))
    return admin


def _settings() -> list[tuple[str, str]]:
    """Let several processes write the files of a large tree; git uses one for a small tree."""
    return [("worktree.guessRemote", "false"), ("checkout.workers", str(min(os.cpu_count() or 1, _MOST_WORKERS)))]


def _checked_branch(branch: str) -> str:
    """Return `branch` like `refs.check_branch_name`, whose module takes longer to import than this path may."""
    problem = branch_problem(branch)
    if problem is not None:
        raise UsageError(f"the branch name {safe(branch, 80) or '(empty)'} {problem}", code="bad-name")
    return branch


def _checkout_arguments(
    git: Git, branch: str | None, new: str | None, start: str, detach: bool
) -> tuple[list[str], str, str]:
    """Return git's options, the commit-ish argument, and the commit id it stands for."""
    from imi_monitor.git.refs import branch_sha, check_branch_name, check_revision, resolve

    if (branch is not None) + (new is not None) + detach != 1:
        raise ValueError("exactly one of branch, new_branch and detach")
    if branch is not None:
        sha = branch_sha(git, branch)
        if sha is None:
            raise GitError(f"there is no branch {safe(branch)} here", code="no-ref")
        return [], branch, sha  # the short name, because git would detach HEAD for a full one
    sha = resolve(git, check_revision(start))
    if sha is None:
        raise _no_start(git, start)
    if new is None:
        return ["--detach"], sha, sha
    if branch_sha(git, check_branch_name(new)) is not None:
        raise Refused(f"the branch {safe(new)} already exists: it was not touched", code="branch-exists")
    if start.startswith("refs/remotes/") and start.split("/", 3)[3:] == [new]:
        return ["-b", new, "--track"], start, sha
    return ["-b", new, "--no-track"], sha, sha


def _no_start(git: Git, start: str) -> GitError:
    if start == "HEAD":
        return GitError("the repository has no commit to start from: make a first commit", code="unborn")
    return GitError(f"{safe(start)} does not exist here", code="no-ref")


def _left(git: Git, path: str, folder: str | None, new_branch: str | None, sha: str) -> Leftovers:
    from imi_monitor.git.refs import branch_sha

    made = branch_sha(git, new_branch) if new_branch is not None else None
    return Leftovers(
        branch=new_branch if made == sha else None,
        sha=made if made == sha else None,
        path=path if os.path.lexists(path) else None,
        admin_dir=_admin_dir(git, path),
        folder=folder if folder and os.path.lexists(folder) else None,
    )


def _admin_dir(git: Git, path: str) -> str | None:
    """Return the admin directory of the worktree at `path`, which git may have recorded by its real path."""
    wanted = {path, os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))}
    for linked in linked_worktrees(git.common_dir):
        if linked.path in wanted:
            return linked.admin_dir
    return None


def _first_missing(folder: str) -> str | None:
    """Return the topmost folder that git has to make."""
    missing = None
    while not os.path.lexists(folder):
        missing, folder = folder, os.path.dirname(folder)
    return missing
