"""The pull requests of a project as a forge listed them last, their words for people, and which one a branch belongs to."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

CI_WORDS = {"passed": "CI ✓", "failed": "CI ✗", "pending": "CI …"}
REVIEW_WORDS = {"approved": "approved", "changes": "changes asked", "needed": "to review"}


@dataclass(frozen=True, slots=True)
class PullRequestList:
    """What `via` (gh, glab) listed at `read_at`, and why a later attempt failed.

    `total` counts the open ones on the forge, of which the list may hold only those that changed last.
    """

    project: str  # host/owner/name in small letters
    via: str | None = None
    read_at: str | None = None
    total: int = 0
    pulls: tuple[PullRequest, ...] = ()
    problem: str | None = None
    problem_since: str | None = None

    @property
    def open_ones(self) -> tuple[PullRequest, ...]:
        return tuple(pull for pull in self.pulls if pull.is_open)

    def find(self, number: int) -> PullRequest | None:
        return next((pull for pull in self.pulls if pull.number == number), None)

    def find_branch(self, branch: str, head: str | None, own: Collection[str]) -> PullRequest | None:
        """The pull request that comes from this branch of one of the `own` projects.

        One that is not open counts only at its last commit: a branch may have got its name from an earlier one.
        """
        found = [pull for pull in self.pulls if pull.head == branch and _is_own(pull, own)]
        found = [pull for pull in found if pull.is_open or (head is not None and pull.sha == head)]
        return max(found, key=lambda pull: (pull.is_open, pull.number or 0), default=None)

    def of_worktree(
        self, number: int | None, branch: str | None, head: str | None, own: Collection[str]
    ) -> PullRequest | None:
        """The pull request of a review's number, else of a worktree's branch."""
        if number is not None:
            return self.find(number)
        return self.find_branch(branch, head, own) if branch is not None else None

    def origin(self, now: datetime) -> str:
        """Return where the list is from: `12 open pull requests from gh, 40s ago; offline since 14:02: …`."""
        parts = []
        if self.read_at is not None:
            shown = len(self.open_ones)
            some = f", the {shown} that changed last" if self.total > shown else ""
            number = count(max(self.total, shown), "open pull request")
            parts.append(f"{number} from {self.via}{some}, {times.age_of(self.read_at, now)} ago")
        if self.problem is not None:
            since = f" (for {times.age_of(self.problem_since, now)})" if self.read_at is not None else ""
            parts.append(f"{self.problem}{since}")
        return "; ".join(parts)


def _is_own(pull: PullRequest, own: Collection[str]) -> bool:
    if pull.is_fork is False:
        return True
    return pull.fork is not None and "/".join(pull.fork).lower() in own


def standing(pull: PullRequest) -> str:
    """`#12 CI ✓ approved`: number, what became of it, else CI and review."""
    if pull.state in ("MERGED", "CLOSED"):
        return f"#{pull.number} {pull.state.lower()}"
    review = "draft" if pull.draft else REVIEW_WORDS.get(pull.review or "", "")
    return " ".join(filter(None, (f"#{pull.number}", CI_WORDS.get(pull.ci or "", ""), review)))


def prospect(pull: PullRequest) -> str:
    """`bad` if checks failed or changes are asked for, `good` if it is merged or can be, else empty."""
    if pull.state == "MERGED":
        return "good"
    if not pull.is_open:
        return ""
    if pull.ci == "failed" or pull.review == "changes":
        return "bad"
    return "good" if pull.review == "approved" and pull.ci in ("passed", "none") else ""


def described(pull: PullRequest) -> str:
    """`Add login, by alice`, as far as it is known; safe to show."""
    return ", ".join(filter(None, (safe(pull.title or "", 200), f"by {safe(pull.author, 40)}" if pull.author else "")))


def pull_request_data(pull: PullRequest) -> dict[str, object]:
    """A pull request for JSON."""
    return {
        "number": pull.number,
        "title": pull.title,
        "author": pull.author,
        "state": pull.state.lower() if pull.state else None,
        "draft": pull.draft,
        "ci": pull.ci,
        "review": pull.review,
        "base": pull.base,
        "head": pull.head,
        "fork": "/".join(pull.fork) if pull.fork else None,
        "commit": pull.sha,
        "merged_as": pull.landed,
        "url": pull.url,
        "updated_at": pull.updated_at,
    }
