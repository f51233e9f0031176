"""Lists commits with plumbing commands, so that no configuration changes the answer."""

from __future__ import annotations

import time

from imi_monitor.model.commit import Commit
from imi_monitor.model.errors import GitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from imi_monitor.git.runner import Git

_YEAR_1000, _YEAR_10000 = 30_610_224_000, 253_402_300_800  # seconds before and after 1970: years of four digits
MOST_COMMITS = 1000  # callers that count commits must treat a list of this length as cut
_FORMAT = "%H%x00%an%x00%ct%x00%s"

# The environment of questions that decide about a user's work. Replacements and grafts are local and can be forged, so they
# are ignored; a partial clone must fail instead of fetching objects.
UNALTERED_HISTORY = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}


def commit_time(seconds: int) -> str:
    """Return a committer date as it is stored; a forged date outside the calendar becomes the epoch."""
    known = seconds if -_YEAR_1000 <= seconds < _YEAR_10000 else 0
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00", time.gmtime(known))


def list_commits(git: Git, *revisions: str, options: Sequence[str] = (), limit: int = MOST_COMMITS) -> list[Commit]:
    """Return the commits selected by `revisions` (full ids, excluded with a leading `^`) and `options`, newest first."""
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
    # not str.splitlines: a subject has no newline, but may contain other line separators
    return [_parse(line) for line in text.split("\n") if line]


_known: dict[tuple[str, str], Commit] = {}
_MOST_KNOWN = 8000


def read_commits(git: Git, shas: Iterable[str]) -> None:
    """Read several commits into the cache by one process; none if one of them cannot be read."""
    wanted = [sha for sha in dict.fromkeys(shas) if (git.common_dir, sha) not in _known]
    if len(wanted) < 2:
        return  # `find_commit` needs one process too
    try:
        found = list_commits(git, *wanted, options=("--no-walk",), limit=len(wanted))
    except GitError:  # then each is read alone, and only the broken one stays unknown
        return
    if len(_known) + len(found) > _MOST_KNOWN:
        _known.clear()
    _known.update({(git.common_dir, one.sha): one for one in found})


def find_commit(git: Git, sha: str) -> Commit | None:
    """Return a commit, which never changes; None when it cannot be read."""
    key = (git.common_dir, sha)
    if key in _known:
        return _known[key]
    try:
        found = list_commits(git, sha, limit=1)
    except GitError:
        return None
    if found:
        _known[key] = found[0]
    return found[0] if found else None


def _parse(line: str) -> Commit:
    sha, author, seconds, subject = line.split("\0", 3)
    return Commit(sha, subject, author, commit_time(int(seconds)))
