"""Which local branch a review works on: the pull request's own name if that is free, else `pr/123`. Never one that holds
other work, and none is ever reset: what a name already stands for decides whether it may be taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

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
    """A branch and where it stands: `sha` is None for one that is to be made at the pull request's head."""

    name: str
    sha: str | None


def choose_branch(context: Context, git: Git, located: FetchedPullRequest) -> BranchChoice:
    """The first fitting name that is free, or that already stands for this pull request."""
    from imi_monitor.git.refs import branches

    known = branches(git)
    trunk = _trunk(context, git)
    for name in _names(located):
        # a fork's pull request often comes from a branch called main: that name stands for the trunk here
        if name == trunk or branch_problem(name) is not None or _clashes(name, known):
            continue
        if name not in known:
            return BranchChoice(name, None)
        if _may_be_taken(git, name, known[name], located):
            return BranchChoice(name, known[name])
    raise Refused(
        f"every branch name for {located.mention.called} is taken, up to {safe(_numbered(located))}-{_MOST_NUMBERED}: "
        "rename or delete one of them",
        code="branch-exists",
    )


def earlier_branches(git: Git, chosen: str, located: FetchedPullRequest) -> dict[str, int]:
    """Branches of earlier reviews that were passed over, as both they and the pull request went on: name -> own commits."""
    from imi_monitor.git.refs import branches, distance

    known = branches(git)
    before = takewhile(lambda name: name != chosen, _names(located))
    passed = [name for name in before if name in known and tracks_pull_request(git, name, located)]
    ahead = {name: distance(git, known[name], located.sha)[0] for name in passed}
    return {name: commits for name, commits in ahead.items() if commits}


def belongs_to_review(context: Context, git: Git, branch: str, located: FetchedPullRequest) -> bool:
    """Whether this branch is the pull request's, by what it follows or by its name; the trunk never is."""
    return tracks_pull_request(git, branch, located) or (branch in _names(located) and branch != _trunk(context, git))


def tracks_pull_request(git: Git, branch: str, located: FetchedPullRequest) -> bool:
    """Whether a branch of this name follows the pull request, as we (or gh) configured it."""
    from imi_monitor.git.pull_refs import configured_upstream

    known = {(located.tracking.remote, located.tracking.merge), (located.remote, located.ref)}
    return configured_upstream(git, branch) in known


def is_tracking(git: Git, branch: str, tracking: PullTracking) -> bool:
    """Whether plain `git pull` and `git push` in the branch mean exactly this."""
    from imi_monitor.git.pull_refs import configured_upstream

    return configured_upstream(git, branch) == (tracking.remote, tracking.merge)


def configure_tracking(git: Git, branch: str, located: FetchedPullRequest, *, new: bool = False) -> list[str]:
    """Let `git pull` and `git push` in the branch lead to where the pull request comes from; gives warnings.

    Only in a `new` branch, or one that belongs nowhere yet (a crash came between making and connecting it): what
    somebody configured stays.
    """
    from imi_monitor.git.pull_refs import configure_upstream, configured_upstream

    tracking = located.tracking
    try:
        if new or configured_upstream(git, branch) == (None, None):
            configure_upstream(git, branch, tracking.remote, tracking.merge, push=tracking.push)
    except (GitError, Refused) as problem:
        return [f"{safe(branch)} does not know where to push: {problem.sentence}"]
    return []


def _trunk(context: Context, git: Git) -> str:
    from imi_monitor.git.refs import default_branch

    remote, configured = (context.settings.text(f"git_settings.{key}") for key in ("remote_name", "default_branch"))
    return default_branch(git, remote, configured or None)


def _names(located: FetchedPullRequest) -> Iterator[str]:
    if located.info.head is not None:
        yield located.info.head
    yield _numbered(located)
    yield located.mention.directory
    yield from (f"{_numbered(located)}-{number}" for number in range(2, _MOST_NUMBERED + 1))


def _numbered(located: FetchedPullRequest) -> str:
    mention = located.mention
    return f"pr/{mention.directory.removeprefix('review-')}"


def _clashes(name: str, known: dict[str, str]) -> bool:
    """git cannot have a branch `pr/1` beside a branch `pr`."""
    return any(other.startswith(name + "/") or name.startswith(other + "/") for other in known)


def _may_be_taken(git: Git, name: str, sha: str, located: FetchedPullRequest) -> bool:
    from imi_monitor.git.refs import distance
    from imi_monitor.git.worktree_list import worktrees_using_branch

    if worktrees_using_branch(git, name):
        return False
    if sha == located.sha:
        return True
    if not tracks_pull_request(git, name, located):
        return False
    ahead, behind = distance(git, sha, located.sha)
    return not ahead or not behind  # behind: it can follow; ahead: the reviewer's own suggestions; both: leave it alone
