"""After a crash in the middle of a fast-forward: decide how far git came, and bring files, index and ref to agree.

Files are only put back when they hold exactly what git had been writing, or a beginning of it: those bytes are in the
object database. Anything else is somebody's work and is left and named.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imi_monitor import host
from imi_monitor.git.refs import resolve
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import count, safe

if TYPE_CHECKING:
    from imi_monitor.git.run import Git


@dataclass(frozen=True, slots=True)
class _Change:
    path: str
    old: str  # blob ids; all zeros where the file does not exist
    new: str


def settle_fast_forward(git: Git, before: str, after: str) -> str | None:
    """What was done about a fast-forward from `before` to `after` that may have died half way; None: nothing to do."""
    head = resolve(git, "HEAD")
    if head == after:
        return None
    if head != before:
        return "the branch has moved on since, so its files were left as they are"
    _drop_stale_lock(git)
    if git.run("diff-index", "--cached", "--quiet", after, "--", ok=(0, 1)).returncode == 0:
        git.run("update-ref", "-m", "imi merge: finished after an interruption", "HEAD", after, before)
        return "it was finished"
    left = _put_back(git, _changes(git, before, after))
    if left:
        return f"it was taken back but for {count(len(left), 'file')} changed since: {', '.join(map(safe, left[:5]))}"
    return "it was taken back; run the merge again"


def _drop_stale_lock(git: Git) -> None:
    """An `index.lock` that its dead writer left. One that somebody still holds is a reason to wait."""
    lock = os.path.join(git.admin_dir, "index.lock")
    if not os.path.lexists(lock):
        return
    if any(command.startswith("git") for _, command in host.inside(git.admin_dir)):
        raise GitError(f"git is still at work in {safe(git.work_tree or '')}: try again in a moment", code="busy")
    os.unlink(lock)


def _changes(git: Git, before: str, after: str) -> list[_Change]:
    fields = git.lines0("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", before, after, "--")
    return [_Change(path, *heads.split(" ")[2:4]) for heads, path in zip(fields[::2], fields[1::2], strict=True)]


def _put_back(git: Git, changes: list[_Change]) -> list[str]:
    """Make each file what it was before; gives those that hold something else and were left."""
    left, restore = [], []
    for change in changes:
        if not _came_from_git(git, change):
            left.append(change.path)
        elif change.old.strip("0"):
            restore.append(change.path)
        else:
            _remove(git, change.path)
    if restore:
        names = b"".join(os.fsencode(path) + b"\0" for path in restore)
        git.run("checkout-index", "--force", "-z", "--stdin", stdin=names)
    return left


def _came_from_git(git: Git, change: _Change) -> bool:
    """Whether the file is absent, as before, as after, or the beginning of what git was writing."""
    path = os.path.join(git.work_tree or "", change.path)
    if not os.path.lexists(path):
        return True
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    found = git.text("hash-object", "--", change.path)
    if found in (change.old, change.new):
        return True
    if not change.new.strip("0"):
        return False
    with open(path, "rb") as file:
        written = file.read()
    return git.run("cat-file", "--filters", f"--path={change.path}", change.new, cap=1 << 30).stdout.startswith(written)


def _remove(git: Git, path: str) -> None:
    """Take away a file that only the interrupted merge had made; its bytes are a blob."""
    full = os.path.join(git.work_tree or "", path)
    if os.path.lexists(full):
        os.unlink(full)
