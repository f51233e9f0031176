"""Reads diffs of a worktree: uncommitted, staged, against the trunk, or of one commit.

git's output is parsed as it arrives and kept up to the limits, so a huge diff takes time but no memory; one that takes too long
is cut and says so. Untracked files are read from the disk, without git and its filters, as a diff that adds them.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import replace
from typing import Literal

from imi_monitor.git.commits import UNALTERED_HISTORY
from imi_monitor.git.refs import check_commit_id, check_revision, resolve
from imi_monitor.model import amounts
from imi_monitor.model.diff import ADDED, DEFAULT_LIMITS, NOTE, Diff, DiffHunk, DiffLimits, DiffLine, FileDiff
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.patch_parser import PatchParser
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.runner import Git


Kind = Literal["all", "unstaged", "staged", "trunk", "turn"]

_LIST_TIMEOUT = 30.0
_PART_INTERVAL = 0.15  # seconds between two calls of `on_part`
# Even for a trusted repository without its programs, whose output is no patch.
_OPTIONS = (
    "--no-ext-diff",
    "--no-textconv",
    "--patch",
    "--full-index",
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


def read_diff(
    git: Git,
    kind: Kind,
    *,
    trunk: str | None = None,
    paths: Sequence[str] = (),
    limits: DiffLimits = DEFAULT_LIMITS,
    new_files: bool = True,
    on_part: Callable[[Diff], None] | None = None,
    index: dict[str, str] | None = None,
) -> Diff:
    """Return the changes of the worktree. `trunk` is the full ref or id to compare with for the kind trunk.

    Untracked files are included except for `staged` or without `new_files`. `on_part` receives what is parsed so far.
    With an `index` of another folder (git's variables for it) `unstaged` compares with that one.
    """
    if git.work_tree is None:
        raise GitError(f"{safe(git.common_dir)} is bare here: it has no files", code="bare")
    revisions, base = _against(git, kind, trunk)
    only = ("--", *(f":(top,literal){path}" for path in paths))
    found = replace(_streamed(git, ("diff", *_OPTIONS, *revisions, *only), limits, on_part, index), base=base)
    if kind == "staged" or not new_files:
        return found
    kept = sum(file.kept for file in found.files)
    return found.joined(read_untracked(git, paths, replace(limits, lines=max(0, limits.lines - kept)), index))


def read_commit_diff(
    git: Git,
    sha: str,
    *,
    paths: Sequence[str] = (),
    limits: DiffLimits = DEFAULT_LIMITS,
    on_part: Callable[[Diff], None] | None = None,
) -> Diff:
    """Return the changes of one commit against its first parent; the first commit adds all its files."""
    check_commit_id(sha)
    line = git.text("rev-list", "--max-count=1", "--parents", "--end-of-options", sha, "--", env=UNALTERED_HISTORY)
    parents = line.split()[1:]
    only = ("--", *(f":(top,literal){path}" for path in paths))
    trees = (parents[0], sha) if parents else ("--root", sha)
    words = ("diff-tree", "-r", "--no-commit-id", *_OPTIONS, *trees, *only)
    return replace(_streamed(git, words, limits, on_part), base=parents[0][:8] if parents else None)


def _against(git: Git, kind: Kind, trunk: str | None) -> tuple[tuple[str, ...], str | None]:
    """Return git's arguments for the other side of the comparison, and its name for people."""
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
    """Return the merge base of the two."""
    found = git.run(
        "merge-base", "--end-of-options", check_commit_id(head), check_revision(trunk), ok=(0, 1), env=UNALTERED_HISTORY
    )
    base = found.stdout.decode("ascii", "replace").strip()
    if not base:
        raise Refused(f"this branch and {safe(short_ref(trunk))} have no commit in common", code="unrelated")
    return check_commit_id(base)


def short_ref(ref: str) -> str:
    """Return a full ref without its prefix: `main`, `origin/main`."""
    return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")


def _empty_tree(git: Git) -> str:
    """Return the id of the tree without files, which git accepts even if it is not stored."""
    return git.text("hash-object", "-t", "tree", "--stdin")


def _streamed(
    git: Git,
    words: tuple[str, ...],
    limits: DiffLimits,
    on_part: Callable[[Diff], None] | None,
    index: dict[str, str] | None = None,
) -> Diff:
    parser = PatchParser(limits)
    part_at = time.monotonic()

    def arrived(data: bytes) -> None:
        nonlocal part_at
        parser.feed(data)
        if on_part is not None and time.monotonic() - part_at >= _PART_INTERVAL:
            part_at = time.monotonic()
            on_part(parser.diff)

    try:
        git.run(
            *words,
            timeout=limits.seconds,
            cap=limits.patch_bytes,
            on_stdout=arrived,
            env={**UNALTERED_HISTORY, **(index or {})},
            settings=_NAMES_AS_THEY_ARE,
        )
    except GitError as error:
        if error.code == "git-timeout":
            reason = f"git took longer than {limits.seconds:g} s"
        elif error.code == "git-too-much":
            reason = f"the diff is larger than {amounts.size(limits.patch_bytes)}"
        else:
            raise
        return replace(parser.close(), unfinished=f"{reason}: the rest is missing")
    return parser.close()


_MOST_FILE_BYTES = 4_000_000  # that are read of one untracked file
_BINARY_PROBE = 8000  # bytes in which a NUL means binary, as for git
_NO_END = "No newline at end of file"


def read_untracked(git: Git, paths: Sequence[str], limits: DiffLimits, index: dict[str, str] | None = None) -> Diff:
    """Return every untracked file that is not ignored; files beyond the limits are only counted."""
    names, more = untracked_names(git, paths, limits.name_bytes, index)
    files, lines_left, bytes_left = [], limits.lines, limits.untracked_bytes
    for name in names[: limits.files]:
        if git.cancelled is not None and git.cancelled():
            raise GitError("reading the untracked files was cancelled", code="cancelled")
        file, size = _untracked_file(git.work_tree or "", name, limits, lines_left, min(bytes_left, _MOST_FILE_BYTES))
        bytes_left -= size
        if file is not None:
            files.append(file)
            lines_left -= file.kept
    unfinished = "more untracked files exist than can be listed" if more else None
    return Diff(tuple(files), unfinished=unfinished, omitted=max(0, len(names) - limits.files))


def written(work_tree: str, paths: Sequence[str]) -> dict[str, float]:
    """Return when these files were last written, in seconds since the epoch; unreadable files are left out."""
    found: dict[str, float] = {}
    for path in paths:
        try:
            found[path] = os.lstat(os.path.join(work_tree, path)).st_mtime
        except (OSError, ValueError):
            continue
    return found


def untracked_names(
    git: Git, paths: Sequence[str], most: int, index: dict[str, str] | None = None
) -> tuple[list[str], bool]:
    """Return the names within `most` bytes, and whether there are more."""
    kept = bytearray()
    only = (f":(top,literal){path}" for path in paths)
    capped = False
    try:
        words = ("ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", *only)
        git.run(*words, timeout=_LIST_TIMEOUT, cap=most, on_stdout=kept.extend, env=index)
    except GitError as error:
        if error.code not in ("git-too-much", "git-timeout"):
            raise
        capped = True
    names = bytes(kept).split(b"\0")[:-1]  # after the last NUL is nothing, or half a name
    return [os.fsdecode(name) for name in names], capped


def _untracked_file(
    work_tree: str, name: str, limits: DiffLimits, lines_left: int, most: int
) -> tuple[FileDiff | None, int]:
    """Return the file (None when it was deleted since git listed it), and how many bytes were read of it."""
    path = os.path.join(work_tree, name)
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            return _added(name, os.fsencode(os.readlink(path)), "120000", limits, lines_left, 0), 0
        if stat.S_ISDIR(info.st_mode):
            return _unread(name, "another repository"), 0
        if not stat.S_ISREG(info.st_mode):
            return _unread(name, "not a regular file: a pipe, socket or device"), 0
        if most <= 0:
            why = f"{amounts.size(info.st_size)}, not read: there are too many new files"
            return replace(_unread(name, why), content=_content(b"", info)), 0
        data = read_beginning(path, most)
    except FileNotFoundError:
        return None, 0
    except OSError as error:
        return _unread(name, f"cannot be read: {error.strerror}"), 0
    mode = "100755" if info.st_mode & 0o100 else "100644"
    content = _content(data, info)
    if b"\0" in data[:_BINARY_PROBE]:
        size = amounts.size(info.st_size)
        file = FileDiff(name, "?", new_mode=mode, binary=True, added=None, removed=None, note=size)
    else:
        file = _added(name, data, mode, limits, lines_left, max(0, info.st_size - len(data)))
    return replace(file, content=content), len(data)


def _content(data: bytes, info: os.stat_result) -> str:
    """Return what differs when the file's bytes do; of a part that was not read, when it was written."""
    from hashlib import sha1

    unread = "" if len(data) == info.st_size else f"-{info.st_size}-{info.st_mtime_ns}"
    return sha1(data, usedforsecurity=False).hexdigest() + unread


def _unread(name: str, why: str) -> FileDiff:
    return FileDiff(name, "?", note=why, added=None, removed=None)


def read_beginning(path: str, most: int) -> bytes:
    """Read a file without following a link or waiting for a pipe that has replaced it meanwhile."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        return file.read(most)


def _added(name: str, data: bytes, mode: str, limits: DiffLimits, lines_left: int, unread: int) -> FileDiff:
    texts = data.split(b"\n")
    complete = texts[-1] == b"" and not unread
    if texts[-1] == b"":
        texts.pop()
    keep = max(0, min(len(texts), limits.lines_of_file, lines_left))
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
        note=f"and {amounts.size(unread)} that were not read" if unread else None,
    )


def _line(number: int, raw: bytes, most: int) -> DiffLine:
    text = raw[: 4 * most + 4].decode("utf-8", "surrogateescape")
    return DiffLine(ADDED, text[:most], None, number, "", len(text) > most or len(raw) > 4 * most + 4)
