"""Diffs of a worktree: what is not committed, what is staged, what it would bring to the trunk, what a commit did.

git's output is streamed through a reader that keeps only what can be looked at, so a huge diff costs time but no
memory; a comparison that takes too long ends where it is and says so.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Literal

from imi_monitor.git import untracked
from imi_monitor.git.commits import HONEST
from imi_monitor.git.refs import check_commit_id, check_revision, resolve
from imi_monitor.model.diff import USUAL, Diff, DiffLimits
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.patch_parser import PatchParser
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.run import Git

Kind = Literal["all", "unstaged", "staged", "trunk"]

_TIMEOUT = 30.0
_MOST_BYTES = 1 << 30
_BETWEEN_PARTS = 0.15  # seconds between two looks at what has come so far
# no programs of a repository's choice, trusted or not: what they print is no patch
_OPTIONS = (
    "--no-ext-diff",
    "--no-textconv",
    "--patch",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--find-renames",
    "--unified=3",
    "--inter-hunk-context=0",
    "--submodule=short",
    "--no-relative",
    "-O/dev/null",
)
_NAMES_AS_THEY_ARE = [("core.quotePath", "false")]
_STOPPED = {
    "git-timeout": f"git took longer than {_TIMEOUT:g} s: this is not all",
    "git-too-much": f"the diff is larger than {_MOST_BYTES >> 20} MB: this is not all",
}


def read(
    git: Git,
    kind: Kind,
    *,
    trunk: str | None = None,
    paths: Sequence[str] = (),
    limits: DiffLimits = USUAL,
    new_files: bool = True,
    on_part: Callable[[Diff], None] | None = None,
) -> Diff:
    """What the worktree changed. `trunk` is the full ref or id it is compared with by `kind` trunk.

    Untracked files count as changed wherever the files on disk are looked at (never for `staged`), unless `new_files`
    says that they are of no interest.
    """
    if git.work_tree is None:
        raise GitError(f"{safe(git.common_dir)} is bare here: it has no files to look at", code="bare")
    revisions, base = _against(git, kind, trunk)
    only = ("--", *(f":(top,literal){path}" for path in paths))
    found = replace(_streamed(git, ("diff", *_OPTIONS, *revisions, *only), limits, on_part), base=base)
    if kind == "staged" or not new_files:
        return found
    more = DiffLimits(limits.lines_of_file, max(0, limits.lines - _kept(found)), limits.files, limits.width)
    return found.joined(untracked.read(git, paths, more))


def of_commit(
    git: Git,
    sha: str,
    *,
    paths: Sequence[str] = (),
    limits: DiffLimits = USUAL,
    on_part: Callable[[Diff], None] | None = None,
) -> Diff:
    """What one commit did: against its first parent, or against nothing if it is the first."""
    check_commit_id(sha)
    line = git.text("rev-list", "--max-count=1", "--parents", "--end-of-options", sha, "--", env=HONEST)
    parents = line.split()[1:]
    only = ("--", *(f":(top,literal){path}" for path in paths))
    trees = (parents[0], sha) if parents else ("--root", sha)
    words = ("diff-tree", "-r", "--no-commit-id", *_OPTIONS, *trees, *only)
    return replace(_streamed(git, words, limits, on_part), base=parents[0][:8] if parents else None)


def _against(git: Git, kind: Kind, trunk: str | None) -> tuple[tuple[str, ...], str | None]:
    """What git is told to compare with, and what people call that."""
    if kind == "staged":
        return ("--cached",), "HEAD"
    head = resolve(git, "HEAD")
    if kind == "unstaged":
        return (), "the index"
    if kind == "all":
        return ((head,), "HEAD") if head else ((_empty_tree(git),), None)
    if trunk is None:
        raise Refused("there is no trunk to compare with: neither main, master nor a remote's default", code="no-trunk")
    if head is None:
        raise Refused("nothing is committed here yet, so there is nothing to compare with the trunk", code="unborn")
    return (fork(git, head, trunk),), short(trunk)


def fork(git: Git, head: str, trunk: str) -> str:
    """The commit at which the two went apart."""
    found = git.run(
        "merge-base", "--end-of-options", check_commit_id(head), check_revision(trunk), ok=(0, 1), env=HONEST
    )
    base = found.stdout.decode("ascii", "replace").strip()
    if not base:
        raise Refused(f"this branch and {safe(short(trunk))} have no commit in common", code="unrelated")
    return check_commit_id(base)


def short(ref: str) -> str:
    """A full ref as people say it."""
    return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")


def _empty_tree(git: Git) -> str:
    """The id of the tree without files, which every repository knows whether it is stored or not."""
    return git.text("hash-object", "-t", "tree", "--stdin")


def _streamed(git: Git, words: tuple[str, ...], limits: DiffLimits, on_part: Callable[[Diff], None] | None) -> Diff:
    reader = PatchParser(limits)
    told = time.monotonic()

    def arrived(data: bytes) -> None:
        nonlocal told
        reader.feed(data)
        if on_part is not None and time.monotonic() - told >= _BETWEEN_PARTS:
            told = time.monotonic()
            on_part(reader.diff)

    try:
        git.run(*words, timeout=_TIMEOUT, cap=_MOST_BYTES, on_stdout=arrived, env=HONEST, settings=_NAMES_AS_THEY_ARE)
    except GitError as error:
        if error.code not in _STOPPED:
            raise
        return replace(reader.close(), unfinished=_STOPPED[error.code])
    return reader.close()


def _kept(diff: Diff) -> int:
    return sum(file.kept for file in diff.files)
