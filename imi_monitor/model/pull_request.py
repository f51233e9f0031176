"""Pull requests (GitHub, Gitea) and merge requests (GitLab): parses what a person types, and holds what is known."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import UsageError
from imi_monitor.model.names import branch_problem
from imi_monitor.model.remote_address import RemoteAddress, split_url
from imi_monitor.model.text import safe

PULL, MERGE = "pull", "merge-requests"
_MOST_NUMBER = 1_000_000_000
_MOST_OWNER = 100
_MOST_SHOWN = 70  # characters of owner and branch in the name of a worktree
_CHECKSUM_LETTER = "x"  # no hexadecimal digit
_CHECKSUM_LENGTH = 13
# the word before the number in a page's address -> the kind
_PAGES = {"pull": PULL, "pulls": PULL, "merge_requests": MERGE}


@dataclass(frozen=True, slots=True)
class PullRequestMention:
    """What a person typed: a number (with its kind, if given) or a branch of a fork (`owner:branch`).

    `project` is the project of a page's address.
    """

    number: int | None = None
    kind: str | None = None
    project: RemoteAddress | None = None
    owner: str | None = None
    branch: str | None = None

    @property
    def refs(self) -> tuple[str, ...]:
        """The remote refs that may hold it, the likeliest first."""
        kinds = (PULL, MERGE) if self.kind is None else (self.kind,)
        return tuple(f"refs/{kind}/{self.number}/head" for kind in kinds)

    @property
    def called(self) -> str:
        """The name of the pull request in a sentence: `pull request 12`, `merge request 7` or `alice:fix`."""
        if self.number is None:
            return f"{self.owner}:{safe(self.branch or '')}"
        return f"{'merge' if self.kind == MERGE else 'pull'} request {self.number}"

    @property
    def directory(self) -> str:
        """The name of its worktree, which no other pull request has.

        `review-123`, or `review-owner-branch`. A name that is not exactly owner and branch, or could be read as another owner
        and branch, ends in a checksum, whose letter keeps it from being read as a number.
        """
        if self.number is not None:
            return f"review-{self.number}"
        owner, branch = self.owner or "", self.branch or ""
        if _is_exact(owner, branch):
            return f"review-{owner}-{branch}"
        words = [*filter(None, _dashed(f"{owner}-{branch}")[:_MOST_SHOWN].split("-")), _checksum(f"{owner}:{branch}")]
        return f"review-{'-'.join(words)}"

    @property
    def former_directory(self) -> str:
        """The name that its worktree had before names were unique."""
        words = filter(None, _dashed(f"{self.owner}-{self.branch}").split("-"))
        return f"review-{'-'.join(words)[:80]}"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What a forge reports about it. None is unknown."""

    number: int | None
    title: str | None = None
    author: str | None = None
    base: str | None = None
    head: str | None = None  # its branch; None also when no local branch may have that name
    fork: tuple[str, str] | None = None  # (owner, name) of its branch's repository, if that is another one
    is_fork: bool | None = None
    can_modify: bool | None = None
    url: str | None = None
    state: str | None = None  # OPEN, MERGED or CLOSED
    draft: bool | None = None
    ci: str | None = None  # passed, failed, pending, or none: it has no checks
    review: str | None = None  # approved, changes (requested) or needed
    sha: str | None = None  # its last commit
    landed: str | None = None  # the commit that merged it
    updated_at: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state == "OPEN"


def parse(text: str) -> PullRequestMention:
    """Parse `123`, `#123`, `!7`, the address of a page, or `owner:branch`; UsageError otherwise."""
    word = text.strip()
    if "://" in word:
        return _from_url(word)
    bare = word[1:] if word[:1] in ("#", "!") else word
    if bare.isascii() and bare.isdecimal():
        return PullRequestMention(_number(bare, word), MERGE if word.startswith("!") else None)
    owner, colon, branch = word.partition(":")
    if colon and is_account_name(owner):
        problem = branch_problem(branch)
        if problem is not None:
            raise UsageError(f"the branch {safe(branch, 80) or '(empty)'} {problem}", code="bad-pr")
        return PullRequestMention(owner=owner, branch=branch)
    raise _unclear(text)


def is_account_name(text: str) -> bool:
    """Return whether this may be the name of an account or repository; it becomes part of addresses and `gh` calls."""
    plain = text.isascii() and all(char.isalnum() or char in "-_." for char in text)
    return plain and 0 < len(text) <= _MOST_OWNER and text[0] not in "-." and ".." not in text


def _dashed(text: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in text)


def _is_exact(owner: str, branch: str) -> bool:
    """Return whether `owner-branch` is a file name that can be split into owner and branch again."""
    if not (owner.isascii() and owner.isalnum() and branch.isascii()) or len(owner) + len(branch) > _MOST_SHOWN:
        return False
    tail = branch.rpartition("-")[2]
    looks_like_checksum = len(tail) == _CHECKSUM_LENGTH and tail.startswith(_CHECKSUM_LETTER)
    return not looks_like_checksum and all(char.isalnum() or char in "-_.+" for char in branch)


def _checksum(text: str) -> str:
    from hashlib import sha256

    return _CHECKSUM_LETTER + sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[: _CHECKSUM_LENGTH - 1]


def _from_url(url: str) -> PullRequestMention:
    """Parse `https://host/owner/name/pull/12/files#r1`, `https://host/group/name/-/merge_requests/7`."""
    parts = split_url(url)
    if parts is None or parts.scheme not in ("https", "http") or not parts.hostname or not url.isprintable():
        raise _unclear(url)
    steps = [step for step in parts.path.split("/") if step]
    for index in range(2, len(steps) - 1):
        number = steps[index + 1]
        if steps[index] in _PAGES and number.isascii() and number.isdecimal():
            project = [step for step in steps[:index] if step != "-"]
            where = RemoteAddress(parts.hostname, "/".join(project))
            return PullRequestMention(_number(number, url), _PAGES[steps[index]], where)
    raise _unclear(url)


def _number(digits: str, shown: str) -> int:
    number = int(digits) if len(digits) < 20 else 0
    if not 0 < number <= _MOST_NUMBER:
        raise UsageError(f"{safe(shown, 80)} is not the number of a pull request", code="bad-pr")
    return number


def _unclear(text: str) -> UsageError:
    return UsageError(
        f"{safe(text, 120)!r} is not a pull request: give 123, #123, the address of its page, or owner:branch",
        code="bad-pr",
    )
