"""Creating and updating the worktree of a pull request, and the report to the reviewer.

Its content is untrusted: no hook or filter of the repository runs on it, and the user's post_create commands (`npm install`)
run only if it comes from the repository itself. An update only fast-forwards and never touches uncommitted or own work.
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
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.redact import redact
from imi_monitor.model.text import count, safe
from imi_monitor.store import claims, db, events, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.creation_request import CreationRequest
    from imi_monitor.actions.reviews.pull_request_fetch import FetchedPullRequest
    from imi_monitor.actions.reviews.review_branch import BranchChoice
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git


KIND = "review"
NOT_ALLOWED = "suggestions cannot be pushed: the author does not allow reviewers to push to the fork"


def create_review(context: Context, wanted: CreationRequest, pull_request: FetchedPullRequest, agent: str) -> Outcome:
    """Create the worktree, whole or not at all; Refused "busy" while another process creates it."""
    git = untrusted_git(wanted.repository)
    creation_request.find_existing(context, wanted)  # refuses an incomplete, missing or case-twin worktree
    choice = review_branch.choose_branch(context, git, pull_request)
    plan = _plan(wanted, pull_request, choice, agent)
    context.progress(f"creating {plan.name}")
    warnings = [*pull_request.warnings, *worktree_creation.create_worktree(context, git, plan)]
    warnings += review_branch.configure_tracking(git, plan.branch, pull_request, new=plan.new_branch)
    if plan.sha != pull_request.sha:  # the branch of an earlier review may be behind
        warnings += _follow(context, plan, pull_request, agent)
    status, more = _prepare(context, plan, pull_request)
    return _created_outcome(git, plan, pull_request, warnings + more, status)


def _plan(wanted: CreationRequest, pull_request: FetchedPullRequest, choice: BranchChoice, agent: str) -> CreationPlan:
    return CreationPlan(
        repository=wanted.repository,
        kind=KIND,
        name=wanted.name,
        path=wanted.path,
        branch=choice.name,
        sha=choice.sha or pull_request.sha,
        new_branch=choice.sha is None,
        agent=agent,
        shown=pull_request.mention.called,
        base=pull_request.info.base,
        took_over=None if choice.sha is None else "local",
        pr_number=pull_request.mention.number,
        about=pull_request.data(),
    )


def _follow(context: Context, plan: CreationPlan, pull_request: FetchedPullRequest, agent: str) -> list[str]:
    review = next(one for one in worktree_lookup.list_worktrees(context, plan.repository) if one.path == plan.path)
    try:
        done = update_review(context, review, pull_request, agent)
    except Refused as refusal:
        return [refusal.sentence]
    return [_ahead_text(done.ahead, pull_request)] if done.ahead else []


def _prepare(context: Context, plan: CreationPlan, pull_request: FetchedPullRequest) -> tuple[int, list[str]]:
    if pull_request.is_own:
        return repository_commands.run_post_create(context, plan.repository, plan.path, plan.name)
    known_as = context.repo_name(plan.repository) or layout.repository_name(plan.repository)
    if not context.settings.commands(known_as, "post_create"):
        return 0, []
    return 0, [
        "post_create commands were not run, because the pull request comes from another repository: read it first"
    ]


_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class ReviewUpdate:
    """The old and new commit; `ahead` counts the reviewer's commits that the pull request lacks."""

    branch: str
    old: str
    new: str
    commits: int
    ahead: int


def update_review(context: Context, found: Target, pull_request: FetchedPullRequest, agent: str) -> ReviewUpdate:
    """Fast-forward the worktree to the pull request's head; Refused names the obstacle."""
    from imi_monitor.git.fast_forward import fast_forward
    from imi_monitor.git.refs import distance, resolve

    git, branch = _worktree(found)
    _refuse_other_branch(context, git, found, branch, pull_request)
    head = resolve(git, "HEAD")
    if head is None:
        raise _cannot(found, f"its branch {safe(branch)} has no commit", code="unborn")
    ahead, behind = distance(git, head, pull_request.sha)
    if behind:
        _refuse_diverged(found, pull_request, ahead, behind)
        _refuse_claimed(context, found, agent)
        _refuse_dirty(git, found, head, pull_request.sha)
        context.progress(f"taking {count(behind, 'new commit')} into {found.name}")
        try:
            fast_forward(git, pull_request.sha)
        except Refused as refusal:  # the worktree changed since the checks
            raise _cannot(found, refusal.sentence, code=refusal.code, details=refusal.details) from refusal
    update = ReviewUpdate(branch, head, pull_request.sha if behind else head, behind, ahead)
    _record(context, found, pull_request, update, agent)
    return update


def _worktree(found: Target) -> tuple[Git, str]:
    """git in the worktree and its branch; Refused for a missing, tampered or detached worktree."""
    from imi_monitor.git.git_status import operation_in_progress

    if found.missing or found.admin_dir is None or (found.linked is not None and found.linked.missing):
        raise _cannot(found, "its folder is gone: run `imi repair` if it was moved, else `imi prune`", code="missing")
    if found.linked is not None and not layout.points_back(found.admin_dir, found.path):
        raise _cannot(found, "its .git file does not belong to it (tampered with, or a copy)", code="tampered")
    in_progress = operation_in_progress(found.admin_dir)
    if in_progress is not None:
        raise _cannot(found, f"a {in_progress} is in progress there: finish or abort it first", code="operation")
    if found.branch is None:
        raise _cannot(found, "no branch is checked out there (detached HEAD): `git switch` to one", code="detached")
    return untrusted_git(found.repository, found.admin_dir, found.path), found.branch


def _refuse_other_branch(
    context: Context, git: Git, found: Target, branch: str, pull_request: FetchedPullRequest
) -> None:
    """Refuse another branch: fast-forwarding `main`, say, to a pull request would merge it.

    The branch in the row is the pull request's if the name of the worktree is a number; the branch of a fork is compared.
    """
    own = found.row.branch if found.row is not None and pull_request.mention.number is not None else None
    if branch != own and not belongs_to_review(context, git, branch, pull_request):
        wanted = f": `git switch {safe(own)}` there first" if own else ""
        raise _cannot(
            found, f"it has {safe(branch)} checked out, which is not the pull request's{wanted}", code="branch"
        )


def _refuse_diverged(found: Target, pull_request: FetchedPullRequest, ahead: int, behind: int) -> None:
    if ahead:
        raise _cannot(
            found,
            f"it has {count(ahead, 'commit')} of its own, and {pull_request.mention.called} has {count(behind, 'new one')}: "
            "rebase or merge there yourself",
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
    """The refusal to update while the remote cannot be reached."""
    return _cannot(found, f"the remote could not be reached: {problem.sentence}", code=problem.code)


def _record(context: Context, found: Target, pull_request: FetchedPullRequest, made: ReviewUpdate, agent: str) -> None:
    """Record the event, and a row for a worktree created by plain git; without new commits nothing is recorded."""
    if made.commits or found.row is None or found.row.pr_number is None:
        db.transact(context.connection, _write, context, found, pull_request, made, agent)


def _write(
    connection: sqlite3.Connection,
    context: Context,
    found: Target,
    pull_request: FetchedPullRequest,
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
            base_branch=(row.base_branch if row is not None else None) or pull_request.info.base,
            pr_number=pull_request.mention.number,
        )
    events.record(
        connection,
        "worktree.updated",
        repo_name,
        found.name,
        agent_id=agent,
        data={"from": made.old, "to": made.new, "commits": made.commits, **pull_request.data()},
    )


def _created_outcome(
    git: Git, plan: CreationPlan, pull_request: FetchedPullRequest, warnings: list[str], status: int
) -> Outcome:
    """The outcome for a new worktree."""
    kept = ", which existed already" if plan.took_over else ""
    line = f"made {safe(plan.name)} on {safe(plan.branch)}{kept}"
    earlier = review_branch.earlier_branches(git, plan.branch, pull_request)
    head = pull_request.info.head or plan.branch
    if head in earlier:
        line += f", because {safe(head)} of an earlier review has diverged"
    elif head != plan.branch:
        line += f", because {safe(head)} is another branch here"
    warnings = [*warnings, *(_left(name, number, pull_request) for name, number in earlier.items())]
    data = _data(pull_request, plan.name, plan.path, plan.branch, line) | {"created": True, "updated": 0}
    return _outcome(git, pull_request, plan.branch, line, data, warnings, plan.path, status)


def updated_outcome(
    git: Git, found: Target, pull_request: FetchedPullRequest, done: ReviewUpdate, warnings: list[str]
) -> Outcome:
    """The outcome for an existing worktree."""
    if done.commits:
        line = f"{safe(found.name)} moved forward by {count(done.commits, 'commit')} to {done.new[:10]}"
    else:
        line = f"{safe(found.name)} is up to date"
    if done.ahead:
        line += f"; {_ahead_text(done.ahead, pull_request)}"
    data = _data(pull_request, found.name, found.path, done.branch, line)
    data |= {"created": False, "updated": done.commits, "ahead": done.ahead}
    return _outcome(git, pull_request, done.branch, line, data, warnings, found.path, 0)


def _ahead_text(number: int, pull_request: FetchedPullRequest) -> str:
    return f"it has {count(number, 'local commit')} not yet in {pull_request.mention.called}"


def _left(branch: str, number: int, pull_request: FetchedPullRequest) -> str:
    return f"{safe(branch)} of an earlier review stays: {_ahead_text(number, pull_request)}"


def _data(pull_request: FetchedPullRequest, name: str, path: str, branch: str, line: str) -> dict[str, object]:
    return {
        "worktree_path": path,
        "worktree_name": name,
        "branch": branch,
        "commit": pull_request.sha,
        "type": "review",
        "message": line,
        **pull_request.data(),
    }


def _outcome(
    git: Git,
    pull_request: FetchedPullRequest,
    branch: str,
    line: str,
    data: dict[str, object],
    warnings: list[str],
    path: str,
    status: int,
) -> Outcome:
    follows = review_branch.is_tracking(git, branch, pull_request.tracking)
    command = pull_request.tracking.push_command(branch, follows=follows)
    push = None if command is None else redact(command)
    way = _no_way_back(pull_request)
    if push:
        place = f"suggestions go to {safe(pull_request.tracking.merge.removeprefix('refs/heads/'))}"
        way = advised("", f"send suggestions back: {safe(push)}", f"{place}: P pushes them")
    lines = [*_titled(pull_request), line, way]
    return Outcome(lines, {**data, "push": push}, path=path, warnings=warnings, exit_status=status)


def _no_way_back(pull_request: FetchedPullRequest) -> str:
    if pull_request.info.is_fork and pull_request.info.can_modify is False:
        return NOT_ALLOWED
    return "suggestions cannot be pushed: the pull request's branch is not in this repository and its fork is unknown"


def _titled(pull_request: FetchedPullRequest) -> list[str]:
    """`pull request 123: Add login (alice, into main)`, with the parts that are known."""
    info = pull_request.info
    state = info.state.lower() if info.state and info.state != "OPEN" else ""
    about = ", ".join(filter(None, (info.author, f"into {info.base}" if info.base else "", state)))
    if not info.title and not about:
        return []
    title = f": {safe(info.title, 200)}" if info.title else ""
    return [f"{pull_request.mention.called}{title}{f' ({safe(about)})' if about else ''}"]
