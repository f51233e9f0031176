"""What becomes of the branch of a removed worktree. Nothing, unless it was asked for; and then only with a proof.

Decided before anything is touched, carried out when the worktree is gone, each by compare-and-swap: a branch that moved in
between stays, and `imi undo` makes a deleted one again at the commit it had.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.removal.inspection import WorktreeInspection
    from imi_monitor.git.runner import Git


@dataclass(frozen=True, slots=True)
class BranchDeletion:
    """What is to be deleted, and where each was seen; None: not asked for."""

    branch: str | None = None
    sha: str | None = None
    remote: str | None = None
    remote_branch: str | None = None
    remote_sha: str | None = None
    proof: str | None = None


@dataclass
class BranchDeletionResult:
    """What came of it."""

    local: bool = False
    remote: bool = False
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def plan_branch_deletion(look: WorktreeInspection, *, delete: bool, remote: str | None) -> BranchDeletion:
    """What may be deleted of what was asked for; Refused if any of it may not, so that nothing at all is done then."""
    if not delete and remote is None:
        return BranchDeletion()
    status, git = look.status, look.git
    if status is None or git is None or status.branch is None or status.oid is None:
        raise Refused(f"{safe(look.found.name)} is on no branch that could be deleted", code="no-branch")
    _refuse_users(git, look, status.branch)
    proof = _proof(look, git, status.oid, status.branch) if delete else None
    named, sha = _remote_branch(look, git, status.branch, remote) if remote else (None, None)
    return BranchDeletion(status.branch if delete else None, status.oid if delete else None, remote, named, sha, proof)


def describe_branch_deletion(fate: BranchDeletion) -> list[str]:
    lines = []
    if fate.branch:
        lines.append(f"would delete branch {safe(fate.branch)}, which is merged ({fate.proof})")
    if fate.remote:
        lines.append(f"would delete {safe(fate.remote_branch or '')} on {safe(fate.remote)}")
    return lines


def delete_branches(git: Git, fate: BranchDeletion) -> BranchDeletionResult:
    """Delete what was decided on. A failure here is told, and undoes nothing: the worktree is in the trash."""
    from imi_monitor.git import update_ref

    done = BranchDeletionResult()
    try:
        if fate.branch and fate.sha:
            update_ref.delete_branch(git, fate.branch, fate.sha)
            done.local = True
            done.lines.append(f"deleted branch {safe(fate.branch)} (it was {fate.sha[:10]}, merged: {fate.proof})")
        if fate.remote and fate.remote_branch and fate.remote_sha:
            update_ref.delete_remote_branch(git, fate.remote, fate.remote_branch, fate.remote_sha)
            done.remote = True
            done.lines.append(
                f"deleted {safe(fate.remote_branch)} on {safe(fate.remote)} (it was {fate.remote_sha[:10]})"
            )
    except ImiError as error:
        done.problems.append(f"the worktree is in the trash, but {error.sentence}")
    return done


def _proof(look: WorktreeInspection, git: Git, sha: str, what: str) -> str:
    """How the commit is known to be in the trunk; Refused when it is not."""
    from imi_monitor.git import merge_proof

    base = look.trunk_ref
    proof = merge_proof.merge_proof(git, sha, base) if base else None
    if proof is None:
        seen = (base or "").removeprefix("refs/remotes/").removeprefix("refs/heads/")  # where it was looked for
        trunk = safe(seen or look.trunk or "the trunk")
        raise Refused(
            f"branch {safe(what)} is not proven to be merged into {trunk}, so it is not deleted, and nothing was done: "
            "leave out --delete-branch and --delete-remote, and it is kept",
            code="not-merged",
        )
    return proof


def _refuse_users(git: Git, look: WorktreeInspection, branch: str) -> None:
    from imi_monitor.git.worktree_list import worktrees_using_branch

    others = [path for path in worktrees_using_branch(git, branch) if path != look.found.path]
    if others:
        raise Refused(
            f"branch {safe(branch)} is checked out in {safe(others[0])} too: nothing was done", code="checked-out"
        )


def _remote_branch(look: WorktreeInspection, git: Git, branch: str, remote: str) -> tuple[str, str]:
    """The branch's name on the remote and where it was at the last fetch, which is also what must be merged."""
    from imi_monitor.git import refs

    upstream = refs.tracking(git)[branch].upstream or ""
    room = f"refs/remotes/{refs.check_remote_name(remote)}/"
    named = upstream.removeprefix(room) if upstream.startswith(room) else branch
    if named == look.trunk:
        raise Refused(f"{safe(named)} is the trunk on {safe(remote)}: nothing was done", code="trunk")
    sha = refs.remote_branches(git, remote).get(named)
    if sha is None:
        raise Refused(
            f"{safe(remote)} has no branch {safe(named)} as far as is known: fetch first; nothing was done",
            code="no-branch",
        )
    _proof(look, git, sha, f"{remote}/{named}")
    return named, sha
