"""The log of a branch page by page: first the commits the trunk does not have, then what both stand on.

No page makes git read more history than it must: commits come in the order of their dates, which git streams, and a
history of a million commits is never read whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from imi_monitor.git.commits import HONEST, moment
from imi_monitor.git.diff import short
from imi_monitor.git.refs import check_commit_id, check_revision, resolve
from imi_monitor.model.commit_graph import CommitLogEntry, CommitLogPage
from imi_monitor.model.errors import GitError
from imi_monitor.model.names import is_commit_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.run import Git

_FORMAT = "--format=%H%x00%P%x00%an%x00%ct%x00%D%x00%s"
_OURS = re.compile(r"imi/[^/]+/(pull|merge-requests)/")  # refs of our own, of which nobody else knows
_LONGEST = 1 << 12  # bytes of one commit's line that are kept: a subject may be megabytes
_TIMEOUT = 20.0
_DIVIDING = 2.0  # seconds for finding the commits in common: without any, the whole history has to be walked
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Tips:
    """Where a log begins: the branch's commit, and what it has in common with the trunk (None: everything is its own)."""

    head: str | None
    common: tuple[str, ...] | None
    trunk: str | None


def tips(git: Git, trunk: str | None) -> Tips:
    """Of the worktree's HEAD against `trunk`, a full ref or id; `head` is None before the first commit.

    Without a trunk, or when it takes too long to find where they went apart, the log is not divided and `trunk` is None.
    """
    head = resolve(git, "HEAD")
    if head is None or trunk is None:
        return Tips(head, None, short(trunk) if trunk else None)
    try:
        return Tips(head, _common(git, head, trunk), short(trunk))
    except GitError as error:
        if error.code != "git-timeout":
            raise
        return Tips(head, None, None)


def _common(git: Git, head: str, trunk: str) -> tuple[str, ...]:
    found = git.run(
        "merge-base", "--all", "--end-of-options", head, check_revision(trunk), ok=(0, 1), timeout=_DIVIDING, env=HONEST
    )
    return tuple(line for line in found.stdout.decode("ascii", "replace").split() if is_commit_id(line))


def page(git: Git, tips: Tips, seen: tuple[int, int], size: int) -> CommitLogPage:
    """The next `size` commits behind those already seen."""
    if tips.head is None:
        return CommitLogPage((), tips.trunk, False, seen)
    own, older = seen
    outside = [f"^{check_commit_id(sha)}" for sha in tips.common or ()]
    found: list[CommitLogEntry] = []
    if not older:
        found = _entries(git, [check_commit_id(tips.head), *outside], own, size + 1, own=True)
    if len(found) > size:
        return CommitLogPage(tuple(found[:size]), tips.trunk, True, (own + size, 0))
    own += len(found)
    if not tips.common:
        return CommitLogPage(tuple(found), tips.trunk, False, (own, 0))
    left = size - len(found)
    rest = _entries(git, [check_commit_id(sha) for sha in tips.common], older, left + 1, own=False)
    kept = rest[:left]
    return CommitLogPage((*found, *kept), tips.trunk, len(rest) > left, (own, older + len(kept)))


def _entries(git: Git, revisions: list[str], skip: int, most: int, *, own: bool) -> list[CommitLogEntry]:
    lines = _Lines()
    git.run(
        "rev-list",
        "--no-commit-header",
        _FORMAT,
        "--encoding=UTF-8",
        f"--max-count={most}",
        f"--skip={skip}",
        "--end-of-options",
        *revisions,
        "--",
        timeout=_TIMEOUT,
        cap=_MOST_BYTES,
        on_stdout=lines.feed,
        env=HONEST,
    )
    return [entry for line in lines.close() if (entry := _entry(line, own)) is not None]


class _Lines:
    """Splits what comes into lines and keeps only the beginning of each."""

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        if whole:
            self._done.append((self._rest + whole[0])[:_LONGEST])
            self._done += [line[:_LONGEST] for line in whole[1:]]
            self._rest = b""
        self._rest = (self._rest + rest)[:_LONGEST]

    def close(self) -> list[bytes]:
        return [*self._done, self._rest] if self._rest else self._done


def _entry(line: bytes, own: bool) -> CommitLogEntry | None:
    """None for what is no commit's line."""
    fields = line.decode("utf-8", "surrogateescape").split("\0")
    if len(fields) < 6 or not is_commit_id(fields[0]):
        return None
    sha, parents, author, seconds, refs, subject = fields[:6]
    when = moment(int(seconds)) if seconds.isdecimal() and len(seconds) < 20 else None
    names = tuple(
        name for name in refs.replace("HEAD -> ", "").split(", ") if name and name != "HEAD" and not _OURS.match(name)
    )
    return CommitLogEntry(sha, tuple(parents.split()), subject, author, when, names, own)
