"""Moves a checked-out branch with its files, and recovers a move that was interrupted: files, index and ref agree again.

Recovery restores a file only if it holds what git was writing, or a beginning of it: those bytes are in the object database. Any
other file is the user's work; it is left alone and named.
"""

from __future__ import annotations

import os
import time

from imi_monitor import host
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.layout import read_head
from imi_monitor.git.lock_files import lock_advice
from imi_monitor.git.refs import check_commit_id, resolve
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git


_LONGER_THAN_A_REFRESH = 0.2  # seconds within which a running program changes or deletes its index.lock
_CLOCK_GRAIN = 1.0  # seconds that a file system's clock may lag


@dataclass(frozen=True, slots=True)
class _Change:
    path: str
    old: str  # blob ids; all zeros where the file does not exist
    new: str


def recover_fast_forward(git: Git, before: str, after: str, *, began: float) -> str | None:
    """Recover a fast-forward from `before` to `after` that may have been interrupted; returns what was done, None for nothing.

    `began` is its start in seconds since the epoch: an older lock cannot belong to it.
    """
    head = resolve(git, "HEAD")
    if head == after:
        return None
    if head != before:
        return "the branch has moved since, so its files were left unchanged"
    _drop_stale_lock(git, began)
    if _index_is(git, after):
        git.run("update-ref", "-m", "imi merge: finished after an interruption", "HEAD", after, before)
        return "it was finished"
    left = _restore_files(git, _changes(git, before, after))
    if left:
        names = ", ".join(map(safe, left[:5]))
        return f"it was reverted except for {count(len(left), 'file')} changed since: {names}"
    return "it was reverted; run the merge again"


def undo_fast_forward(git: Git, before: str, after: str) -> None:
    """Restore files and index after a fast-forward that git itself aborted: git writes them before the ref."""
    if resolve(git, "HEAD") != before:
        return
    if _index_is(git, after):
        git.run("read-tree", "-m", "-u", after, before, timeout=300.0)
    else:
        _restore_files(git, _changes(git, before, after))


def _index_is(git: Git, commit: str) -> bool:
    return git.run("diff-index", "--cached", "--quiet", commit, "--", ok=(0, 1)).returncode == 0


def _drop_stale_lock(git: Git, began: float) -> None:
    """Delete the `index.lock` of our dead git; GitError with advice if it may belong to another process."""
    lock = os.path.join(git.admin_dir, "index.lock")
    first = _mark(lock)
    if first is None:
        return
    at_work = {
        one for folder in (git.admin_dir, git.work_tree or "") if folder for one in host.processes_inside(folder)
    }
    time.sleep(_LONGER_THAN_A_REFRESH)
    ours = first[1] >= began - _CLOCK_GRAIN and not any(name.startswith("git") for _, name in at_work)
    if ours and _mark(lock) == first:
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


def _restore_files(git: Git, changes: list[_Change]) -> list[str]:
    """Restore each file; returns those with other content, which are left unchanged."""
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
    """Return whether the file is absent, as before, as after, or a beginning of what git was writing."""
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
    """Delete a file that only the interrupted merge made; its bytes are in the object database."""
    full = os.path.join(git.work_tree or "", path)
    if os.path.lexists(full):
        os.unlink(full)


def fast_forward(git: Git, sha: str, *, timeout: float = 120.0) -> None:
    """Move the branch checked out in git's work tree forward to `sha`, files included; Refused if that is impossible."""
    if git.work_tree is None:
        raise GitError(f"{safe(git.common_dir)} is bare here: no branch is checked out", code="bare")
    # ignored files are the user's work too: a file in the way stops the merge instead of being overwritten
    options = ("--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-stat", "--no-verify-signatures")
    words = ("merge", *options, "--end-of-options", check_commit_id(sha))
    try:
        git.run(*words, timeout=timeout, settings=_no_merge_options(git))
    except GitError as problem:
        raise _not_forward(git, sha, problem) from problem
    if resolve(git, "HEAD") != sha and not _has(git, sha):
        raise GitError(f"git did not move {safe(git.work_tree)} to {sha[:10]}, though it reported no error")


def move_branch(git: Git, before: str, after: str, *, timeout: float = 300.0) -> None:
    """Move the branch checked out in git's clean work tree from one commit to another, files included.

    Refused, and nothing is changed, when HEAD is elsewhere or a file that git does not track is in the way.
    """
    if resolve(git, "HEAD") != before:
        raise Refused(f"{safe(git.work_tree or '')} is no longer at {before[:10]}: try again", code="moved")
    _refuse_untracked(git, before, after)
    git.run("update-index", "-q", "--refresh", ok=(0, 1), timeout=timeout)
    git.run("read-tree", "-m", "-u", check_commit_id(before), check_commit_id(after), timeout=timeout)
    git.run("update-ref", "-m", f"imi: moved from {before[:10]}", "HEAD", after, before)


def _refuse_untracked(git: Git, before: str, after: str) -> None:
    """Ignored files are the user's work too: one where a file of `after` comes is a refusal, as it is for `fast_forward`."""
    changes = _changes(git, before, after)
    gone = {one.path for one in changes if not one.new.strip("0")}
    for one in changes:
        if one.old.strip("0"):
            continue
        folders = one.path.split("/")
        for depth in range(1, len(folders) + 1):
            path = "/".join(folders[:depth])
            full = os.path.join(git.work_tree or "", path)
            whole = depth == len(folders)
            if (
                path not in gone
                and os.path.lexists(full)
                and (whole or os.path.islink(full) or not os.path.isdir(full))
            ):
                raise Refused(f"{safe(path)} is in the way and git does not track it: move it first", code="dirty")


def _no_merge_options(git: Git) -> list[tuple[str, str]]:
    """Override `branch.NAME.mergeOptions`: --squash or --no-commit would leave the work tree half merged."""
    branch, _ = read_head(git.admin_dir, git.common_dir)
    return [(f"branch.{branch}.mergeOptions", "")] if branch else []


def _not_forward(git: Git, sha: str, problem: GitError) -> GitError | Refused:
    where = safe(git.work_tree or git.common_dir)
    reasons = (
        ("Not possible to fast-forward", "not-forward", f"{where} has commits that {sha[:10]} does not have"),
        ("iverging branches", "not-forward", f"{where} has commits that {sha[:10]} does not have"),
        ("would be overwritten", "dirty", f"files in {where} would be overwritten"),
        ("unmerged files", "operation", f"a merge is in progress in {where}"),
        ("have not concluded", "operation", f"a merge is in progress in {where}"),
        ("index.lock", "busy", problem.sentence),
    )
    for mark, code, sentence in reasons:
        if mark in problem.stderr:
            return Refused(sentence, code=code, details=() if code == "busy" else problem.stderr.splitlines())
    return problem


def _has(git: Git, sha: str) -> bool:
    return git.run("merge-base", "--is-ancestor", "--end-of-options", sha, "HEAD", ok=(0, 1)).returncode == 0
