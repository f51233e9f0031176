"""Finding a pull request: which repository and remote it belongs to, what is known of it, and its commits fetched.

`gh` adds title, author and fork where it can be asked; the commits always come by plain git, so that a review works
without it, on any forge, and from any fork.
"""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.actions import target
from imi_monitor.actions.reviews import gh, pull_fetch
from imi_monitor.actions.reviews.located import Offer
from imi_monitor.model import remote_address
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.pull_request import PullRequest, PullRequestMention
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.reviews.located import Located
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.run import Git


def repository_for(context: Context, named: str | None, mention: PullRequestMention) -> Repository:
    """The repository meant; for a page's address the known one that has a remote there."""
    if named is not None or context.explicit_repo or mention.project is None:
        return context.repository(named)
    here = context.find_repository()
    for repository in ([here] if here else []) + target.known_repositories(context):
        if _matching(_remotes(context.git(repository)), mention) is not None:
            return repository
    raise Refused(
        f"no repository here or in the registry has a remote {_shown(mention.project)}: clone it, or name one by --repo",
        code="no-repository",
    )


def locate(context: Context, repository: Repository, mention: PullRequestMention) -> Located:
    """Find the pull request and fetch it."""
    git = context.git(repository)
    remotes = _remotes(git)
    candidates = _candidates(context, remotes, mention)
    info: PullRequest | None = None
    warnings: tuple[str, ...] = ()
    if mention.number is None:
        info, warnings = _ask(context, remotes[candidates[0]], mention)
        mention = replace(mention, number=info.number)
    if mention.number is None:
        return pull_fetch.fork(context, git, remotes, candidates[0], mention, warnings)
    offer = _find(context, git, remotes, candidates, mention)
    if info is None:
        info, warnings = _ask(context, offer.url, mention)
    return pull_fetch.numbered(context, git, offer, mention, info, warnings)


def _remotes(git: Git) -> dict[str, str]:
    from imi_monitor.git.remotes import remotes

    return remotes(git)


def _candidates(context: Context, remotes: dict[str, str], mention: PullRequestMention) -> list[str]:
    """The remotes that may have it: pull requests live in the upstream of a fork, not in the fork."""
    if mention.project is not None:
        found = _matching(remotes, mention)
        if found is None:
            raise Refused(f"this repository has no remote {_shown(mention.project)}", code="other-repository")
        return [found]
    usual = context.settings.text("git_settings.remote_name")
    names = [name for name in dict.fromkeys((usual, "upstream")) if name in remotes] or list(remotes)
    if not names:
        raise Refused(
            "this repository has no remote to take a pull request from: `git remote add origin URL`", code="no-remote"
        )
    return names[:2]


def _matching(remotes: dict[str, str], mention: PullRequestMention) -> str | None:
    for name, url in remotes.items():
        where = remote_address.address(url)
        if where is not None and mention.project is not None and where.same(mention.project):
            return name
    return None


def _find(
    context: Context, git: Git, remotes: dict[str, str], candidates: list[str], mention: PullRequestMention
) -> Offer:
    from imi_monitor.git.pull_refs import offered

    trouble: GitError | None = None
    for remote in candidates:
        context.progress(f"asking {safe(remote)} for {mention.called}")
        try:
            refs = offered(
                git,
                remote,
                [*mention.refs, "refs/heads/*"],
                timeout=pull_fetch.patience(context),
                cancelled=context.cancelled,
            )
        except GitError as error:
            trouble = trouble or error
            continue
        ref = next((ref for ref in mention.refs if ref in refs), None)
        if ref is not None:
            return Offer(remote, remotes[remote], ref, refs)
    if trouble is not None:
        raise trouble
    asked = " and ".join(map(safe, candidates))
    raise Refused(f"{asked} has no {mention.called} (no {', no '.join(mention.refs)})", code="no-pull-request")


def _ask(context: Context, url: str, mention: PullRequestMention) -> tuple[PullRequest, tuple[str, ...]]:
    """What gh knows; without it only the number, and why, if there is a gh that should have known."""
    context.progress(f"asking gh about {mention.called}")
    try:
        return gh.ask(remote_address.address(url), mention, context.cancelled), ()
    except gh.Silent as reason:
        told = str(reason)
        return PullRequest(mention.number), (f"{told}: title, author and fork are unknown",) if told else ()


def _shown(project: remote_address.RemoteAddress) -> str:
    return safe("/".join(filter(None, (project.host, project.project))))
