"""Making the worktree of a pull request, by the same way as every other worktree.

What it brings is a stranger's: no hook or filter of the repository runs on it, trusted or not, and the user's own
post_create commands (`npm install`) run only if it comes from the repository itself.

Bringing a review that exists up to what the pull request is now: forward only, and never over anybody's work.

What a reviewer is told: whose pull request it is, where it lies, and how suggestions get back to its author.
"""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.actions import repository_commands, worktree_lookup
from imi_monitor.actions.action import Outcome
from imi_monitor.actions.claims import ownership
from imi_monitor.actions.creation import creation_request, worktree_creation
from imi_monitor.actions.creation.worktree_creation import CreationPlan
from imi_monitor.actions.reviews import review_branch
from imi_monitor.actions.reviews.pull_request_fetch import untrusted_git
from imi_monitor.actions.reviews.review_branch import belongs_to_review
from imi_monitor.git import layout
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.redact import redact
from imi_monitor.model.text import count, safe
from imi_monitor.store import claims, db, events, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Outcome
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.creation_request import CreationRequest
    from imi_monitor.actions.creation.worktree_creation import CreationPlan
    from imi_monitor.actions.reviews.pull_request_fetch import FetchedPullRequest
    from imi_monitor.actions.reviews.review_branch import BranchChoice
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git


KIND = "review"


def create_review(context: Context, wanted: CreationRequest, located: FetchedPullRequest, agent: str) -> Outcome:
    """The worktree, whole or not at all; Refused "busy" while somebody else makes it."""
    git = untrusted_git(wanted.repository)
    creation_request.find_existing(context, wanted)  # refuses what is half made, moved away, or differs only in case
    choice = review_branch.choose_branch(context, git, located)
    plan = _plan(wanted, located, choice, agent)
    context.progress(f"making {plan.name}")
    warnings = [*located.warnings, *worktree_creation.create_worktree(context, git, plan)]
    warnings += review_branch.configure_tracking(git, plan.branch, located, new=plan.new_branch)
    if plan.sha != located.sha:  # the branch of an earlier review, which may lag behind
        warnings += _follow(context, plan, located, agent)
    status, more = _prepare(context, plan, located)
    return _created_outcome(git, plan, located, warnings + more, status)


def _plan(wanted: CreationRequest, located: FetchedPullRequest, choice: BranchChoice, agent: str) -> CreationPlan:
    return CreationPlan(
        repository=wanted.repository,
        kind=KIND,
        name=wanted.name,
        path=wanted.path,
        branch=choice.name,
        sha=choice.sha or located.sha,
        new_branch=choice.sha is None,
        agent=agent,
        shown=located.mention.called,
        base=located.info.base,
        took_over=None if choice.sha is None else "local",
        pr_number=located.mention.number,
        about=located.data(),
    )


def _follow(context: Context, plan: CreationPlan, located: FetchedPullRequest, agent: str) -> list[str]:
    made = next(one for one in worktree_lookup.list_worktrees(context, plan.repository) if one.path == plan.path)
    try:
        done = update_review(context, made, located, agent)
    except Refused as refusal:
        return [refusal.sentence]
    return [_ahead_text(done.ahead, located)] if done.ahead else []


def _prepare(context: Context, plan: CreationPlan, located: FetchedPullRequest) -> tuple[int, list[str]]:
    if located.is_own:
        return repository_commands.run_post_create(context, plan.repository, plan.path, plan.name)
    known_as = context.repo_name(plan.repository) or layout.repository_name(plan.repository)
    if not context.settings.commands(known_as, "post_create"):
        return 0, []
    return 0, ["its post_create commands were not run, because it comes from somebody else's repository: read it first"]


_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class ReviewUpdate:
    """From where to where; `ahead` are the reviewer's commits that the pull request has not."""

    branch: str
    old: str
    new: str
    commits: int
    ahead: int


def update_review(context: Context, found: Target, located: FetchedPullRequest, agent: str) -> ReviewUpdate:
    """Fast-forward the worktree to the pull request's head; Refused says what is in the way."""
    from imi_monitor.git.fast_forward import fast_forward
    from imi_monitor.git.refs import distance, resolve

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
    made = ReviewUpdate(branch, head, located.sha if behind else head, behind, ahead)
    _record(context, found, located, made, agent)
    return made


def _worktree(found: Target) -> tuple[Git, str]:
    """git in the worktree, and the branch checked out there; refuses a place that is not as it should be."""
    from imi_monitor.git.git_status import operation_in_progress

    if found.missing or found.admin_dir is None or (found.linked is not None and found.linked.missing):
        raise _cannot(
            found, "its folder is gone: `imi repair` finds it if it was moved, else `imi prune`", code="missing"
        )
    if found.linked is not None and not layout.points_back(found.admin_dir, found.path):
        raise _cannot(found, "its .git file does not belong to it (tampered with, or a copy)", code="tampered")
    doing = operation_in_progress(found.admin_dir)
    if doing is not None:
        raise _cannot(found, f"a {doing} is in progress there: finish or abort it first", code="operation")
    if found.branch is None:
        raise _cannot(found, "no branch is checked out there (detached HEAD): `git switch` to one", code="detached")
    return untrusted_git(found.repository, found.admin_dir, found.path), found.branch


def _refuse_other_branch(context: Context, git: Git, found: Target, branch: str, located: FetchedPullRequest) -> None:
    """Somebody may have switched: fast-forwarding `main` to a pull request would merge it."""
    own = found.row.branch if found.row is not None else None
    if branch != own and not belongs_to_review(context, git, branch, located):
        wanted = f": `git switch {safe(own)}` there first" if own else ""
        raise _cannot(
            found, f"it has {safe(branch)} checked out, which is not the pull request's{wanted}", code="branch"
        )


def _refuse_diverged(found: Target, located: FetchedPullRequest, ahead: int, behind: int) -> None:
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
    from imi_monitor.git.git_status import read_status
    from imi_monitor.git.refs import changed_files

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


def remote_unavailable(found: Target, problem: GitError) -> Refused:
    """The remote could not be asked; what is here is still there."""
    return _cannot(found, f"the remote could not be asked: {problem.sentence}", code=problem.code)


def _record(context: Context, found: Target, located: FetchedPullRequest, made: ReviewUpdate, agent: str) -> None:
    """The event, and a row for a worktree that was made by hand. A repeated look at nothing new leaves no trace."""
    if made.commits or found.row is None or found.row.pr_number is None:
        db.transact(context.connection, _write, context, found, located, made, agent)


def _write(
    connection: sqlite3.Connection,
    context: Context,
    found: Target,
    located: FetchedPullRequest,
    made: ReviewUpdate,
    agent: str,
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


def _created_outcome(
    git: Git, plan: CreationPlan, located: FetchedPullRequest, warnings: list[str], status: int
) -> Outcome:
    """A worktree that was just made."""
    kept = ", which stood here already" if plan.took_over else ""
    line = f"made {safe(plan.name)} on {safe(plan.branch)}{kept}"
    earlier = review_branch.earlier_branches(git, plan.branch, located)
    head = located.info.head or plan.branch
    if head in earlier:
        line += f", because {safe(head)} of an earlier review went another way"
    elif head != plan.branch:
        line += f", because {safe(head)} is something else here"
    warnings = [*warnings, *(_left(name, number, located) for name, number in earlier.items())]
    data = _data(located, plan.name, plan.path, plan.branch, line) | {"created": True, "updated": 0}
    return _outcome(git, located, plan.branch, line, data, warnings, plan.path, status)


def updated_outcome(
    git: Git, found: Target, located: FetchedPullRequest, done: ReviewUpdate, warnings: list[str]
) -> Outcome:
    """A worktree that was there."""
    if done.commits:
        line = f"{safe(found.name)} moved forward by {count(done.commits, 'commit')} to {done.new[:10]}"
    else:
        line = f"{safe(found.name)} is up to date"
    if done.ahead:
        line += f"; {_ahead_text(done.ahead, located)}"
    data = _data(located, found.name, found.path, done.branch, line)
    data |= {"created": False, "updated": done.commits, "ahead": done.ahead}
    return _outcome(git, located, done.branch, line, data, warnings, found.path, 0)


def _ahead_text(number: int, located: FetchedPullRequest) -> str:
    return f"it has {count(number, 'commit')} that {located.mention.called} has not yet"


def _left(branch: str, number: int, located: FetchedPullRequest) -> str:
    return f"{safe(branch)} of an earlier review stays: it has {count(number, 'commit')} that {located.mention.called} has not"


def _data(located: FetchedPullRequest, name: str, path: str, branch: str, line: str) -> dict[str, object]:
    return {
        "worktree_path": path,
        "worktree_name": name,
        "branch": branch,
        "commit": located.sha,
        "type": "review",
        "message": line,
        **located.data(),
    }


def _outcome(
    git: Git,
    located: FetchedPullRequest,
    branch: str,
    line: str,
    data: dict[str, object],
    warnings: list[str],
    path: str,
    status: int,
) -> Outcome:
    follows = review_branch.is_tracking(git, branch, located.tracking)
    command = located.tracking.push_command(branch, follows=follows)
    push = None if command is None else redact(command)
    lines = [*_titled(located), line, f"send suggestions back: {safe(push)}" if push else _no_way_back(located)]
    return Outcome(lines, {**data, "push": push}, path=path, warnings=warnings, exit_status=status)


def _no_way_back(located: FetchedPullRequest) -> str:
    if located.info.is_fork and located.info.can_modify is False:
        return "its author does not let reviewers push to the fork"
    return "where suggestions would be pushed to is not known: it is not a branch of this repository"


def _titled(located: FetchedPullRequest) -> list[str]:
    """`pull request 123: Add login (alice, into main)`, as far as it is known."""
    info = located.info
    state = info.state.lower() if info.state and info.state != "OPEN" else ""
    about = ", ".join(filter(None, (info.author, f"into {info.base}" if info.base else "", state)))
    if not info.title and not about:
        return []
    title = f": {safe(info.title, 200)}" if info.title else ""
    return [f"{located.mention.called}{title}{f' ({safe(about)})' if about else ''}"]
