"""The log of a branch in pages: first the commits that the trunk does not have, then their common history.

A page reads no more history than it needs: git streams commits in the order of their dates, so a history of a million commits
is never read whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from imi_monitor.git.commits import UNALTERED_HISTORY, commit_time
from imi_monitor.git.git_diff import short_ref
from imi_monitor.git.refs import check_commit_id, check_revision, resolve
from imi_monitor.model.commit_graph import CommitLogEntry, CommitLogPage
from imi_monitor.model.errors import GitError
from imi_monitor.model.names import is_commit_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git

_FORMAT = "--format=%H%x00%P%x00%an%x00%ct%x00%D%x00%s"
_OURS = re.compile(r"imi/[^/]+/(pull|merge-requests)/")  # refs that only imi uses
_LONGEST = 1 << 12  # bytes kept of the line of one commit: a subject may have megabytes
_TIMEOUT = 20.0
_MERGE_BASE_TIMEOUT = 2.0  # seconds to find the merge bases: unrelated histories have to be walked whole
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class LogTips:
    """The start of a log: the branch's commit, and its merge bases with the trunk (None: all commits are its own)."""

    head: str | None
    common: tuple[str, ...] | None
    trunk: str | None


def log_tips(git: Git, trunk: str | None) -> LogTips:
    """Return the start of the log of HEAD against `trunk` (a full ref or id); `head` is None before the first commit.

    Without a trunk, or when the merge bases take too long to find, the log is not divided and `trunk` is None.
    """
    head = resolve(git, "HEAD")
    if head is None or trunk is None:
        return LogTips(head, None, short_ref(trunk) if trunk else None)
    try:
        return LogTips(head, _merge_bases(git, head, trunk), short_ref(trunk))
    except GitError as error:
        if error.code != "git-timeout":
            raise
        return LogTips(head, None, None)


def _merge_bases(git: Git, head: str, trunk: str) -> tuple[str, ...]:
    found = git.run(
        *("merge-base", "--all", "--end-of-options", head, check_revision(trunk)),
        ok=(0, 1),
        timeout=_MERGE_BASE_TIMEOUT,
        env=UNALTERED_HISTORY,
    )
    return tuple(line for line in found.stdout.decode("ascii", "replace").split() if is_commit_id(line))


def log_page(git: Git, tips: LogTips, seen: tuple[int, int], size: int) -> CommitLogPage:
    """Return the next `size` commits after the `seen` ones."""
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
        env=UNALTERED_HISTORY,
    )
    return [entry for line in lines.close() if (entry := _entry(line, own)) is not None]


class _Lines:
    """Splits a stream into lines and keeps only the beginning of each."""

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
    """Parse the line of one commit; None when it is none."""
    fields = line.decode("utf-8", "surrogateescape").split("\0")
    if len(fields) < 6 or not is_commit_id(fields[0]):
        return None
    sha, parents, author, seconds, refs, subject = fields[:6]
    when = commit_time(int(seconds)) if seconds.isdecimal() and len(seconds) < 20 else None
    names = tuple(
        name for name in refs.replace("HEAD -> ", "").split(", ") if name and name != "HEAD" and not _OURS.match(name)
    )
    return CommitLogEntry(sha, tuple(parents.split()), subject, author, when, names, own)
