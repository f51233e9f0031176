"""The log of a branch page by page: first the commits the trunk does not have, then what both stand on.

No page makes git read more history than it must: commits come in the order of their dates, which git streams, and a
history of a million commits is never read whole.

The GitPython room: commits, refs and configuration of a repository, read for showing them. It never writes.

GitPython costs 50 ms to import, so only the functions import it. It is kept on a short leash: single values are read
without includes (they may name any file), refs are read in process, objects come from one `git cat-file --batch` in the
environment of all our git processes. What it cannot read (names that are no UTF-8, other ref formats, foreign GIT_*
variables around us) is asked of git itself.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

from imi_monitor.git import commits
from imi_monitor.git.commits import UNALTERED_HISTORY, Commit, commit_time
from imi_monitor.git.environment import git_environment
from imi_monitor.git.git_diff import short_ref
from imi_monitor.git.refs import check_commit_id, check_revision, resolve
from imi_monitor.git.runner import Git
from imi_monitor.git.safety import neutral_settings
from imi_monitor.model.commit_graph import CommitLogEntry, CommitLogPage
from imi_monitor.model.errors import GitError
from imi_monitor.model.names import is_commit_id
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    import git as gitpython

    from imi_monitor.git.runner import Git


_FORMAT = "--format=%H%x00%P%x00%an%x00%ct%x00%D%x00%s"
_OURS = re.compile(r"imi/[^/]+/(pull|merge-requests)/")  # refs of our own, of which nobody else knows
_LONGEST = 1 << 12  # bytes of one commit's line that are kept: a subject may be megabytes
_TIMEOUT = 20.0
_DIVIDING = 2.0  # seconds for finding the commits in common: without any, the whole history has to be walked
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class LogTips:
    """Where a log begins: the branch's commit, and what it has in common with the trunk (None: everything is its own)."""

    head: str | None
    common: tuple[str, ...] | None
    trunk: str | None


def log_tips(git: Git, trunk: str | None) -> LogTips:
    """Of the worktree's HEAD against `trunk`, a full ref or id; `head` is None before the first commit.

    Without a trunk, or when it takes too long to find where they went apart, the log is not divided and `trunk` is None.
    """
    head = resolve(git, "HEAD")
    if head is None or trunk is None:
        return LogTips(head, None, short_ref(trunk) if trunk else None)
    try:
        return LogTips(head, _common(git, head, trunk), short_ref(trunk))
    except GitError as error:
        if error.code != "git-timeout":
            raise
        return LogTips(head, None, None)


def _common(git: Git, head: str, trunk: str) -> tuple[str, ...]:
    found = git.run(
        "merge-base",
        "--all",
        "--end-of-options",
        head,
        check_revision(trunk),
        ok=(0, 1),
        timeout=_DIVIDING,
        env=UNALTERED_HISTORY,
    )
    return tuple(line for line in found.stdout.decode("ascii", "replace").split() if is_commit_id(line))


def log_page(git: Git, tips: LogTips, seen: tuple[int, int], size: int) -> CommitLogPage:
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
        env=UNALTERED_HISTORY,
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
    when = commit_time(int(seconds)) if seconds.isdecimal() and len(seconds) < 20 else None
    names = tuple(
        name for name in refs.replace("HEAD -> ", "").split(", ") if name and name != "HEAD" and not _OURS.match(name)
    )
    return CommitLogEntry(sha, tuple(parents.split()), subject, author, when, names, own)


_MOST_CONFIG = 1 << 20


def recent_commits(common_dir: str, ref: str = "HEAD", limit: int = 20) -> list[Commit]:
    """The last commits of a full ref, a full id or HEAD (the main worktree's), newest first; none when unborn."""
    check_revision(ref)
    repo = _open(common_dir)
    if repo is not None:
        with repo:
            try:
                return list(_walk(repo, _tip(repo, ref), limit))
            except _unreadable():
                pass  # git itself decides below what this is
    git = Git(common_dir)
    sha = resolve(git, ref)
    if sha is None and ref != "HEAD":
        raise GitError(f"{safe(ref)} does not exist here", code="no-ref")
    return commits.list_commits(git, sha, limit=limit) if sha else []


def read_refs(common_dir: str, room: str = "refs/heads") -> dict[str, str]:
    """Full names and ids of the refs in one room, read in process; tags that are objects keep their own id."""
    repo = _open(common_dir)
    if repo is not None:
        import git as gitpython

        with repo:
            try:
                found = gitpython.Reference.iter_items(repo, room)
                return {ref.path: ref.dereference_recursive(repo, ref.path) for ref in found}
            except _unreadable():
                pass
    text = Git(common_dir).text("for-each-ref", "--format=%(refname) %(objectname)", "--end-of-options", room)
    return dict(line.split(" ") for line in text.split("\n") if line)


def tags(common_dir: str) -> dict[str, str]:
    """The tags, named without `refs/tags/`."""
    return {name.removeprefix("refs/tags/"): sha for name, sha in read_refs(common_dir, "refs/tags").items()}


def remote_urls(common_dir: str) -> dict[str, str]:
    """What the repository's own configuration says about its remotes; the real address may be rewritten by others."""
    parser = _parser(common_dir)
    named = {title[8:-1]: title for title in parser.sections() if title.startswith('remote "')}
    return {name: urls[0] for name, title in named.items() if (urls := _values(parser, title, "url"))}


def read_config(common_dir: str, key: str) -> str | None:
    """One value (the last) of the repository's own configuration, such as `remote.origin.url`; no includes."""
    section, _, option = key.rpartition(".")
    head, dot, name = section.partition(".")
    title = f'{head.lower()} "{name}"' if dot else head.lower()
    values = _values(_parser(common_dir), title, option.lower())
    return values[-1] if values else None


def _open(common_dir: str) -> gitpython.Repo | None:
    """The repository for GitPython; None where only git itself can be relied on to read it right."""
    env = {**git_environment(neutral_settings(common_dir, common_dir, False)), **UNALTERED_HISTORY}
    # GitPython passes all our variables on to itself and to git: one that we would drop could name another repository.
    if any(name.startswith("GIT_") and name not in env and not name.startswith("GIT_PYTHON_") for name in os.environ):
        return None
    import git as gitpython

    try:
        repo = gitpython.Repo(common_dir, expand_vars=False)
    except (gitpython.exc.GitError, OSError, ValueError) as problem:
        raise GitError(f"{safe(common_dir)} is no git repository that can be read", code="no-repository") from problem
    repo.git.update_environment(**env, GIT_DIR=common_dir)
    return repo


def _unreadable() -> tuple[type[Exception], ...]:
    import git as gitpython

    return (gitpython.exc.GitError, gitpython.exc.ODBError, ValueError, TypeError, AssertionError, OSError)


def _tip(repo: gitpython.Repo, ref: str) -> str:
    import git as gitpython

    return ref if is_commit_id(ref) else gitpython.SymbolicReference.dereference_recursive(repo, ref)


def _walk(repo: gitpython.Repo, tip: str, limit: int) -> Iterator[Commit]:
    for found in repo.iter_commits(tip, max_count=limit):
        subject = str(found.summary)
        yield Commit(found.hexsha, subject, found.author.name or "", commits.commit_time(found.committed_date))


def _values(parser: gitpython.GitConfigParser, title: str, option: str) -> list[str]:
    """All values of a key as they are written; git takes a key without a value for true."""
    found = dict(parser.items_all(title)) if parser.has_section(title) else {}
    return ["true" if value is None else str(value) for value in found.get(option, [])]


def _parser(common_dir: str) -> gitpython.GitConfigParser:
    """The repository's configuration file alone; anything but a small regular file could block us for ever."""
    import git as gitpython

    path = os.path.join(common_dir, "config")
    try:
        info = os.stat(path)
    except OSError as problem:
        raise GitError(f"{safe(path)} cannot be read: {problem.strerror}", code="unreadable") from problem
    if not stat.S_ISREG(info.st_mode) or info.st_size > _MOST_CONFIG:
        raise GitError(f"{safe(path)} is no configuration file", code="unreadable")
    return gitpython.GitConfigParser(path, read_only=True, merge_includes=False)
