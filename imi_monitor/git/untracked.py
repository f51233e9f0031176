"""The content of files git does not track, as a diff that adds them: read from the disk, without git and its filters."""

from __future__ import annotations

import os
import stat

from imi_monitor.model.diff import ADDED, NOTE, Diff, DiffHunk, DiffLimits, DiffLine, FileDiff
from imi_monitor.model.errors import GitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.run import Git

_TIMEOUT = 30.0
_MOST_NAMES = 8 << 20  # bytes of names
_MOST_BYTES = 4 << 20  # of one file
_MOST_ALTOGETHER = 64 << 20
_LOOKED_AT = 8000  # bytes in which a NUL means binary, as for git
_NO_END = "No newline at end of file"


def read(git: Git, paths: Sequence[str], limits: DiffLimits) -> Diff:
    """Every untracked file that is not ignored; beyond the limits they are only counted."""
    names, more = _names(git, paths)
    files, room, left = [], limits.lines, _MOST_ALTOGETHER
    for name in names[: limits.files]:
        if git.cancelled is not None and git.cancelled():
            raise GitError("reading the untracked files was cancelled", code="cancelled")
        file, size = _file(git.work_tree or "", name, limits, room, min(left, _MOST_BYTES))
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
            timeout=_TIMEOUT,
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
