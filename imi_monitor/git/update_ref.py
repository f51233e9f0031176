"""Changes refs by compare-and-swap: the caller gives the expected commit, and a branch that has moved is left alone.

No branch is changed while a worktree has it checked out. Commits that only a purged worktree refers to are kept below
`refs/imi/kept/`: a purge deletes files, never commits.
"""

from __future__ import annotations

import os

from imi_monitor.git.commits import list_commits
from imi_monitor.git.heads import find_name_clash
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


# Keeps a push from running programs and from sending more than the one deletion.
BARE_PUSH = (
    "--porcelain",
    "--no-verify",
    "--no-follow-tags",
    "--no-signed",
    "--recurse-submodules=no",
    "--receive-pack=git-receive-pack",
)


def create_branch(git: Git, name: str, sha: str) -> None:
    """Make a branch; Refused "branch-exists" or "name-clash" if it cannot be new."""
    _update(git, name, check_commit_id(sha), "0" * len(sha))


def move_branch(git: Git, name: str, sha: str, expected_sha: str) -> None:
    """Move a branch that is at `expected_sha` and checked out nowhere to `sha`."""
    _refuse_in_use(git, check_branch_name(name))
    _update(git, name, check_commit_id(sha), check_commit_id(expected_sha))


def delete_branch(git: Git, branch: str, expected_sha: str) -> None:
    """Delete a branch that is at `expected_sha` and checked out nowhere. The caller decides whether that loses work."""
    _refuse_in_use(git, check_branch_name(branch))
    ref, expected = f"refs/heads/{branch}", check_commit_id(expected_sha)
    try:
        git.run("update-ref", "--no-deref", "-d", "--end-of-options", ref, expected)
    except GitError as problem:
        raise _refusal(git, branch, expected, problem) from problem


def delete_remote_branch(git: Git, remote: str, branch: str, expected_sha: str, *, timeout: float = 60.0) -> None:
    """Delete a branch on the remote if it is still at `expected_sha` there; Refused "moved" otherwise."""
    ref, expected = f"refs/heads/{check_branch_name(branch)}", check_commit_id(expected_sha)
    check_remote(git, remote, push=True)
    try:
        git.run(
            "push",
            *BARE_PUSH,
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
            f"{safe(remote)} did not delete {safe(branch)}: it is not at {expected[:10]} there, or is protected",
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
        raise Refused(f"the branch {safe(branch)} is checked out in {where}: nothing was changed", code="checked-out")


def _refusal(git: Git, branch: str, expected: str, problem: GitError) -> GitError | Refused:
    """Return why a compare-and-swap failed, found from the present branches instead of git's message."""
    now = branch_sha(git, branch)
    if now is not None and not expected.strip("0"):
        return Refused(f"the branch {safe(branch)} already exists: it was not touched", code="branch-exists")
    if now is None and expected.strip("0"):
        return Refused(f"the branch {safe(branch)} does not exist any more", code="gone")
    if now is not None and now != expected:
        return Refused(
            f"the branch {safe(branch)} has moved from {expected[:10]} to {now[:10]} meanwhile: nothing was changed",
            code="moved",
        )
    other = find_name_clash(branch, branches(git))
    if other is not None:
        return Refused(f"a branch {safe(branch)} cannot exist beside {safe(other)}", code="name-clash")
    return problem


_KEPT_REFS = "refs/imi/kept"
# The refs from which a commit stays reachable. The admin directory's own refs and logs are deleted with it.
_REACHABLE = ("--not", "--branches", "--tags", "--remotes", f"--glob={_KEPT_REFS}", "--not")
_AUTOSTASHES = ("rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH")


def keep_commits(git: Git, name: str, tips: Sequence[str | None]) -> list[str]:
    """Make refs for these commits and for the autostashes in git's admin directory unless a ref has them; returns the refs."""
    stashed = [read_small(os.path.join(git.admin_dir, autostash)) for autostash in _AUTOSTASHES]
    made: list[str] = []
    for sha in dict.fromkeys([*tips, *stashed]):
        if sha and is_commit_id(sha) and list_commits(git, sha, options=_REACHABLE, limit=1):
            ref = check_ref(f"{_KEPT_REFS}/{name}" + (f"-{len(made)}" if made else ""))
            git.run("update-ref", "--no-deref", "-m", "imi", "--end-of-options", ref, sha)
            made.append(ref)
    return made
