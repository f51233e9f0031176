"""Commits as values, and the one way to list them: plumbing, so that no configuration changes the answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.runner import Git

MOST_COMMITS = 1000  # more commits than a person can look at; callers who count know that the list may be cut here
_FORMAT = "%H%x00%an%x00%ct%x00%s"

# What decides about somebody's work must see the objects as they are: replacements and grafts are local and can be
# forged, and a partial clone must fail rather than go to the network in the middle of a question.
UNALTERED_HISTORY = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; `when` is its committer date as it is stored everywhere else (RFC 3339, UTC)."""

    sha: str
    subject: str
    author: str
    when: str


def commit_time(seconds: int) -> str:
    """A committer date; a forged one outside the calendar is shown as the epoch instead of failing the list."""
    try:
        return times.stamp(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, OSError, ValueError):
        return times.stamp(datetime.fromtimestamp(0, UTC))


def list_commits(git: Git, *revisions: str, options: Sequence[str] = (), limit: int = MOST_COMMITS) -> list[Commit]:
    """The commits that `revisions` (full ids, `^` in front to leave out) and `options` select, newest first."""
    text = git.text(
        "rev-list",
        "--no-commit-header",
        f"--format={_FORMAT}",
        "--encoding=UTF-8",
        f"--max-count={limit}",
        *options,
        "--end-of-options",
        *revisions,
        "--",
        env=UNALTERED_HISTORY,
    )
    # A subject never holds a newline, but it may hold other characters that str.splitlines would split at.
    return [_commit(line) for line in text.split("\n") if line]


def _commit(line: str) -> Commit:
    sha, author, seconds, subject = line.split("\0", 3)
    return Commit(sha, subject, author, commit_time(int(seconds)))
