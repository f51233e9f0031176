"""Taking a creation back: what was made goes, what was there or is somebody's work stays. For rollback and recovery.

Every step may be done twice, so that this too can die anywhere. The proofs of "we made it": git's own lock on the new
worktree carries our note from its first moment, and so does the first entry of the new branch's reflog.

A mark that lives as long as anybody works on a creation: us, or the git that outlives us when we are killed.

It is a lock on a file that git and its children inherit. No process id could tell this: when imi is killed, its git goes
on for a while, and nobody must take the worktree back under its hands.
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


_LONGER_THAN_GIT = 0.05  # seconds between two files that a living git writes one after the other
_LONGER_THAN_A_COMMIT = 1.0  # a living git holds the lock of a branch for milliseconds


def marker(identity: str) -> str:
    """What marks the branch and the worktree that an operation made."""
    return f"imi create {identity}"


def names_in_use(plan: CreationPlan) -> list[str]:
    """What git's directory holds already under the names that it will use for this: none of it will be ours."""
    common_dir = plan.repository.common_dir
    found = [_ref_lock(plan.branch)] if os.path.lexists(os.path.join(common_dir, _ref_lock(plan.branch))) else []
    try:
        names = os.listdir(os.path.join(common_dir, "worktrees"))
    except OSError:
        return found  # the first worktree of the repository
    return found + [name for name in names if name.startswith(os.path.basename(plan.path))]


def unlock(admin_dir: str, text: str) -> None:
    """Take our lock off the finished worktree; somebody else's stays."""
    lock = os.path.join(admin_dir, "locked")
    if layout.read_small(lock) == text:
        os.unlink(lock)


def roll_back(context: Context, git: Git, plan: CreationPlan, identity: str, admin_dir: str | None = None) -> list[str]:
    """Take back all that this operation made; gives lines about what had to be kept.

    `admin_dir` is given by who knows that it is ours although its lock is off already.
    """
    from imi_monitor.git import partial_checkout

    text = marker(identity)
    admin_dir = admin_dir or partial_checkout.admin_dir_locked_with(git.common_dir, text)
    if admin_dir is None and partial_checkout.admin_dir_at(git.common_dir, plan.path) is not None:
        return _drop_branch(git, plan, text)  # somebody else has a worktree there
    if admin_dir is not None:
        _lock_again(admin_dir, text)
    scratch = os.path.join(git.common_dir, f"imi-create-{identity}.index")
    kept = partial_checkout.delete_checkout(git, plan.path, plan.sha, _is_ours(context, plan), scratch)
    if kept:
        if admin_dir is not None:
            unlock(admin_dir, text)
        return [_kept(plan, kept)]
    if admin_dir is not None:
        partial_checkout.delete_admin_dir(admin_dir)
    _drop_remains(git.common_dir, plan)
    left = _drop_branch(git, plan, text)
    for folder in reversed(plan.folders):
        _drop_if_empty(folder)
    return left


def set_upstream(git: Git, branch: str, upstream: str) -> None:
    """Let a new branch follow the remote one it came from, as `git checkout` would."""
    remote, _, name = upstream.partition("/")
    for key, value in (("remote", remote), ("merge", f"refs/heads/{name}")):
        git.run("config", "--local", "--replace-all", f"branch.{branch}.{key}", value)


def _unset_upstream(git: Git, branch: str, upstream: str) -> None:
    """Only what `follow` wrote: the section may hold more, from an earlier branch of that name."""
    remote, _, name = upstream.partition("/")
    for key, value in (("remote", remote), ("merge", f"refs/heads/{name}")):
        git.run("config", "--local", "--fixed-value", "--unset-all", f"branch.{branch}.{key}", value, ok=(0, 5))


def _lock_again(admin_dir: str, text: str) -> None:
    """Put our lock back on what was unlocked just before the end, so that a second attempt still knows whose it is."""
    from imi_monitor.git import admin_dir as git_admin_dir

    git_admin_dir.write_file(os.path.join(admin_dir, "locked"), text)  # never through a link that somebody put there


def _is_ours(context: Context, plan: CreationPlan) -> Callable[[str], bool]:
    """Whether an untracked name is a link to a shared file; only looked into when there is such a name."""
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
        return shared is not None and shared.ours(target)

    return is_ours


def _kept(plan: CreationPlan, names: list[str]) -> str:
    shown = ", ".join(safe(name) for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"kept {safe(plan.path)}: it holds what is not from the checkout ({shown}); look at it, then `imi remove` it"


def _drop_remains(common_dir: str, plan: CreationPlan) -> None:
    """What git itself left of its directory, with nothing in it any more that tells whose it is."""
    from imi_monitor.git import partial_checkout

    if partial_checkout.broken_admin_dirs(common_dir, plan.path, plan.taken):
        time.sleep(_LONGER_THAN_GIT)
    for admin_dir in partial_checkout.broken_admin_dirs(common_dir, plan.path, plan.taken):
        partial_checkout.delete_admin_dir(admin_dir)


def _drop_ref_lock(common_dir: str, plan: CreationPlan) -> None:
    """A lock on the branch that its killed git has left; nobody could commit there any more."""
    lock = os.path.join(common_dir, _ref_lock(plan.branch))
    before = _inode(lock)
    if before is None or _ref_lock(plan.branch) in plan.taken:
        return
    time.sleep(_LONGER_THAN_A_COMMIT)
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


def _drop_branch(git: Git, plan: CreationPlan, text: str) -> list[str]:
    _drop_ref_lock(git.common_dir, plan)
    if not plan.new_branch:
        return []
    if heads.made_branch_tip(git, plan.branch, text) != plan.sha:
        return []  # never made, made by somebody else, or already worked on
    from imi_monitor.git.update_ref import delete_branch

    if plan.upstream:
        _unset_upstream(git, plan.branch, plan.upstream)
    try:
        delete_branch(git, plan.branch, plan.sha)
    except Refused as problem:
        return [f"kept the branch {safe(plan.branch)}: {problem.sentence}"]
    return []


def _drop_if_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # gone, or somebody else's things are in it by now


class CreationLock:
    """The lock, held."""

    __slots__ = ("_handle", "path")

    def __init__(self, handle: int, path: str) -> None:
        self._handle = handle
        self.path = path

    def remove(self) -> None:
        """The work is done or taken back: nobody needs to ask any more."""
        if os.path.lexists(self.path):  # nobody else removes it while we hold it
            os.unlink(self.path)
        os.close(self._handle)


def lock_creation(common_dir: str, operation: str) -> CreationLock:
    """The mark of an act that starts now; processes started before it is removed hold it too."""
    path = _lock_path(common_dir, operation)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Refused(
            f"cannot write in {safe(common_dir)}: {error.strerror}; nothing was made", code="not-writable"
        ) from error
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.set_inheritable(handle, True)
    return CreationLock(handle, path)


def try_lock_creation(common_dir: str, operation: str) -> CreationLock | None:
    """The mark of an act whose imi is dead; None while its git, or another recovery, is still at work."""
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
