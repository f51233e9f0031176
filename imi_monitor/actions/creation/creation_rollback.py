"""Reverting a creation: delete what it created, keep what existed before or holds work. For rollback and recovery.

Every step can be repeated, so a crash at any point is safe. Two markers prove that imi created something: the text of git's
lock on the new worktree, and the first entry of the new branch's reflog.

`CreationLock` is a locked file whose handle git and its children inherit. It shows whether a git that outlived its killed
imi is still running, which no process id could tell; nothing is reverted while it is held.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from imi_monitor.git import heads, layout
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.worktree_creation import CreationPlan
    from imi_monitor.actions.sync.shared_files import SharedFiles
    from imi_monitor.git.runner import Git


_BETWEEN_TWO_FILES = 0.05  # seconds; a running git writes its next file sooner
_REF_LOCK_SECONDS = 1.0  # seconds; a running git holds the lock of a branch for milliseconds


def marker(identity: str) -> str:
    """The text that marks branch and worktree of an operation."""
    return f"imi create {identity}"


def names_in_use(plan: CreationPlan) -> list[str]:
    """Files that exist in git's directory under the names it will use: a rollback must not delete them."""
    common_dir = plan.repository.common_dir
    found = [_ref_lock(plan.branch)] if os.path.lexists(os.path.join(common_dir, _ref_lock(plan.branch))) else []
    try:
        names = os.listdir(os.path.join(common_dir, "worktrees"))
    except OSError:
        return found  # no worktree yet
    return found + [name for name in names if name.startswith(os.path.basename(plan.path))]


def unlock(admin_dir: str, text: str) -> None:
    """Remove imi's lock from the finished worktree; a lock with another text stays."""
    lock = os.path.join(admin_dir, "locked")
    if layout.read_small(lock) == text:
        os.unlink(lock)


def roll_back(context: Context, git: Git, plan: CreationPlan, identity: str, admin_dir: str | None = None) -> list[str]:
    """Revert everything this operation created; returns lines about what had to be kept.

    `admin_dir` is the admin directory this operation created, if known; it may be unlocked already.
    """
    from imi_monitor.git import partial_checkout

    text = marker(identity)
    admin_dir = admin_dir or partial_checkout.admin_dir_locked_with(git.common_dir, text)
    if admin_dir is None and partial_checkout.admin_dir_at(git.common_dir, plan.path) is not None:
        return _delete_branch(git, plan, text)  # another worktree is registered there
    if admin_dir is not None:
        _lock_again(admin_dir, text)
    scratch = os.path.join(git.common_dir, f"imi-create-{identity}.index")
    kept = partial_checkout.delete_checkout(git, plan.path, plan.sha, _shared_link_test(context, plan), scratch)
    if kept:
        if admin_dir is not None:
            unlock(admin_dir, text)
        return [_kept_line(plan, kept)]
    if admin_dir is not None:
        partial_checkout.delete_admin_dir(admin_dir)
    _remove_leftovers(git.common_dir, plan)
    left = _delete_branch(git, plan, text)
    for folder in reversed(plan.folders):
        _remove_if_empty(folder)
    return left


def set_upstream(git: Git, branch: str, upstream: str) -> None:
    """Let a new branch track the remote branch it started at, as `git checkout` would."""
    remote, _, name = upstream.partition("/")
    for key, value in (("remote", remote), ("merge", f"refs/heads/{name}")):
        git.run("config", "--local", "--replace-all", f"branch.{branch}.{key}", value)


def _unset_upstream(git: Git, branch: str, upstream: str) -> None:
    """Remove only what `set_upstream` wrote: an earlier branch of this name may have left more settings."""
    remote, _, name = upstream.partition("/")
    for key, value in (("remote", remote), ("merge", f"refs/heads/{name}")):
        git.run("config", "--local", "--fixed-value", "--unset-all", f"branch.{branch}.{key}", value, ok=(0, 5))


def _lock_again(admin_dir: str, text: str) -> None:
    """Lock the worktree again, so that a second attempt still recognises it after a crash."""
    from imi_monitor.git import git_admin_dir

    git_admin_dir.write_file(os.path.join(admin_dir, "locked"), text)  # never writes through a link


def _shared_link_test(context: Context, plan: CreationPlan) -> Callable[[str], bool]:
    """A test for untracked names: is it a link to a shared file? Reads the shared files at the first link."""
    found: list[SharedFiles | None] = []

    def is_ours(name: str) -> bool:
        full = os.path.join(plan.path, name)
        if not os.path.islink(full):
            return False
        if not found:
            from imi_monitor.actions.sync import shared_files

            found.append(shared_files.read_shared_files(plan.repository, context.settings))
        shared = found[0]
        target = os.path.join(os.path.dirname(full), os.readlink(full))
        target = os.path.join(os.path.realpath(os.path.dirname(target)), os.path.basename(target))
        return shared is not None and shared.owns_target(target)

    return is_ours


def _kept_line(plan: CreationPlan, names: list[str]) -> str:
    shown = ", ".join(safe(name) for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"kept {safe(plan.path)}: it holds files that are not from the checkout ({shown}): check them, then run `imi remove`"


def _remove_leftovers(common_dir: str, plan: CreationPlan) -> None:
    """Delete what a killed git left of its admin directory without a file that identifies it."""
    from imi_monitor.git import partial_checkout

    if partial_checkout.broken_admin_dirs(common_dir, plan.path, plan.taken):
        time.sleep(_BETWEEN_TWO_FILES)
    for admin_dir in partial_checkout.broken_admin_dirs(common_dir, plan.path, plan.taken):
        partial_checkout.delete_admin_dir(admin_dir)


def _remove_ref_lock(common_dir: str, plan: CreationPlan) -> None:
    """Delete the branch's lock file if a killed git left it: no commit would be possible."""
    lock = os.path.join(common_dir, _ref_lock(plan.branch))
    before = _inode(lock)
    if before is None or _ref_lock(plan.branch) in plan.taken:
        return
    time.sleep(_REF_LOCK_SECONDS)
    if _inode(lock) == before:
        os.unlink(lock)


def _ref_lock(branch: str) -> str:
    return f"refs/heads/{branch}.lock"


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _delete_branch(git: Git, plan: CreationPlan, text: str) -> list[str]:
    _remove_ref_lock(git.common_dir, plan)
    if not plan.new_branch:
        return []
    if heads.made_branch_tip(git, plan.branch, text) != plan.sha:
        return []  # not created, not by this operation, or already committed to
    from imi_monitor.git.update_ref import delete_branch

    if plan.upstream:
        _unset_upstream(git, plan.branch, plan.upstream)
    try:
        delete_branch(git, plan.branch, plan.sha)
    except Refused as problem:
        return [f"kept the branch {safe(plan.branch)}: {problem.sentence}"]
    return []


def _remove_if_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # gone, or not empty


class CreationLock:
    """The held lock file of one creation."""

    __slots__ = ("_handle", "path")

    def __init__(self, handle: int, path: str) -> None:
        self._handle = handle
        self.path = path

    def remove(self) -> None:
        """Delete the file and release the lock."""
        if os.path.lexists(self.path):  # only the holder deletes it
            os.unlink(self.path)
        os.close(self._handle)


def lock_creation(common_dir: str, operation: str) -> CreationLock:
    """Lock a creation that starts; child processes started before `remove` hold the lock too."""
    path = _lock_path(common_dir, operation)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Refused(
            f"cannot write in {safe(common_dir)}: {error.strerror}; nothing was created", code="not-writable"
        ) from error
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.set_inheritable(handle, True)
    return CreationLock(handle, path)


def try_lock_creation(common_dir: str, operation: str) -> CreationLock | None:
    """Lock the creation of a dead imi; None while its git, or another recovery, holds the lock."""
    path = _lock_path(common_dir, operation)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return CreationLock(handle, path)


def _lock_path(common_dir: str, operation: str) -> str:
    return os.path.join(common_dir, f"imi-create-{operation}.lock")
