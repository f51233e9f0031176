"""Deleting the branch of a removed worktree: only on request, and only with a proof that it is merged.

Planned before anything changes and carried out after the worktree is in the trash, by compare-and-swap: a branch that moved
in between stays. `imi undo` recreates a deleted branch at its old commit.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.removal.inspection import WorktreeInspection
    from imi_monitor.git.runner import Git


@dataclass(frozen=True, slots=True)
class BranchDeletion:
    """The branches to delete and their commits; None for those not requested."""

    branch: str | None = None
    sha: str | None = None
    remote: str | None = None
    remote_branch: str | None = None
    remote_sha: str | None = None
    proof: str | None = None


class BranchDeletionResult:
    """What was deleted, and what failed."""

    def __init__(self) -> None:
        self.local = False
        self.remote = False
        self.lines: list[str] = []
        self.problems: list[str] = []


def plan_branch_deletion(inspected: WorktreeInspection, *, delete: bool, remote: str | None) -> BranchDeletion:
    """The requested deletions; Refused if any of them is not allowed, before anything is changed."""
    if not delete and remote is None:
        return BranchDeletion()
    status, git = inspected.status, inspected.git
    if status is None or git is None or status.branch is None or status.oid is None:
        raise Refused(f"{safe(inspected.found.name)} is on no branch, so there is none to delete", code="no-branch")
    _refuse_users(git, inspected, status.branch)
    proof = _proof(inspected, git, status.oid, status.branch) if delete else None
    named, sha = _remote_branch(inspected, git, status.branch, remote) if remote else (None, None)
    return BranchDeletion(status.branch if delete else None, status.oid if delete else None, remote, named, sha, proof)


def describe_branch_deletion(deletion: BranchDeletion) -> list[str]:
    lines = []
    if deletion.branch:
        lines.append(f"would delete branch {safe(deletion.branch)}, which is merged ({deletion.proof})")
    if deletion.remote:
        lines.append(f"would delete {safe(deletion.remote_branch or '')} on {safe(deletion.remote)}")
    return lines


def delete_branches(git: Git, deletion: BranchDeletion) -> BranchDeletionResult:
    """Delete the branches. A failure is reported in the result; the worktree stays in the trash."""
    result = BranchDeletionResult()
    if deletion.branch is None and deletion.remote is None:
        return result
    from imi_monitor.git import update_ref

    try:
        if deletion.branch and deletion.sha:
            update_ref.delete_branch(git, deletion.branch, deletion.sha)
            result.local = True
            result.lines.append(
                f"deleted branch {safe(deletion.branch)} (it was {deletion.sha[:10]}, merged: {deletion.proof})"
            )
        if deletion.remote and deletion.remote_branch and deletion.remote_sha:
            update_ref.delete_remote_branch(git, deletion.remote, deletion.remote_branch, deletion.remote_sha)
            result.remote = True
            result.lines.append(
                f"deleted {safe(deletion.remote_branch)} on {safe(deletion.remote)} (it was {deletion.remote_sha[:10]})"
            )
    except ImiError as error:
        result.problems.append(f"the worktree is in the trash, but {error.sentence}")
    return result


def _proof(inspected: WorktreeInspection, git: Git, sha: str, what: str) -> str:
    """How the commit is proven to be in the trunk; Refused without a proof."""
    from imi_monitor.git import merge_proof

    base = inspected.trunk_ref
    proof = merge_proof.merge_proof(git, sha, base) if base else None
    if proof is None:
        seen = (base or "").removeprefix("refs/remotes/").removeprefix("refs/heads/")
        trunk = safe(seen or inspected.trunk or "the trunk")
        raise Refused(
            advised(
                f"branch {safe(what)} is not proven to be merged into {trunk}, so it is not deleted, and nothing was done",
                "leave out --delete-branch and --delete-remote to keep it",
                "keep the branch",
            ),
            code="not-merged",
        )
    return proof


def _refuse_users(git: Git, inspected: WorktreeInspection, branch: str) -> None:
    from imi_monitor.git.worktree_list import worktrees_using_branch

    others = [path for path in worktrees_using_branch(git, branch) if path != inspected.found.path]
    if others:
        raise Refused(
            f"branch {safe(branch)} is checked out in {safe(others[0])} too: nothing was done", code="checked-out"
        )


def _remote_branch(inspected: WorktreeInspection, git: Git, branch: str, remote: str) -> tuple[str, str]:
    """The branch's name on the remote and its commit at the last fetch, which must be merged too."""
    from imi_monitor.git import refs

    upstream = refs.tracking(git)[branch].upstream or ""
    room = f"refs/remotes/{refs.check_remote_name(remote)}/"
    named = upstream.removeprefix(room) if upstream.startswith(room) else branch
    if named == inspected.trunk:
        raise Refused(f"{safe(named)} is the trunk on {safe(remote)}: nothing was done", code="trunk")
    sha = refs.remote_branches(git, remote).get(named)
    if sha is None:
        raise Refused(
            f"{safe(remote)} has no fetched branch {safe(named)}: fetch first; nothing was done", code="no-branch"
        )
    _proof(inspected, git, sha, f"{remote}/{named}")
    return named, sha
