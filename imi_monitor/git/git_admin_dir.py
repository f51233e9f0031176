"""Changes the admin directory of a worktree whose folder is in the trash, and restores it; no git command does this.

The directory stays registered, so that `git gc` keeps all objects that its index, HEAD, logs and unfinished rebase refer to. It
is locked against `git worktree prune`; its pointer names the folder in the trash; its HEAD is detached, so that the branch can be
checked out elsewhere. Every function can be repeated after a crash, and the original bytes are restored exactly.
"""

from __future__ import annotations

import os
import stat

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git.layout import has_reftable
from imi_monitor.git.lock_files import lock_advice
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git

_SMALL = 1 << 16
_TEMPORARY = ".imi-new"
# an entry in the reflog would keep an undo from being byte-identical
_NO_REFLOG = [("core.logAllRefUpdates", "false")]


@dataclass(frozen=True, slots=True)
class AdminFiles:
    """The original files of an admin directory; text with surrogates for bytes that are not UTF-8."""

    head: str
    gitdir: str
    locked: str | None


def read_admin_files(admin_dir: str) -> AdminFiles:
    """Return the files that this module changes; Refused when git's record is incomplete."""
    head, gitdir = _read(os.path.join(admin_dir, "HEAD")), _read(os.path.join(admin_dir, "gitdir"))
    if head is None or gitdir is None:
        raise Refused(f"git's own record of this worktree is incomplete: check {safe(admin_dir)}", code="admin-broken")
    return AdminFiles(head, gitdir, _read(os.path.join(admin_dir, "locked")))


def copy_admin_dir(admin_dir: str, into: str) -> None:
    """Copy the admin directory by hard links, or by real copies where links are impossible.

    With the copy, a `git worktree prune` that tested the lock a moment too early, or that ran after an unlock, loses nothing.
    """
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
    """Restore a pruned admin directory from the copy; returns False when it was not pruned."""
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
    """Lock the worktree against `git worktree prune`."""
    write_file(os.path.join(admin_dir, "locked"), reason + "\n")
    fsync_folder(admin_dir)


def unlock(admin_dir: str, parked: AdminFiles, ours: str) -> None:
    """Restore the original lock, or none; a lock with another reason is not ours and stays."""
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


def is_detached_at(admin_dir: str, sha: str | None) -> bool:
    """True if HEAD is detached at this commit, as `detach_head` leaves it."""
    return sha is not None and _read(os.path.join(admin_dir, "HEAD")) == sha + "\n"


def read_pointer(admin_dir: str) -> str | None:
    """Return the recorded path of the worktree's `.git` file, as it is written."""
    return _read(os.path.join(admin_dir, "gitdir"))


def write_pointer(admin_dir: str, text: str) -> None:
    """Record another path of the worktree's `.git` file."""
    write_file(os.path.join(admin_dir, "gitdir"), text)


def detach_head(git: Git, sha: str | None) -> None:
    """Detach HEAD at its commit, so that the branch is free; an unborn or detached HEAD (None) stays unchanged."""
    if sha is None:
        return
    if has_reftable(git.admin_dir):
        git.run("update-ref", "--no-deref", "HEAD", sha, settings=_NO_REFLOG)
    else:
        _replace_head(git.admin_dir, sha + "\n")


def restore_head(git: Git, head: str, branch: str | None) -> None:
    """Restore HEAD: its bytes, or its branch where git stores refs in a reftable."""
    if not has_reftable(git.admin_dir):
        _replace_head(git.admin_dir, head)
    elif branch is not None:
        git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}", settings=_NO_REFLOG)


def write_file(path: str, text: str, *, by: str | None = None) -> None:
    """Replace a small file atomically, with its permissions. `by` is the name of the temporary file."""
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
    """Delete the temporary files that a crash during `write_file` leaves."""
    for name in ("locked", "gitdir"):
        temporary = os.path.join(admin_dir, name + _TEMPORARY)
        if os.path.lexists(temporary):
            os.unlink(temporary)


def fsync_folder(folder: str) -> None:
    """Write renames, new files and deletions in this folder to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def list_lock_files(admin_dir: str) -> list[str]:
    """Return git's own lock files there: a git command is running, or has died."""
    return sorted(name for name in os.listdir(admin_dir) if name.endswith(".lock"))


def remove_head_lock(admin_dir: str, contents: tuple[str, ...], ours: str) -> None:
    """Delete the HEAD.lock of our own crashed process, which is empty or holds one of `contents`."""
    path = os.path.join(admin_dir, "HEAD.lock")
    if (_read(os.path.join(admin_dir, "locked")) or "").startswith(ours) and _read(path) in ("", *contents):
        os.unlink(path)


def _replace_head(admin_dir: str, text: str) -> None:
    """Write HEAD as git does, by creating HEAD.lock."""
    path, lock_path = os.path.join(admin_dir, "HEAD"), os.path.join(admin_dir, "HEAD.lock")
    if _read(path) == text:
        return
    try:
        fd = os.open(lock_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)  # which follows no link
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
    with suppress(FileNotFoundError):  # the umask decides for a new file
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
        raise Refused(f"{safe(path)} is larger than git makes it", code="admin-broken")
    return os.fsdecode(content)


def _link(source: str, copy: str) -> None:
    """Link or copy a file; of a symbolic link the link itself."""
    try:
        os.link(source, copy, follow_symlinks=False)
    except FileNotFoundError:
        pass  # a lock or temporary file of git that was deleted meanwhile
    except OSError:
        import shutil

        shutil.copy2(source, copy, follow_symlinks=False)
