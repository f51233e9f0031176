"""Diffs of a worktree: what is not committed, what is staged, what it would bring to the trunk, what a commit did.

git's output is streamed through a reader that keeps only what can be looked at, so a huge diff costs time but no
memory; a comparison that takes too long ends where it is and says so.

The content of files git does not track, as a diff that adds them: read from the disk, without git and its filters.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import replace
from typing import Literal

from imi_monitor.git.commits import UNALTERED_HISTORY
from imi_monitor.git.refs import check_commit_id, check_revision, resolve
from imi_monitor.model.diff import ADDED, NOTE, USUAL, Diff, DiffHunk, DiffLimits, DiffLine, FileDiff
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.patch_parser import PatchParser
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.runner import Git


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


def read_diff(
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
    return found.joined(read_untracked(git, paths, more))


def read_commit_diff(
    git: Git,
    sha: str,
    *,
    paths: Sequence[str] = (),
    limits: DiffLimits = USUAL,
    on_part: Callable[[Diff], None] | None = None,
) -> Diff:
    """What one commit did: against its first parent, or against nothing if it is the first."""
    check_commit_id(sha)
    line = git.text("rev-list", "--max-count=1", "--parents", "--end-of-options", sha, "--", env=UNALTERED_HISTORY)
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
    return (find_merge_base(git, head, trunk),), short_ref(trunk)


def find_merge_base(git: Git, head: str, trunk: str) -> str:
    """The commit at which the two went apart."""
    found = git.run(
        "merge-base", "--end-of-options", check_commit_id(head), check_revision(trunk), ok=(0, 1), env=UNALTERED_HISTORY
    )
    base = found.stdout.decode("ascii", "replace").strip()
    if not base:
        raise Refused(f"this branch and {safe(short_ref(trunk))} have no commit in common", code="unrelated")
    return check_commit_id(base)


def short_ref(ref: str) -> str:
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
        git.run(
            *words,
            timeout=_TIMEOUT,
            cap=_MOST_BYTES,
            on_stdout=arrived,
            env=UNALTERED_HISTORY,
            settings=_NAMES_AS_THEY_ARE,
        )
    except GitError as error:
        if error.code not in _STOPPED:
            raise
        return replace(reader.close(), unfinished=_STOPPED[error.code])
    return reader.close()


def _kept(diff: Diff) -> int:
    return sum(file.kept for file in diff.files)


_UNTRACKED_TIMEOUT = 30.0
_MOST_NAMES = 8 << 20  # bytes of names
_MOST_UNTRACKED_BYTES = 4 << 20  # of one file
_MOST_ALTOGETHER = 64 << 20
_LOOKED_AT = 8000  # bytes in which a NUL means binary, as for git
_NO_END = "No newline at end of file"


def read_untracked(git: Git, paths: Sequence[str], limits: DiffLimits) -> Diff:
    """Every untracked file that is not ignored; beyond the limits they are only counted."""
    names, more = _names(git, paths)
    files, room, left = [], limits.lines, _MOST_ALTOGETHER
    for name in names[: limits.files]:
        if git.cancelled is not None and git.cancelled():
            raise GitError("reading the untracked files was cancelled", code="cancelled")
        file, size = _file(git.work_tree or "", name, limits, room, min(left, _MOST_UNTRACKED_BYTES))
        left -= size
        if file is not None:
            files.append(file)
            room -= file.kept
    unfinished = "there are more untracked files than can be listed" if more else None
    return Diff(tuple(files), unfinished=unfinished, omitted=max(0, len(names) - limits.files))


def written(work_tree: str, paths: Sequence[str]) -> dict[str, float]:
    """When these files were written last, in seconds since the epoch; what is gone or cannot be seen is left out."""
    found: dict[str, float] = {}
    for path in paths:
        try:
            found[path] = os.lstat(os.path.join(work_tree, path)).st_mtime
        except (OSError, ValueError):
            continue
    return found


def _names(git: Git, paths: Sequence[str]) -> tuple[list[str], bool]:
    """The names, and whether there are more."""
    kept = bytearray()
    only = (f":(top,literal){path}" for path in paths)
    capped = False
    try:
        git.run(
            "ls-files",
            "--others",
            "--exclude-standard",
            "--full-name",
            "-z",
            "--",
            *only,
            timeout=_UNTRACKED_TIMEOUT,
            cap=_MOST_NAMES,
            on_stdout=kept.extend,
        )
    except GitError as error:
        if error.code not in ("git-too-much", "git-timeout"):
            raise
        capped = True
    names = bytes(kept).split(b"\0")[:-1]  # what follows the last NUL is nothing, or half a name
    return [os.fsdecode(name) for name in names], capped


def _file(work_tree: str, name: str, limits: DiffLimits, room: int, most: int) -> tuple[FileDiff | None, int]:
    """The file, None when it is gone since git listed it; and how many bytes were read for it."""
    path = os.path.join(work_tree, name)
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            return _added(name, os.fsencode(os.readlink(path)), "120000", limits, room, 0), 0
        if stat.S_ISDIR(info.st_mode):
            return _unread(name, "another repository"), 0
        if not stat.S_ISREG(info.st_mode):
            return _unread(name, "no regular file: a pipe, socket or device"), 0
        if most <= 0:
            return _unread(name, f"{_size(info.st_size)}, not read: there is too much that is new"), 0
        data = _beginning(path, most)
    except FileNotFoundError:
        return None, 0
    except OSError as error:
        return _unread(name, f"cannot be read: {error.strerror}"), 0
    mode = "100755" if info.st_mode & 0o100 else "100644"
    if b"\0" in data[:_LOOKED_AT]:
        size = _size(info.st_size)
        return FileDiff(name, "?", new_mode=mode, binary=True, added=None, removed=None, note=size), len(data)
    return _added(name, data, mode, limits, room, max(0, info.st_size - len(data))), len(data)


def _unread(name: str, why: str) -> FileDiff:
    return FileDiff(name, "?", note=why, added=None, removed=None)


def _beginning(path: str, most: int) -> bytes:
    """Without following a link or waiting for a pipe that somebody put in the file's place meanwhile."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        return file.read(most)


def _added(name: str, data: bytes, mode: str, limits: DiffLimits, room: int, unread: int) -> FileDiff:
    texts = data.split(b"\n")
    complete = texts[-1] == b"" and not unread
    if texts[-1] == b"":
        texts.pop()
    keep = max(0, min(len(texts), limits.lines_of_file, room))
    lines = [_line(number, text, limits.width) for number, text in enumerate(texts[:keep], 1)]
    if not complete and not unread and lines and keep == len(texts) and mode != "120000":
        lines.append(DiffLine(NOTE, _NO_END))
    return FileDiff(
        name,
        "?",
        new_mode=mode,
        added=None if unread else len(texts),
        removed=0,
        hunks=(DiffHunk(0, 1, "", tuple(lines)),) if lines else (),
        cut=len(texts) - keep,
        note=f"and {_size(unread)} that were not read" if unread else None,
    )


def _line(number: int, raw: bytes, most: int) -> DiffLine:
    text = raw[: 4 * most + 4].decode("utf-8", "surrogateescape")
    return DiffLine(ADDED, text[:most], None, number, "", len(text) > most or len(raw) > 4 * most + 4)


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 10_000:
            return f"{count} {unit}"
        count //= 1000
    return f"{count} GB"
