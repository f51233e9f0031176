"""Changing branches, always by compare-and-swap: the caller says where it saw the branch, and if that is not where it
is now, nothing happens. No branch is ever touched while a worktree has it checked out.

Commits that nothing but a purged worktree still knew, kept under `refs/imi/kept/`: purging frees files, never commits.
"""

from __future__ import annotations

import os

from imi_monitor.git.commits import list_commits
from imi_monitor.git.layout import read_small
from imi_monitor.git.refs import branch_sha, branches, check_branch_name, check_commit_id, check_ref
from imi_monitor.git.remotes import ONLY_ALLOWED, check_remote, classify_failure
from imi_monitor.git.worktree_list import worktrees_using_branch
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.names import is_commit_id
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.runner import Git


# What a push could start or send along besides the one deletion.
_BARE_PUSH = (
    "--porcelain",
    "--no-verify",
    "--no-follow-tags",
    "--no-signed",
    "--recurse-submodules=no",
    "--receive-pack=git-receive-pack",
)


def create_branch(git: Git, name: str, sha: str) -> None:
    """Make a branch that does not exist yet; Refused "branch-exists" or "name-clash" otherwise."""
    _update(git, name, check_commit_id(sha), "0" * len(sha))


def move_branch(git: Git, name: str, sha: str, expected_sha: str) -> None:
    """Set a branch that stands at `expected_sha` and is checked out nowhere to `sha`."""
    _refuse_in_use(git, check_branch_name(name))
    _update(git, name, check_commit_id(sha), check_commit_id(expected_sha))


def delete_branch(git: Git, branch: str, expected_sha: str) -> None:
    """Delete a branch that stands at `expected_sha` and is checked out nowhere; whether it may go is the caller's
    question (`proofs.merge_proof`)."""
    _refuse_in_use(git, check_branch_name(branch))
    ref, expected = f"refs/heads/{branch}", check_commit_id(expected_sha)
    try:
        git.run("update-ref", "--no-deref", "-d", "--end-of-options", ref, expected)
    except GitError as problem:
        raise _refusal(git, branch, expected, problem) from problem


def delete_remote_branch(git: Git, remote: str, branch: str, expected_sha: str, *, timeout: float = 60.0) -> None:
    """Delete a branch on the remote if it still stands at `expected_sha` there; Refused "moved" otherwise."""
    ref, expected = f"refs/heads/{check_branch_name(branch)}", check_commit_id(expected_sha)
    check_remote(git, remote, push=True)
    try:
        git.run(
            "push",
            *_BARE_PUSH,
            f"--force-with-lease={ref}:{expected}",
            "--delete",
            "--",
            remote,
            ref,
            timeout=timeout,
            env=ONLY_ALLOWED,
        )
    except GitError as problem:
        if "failed to push" not in problem.stderr:
            raise classify_failure(problem, remote) from problem
        raise Refused(
            f"{safe(remote)} did not delete {safe(branch)}: it is not at {expected[:10]} there, or may not go",
            code="moved",
            details=problem.stderr.splitlines(),
        ) from problem


def _update(git: Git, name: str, sha: str, expected: str) -> None:
    ref = f"refs/heads/{check_branch_name(name)}"
    try:
        git.run("update-ref", "--no-deref", "-m", "imi", "--end-of-options", ref, sha, expected)
    except GitError as problem:
        raise _refusal(git, name, expected, problem) from problem


def _refuse_in_use(git: Git, branch: str) -> None:
    users = worktrees_using_branch(git, branch)
    if users:
        where = ", ".join(safe(path) for path in users)
        raise Refused(f"the branch {safe(branch)} is in use in {where}: nothing was done", code="checked-out")


def _refusal(git: Git, branch: str, expected: str, problem: GitError) -> GitError | Refused:
    """Why a compare-and-swap did not happen, told by how things are now rather than by git's wording."""
    now = branch_sha(git, branch)
    if now is not None and not expected.strip("0"):
        return Refused(f"there is a branch {safe(branch)} already: it was not touched", code="branch-exists")
    if now is None and expected.strip("0"):
        return Refused(f"there is no branch {safe(branch)} any more", code="gone")
    if now is not None and now != expected:
        return Refused(
            f"the branch {safe(branch)} has moved from {expected[:10]} to {now[:10]} meanwhile: nothing was done",
            code="moved",
        )
    for other in branches(git):
        if other.startswith(branch + "/") or branch.startswith(other + "/"):
            return Refused(f"a branch {safe(branch)} cannot be beside {safe(other)}", code="name-clash")
    return problem


_ROOM = "refs/imi/kept"
# What git would look at to find a commit again. The admin directory's own refs and logs go away with it.
_KNOWN = ("--not", "--branches", "--tags", "--remotes", f"--glob={_ROOM}", "--not")
_AUTOSTASHES = ("rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH")


def keep_commits(git: Git, name: str, tips: Sequence[str | None]) -> list[str]:
    """Give refs to these commits and to the half-done stashes of git's admin directory, where no ref has them; the refs."""
    stashed = [read_small(os.path.join(git.admin_dir, autostash)) for autostash in _AUTOSTASHES]
    made: list[str] = []
    for sha in dict.fromkeys([*tips, *stashed]):
        if sha and is_commit_id(sha) and list_commits(git, sha, options=_KNOWN, limit=1):
            ref = check_ref(f"{_ROOM}/{name}" + (f"-{len(made)}" if made else ""))
            git.run("update-ref", "--no-deref", "-m", "imi", "--end-of-options", ref, sha)
            made.append(ref)
    return made
