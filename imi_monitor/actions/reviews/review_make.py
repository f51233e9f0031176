"""Making the worktree of a pull request, by the same way as every other worktree.

What it brings is a stranger's: no hook or filter of the repository runs on it, trusted or not, and the user's own
post_create commands (`npm install`) run only if it comes from the repository itself.
"""

from __future__ import annotations

from imi_monitor.actions import target
from imi_monitor.actions.creation import existing_worktree, worktree_creation
from imi_monitor.actions.creation.worktree_creation import CreationPlan
from imi_monitor.actions.reviews import review_branch, review_told, review_update
from imi_monitor.actions.reviews.located import strangers_git
from imi_monitor.git import layout
from imi_monitor.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.creation_request import CreationRequest
    from imi_monitor.actions.reviews.located import Located
    from imi_monitor.actions.reviews.review_branch import Choice

KIND = "review"


def make(context: Context, wanted: CreationRequest, located: Located, agent: str) -> Outcome:
    """The worktree, whole or not at all; Refused "busy" while somebody else makes it."""
    git = strangers_git(wanted.repository)
    existing_worktree.find_existing(context, wanted)  # refuses what is half made, moved away, or differs only in case
    choice = review_branch.choose(context, git, located)
    plan = _plan(wanted, located, choice, agent)
    context.progress(f"making {plan.name}")
    warnings = [*located.warnings, *worktree_creation.create_worktree(context, git, plan)]
    warnings += review_branch.connect(git, plan.branch, located, new=plan.new_branch)
    if plan.sha != located.sha:  # the branch of an earlier review, which may lag behind
        warnings += _follow(context, plan, located, agent)
    status, more = _prepare(context, plan, located)
    return review_told.made(git, plan, located, warnings + more, status)


def _plan(wanted: CreationRequest, located: Located, choice: Choice, agent: str) -> CreationPlan:
    return CreationPlan(
        wanted.repository,
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


def _follow(context: Context, plan: CreationPlan, located: Located, agent: str) -> list[str]:
    made = next(one for one in target.targets(context, plan.repository) if one.path == plan.path)
    try:
        done = review_update.update(context, made, located, agent)
    except Refused as refusal:
        return [refusal.sentence]
    return [review_told.ahead(done.ahead, located)] if done.ahead else []


def _prepare(context: Context, plan: CreationPlan, located: Located) -> tuple[int, list[str]]:
    if located.is_own:
        return existing_worktree.run_post_create(context, plan.repository, plan.path, plan.name)
    known_as = context.repo_name(plan.repository) or layout.repository_name(plan.repository)
    if not context.settings.commands(known_as, "post_create"):
        return 0, []
    return 0, ["its post_create commands were not run, because it comes from somebody else's repository: read it first"]
