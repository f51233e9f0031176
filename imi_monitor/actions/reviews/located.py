"""A pull request that was found: what is known of it, its commits, and where its branch belongs."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.run import Git
    from imi_monitor.model.pull_request import PullRequest, PullRequestMention


@dataclass(frozen=True, slots=True)
class Tracking:
    """Where the local branch belongs: git pulls from `merge` of `remote`, and pushes there if `push`."""

    remote: str
    merge: str
    push: bool

    def push_command(self, branch: str, *, follows: bool) -> str | None:
        """What sends commits of the local `branch`, which may follow this, back; None when nothing does."""
        head = self.merge.removeprefix("refs/heads/")
        plain = follows and branch == head  # under another name git would ask where to
        return None if not self.push else "git push" if plain else f"git push {self.remote} HEAD:{head}"


@dataclass(frozen=True, slots=True)
class Located:
    """A pull request whose commits are here."""

    mention: PullRequestMention
    info: PullRequest
    sha: str
    remote: str
    ref: str  # on the remote
    tracking: Tracking
    warnings: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether it certainly comes from the repository itself, not from somebody's fork."""
        return self.info.is_fork is not True and self.tracking.push and self.tracking.remote == self.remote

    def data(self) -> dict[str, object]:
        """What scripts and the event get to know about it."""
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
class Offer:
    """A remote that has the pull request, and the refs it offers."""

    remote: str
    url: str
    ref: str
    refs: dict[str, str]


def strangers_git(repository: Repository, admin_dir: str | None = None, path: str | None = None) -> Git:
    """git as if the repository were not trusted: a hooksPath inside the work tree would run the pull request's hooks."""
    from imi_monitor.git.run import Git

    if admin_dir is None:
        return Git(repository.common_dir, repository.common_dir, repository.main_path)
    return Git(repository.common_dir, admin_dir, path)
