"""After a crash in the middle of a fast-forward: decide how far git came, and bring files, index and ref to agree.

Files are only put back when they hold exactly what git had been writing, or a beginning of it: those bytes are in the
object database. Anything else is somebody's work and is left and named.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from imi_monitor import host
from imi_monitor.git.layout import read_head
from imi_monitor.git.lock_files import lock_advice
from imi_monitor.git.refs import check_commit_id, resolve
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git


_LONGER_THAN_A_REFRESH = 0.2  # seconds in which a program at work on the index would be done, or have gone on
_COARSE = 1.0  # how much a file system's clock may be behind


@dataclass(frozen=True, slots=True)
class _Change:
    path: str
    old: str  # blob ids; all zeros where the file does not exist
    new: str


def recover_fast_forward(git: Git, before: str, after: str, *, began: float) -> str | None:
    """What was done about a fast-forward from `before` to `after` that may have died half way; None: nothing to do.

    `began` is when it did, in seconds since the epoch: a lock from before cannot be of it.
    """
    head = resolve(git, "HEAD")
    if head == after:
        return None
    if head != before:
        return "the branch has moved on since, so its files were left as they are"
    _drop_stale_lock(git, began)
    if _index_is(git, after):
        git.run("update-ref", "-m", "imi merge: finished after an interruption", "HEAD", after, before)
        return "it was finished"
    left = _put_back(git, _changes(git, before, after))
    if left:
        return f"it was taken back but for {count(len(left), 'file')} changed since: {', '.join(map(safe, left[:5]))}"
    return "it was taken back; run the merge again"


def undo_fast_forward(git: Git, before: str, after: str) -> None:
    """After a fast-forward that git itself gave up: files and index as they were, for git writes them before the ref."""
    if resolve(git, "HEAD") != before:
        return
    if _index_is(git, after):
        git.run("read-tree", "-m", "-u", after, before, timeout=300.0)
    else:
        _put_back(git, _changes(git, before, after))


def _index_is(git: Git, commit: str) -> bool:
    return git.run("diff-index", "--cached", "--quiet", commit, "--", ok=(0, 1)).returncode == 0


def _drop_stale_lock(git: Git, began: float) -> None:
    """The `index.lock` that our dead git left. One that may be somebody's is a reason to wait, and to say what to do."""
    lock = os.path.join(git.admin_dir, "index.lock")
    first = _mark(lock)
    if first is None:
        return
    at_work = {
        one for folder in (git.admin_dir, git.work_tree or "") if folder for one in host.processes_inside(folder)
    }
    time.sleep(_LONGER_THAN_A_REFRESH)
    if _mark(lock) == first and first[1] >= began - _COARSE and not any(name.startswith("git") for _, name in at_work):
        os.unlink(lock)
    elif os.path.lexists(lock):
        raise GitError(lock_advice(lock), code="git-busy")


def _mark(path: str) -> tuple[int, float] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime


def _changes(git: Git, before: str, after: str) -> list[_Change]:
    fields = git.lines0("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", before, after, "--")
    return [_Change(path, *heads.split(" ")[2:4]) for heads, path in zip(fields[::2], fields[1::2], strict=True)]


def _put_back(git: Git, changes: list[_Change]) -> list[str]:
    """Make each file what it was before; gives those that hold something else and were left."""
    left, restore = [], []
    for change in changes:
        if _is_as_before(git, change):
            continue
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


def _is_as_before(git: Git, change: _Change) -> bool:
    path = os.path.join(git.work_tree or "", change.path)
    if not change.old.strip("0"):
        return not os.path.lexists(path)
    plain = os.path.isfile(path) and not os.path.islink(path)
    return plain and git.text("hash-object", "--", change.path) == change.old


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


def fast_forward(git: Git, sha: str, *, timeout: float = 120.0) -> None:
    """Move the branch checked out in git's work tree forward to `sha`, files included; Refused if that cannot be."""
    if git.work_tree is None:
        raise GitError(f"{safe(git.common_dir)} is bare here: there is nothing checked out to move", code="bare")
    try:
        # Ignored files count as somebody's work too, so a file in the way stops it instead of being overwritten.
        git.run(
            "merge",
            "--ff-only",
            "--no-overwrite-ignore",
            "--no-autostash",
            "--no-stat",
            "--no-verify-signatures",
            "--end-of-options",
            check_commit_id(sha),
            timeout=timeout,
            settings=_no_options(git),
        )
    except GitError as problem:
        raise _not_forward(git, sha, problem) from problem
    if resolve(git, "HEAD") != sha and not _has(git, sha):
        raise GitError(f"git did not move {safe(git.work_tree)} to {sha[:10]}, though it did not complain")


def _no_options(git: Git) -> list[tuple[str, str]]:
    """`branch.NAME.mergeOptions` could say --squash or --no-commit, which would leave the work tree half merged."""
    branch, _ = read_head(git.admin_dir, git.common_dir)
    return [(f"branch.{branch}.mergeOptions", "")] if branch else []


def _not_forward(git: Git, sha: str, problem: GitError) -> GitError | Refused:
    where = safe(git.work_tree or git.common_dir)
    reasons = (
        ("Not possible to fast-forward", "not-forward", f"{where} has commits of its own that {sha[:10]} has not"),
        ("iverging branches", "not-forward", f"{where} has commits of its own that {sha[:10]} has not"),
        ("would be overwritten", "dirty", f"files in {where} would be overwritten"),
        ("unmerged files", "operation", f"{where} is in the middle of a merge"),
        ("have not concluded", "operation", f"{where} is in the middle of a merge"),
        ("index.lock", "busy", problem.sentence),
    )
    for mark, code, sentence in reasons:
        if mark in problem.stderr:
            return Refused(sentence, code=code, details=() if code == "busy" else problem.stderr.splitlines())
    return problem


def _has(git: Git, sha: str) -> bool:
    return git.run("merge-base", "--is-ancestor", "--end-of-options", sha, "HEAD", ok=(0, 1)).returncode == 0
