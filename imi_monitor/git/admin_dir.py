"""Parking a worktree's admin directory while its folder lies in the trash, natively: no git command does this.

The directory stays registered, so that `git gc` keeps everything its index, HEAD, logs and half-done rebase refer to. It is
locked, so that `git worktree prune` leaves it alone; its pointer names the folder's place in the trash; and its HEAD is
detached, so that the branch can be checked out elsewhere. Every function can be repeated after a crash, and the original
bytes come back exactly.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass

from imi_monitor.git.lock_files import lock_advice
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git

_SMALL = 1 << 16
_TEMPORARY = ".imi-new"
# nobody's name: the reflog must not get an entry, or undoing would not be byte-identical
_NO_REFLOG = [("core.logAllRefUpdates", "false")]


@dataclass(frozen=True, slots=True)
class AdminFiles:
    """The files of an admin directory as they were; text with surrogates for bytes that are not UTF-8."""

    head: str
    gitdir: str
    locked: str | None


def read_admin_files(admin_dir: str) -> AdminFiles:
    """The files that parking changes; Refused when one of them is not what git makes."""
    head, gitdir = _read(os.path.join(admin_dir, "HEAD")), _read(os.path.join(admin_dir, "gitdir"))
    if head is None or gitdir is None:
        raise Refused(
            f"git's own record of this worktree is incomplete: look at {safe(admin_dir)}", code="admin-broken"
        )
    return AdminFiles(head, gitdir, _read(os.path.join(admin_dir, "locked")))


def copy_admin_dir(admin_dir: str, into: str) -> None:
    """Hard links to all files of the admin directory: a `git worktree prune` that looked for the lock a moment too early,
    or that somebody runs after unlocking, then still takes nothing away. Where links cannot be made, copies."""
    same = os.stat(admin_dir).st_dev == os.stat(os.path.dirname(into)).st_dev
    for folder, folders, files in os.walk(admin_dir):
        if not same and "modules" in folders:
            folders.remove("modules")  # the submodules' objects may be too much to copy
        target = os.path.join(into, os.path.relpath(folder, admin_dir))
        os.makedirs(target, mode=0o700, exist_ok=True)
        for name in files:
            source, copy = os.path.join(folder, name), os.path.join(target, name)
            if os.path.lexists(copy):
                os.unlink(copy)
            _link(source, copy)


def restore_admin_dir(admin_dir: str, copy: str) -> bool:
    """Put the files of a pruned admin directory back from the copy; False when it was not pruned."""
    if all(os.path.lexists(os.path.join(admin_dir, name)) for name in ("HEAD", "gitdir", "commondir")):
        return False
    for folder, _, files in os.walk(copy):
        target = os.path.normpath(os.path.join(admin_dir, os.path.relpath(folder, copy)))
        os.makedirs(target, exist_ok=True)
        for name in files:
            if not os.path.lexists(os.path.join(target, name)):
                _link(os.path.join(folder, name), os.path.join(target, name))
    return True


def lock(admin_dir: str, reason: str) -> None:
    """From here on `git worktree prune` leaves the worktree alone, wherever its folder is."""
    write_file(os.path.join(admin_dir, "locked"), reason + "\n")
    fsync_folder(admin_dir)


def unlock(admin_dir: str, parked: AdminFiles, ours: str) -> None:
    """The lock as it was before, or none; a lock that is not ours by now belongs to somebody and stays."""
    path = os.path.join(admin_dir, "locked")
    if not (_read(path) or "").startswith(ours):
        return
    if parked.locked is not None:
        write_file(path, parked.locked)
    else:
        os.unlink(path)
    fsync_folder(admin_dir)


def is_locked_by(admin_dir: str, ours: str) -> bool:
    return (_read(os.path.join(admin_dir, "locked")) or "").startswith(ours)


def read_pointer(admin_dir: str) -> str | None:
    """Where the admin directory says that its folder's `.git` file is, as it is written there."""
    return _read(os.path.join(admin_dir, "gitdir"))


def write_pointer(admin_dir: str, text: str) -> None:
    """Let the admin directory name the folder's `.git` file at another place."""
    write_file(os.path.join(admin_dir, "gitdir"), text)


def detach_head(git: Git, sha: str | None) -> None:
    """HEAD names the commit itself, so that its branch is free; an unborn or detached one stays as it is (None)."""
    if sha is None:
        return
    if _has_reftable(git.admin_dir):
        git.run("update-ref", "--no-deref", "HEAD", sha, settings=_NO_REFLOG)
    else:
        _replace_head(git.admin_dir, sha + "\n")


def restore_head(git: Git, head: str, branch: str | None) -> None:
    """HEAD as it was: its bytes, or where git keeps it in a table, its branch."""
    if not _has_reftable(git.admin_dir):
        _replace_head(git.admin_dir, head)
    elif branch is not None:
        git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}", settings=_NO_REFLOG)


def write_file(path: str, text: str, *, by: str | None = None) -> None:
    """A small file with new content, all of it or the old one; its permissions stay. `by` is written first."""
    content = os.fsencode(text)
    if _read(path) == text:
        return
    temporary = by or path + _TEMPORARY
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        _write(fd, content, like=path)
    finally:
        os.close(fd)
    os.rename(temporary, path)


def remove_temporary_files(admin_dir: str) -> None:
    """Take away what a crash in the middle of `replace` left."""
    for name in ("locked", "gitdir"):
        temporary = os.path.join(admin_dir, name + _TEMPORARY)
        if os.path.lexists(temporary):
            os.unlink(temporary)


def fsync_folder(folder: str) -> None:
    """What was renamed, made or unlinked in this folder is on the disk now."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def list_lock_files(admin_dir: str) -> list[str]:
    """git's own lock files there: a git command is at work, or died there."""
    return sorted(name for name in os.listdir(admin_dir) if name.endswith(".lock"))


def remove_head_lock(admin_dir: str, contents: tuple[str, ...], ours: str) -> None:
    """After a crash of our own: the HEAD.lock that we left, which is empty or holds what we were about to write."""
    path = os.path.join(admin_dir, "HEAD.lock")
    if (_read(os.path.join(admin_dir, "locked")) or "").startswith(ours) and _read(path) in ("", *contents):
        os.unlink(path)


def _replace_head(admin_dir: str, text: str) -> None:
    """git's own way: whoever creates HEAD.lock may change HEAD."""
    path, lock_path = os.path.join(admin_dir, "HEAD"), os.path.join(admin_dir, "HEAD.lock")
    if _read(path) == text:
        return
    try:
        fd = os.open(lock_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except FileExistsError as error:
        raise GitError(lock_advice(lock_path), code="busy") from error
    try:
        _write(fd, os.fsencode(text), like=path)
        os.rename(lock_path, path)
    except BaseException:
        os.unlink(lock_path)
        raise
    finally:
        os.close(fd)


def _write(fd: int, content: bytes, *, like: str) -> None:
    with suppress(FileNotFoundError):  # a new file: the umask decides
        os.fchmod(fd, stat.S_IMODE(os.lstat(like).st_mode))
    while content:
        content = content[os.write(fd, content) :]
    os.fsync(fd)


def _read(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be read: {error.strerror}", code="admin-broken") from error
    try:
        content = os.read(fd, _SMALL)
    finally:
        os.close(fd)
    if len(content) == _SMALL:
        raise Refused(f"{safe(path)} is too long for what it should be", code="admin-broken")
    return os.fsdecode(content)


def _link(source: str, copy: str) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), copy)
        return
    try:
        os.link(source, copy, follow_symlinks=False)
    except FileNotFoundError:
        pass  # a lock or temporary file of git's that is gone again
    except OSError:
        import shutil

        shutil.copy2(source, copy, follow_symlinks=False)


def _has_reftable(admin_dir: str) -> bool:
    return os.path.isdir(os.path.join(admin_dir, "reftable"))
