"""Fetching a pull request's commits by plain git, and telling from what the remote offers where its branch belongs."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.actions.reviews.located import Located, Tracking
from imi_monitor.model import remote_address
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.reviews.located import Offer
    from imi_monitor.git.run import Git
    from imi_monitor.model.pull_request import PullRequestMention

_FETCH_SECONDS = 600.0


def numbered(
    context: Context, git: Git, offer: Offer, mention: PullRequestMention, info: PullRequest, warnings: tuple[str, ...]
) -> Located:
    """The commits of a pull request that a remote offers by its number."""
    from imi_monitor.git.pull_refs import kept_as

    guessed = _guess(context, git, offer) if info.head is None and info.is_fork is None else None
    if guessed is not None:
        info = replace(info, head=guessed)
    # a fork's branch may have the name of one of ours: it is the same only if that is certain
    own = (info.is_fork is False or guessed is not None) and f"refs/heads/{info.head}" in offer.refs
    kept = kept_as(offer.remote, offer.ref)
    specs = [f"+{offer.ref}:{kept}"]
    if own:
        specs.append(f"+refs/heads/{info.head}:refs/remotes/{offer.remote}/{info.head}")
        tracking = Tracking(offer.remote, f"refs/heads/{info.head}", push=True)
    else:
        tracking = _fork_tracking(offer, info)
    sha = _fetch(context, git, offer.remote, specs, kept)
    return Located(mention, info, sha, offer.remote, offer.ref, tracking, warnings)


def _guess(context: Context, git: Git, offer: Offer) -> str | None:
    """The one branch of the remote that stands where the pull request does; without gh nothing else tells."""
    from imi_monitor.git.refs import default_branch
    from imi_monitor.model.names import branch_problem

    trunk = default_branch(git, offer.remote, context.settings.text("git_settings.default_branch") or None)
    sha = offer.refs[offer.ref]
    heads = [
        ref.removeprefix("refs/heads/") for ref, at in offer.refs.items() if at == sha and ref.startswith("refs/heads/")
    ]
    fitting = [head for head in heads if head != trunk and branch_problem(head) is None]
    return fitting[0] if len(fitting) == 1 else None


def _fork_tracking(offer: Offer, info: PullRequest) -> Tracking:
    """Its author's fork if pushing there is allowed, else the read-only ref of the remote."""
    from imi_monitor.git.urls import url_problem

    if info.fork is not None and info.head is not None and info.can_modify:
        url = remote_address.with_project(offer.url, *info.fork)
        if url is not None and url_problem(url) is None:
            return Tracking(url, f"refs/heads/{info.head}", push=True)
    return Tracking(offer.remote, offer.ref, push=False)


def fork(
    context: Context,
    git: Git,
    remotes: dict[str, str],
    base: str,
    mention: PullRequestMention,
    warnings: tuple[str, ...],
) -> Located:
    """`owner:branch` by git alone: a remote of that owner, else the same project under the owner's name."""
    from imi_monitor.git.pull_refs import kept_as, offered

    owner, branch = mention.owner or "", mention.branch or ""
    where = _remote_of(remotes, base, owner)
    if where is None:
        raise Refused(
            f"cannot tell where the fork of {safe(owner)} is: say it by `git remote add {safe(owner)} URL`",
            code="no-fork",
        )
    ref = f"refs/heads/{branch}"
    context.progress(f"asking {named(where)} for {branch}")
    refs = offered(git, where, [ref], timeout=patience(context), cancelled=context.cancelled)
    if ref not in refs:
        raise Refused(f"{named(where)} has no branch {safe(branch)}", code="no-pull-request")
    kept = f"refs/remotes/{where}/{branch}" if where in remotes else kept_as(base, f"refs/fork/{owner}/{branch}")
    sha = _fetch(context, git, where, [f"+{ref}:{kept}"], kept)
    info = PullRequest(None, author=owner, head=branch, is_fork=where != base)
    return Located(mention, info, sha, where, ref, Tracking(where, ref, push=True), warnings)


def _remote_of(remotes: dict[str, str], base: str, owner: str) -> str | None:
    by_owner = {where.owner.lower(): name for name, url in remotes.items() if (where := remote_address.address(url))}
    if owner in remotes:
        return owner
    return by_owner.get(owner.lower()) or remote_address.with_project(remotes[base], owner)


def _fetch(context: Context, git: Git, where: str, specs: list[str], kept: str) -> str:
    from imi_monitor.git.pull_refs import fetch_from
    from imi_monitor.git.refs import resolve

    fetch_from(git, where, specs, timeout=_FETCH_SECONDS, on_progress=context.progress, cancelled=context.cancelled)
    sha = resolve(git, kept)
    if sha is None:
        raise GitError(f"{named(where)} sent nothing that could be checked out", code="no-ref")
    return sha


def patience(context: Context) -> float:
    """Seconds that a remote may take to say what it has."""
    return float(context.settings.number("git_settings.fetch_timeout_seconds") or 20)


def named(where: str) -> str:
    """A remote or an address, which may hold a password."""
    return safe(redact(where))
