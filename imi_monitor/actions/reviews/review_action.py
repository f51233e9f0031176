"""`imi review 123`: create or update the worktree of a pull request, ready to push suggestions back."""

from __future__ import annotations

import os
import time

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Suggestion, Suggestions
from imi_monitor.actions.creation import create_action, creation_request
from imi_monitor.actions.reviews import pull_request_fetch, pull_request_lists, review_branch, review_worktree
from imi_monitor.actions.reviews.pull_request_fetch import untrusted_git
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.names import REVIEW_PREFIXES
from imi_monitor.model.pull_request import PullRequestMention, parse
from imi_monitor.model.pull_request_list import described, standing
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome, Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.reviews.pull_request_fetch import FetchedPullRequest
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.layout import Repository
    from imi_monitor.model.pull_request import PullRequest

_WAIT_SECONDS = 600.0


class ReviewAction(Action):
    words = ("review", "pr")
    group = "Worktrees"
    label = "Review a pull request"
    examples = (
        ("imi review 123", "make a worktree for pull request 123, or update it"),
        ("imi review ana:tidy-cart", "the branch tidy-cart of ana's fork"),
    )
    help = "make a worktree for a pull request, or update it"
    more = """
    Give 123, #123, the address of its page (GitHub, also enterprise, Gitea, GitLab), or owner:branch. With `gh` logged in
    imi shows title and author and can push suggestions back to forks; without it plain git fetches the commits.
    The worktree is called review-123. An update only fast-forwards it and never touches your own work.
    """
    key = "v"
    key_bar = 70
    makes_new = True
    returns_path = True
    ends_in_view = "diff"
    arguments = (
        Argument("pr", "123, #123, the address of its page, or owner:branch", label="Pull request", suggested=True),
        Argument("repo", "a repository: a path, or a name from the registry", optional=True),
    )
    options = (Option("agent", "your name, for the log", value="ID", aliases=("agent-id", "yi-id")),)

    def refuse(self, context: Context, request: Request) -> None:
        parse(request.text("pr") or "")
        context.agent(request)

    def suggestions(self, context: Context, name: str, *, ask: bool) -> Suggestions | None:
        found = pull_request_lists.offered(context, context.repository(), ask=ask)
        offered = [
            Suggestion(str(pull.number), standing(pull), described(pull), pull.head or "") for pull in found.pulls
        ]
        unknown = found.listed is not None and found.listed.read_at is None and found.listed.problem is None
        origin = "asking the forge…" if unknown and not ask else safe(found.origin, 300)
        return Suggestions(offered, origin, _is_mention)

    def consequences(self, context: Context, request: Request) -> list[str]:
        mention = parse(request.text("pr") or "")
        repository = pull_request_fetch.find_repository(context, request.text("repo"), mention)
        found = _find_review(context, repository, mention)
        pull, _ = pull_request_lists.find_cached(context, repository, mention.number)
        known = [f"{standing(pull)}  {described(pull)}", _way_back(pull)] if pull is not None else []
        if found is not None:
            update = f"fast-forwards {safe(found.name)}"
            return [f"fetches {mention.called}", update, f"folder  {safe(found.path)}", *known]
        name = mention.directory
        path = os.path.join(creation_request.parent_folder(repository, context.settings, name), name)
        return [f"fetches {mention.called}", f"creates the worktree {safe(name)}", f"folder  {safe(path)}", *known]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        mention = parse(request.text("pr") or "")
        agent = context.agent(request)
        repository = pull_request_fetch.find_repository(context, request.text("repo"), mention)
        try:
            pull_request = pull_request_fetch.fetch_pull_request(context, repository, mention)
        except GitError as problem:
            found = _find_review(context, repository, mention)
            raise problem if found is None else review_worktree.remote_unavailable(found, problem) from problem
        return _create_or_update(context, repository, pull_request, agent)


ACTIONS = (ReviewAction(),)


def _way_back(pull: PullRequest) -> str:
    """Return where suggestion commits could be pushed, as far as the forge has told."""
    if pull.head is None or pull.is_fork is None:
        return "whether suggestions can be pushed is known after the fetch"
    if not pull.is_fork:
        return f"suggestions go to {safe(pull.head)} of this repository"
    if pull.fork is None or not pull.can_modify:
        return review_worktree.NOT_ALLOWED
    return f"suggestions go to {safe(pull.head)} of {safe('/'.join(pull.fork))}"


def _is_mention(text: str) -> bool:
    try:
        parse(text)
    except UsageError:
        return False
    return True


def _find_review(context: Context, repository: Repository, mention: PullRequestMention) -> Target | None:
    """The worktree of this pull request, by its row, else by the name that imi or iMi gives it."""
    number = mention.number
    names = [mention.directory] if number is None else [f"{prefix}{number}" for prefix in REVIEW_PREFIXES]
    among = [one for one in worktree_lookup.list_worktrees(context, repository) if one.linked is not None]
    by_row = [one for one in among if number is not None and one.row is not None and one.row.pr_number == number]
    unknown = [one for one in among if one.row is None or one.row.pr_number is None]  # of which only the name is known
    return next(iter(by_row + [one for name in names for one in unknown if one.name == name]), None)


def _find_former(context: Context, repository: Repository, pull_request: FetchedPullRequest) -> Target | None:
    """The worktree that an earlier version made for the branch of a fork; several of these could have the same name."""
    if pull_request.mention.number is not None:
        return None
    git = untrusted_git(repository)
    for one in worktree_lookup.list_worktrees(context, repository):
        named_so = one.linked is not None and one.name == pull_request.mention.former_directory
        if named_so and one.branch and review_branch.tracks_pull_request(git, one.branch, pull_request):
            return one
    return None


def _create_or_update(
    context: Context, repository: Repository, pull_request: FetchedPullRequest, agent: str
) -> Outcome:
    """Create or update the worktree, also while another process does the same."""
    give_up = time.monotonic() + _WAIT_SECONDS
    name = pull_request.mention.directory
    path = os.path.join(creation_request.parent_folder(repository, context.settings, name), name)
    wanted = creation_request.CreationRequest(repository, review_worktree.KIND, name, path, "", None)
    while True:
        create_action.wait_for_others(context, wanted, give_up)
        found = _find_review(context, repository, pull_request.mention) or _find_former(
            context, repository, pull_request
        )
        if found is not None:
            return _update(context, found, pull_request, agent)
        try:
            return review_worktree.create_review(context, wanted, pull_request, agent)
        except Refused as problem:
            if not create_action.is_overtaken(context, wanted, problem.code) or time.monotonic() > give_up:
                raise


def _update(context: Context, found: Target, pull_request: FetchedPullRequest, agent: str) -> Outcome:
    git = untrusted_git(found.repository)
    done = review_worktree.update_review(context, found, pull_request, agent)
    warnings = [*pull_request.warnings, *review_branch.configure_tracking(git, done.branch, pull_request)]
    return review_worktree.updated_outcome(git, found, pull_request, done, warnings)
