"""The registry's file: checks before it is opened, reserved disk space for a full disk, and SQLite's errors as sentences.

Nothing here opens the file itself. Closing a file drops every POSIX lock this process holds on it, SQLite's included,
and the next writer of another process would then lose its commits: only `stat` is used.
"""

from __future__ import annotations

import os
import stat

from imi_monitor.fast import json_writer
from imi_monitor.fast.lean_sqlite import sqlite3
from imi_monitor.model import times
from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    RefuseLost = Callable[[str, str], None]  # (real path, what is the matter with it)
    FileIdentity = tuple[int, int, int | None, int | None]
    FileStamp = tuple[FileIdentity | None, int, int, int, bool, bool]

# File systems on which SQLite's locks and shared memory do not work; each kind has lost registries.
_REMOTE = ("nfs", "cifs", "smb", "9p", "virtiofs", "fuse", "afs", "ceph", "lustre", "gfs", "gluster", "ocfs2", "vboxsf")
REPLACED_CODE, NEWER_CODE = "registry-replaced", "registry-newer"
SIDE_FILES = ("-wal", "-shm", "-journal")
_BALLAST = ".imi-ballast"
BALLAST_BYTES = 512 << 10
KEPT_FOR_RELEASES = 256 << 10  # other work leaves so much of the ballast; a release takes about 1 KB of it for good
_BLOCK_BYTES = 4 << 10
_SLICE_BYTES = 128 << 10  # room for SQLite's side files and one transaction
_SCARCE_BYTES = 256 << 10
_SAME_TIME_NS = 50_000_000  # the longest step of a file system's clock that is expected
# SQLite's result codes; the `sqlite3` module names them only in newer versions.
_FULL, _IO_ERROR, _CANNOT_OPEN = 13, 10, 14
_WRITE_FAILED, _SHARED_MEMORY_FAILED = 778, 4874


class CheckedFile:
    """A place for the registry: its real path, whether only this user has access, and the file found there."""

    __slots__ = ("found", "private", "real")

    def __init__(self, real: str, found: os.stat_result | None, private: bool) -> None:
        self.real = real  # the ballast and SQLite's side files lie beside it, not beside a link to it
        self.found = found  # None: the file will be new
        self.private = private

    @property
    def fresh(self) -> bool:
        return self.found is None

    def identify(self, path: str) -> FileIdentity | None:
        """Identify the file once it is open; None if it was replaced since the check."""
        identity = identify(path, self.real)
        if identity is None or self.found is None or identity[:2] == (self.found.st_dev, self.found.st_ino):
            return identity
        return None


def identify(path: str, real: str) -> FileIdentity | None:
    """Return the identity of the file, its log and its index, equal while they are the open ones; None: gone or emptied.

    No other file gets the inode of one that is open.
    """
    try:
        info = os.stat(path)
    except OSError:
        return None
    return (info.st_dev, info.st_ino, _inode(f"{real}-wal"), _inode(f"{real}-shm")) if info.st_size else None


def is_at(path: str, identity: FileIdentity | None) -> bool:
    """True if the file of that identity has this path: a cheaper check, without its log."""
    try:
        info = os.stat(path)
    except OSError:
        return False
    return identity is not None and info.st_ino == identity[1] and info.st_dev == identity[0]


def stamp(path: str, real: str) -> FileStamp | None:
    """Return what stays the same unless another opening may end differently; None if there is no file.

    The log grows with each commit, the file itself changes only when a checkpoint, or another program, writes into it.
    The stamp of a file that was just written changes once more: another write may leave the same times.
    """
    try:
        info = os.stat(path)
    except OSError:
        return None
    is_settled = max(info.st_mtime_ns, info.st_ctime_ns) <= times.clock() - _SAME_TIME_NS
    access = os.access(os.path.dirname(real), os.W_OK | os.X_OK) and os.access(path, os.R_OK | os.W_OK)
    return identify(path, real), info.st_mtime_ns, info.st_ctime_ns, info.st_size, access, is_settled


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def check_file(path: str, create: bool, refuse_lost: RefuseLost) -> CheckedFile:
    """Refuse an unusable file before SQLite touches it; changes nothing. `refuse_lost` decides whether a file counts as new."""
    if "\0" in path:
        raise RegistryError(f"{safe(path)} is not a file name: use another one with --db", code="registry-open")
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    try:
        info = os.stat(real)
    except FileNotFoundError:
        if not _is_still_missing(real, refuse_lost):
            return check_file(path, create, refuse_lost)
        if not create:
            raise RegistryError(f"there is no registry at {safe(path)}: check --db", code="registry-missing") from None
        _make_folder(folder)
        _refuse_read_only(path, folder, None)
        _refuse_remote(path, folder)
        return CheckedFile(real, None, _refuse_foreign(path, real, None))
    except OSError as error:
        raise RegistryError(
            f"cannot reach the registry {safe(path)}: {error.strerror}", code="registry-open"
        ) from error
    _refuse_odd(path, info)
    private = _refuse_foreign(path, real, info)
    if info.st_size == 0 and has_content(f"{real}-wal"):  # SQLite would take the file for new and delete the log
        refuse_lost(real, "is empty")
    _refuse_read_only(path, folder, real)
    _refuse_remote(path, folder)
    return CheckedFile(real, info, private)


def _refuse_foreign(path: str, real: str, info: os.stat_result | None) -> bool:
    """Refuse what belongs to another user; returns whether all is ours and closed to others, as usual."""
    if _is_private(real, info):
        return True
    from imi_monitor.store import registry_access

    registry_access.refuse_foreign(path, real)
    return False


def _is_private(real: str, info: os.stat_result | None) -> bool:
    """True in the usual case: file, side files and folder are ours, and closed to others; costs microseconds."""
    me = os.geteuid()
    if info is not None and (info.st_uid != me or info.st_mode & 0o077):
        return False
    folder = os.stat(os.path.dirname(real))
    if folder.st_uid != me or folder.st_mode & 0o022:
        return False
    for ending in SIDE_FILES:
        try:
            if os.lstat(real + ending).st_uid != me:
                return False
        except FileNotFoundError:
            continue
    return True


def _is_still_missing(real: str, refuse_lost: RefuseLost) -> bool:
    """Refuse a registry that vanished; False if another process has made a new one meanwhile."""
    try:
        refuse_lost(real, "is gone")
    except RegistryError:
        if os.path.lexists(real):
            return False  # it names itself after its first commit
        raise
    return True


def filesystem_type(folder: str, mounts: str = "/proc/self/mounts") -> str:
    """The type of the file system that holds `folder`, as the kernel names it; empty where there is no /proc."""
    try:
        with open(mounts, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    target = os.fsencode(os.path.realpath(folder))
    best, kind = b"", b""
    for line in lines:
        fields = line.split(b" ")
        if len(fields) < 3:
            continue
        mount = _unescaped(fields[1])
        inside = target == mount or target.startswith(mount.rstrip(b"/") + b"/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fields[2]
    return kind.decode("ascii", "replace")


def is_remote(kind: str) -> bool:
    """True if SQLite must not be used on a file system of this type; `fuseblk` is a local disk (NTFS, exFAT)."""
    return kind.startswith(_REMOTE) and kind != "fuseblk"


def lay_ballast(path: str, size: int = BALLAST_BYTES) -> None:
    """Reserve disk space in a file that is shortened when the disk is full: `size` bytes, or what there is room for."""
    try:
        handle = os.open(
            ballast_path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError:
        return  # there is no space to reserve
    try:
        found = os.fstat(handle)
        missing = size - found.st_size if _is_own_file(found) else 0
        while missing > 0:  # random bytes, because a compressing file system reserves no space for zeros
            missing -= os.write(handle, os.urandom(missing))
    except OSError:
        return
    finally:
        os.close(handle)


def name_ballast(path: str, registry_id: str) -> None:
    """Write the registry's id and path into the first line of its ballast: a trace of it, should it vanish."""
    target = ballast_path(path)
    try:
        handle = os.open(target, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # there is none, or it is not ours
    try:
        entry = f"{json_writer.dumps(path)}: {json_writer.dumps(registry_id)}".encode()
        if _is_own_file(os.fstat(handle)) and entry not in os.pread(handle, _BLOCK_BYTES, 0).partition(b"\n")[0]:
            from imi_monitor.store import lost_registry

            named = lost_registry.read_names(target).get("registries")  # others in the same folder share the ballast
            known = {**(named if isinstance(named, dict) else {}), path: registry_id}
            line = json_writer.dumps({"registries": known}).encode() + b"\n"
            if len(line) <= _BLOCK_BYTES:  # what `cut_ballast` leaves
                os.pwrite(handle, line, 0)
    except OSError:
        return  # a trace less
    finally:
        os.close(handle)


def cut_ballast(path: str, keep: int) -> bool:
    """Free a slice of the reserve, but leave `keep` bytes of it; False when there is no more than that.

    The first block stays: it takes no room from SQLite, and it names the registry.
    """
    size, keep = ballast_size(path), max(keep, _BLOCK_BYTES)
    if size <= keep:
        return False
    try:
        os.truncate(ballast_path(path), max(keep, size - _SLICE_BYTES))
    except OSError:
        return False
    return True


def ballast_size(path: str) -> int:
    """The bytes that are reserved now."""
    found = _own_ballast(path)
    return 0 if found is None else found.st_size


def has_ballast(path: str) -> bool:
    """True if there is a ballast file of ours, however small."""
    return _own_ballast(path) is not None


def _own_ballast(path: str) -> os.stat_result | None:
    try:
        found = os.lstat(ballast_path(path))
    except OSError:
        return None
    return found if _is_own_file(found) else None


def _is_own_file(found: os.stat_result) -> bool:
    """True unless another user put something else into its place, such as a link to a file of ours."""
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1


def ballast_path(path: str) -> str:
    return os.path.join(os.path.dirname(os.path.realpath(path)), _BALLAST)


def is_disk_full(error: Exception, path: str) -> bool:
    """True if SQLite failed for lack of space. Its code says so only when the database itself could not grow."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF == _FULL or code in (_WRITE_FAILED, _SHARED_MEMORY_FAILED):
        return True
    return code & 0xFF in (_IO_ERROR, _CANNOT_OPEN) and is_space_scarce(os.path.dirname(path))


def is_space_scarce(folder: str) -> bool:
    """True if the disk of `folder` is nearly out of space or files."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    blocks = room.f_bfree if os.geteuid() == 0 else room.f_bavail
    return blocks * room.f_frsize < _SCARCE_BYTES or (room.f_files > 0 and room.f_favail == 0)


def _unescaped(mount: bytes) -> bytes:
    """The mount point without octal escapes: /proc/self/mounts escapes blank, tab, newline and backslash."""
    for sign in b" \t\n\\":
        mount = mount.replace(b"\\%03o" % sign, bytes((sign,)))
    return mount


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise RegistryError(
            f"cannot create the registry's folder {safe(folder)}: {error.strerror}: use --db for another place",
            code="registry-open",
        ) from error


def refuse_uncreatable(path: str) -> None:
    """Refuse a place in which no registry can be made. Reads only."""
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        raise RegistryError(
            f"the registry {safe(path)} cannot be created, because {safe(folder)} is read-only: make it writable, or "
            "use --db for another place",
            code="registry-open",
        )
    _refuse_remote(path, folder)


def _refuse_odd(path: str, info: os.stat_result) -> None:
    shown = safe(path)
    if not stat.S_ISREG(info.st_mode):
        kind = "a folder" if stat.S_ISDIR(info.st_mode) else "not a regular file"
        raise RegistryError(f"the registry {shown} is {kind}: name a file with --db", code="registry-open")


def has_content(path: str, own: bool = False) -> bool:
    """True if the file is not empty and, with `own`, belongs to this user."""
    try:
        info = os.stat(path)
    except OSError:
        return False
    return info.st_size > 0 and (not own or info.st_uid == os.geteuid())


def _refuse_read_only(path: str, folder: str, real: str | None) -> None:
    if os.access(folder, os.W_OK | os.X_OK) and (real is None or os.access(real, os.R_OK | os.W_OK)):
        return
    raise RegistryError(
        f"the registry {safe(path)} is read-only: make the file and its folder writable, or use --db",
        code="registry-readonly",
    )


def _refuse_remote(path: str, folder: str) -> None:
    kind = filesystem_type(folder)
    if is_remote(kind):
        raise RegistryError(
            f"the registry {safe(path)} is on a {safe(kind)} file system, where SQLite loses data: put it on a local "
            "disk with --db or IMI_DATABASE_PATH",
            code="registry-remote",
        )


# SQLite's primary result code -> (our code, the sentence after the file's name)
_SENTENCES: dict[int, tuple[str, str]] = {
    5: ("registry-busy", "is held by another program: try again, or see who has it open with `fuser`"),
    6: ("registry-busy", "is held by another program: try again, or see who has it open with `fuser`"),
    8: ("registry-readonly", "is read-only, or was moved while in use: make it writable, or use --db"),
    11: ("registry-corrupt", "is damaged; it was not changed: move it and its -wal file aside, or restore a copy"),
    14: ("registry-open", "cannot be opened: check the path and its permissions"),
    26: (
        "registry-corrupt",
        "is damaged or not an SQLite database; it was not changed: move it aside, or restore a copy",
    ),
}
_FULL_SENTENCE = ("registry-full", "has no space left on its disk: free some space and try again")


def registry_error(error: sqlite3.Error | UnicodeEncodeError, path: str) -> RegistryError:
    """SQLite's error as a RegistryError: what is wrong with which file, and what to do."""
    if isinstance(error, UnicodeEncodeError):
        return RegistryError(
            f"the registry stores only UTF-8 names, and {safe(error.object)} is not UTF-8: rename it", code="not-utf8"
        )
    number = getattr(error, "sqlite_errorcode", 0) & 0xFF
    full = is_disk_full(error, path)
    code, sentence = _FULL_SENTENCE if full else _SENTENCES.get(number, ("registry", _other_sentence(error)))
    return RegistryError(f"the registry {safe(path)} {sentence}", code=code)


def replaced_error(path: str) -> RegistryError:
    """The error for a transaction on a file that is not the registry any more."""
    return RegistryError(
        f"the registry {safe(path)} was replaced, deleted or emptied while it was in use, and nothing was recorded in the "
        "new one: repeat it",
        code=REPLACED_CODE,
    )


def restart_error(path: str) -> RegistryError:
    """The error of a process whose registry another version of imi has changed."""
    return RegistryError(
        f"the registry {safe(path)} was changed by a newer imi while this one was using it: restart imi",
        code=NEWER_CODE,
    )


def sync_error(error: OSError, path: str) -> RegistryError:
    """The error for commits that the disk did not accept."""
    return RegistryError(
        f"the registry {safe(path)} cannot be put on its disk ({error.strerror}): check the disk, then `imi doctor`",
        code="registry",
    )


def _other_sentence(error: sqlite3.Error) -> str:
    text = safe(str(error), 200)
    if isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", 0) & 0xFF == 10:
        return f"cannot be read or written ({text}): check the disk, then `imi doctor`"
    return f"cannot be used ({text}): check it with `imi doctor`"
