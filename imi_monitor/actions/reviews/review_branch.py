"""The local branch of a review: the pull request's own name if it is free, else `pr/123`.

An existing branch is used only if it already tracks this pull request or has the same commit; none is ever reset.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from imi_monitor.actions.worktree_lookup import trunk_branch
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.names import branch_problem
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.reviews.pull_request_fetch import FetchedPullRequest, PullTracking
    from imi_monitor.git.runner import Git

_MOST_NUMBERED = 50


@dataclass(frozen=True, slots=True)
class BranchChoice:
    """A branch and its commit; `sha` is None for one to be created at the pull request's head."""

    name: str
    sha: str | None


def choose_branch(context: Context, git: Git, pull_request: FetchedPullRequest) -> BranchChoice:
    """The first candidate name that is free or already belongs to this pull request."""
    from imi_monitor.git.refs import branches

    known = branches(git)
    trunk = trunk_branch(context, git)
    for name in _names(pull_request):
        # a fork's pull request often comes from a branch main, which is the trunk here
        if name == trunk or branch_problem(name) is not None or _clashes(name, known):
            continue
        if name not in known:
            return BranchChoice(name, None)
        if _may_be_taken(git, name, known[name], pull_request):
            return BranchChoice(name, known[name])
    raise Refused(
        f"every branch name for {pull_request.mention.called} is taken, up to {safe(_numbered(pull_request))}-{_MOST_NUMBERED}: "
        "rename or delete one of them",
        code="branch-exists",
    )


def earlier_branches(git: Git, chosen: str, pull_request: FetchedPullRequest) -> dict[str, int]:
    """Branches of earlier reviews that have diverged from the pull request: name -> number of own commits."""
    from imi_monitor.git.refs import branches, distance

    known = branches(git)
    before = takewhile(lambda name: name != chosen, _names(pull_request))
    passed = [name for name in before if name in known and tracks_pull_request(git, name, pull_request)]
    ahead = {name: distance(git, known[name], pull_request.sha)[0] for name in passed}
    return {name: commits for name, commits in ahead.items() if commits}


def belongs_to_review(context: Context, git: Git, branch: str, pull_request: FetchedPullRequest) -> bool:
    """True if the branch belongs to the pull request, by its upstream or by its name; the trunk never does."""
    return tracks_pull_request(git, branch, pull_request) or (
        branch in _names(pull_request) and branch != trunk_branch(context, git)
    )


def tracks_pull_request(git: Git, branch: str, pull_request: FetchedPullRequest) -> bool:
    """True if the branch tracks the pull request, as imi or gh configured it."""
    from imi_monitor.git.pull_refs import configured_upstream

    known = {(pull_request.tracking.remote, pull_request.tracking.merge), (pull_request.remote, pull_request.ref)}
    return configured_upstream(git, branch) in known


def is_tracking(git: Git, branch: str, tracking: PullTracking) -> bool:
    """True if plain `git pull` and `git push` in the branch use exactly this tracking."""
    from imi_monitor.git.pull_refs import configured_upstream

    return configured_upstream(git, branch) == (tracking.remote, tracking.merge)


def configure_tracking(git: Git, branch: str, pull_request: FetchedPullRequest, *, new: bool = False) -> list[str]:
    """Let `git pull` and `git push` in the branch use the pull request's branch; returns warnings.

    Only for a `new` branch or one without any upstream (after a crash in between): a user's configuration stays.
    """
    from imi_monitor.git.pull_refs import configure_upstream, configured_upstream

    tracking = pull_request.tracking
    try:
        if new or configured_upstream(git, branch) == (None, None):
            configure_upstream(git, branch, tracking.remote, tracking.merge, push=tracking.push)
    except (GitError, Refused) as problem:
        return [f"{safe(branch)} has no upstream: {problem.sentence}"]
    return []


def _names(pull_request: FetchedPullRequest) -> Iterator[str]:
    if pull_request.info.head is not None:
        yield pull_request.info.head
    yield _numbered(pull_request)
    yield pull_request.mention.directory
    yield from (f"{_numbered(pull_request)}-{number}" for number in range(2, _MOST_NUMBERED + 1))


def _numbered(pull_request: FetchedPullRequest) -> str:
    mention = pull_request.mention
    return f"pr/{mention.directory.removeprefix('review-')}"


def _clashes(name: str, known: dict[str, str]) -> bool:
    """True if git cannot hold both: a branch `pr/1` beside a branch `pr`."""
    return any(other.startswith(name + "/") or name.startswith(other + "/") for other in known)


def _may_be_taken(git: Git, name: str, sha: str, pull_request: FetchedPullRequest) -> bool:
    from imi_monitor.git.refs import distance
    from imi_monitor.git.worktree_list import worktrees_using_branch

    if worktrees_using_branch(git, name):
        return False
    if sha == pull_request.sha:
        return True
    if not tracks_pull_request(git, name, pull_request):
        return False
    ahead, behind = distance(git, sha, pull_request.sha)
    return not ahead or not behind  # behind: can be fast-forwarded; ahead: the reviewer's suggestions; both: diverged
