"""Bringing a review that exists up to what the pull request is now: forward only, and never over anybody's work."""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.actions.claims import ownership
from imi_monitor.actions.reviews.located import strangers_git
from imi_monitor.actions.reviews.review_branch import fits
from imi_monitor.git import layout
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import count, safe
from imi_monitor.store import claims, db, events, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.reviews.located import Located
    from imi_monitor.actions.target import Target
    from imi_monitor.git.run import Git

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Updated:
    """From where to where; `ahead` are the reviewer's commits that the pull request has not."""

    branch: str
    old: str
    new: str
    commits: int
    ahead: int


def update(context: Context, found: Target, located: Located, agent: str) -> Updated:
    """Fast-forward the worktree to the pull request's head; Refused says what is in the way."""
    from imi_monitor.git.distance import distance
    from imi_monitor.git.merge import fast_forward
    from imi_monitor.git.refs import resolve

    git, branch = _worktree(found)
    _refuse_other_branch(context, git, found, branch, located)
    head = resolve(git, "HEAD")
    if head is None:
        raise _cannot(found, f"its branch {safe(branch)} has no commit", code="unborn")
    ahead, behind = distance(git, head, located.sha)
    if behind:
        _refuse_diverged(found, located, ahead, behind)
        _refuse_claimed(context, found, agent)
        _refuse_dirty(git, found, head, located.sha)
        context.progress(f"taking {count(behind, 'new commit')} into {found.name}")
        try:
            fast_forward(git, located.sha)
        except Refused as refusal:  # somebody was quicker than our look
            raise _cannot(found, refusal.sentence, code=refusal.code, details=refusal.details) from refusal
    made = Updated(branch, head, located.sha if behind else head, behind, ahead)
    _record(context, found, located, made, agent)
    return made


def _worktree(found: Target) -> tuple[Git, str]:
    """git in the worktree, and the branch checked out there; refuses a place that is not as it should be."""
    from imi_monitor.git.status import operation

    if found.missing or found.admin_dir is None or (found.linked is not None and found.linked.missing):
        raise _cannot(
            found, "its folder is gone: `imi repair` finds it if it was moved, else `imi prune`", code="missing"
        )
    if found.linked is not None and not layout.points_back(found.admin_dir, found.path):
        raise _cannot(found, "its .git file does not belong to it (tampered with, or a copy)", code="tampered")
    doing = operation(found.admin_dir)
    if doing is not None:
        raise _cannot(found, f"a {doing} is in progress there: finish or abort it first", code="operation")
    if found.branch is None:
        raise _cannot(found, "no branch is checked out there (detached HEAD): `git switch` to one", code="detached")
    return strangers_git(found.repository, found.admin_dir, found.path), found.branch


def _refuse_other_branch(context: Context, git: Git, found: Target, branch: str, located: Located) -> None:
    """Somebody may have switched: fast-forwarding `main` to a pull request would merge it."""
    own = found.row.branch if found.row is not None else None
    if branch != own and not fits(context, git, branch, located):
        wanted = f": `git switch {safe(own)}` there first" if own else ""
        raise _cannot(
            found, f"it has {safe(branch)} checked out, which is not the pull request's{wanted}", code="branch"
        )


def _refuse_diverged(found: Target, located: Located, ahead: int, behind: int) -> None:
    if ahead:
        raise _cannot(
            found,
            f"it has {count(ahead, 'commit')} of its own, and {located.mention.called} has {count(behind, 'new one')}: "
            "rebase or merge there by hand",
            code="diverged",
            data={"ahead": ahead, "behind": behind},
        )


def _refuse_claimed(context: Context, found: Target, agent: str) -> None:
    claim = ownership.claim_of(context, found)
    if claim is None or claim.agent_id in (None, agent) or claims.state(claim) == "dead":
        return
    raise _cannot(found, f"{ownership.held_by(claim)}: ask them to run `imi review` again", code="claimed")


def _refuse_dirty(git: Git, found: Target, head: str, sha: str) -> None:
    from imi_monitor.git.distance import changed_files
    from imi_monitor.git.status import read_status

    changed = changed_files(git, head, sha)
    status = read_status(git)
    touched = {path for entry in status.entries for path in (entry.path, entry.origin) if path is not None}
    in_the_way = sorted(changed & touched)
    if in_the_way:
        named = ", ".join(map(safe, in_the_way[:_MOST_NAMED])) + (", …" if len(in_the_way) > _MOST_NAMED else "")
        raise _cannot(
            found,
            f"{count(len(in_the_way), 'uncommitted file is', 'uncommitted files are')} in the way ({named}): commit or "
            "stash them there first",
            code="dirty",
            data={"files": [safe(path) for path in in_the_way]},
        )


def _cannot(
    found: Target, why: str, *, code: str, details: tuple[str, ...] = (), data: dict[str, object] | None = None
) -> Refused:
    return Refused(
        f"{safe(found.name)} stays as it is, {why}",
        code=code,
        details=[*details, f"it is in {safe(found.path)}"],
        data={"worktree_path": found.path, "worktree_name": found.name, **(data or {})},
    )


def unasked(found: Target, problem: GitError) -> Refused:
    """The remote could not be asked; what is here is still there."""
    return _cannot(found, f"the remote could not be asked: {problem.sentence}", code=problem.code)


def _record(context: Context, found: Target, located: Located, made: Updated, agent: str) -> None:
    """The event, and a row for a worktree that was made by hand. A repeated look at nothing new leaves no trace."""
    if made.commits or found.row is None or found.row.pr_number is None:
        db.transact(context.connection, _write, context, found, located, made, agent)


def _write(
    connection: sqlite3.Connection, context: Context, found: Target, located: Located, made: Updated, agent: str
) -> None:
    repo_name = found.repo_name or context.register(found.repository, connection)
    row = found.row
    if row is None or row.pr_number is None:
        worktrees.register(
            connection,
            repo_name,
            found.name,
            branch=made.branch,
            kind=row.type if row is not None else "review",
            path=found.path,
            base_branch=(row.base_branch if row is not None else None) or located.info.base,
            pr_number=located.mention.number,
        )
    events.record(
        connection,
        "worktree.updated",
        repo_name,
        found.name,
        agent_id=agent,
        data={"from": made.old, "to": made.new, "commits": made.commits, **located.data()},
    )
