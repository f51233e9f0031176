"""Finding and fetching a pull request: its repository and remote, its details, its commits, the branch it comes from.

The commits always come by plain git, so that a review works on any forge and from any fork. `gh` adds title, author and
fork if it is installed and logged in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from imi_monitor.actions import worktree_lookup
from imi_monitor.forges import forge_project
from imi_monitor.forges.forge_program import ForgeUnavailable
from imi_monitor.model import remote_address
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.pull_request import PullRequest, PullRequestMention
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.runner import Git


@dataclass(frozen=True, slots=True)
class PullTracking:
    """What the local branch tracks: git pulls `merge` from `remote`, and pushes there if `push`."""

    remote: str
    merge: str
    push: bool

    def push_command(self, branch: str, *, follows: bool) -> str | None:
        """The command that pushes the local `branch` back; None if pushing is not possible."""
        head = self.merge.removeprefix("refs/heads/")
        plain = follows and branch == head  # under another name plain `git push` refuses
        return None if not self.push else "git push" if plain else f"git push {self.remote} HEAD:{head}"


@dataclass(frozen=True, slots=True)
class FetchedPullRequest:
    """A pull request whose commits are in the local repository."""

    mention: PullRequestMention
    info: PullRequest
    sha: str
    remote: str
    ref: str  # on the remote
    tracking: PullTracking
    warnings: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        """True if it certainly comes from the repository itself, not from a fork."""
        return self.info.is_fork is not True and self.tracking.push and self.tracking.remote == self.remote

    def data(self) -> dict[str, object]:
        """The details for the JSON result and the event."""
        info = self.info
        return {
            "pr_number": self.mention.number,
            "title": info.title,
            "author": info.author,
            "base": info.base,
            "head": info.head,
            "fork": "/".join(info.fork) if info.fork else None,
            "url": info.url,
            "state": info.state,
        }


@dataclass(frozen=True, slots=True)
class RemoteOffer:
    """A remote that has the pull request, and its refs."""

    remote: str
    url: str
    ref: str
    refs: dict[str, str]


def untrusted_git(repository: Repository, admin_dir: str | None = None, path: str | None = None) -> Git:
    """git without the repository's trust: a hooksPath inside the work tree would run the pull request's hooks."""
    from imi_monitor.git.runner import Git

    if admin_dir is None:
        return Git(repository.common_dir, repository.common_dir, repository.main_path)
    return Git(repository.common_dir, admin_dir, path)


def find_repository(context: Context, named: str | None, mention: PullRequestMention) -> Repository:
    """The given or current repository; for the address of a page, a known one with that remote."""
    if named is not None or context.explicit_repo or mention.project is None:
        return context.repository(named)
    here = context.find_repository()
    for repository in ([here] if here else []) + worktree_lookup.known_repositories(context):
        if _matching(_remotes(context.git(repository)), mention) is not None:
            return repository
    raise Refused(
        f"no repository here or in the registry has a remote {_shown(mention.project)}: clone it, or name one with --repo",
        code="no-repository",
    )


def fetch_pull_request(context: Context, repository: Repository, mention: PullRequestMention) -> FetchedPullRequest:
    """Find the pull request and fetch it."""
    git = context.git(repository)
    remotes = _remotes(git)
    candidates = _candidates(context, remotes, mention)
    info: PullRequest | None = None
    warnings: tuple[str, ...] = ()
    if mention.number is None:
        info, warnings = _ask_forge(context, remotes[candidates[0]], mention)
        mention = replace(mention, number=info.number)
    if mention.number is None:
        return _fetch_fork(context, git, remotes, candidates[0], mention, warnings)
    offer = _find_offer(context, git, remotes, candidates, mention)
    if info is None:
        info, warnings = _ask_forge(context, offer.url, mention)
    return _fetch_numbered(context, git, offer, mention, info, warnings)


def _remotes(git: Git) -> dict[str, str]:
    from imi_monitor.git.remotes import remotes

    return remotes(git)


def _candidates(context: Context, remotes: dict[str, str], mention: PullRequestMention) -> list[str]:
    """The remotes to search: a fork's pull requests are in its upstream, not in the fork."""
    if mention.project is not None:
        found = _matching(remotes, mention)
        if found is None:
            raise Refused(f"this repository has no remote {_shown(mention.project)}", code="other-repository")
        return [found]
    usual = context.settings.text("git.remote_name")
    names = [name for name in dict.fromkeys((usual, "upstream")) if name in remotes] or list(remotes)
    if not names:
        raise Refused(
            "this repository has no remote to take a pull request from: `git remote add origin URL`", code="no-remote"
        )
    return names[:2]


def _matching(remotes: dict[str, str], mention: PullRequestMention) -> str | None:
    for name, url in remotes.items():
        where = remote_address.parse_address(url)
        if where is not None and mention.project is not None and where.is_same_project(mention.project):
            return name
    return None


def _find_offer(
    context: Context, git: Git, remotes: dict[str, str], candidates: list[str], mention: PullRequestMention
) -> RemoteOffer:
    from imi_monitor.git.pull_refs import list_remote_refs

    failure: GitError | None = None
    for remote in candidates:
        context.progress(f"asking {safe(remote)} for {mention.called}")
        try:
            refs = list_remote_refs(
                git,
                remote,
                [*mention.refs, "refs/heads/*"],
                timeout=_answer_timeout(context),
                cancelled=context.cancelled,
            )
        except GitError as error:
            failure = failure or error
            continue
        ref = next((ref for ref in mention.refs if ref in refs), None)
        if ref is not None:
            return RemoteOffer(remote, remotes[remote], ref, refs)
    if failure is not None:
        raise failure
    asked = " and ".join(map(safe, candidates))
    raise Refused(f"{asked} has no {mention.called} (no {', no '.join(mention.refs)})", code="no-pull-request")


def _ask_forge(context: Context, url: str, mention: PullRequestMention) -> tuple[PullRequest, tuple[str, ...]]:
    """The details from gh or glab; if it fails only the number, and a warning if it is installed."""
    context.progress(f"asking the forge about {mention.called}")
    try:
        return forge_project.view(remote_address.parse_address(url), mention, context.cancelled), ()
    except ForgeUnavailable as reason:
        why = str(reason)
        return PullRequest(mention.number), (f"{why}: title, author and fork are unknown",) if why else ()


def _shown(project: remote_address.RemoteAddress) -> str:
    return safe("/".join(filter(None, (project.host, project.project))))


_FETCH_SECONDS = 600.0


def _fetch_numbered(
    context: Context,
    git: Git,
    offer: RemoteOffer,
    mention: PullRequestMention,
    info: PullRequest,
    warnings: tuple[str, ...],
) -> FetchedPullRequest:
    """Fetch a pull request that a remote offers by its number."""
    from imi_monitor.git.pull_refs import local_ref

    guessed = _guess_branch(context, git, offer) if info.head is None and info.is_fork is None else None
    if guessed is not None:
        info = replace(info, head=guessed)
    # a fork's branch may share the name of a local branch without being it
    own = (info.is_fork is False or guessed is not None) and f"refs/heads/{info.head}" in offer.refs
    kept = local_ref(offer.remote, offer.ref)
    specs = [f"+{offer.ref}:{kept}"]
    if own:
        specs.append(f"+refs/heads/{info.head}:refs/remotes/{offer.remote}/{info.head}")
        tracking = PullTracking(offer.remote, f"refs/heads/{info.head}", push=True)
    else:
        tracking = _fork_tracking(offer, info)
    sha = _fetch(context, git, offer.remote, specs, kept)
    return FetchedPullRequest(mention, info, sha, offer.remote, offer.ref, tracking, warnings)


def _guess_branch(context: Context, git: Git, offer: RemoteOffer) -> str | None:
    """The remote's only branch at the pull request's commit; used when gh gives no branch name."""
    from imi_monitor.model.names import branch_problem

    trunk = worktree_lookup.trunk_branch(context, git, offer.remote)
    sha = offer.refs[offer.ref]
    heads = [
        ref.removeprefix("refs/heads/") for ref, at in offer.refs.items() if at == sha and ref.startswith("refs/heads/")
    ]
    fitting = [head for head in heads if head != trunk and branch_problem(head) is None]
    return fitting[0] if len(fitting) == 1 else None


def _fork_tracking(offer: RemoteOffer, info: PullRequest) -> PullTracking:
    """Track the author's fork if pushing there is allowed, else the remote's read-only ref."""
    from imi_monitor.git.remotes import url_problem

    if info.fork is not None and info.head is not None and info.can_modify:
        url = remote_address.with_project(offer.url, *info.fork)
        if url is not None and url_problem(url) is None:
            return PullTracking(url, f"refs/heads/{info.head}", push=True)
    return PullTracking(offer.remote, offer.ref, push=False)


def _fetch_fork(
    context: Context,
    git: Git,
    remotes: dict[str, str],
    base: str,
    mention: PullRequestMention,
    warnings: tuple[str, ...],
) -> FetchedPullRequest:
    """Fetch `owner:branch` without gh: from a remote of that owner, else from the same project under that owner."""
    from imi_monitor.git.pull_refs import list_remote_refs, local_ref

    owner, branch = mention.owner or "", mention.branch or ""
    where = _remote_of(remotes, base, owner)
    if where is None:
        raise Refused(
            f"the address of {safe(owner)}'s fork is unknown: run `git remote add {safe(owner)} URL`", code="no-fork"
        )
    ref = f"refs/heads/{branch}"
    context.progress(f"asking {_shown_remote(where)} for {branch}")
    refs = list_remote_refs(git, where, [ref], timeout=_answer_timeout(context), cancelled=context.cancelled)
    if ref not in refs:
        raise Refused(f"{_shown_remote(where)} has no branch {safe(branch)}", code="no-pull-request")
    kept = f"refs/remotes/{where}/{branch}" if where in remotes else local_ref(base, f"refs/fork/{owner}/{branch}")
    sha = _fetch(context, git, where, [f"+{ref}:{kept}"], kept)
    info = PullRequest(None, author=owner, head=branch, is_fork=where != base)
    return FetchedPullRequest(mention, info, sha, where, ref, PullTracking(where, ref, push=True), warnings)


def _remote_of(remotes: dict[str, str], base: str, owner: str) -> str | None:
    by_owner = {
        where.owner.lower(): name for name, url in remotes.items() if (where := remote_address.parse_address(url))
    }
    if owner in remotes:
        return owner
    return by_owner.get(owner.lower()) or remote_address.with_project(remotes[base], owner)


def _fetch(context: Context, git: Git, where: str, specs: list[str], kept: str) -> str:
    from imi_monitor.git.pull_refs import fetch_from
    from imi_monitor.git.refs import resolve

    fetch_from(git, where, specs, timeout=_FETCH_SECONDS, on_progress=context.progress, cancelled=context.cancelled)
    sha = resolve(git, kept)
    if sha is None:
        raise GitError(f"{_shown_remote(where)} sent no commit", code="no-ref")
    return sha


def _answer_timeout(context: Context) -> float:
    """Seconds to wait for a remote to list its refs."""
    return float(context.settings.number("git.fetch_timeout_seconds") or 20)


def _shown_remote(where: str) -> str:
    """A remote's name or address for display, without its password."""
    return safe(redact(where))
