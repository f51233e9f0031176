"""Opening the registry, and the one way to write to it.

The file is never opened but through SQLite: a plain `open` and `close` of it in this process would drop SQLite's POSIX
locks and lose another process's commits. Every write goes through `transact`: BEGIN IMMEDIATE (a deferred transaction
that turns into a write fails at once when somebody else writes), COMMIT, or ROLLBACK on whatever goes wrong.
"""

from __future__ import annotations

import os
import sqlite3

from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Concatenate, ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

BUSY_SECONDS = 5.0
# SQLite 3.7.0 to 3.51.2 can damage a WAL when two connections checkpoint or reset it at the same moment.
SAFE_CHECKPOINT = (3, 51, 3)
_CHECKPOINT_BYTES = 1 << 20
_BALLAST = ".imi-ballast"
_BALLAST_BYTES = 256 << 10
_REMOTE = ("nfs", "cifs", "smb", "9p", "virtiofs", "fuse", "afs", "ceph", "lustre", "gfs", "glusterfs", "ocfs2")


def connect(path: str, *, create: bool = True, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """An open, migrated registry. Whatever is wrong with it is one RegistryError, and nothing was changed."""
    fresh = _gate(path, create)
    try:
        connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)
    except sqlite3.Error as error:
        raise explain(error, path) from error
    try:
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise explain(error, path) from error
    except BaseException:
        connection.close()
        raise
    if fresh:
        os.chmod(path, 0o600)
        _lay_ballast(path)
    return connection


def transact(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run `work(connection, …)` as one transaction and give its result once that is on disk."""
    path = _path_of(connection)
    try:
        result = _transact_once(connection, work, *args, **kwargs)
    except sqlite3.Error as error:
        if not _is_full(error) or not _drop_ballast(path):
            raise explain(error, path) from error
        try:  # a full disk: the ballast made room for this one act, so that claims and removals still work
            result = _transact_once(connection, work, *args, **kwargs)
        except sqlite3.Error as again:
            raise explain(again, path) from again
    checkpoint_if_due(connection, path)
    return result


def reading(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run `work(connection, …)` on one consistent picture, without writing."""
    try:
        connection.execute("BEGIN")
        try:
            return work(connection, *args, **kwargs)
        finally:
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise explain(error, _path_of(connection)) from error


def needs_single_checkpointer() -> bool:
    return sqlite3.sqlite_version_info < SAFE_CHECKPOINT


def checkpoint_if_due(connection: sqlite3.Connection, path: str) -> bool:
    """Move a grown WAL into the database. With an old SQLite only one process at a time may do it."""
    if not needs_single_checkpointer():
        return False  # SQLite checkpoints by itself
    try:
        if os.stat(path + "-wal").st_size < _CHECKPOINT_BYTES:
            return False
    except OSError:
        return False
    lock = _checkpoint_lock(path)
    if lock is None:
        return False
    try:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return True
    except sqlite3.Error:
        return False  # a busy or full disk: the next writer tries again, the WAL keeps everything meanwhile
    finally:
        os.close(lock)


def lay_ballast_again(path: str) -> None:
    """Put the ballast back once there is room; called by commands that are not in a hurry."""
    if os.path.exists(path) and not os.path.exists(_ballast_path(path)):
        _lay_ballast(path)


def explain(error: sqlite3.Error, path: str) -> RegistryError:
    """SQLite's error as one sentence: what is wrong with which file, and what to do."""
    text = str(error)
    shown = safe(path)
    if "locked" in text or "busy" in text:
        return RegistryError(
            f"the registry {shown} is held by another program for more than {BUSY_SECONDS:.0f} s: try again, or see "
            "who has it open with `fuser`",
            code="registry-busy",
        )
    if _is_full(error):
        return RegistryError(f"no space left for the registry {shown}: free some and try again", code="registry-full")
    if "readonly" in text or "read-only" in text:
        return RegistryError(f"the registry {shown} is read-only: make it writable, or use --db", code="registry-readonly")
    if "not a database" in text or "malformed" in text or "encrypted" in text:
        return RegistryError(
            f"the registry {shown} is damaged or no SQLite database; it was not touched: move it aside, or restore a copy",
            code="registry-corrupt",
        )
    if "unable to open" in text:
        return RegistryError(f"cannot open the registry {shown}: check the path and its permissions", code="registry-open")
    return RegistryError(f"the registry {shown} cannot be used: {safe(text)}", code="registry")


def _transact_once(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work(connection, *args, **kwargs)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _gate(path: str, create: bool) -> bool:
    """Refuse what cannot go well before SQLite touches anything; True when the file is going to be new."""
    folder = os.path.dirname(path)
    try:
        info = os.stat(path)
    except FileNotFoundError:
        if not create:
            raise RegistryError(f"there is no registry at {safe(path)}", code="registry-missing") from None
        _make_folder(folder)
        _refuse_remote(path, folder)
        return True
    except OSError as error:
        raise RegistryError(f"cannot reach the registry {safe(path)}: {error.strerror}", code="registry-open") from error
    if os.path.isdir(path):
        raise RegistryError(f"the registry {safe(path)} is a folder: name a file with --db", code="registry-open")
    if info.st_uid != os.geteuid():
        raise RegistryError(
            f"the registry {safe(path)} belongs to another user (uid {info.st_uid}): run as that user, or use --db",
            code="registry-foreign",
        )
    if not os.access(path, os.W_OK) or not os.access(folder, os.W_OK):
        raise RegistryError(
            f"the registry {safe(path)} is read-only: make the file and its folder writable, or use --db",
            code="registry-readonly",
        )
    _refuse_remote(path, folder)
    return False


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise RegistryError(
            f"cannot make the registry's folder {safe(folder)}: {error.strerror}", code="registry-open"
        ) from error


def _refuse_remote(path: str, folder: str) -> None:
    kind = filesystem_of(folder)
    if kind.startswith(_REMOTE):
        raise RegistryError(
            f"the registry {safe(path)} is on a {safe(kind)} file system, where SQLite loses data: put it on a local "
            "disk with --db or IMI_DATABASE_PATH",
            code="registry-remote",
        )


def filesystem_of(folder: str) -> str:
    """The type of the file system that holds `folder`, as the kernel names it; empty where there is no /proc."""
    try:
        with open("/proc/self/mounts", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    target = os.fsencode(os.path.realpath(folder))
    best, kind = b"", b""
    for line in lines:
        fields = line.split(b" ")
        mount = fields[1].replace(b"\\040", b" ") if len(fields) > 2 else b"?"
        inside = target == mount or target.startswith(mount.rstrip(b"/") + b"/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fields[2]
    return kind.decode("ascii", "replace")


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > schema.VERSION:
        raise RegistryError(
            f"the registry {safe(path)} was made by a newer imi (schema {version}, this one knows {schema.VERSION}): "
            "update imi; nothing was changed",
            code="registry-newer",
        )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    if needs_single_checkpointer():
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    if version < schema.VERSION:
        _upgrade(connection, path)


def _upgrade(connection: sqlite3.Connection, path: str) -> None:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "worktrees" not in tables:
        raise RegistryError(
            f"{safe(path)} is an SQLite database but no registry of imi: name another file with --db",
            code="registry-foreign-schema",
        )
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another process may have come first: what counts is the version under the lock
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for script in schema.MIGRATIONS[version:]:
            for statement in schema.statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {max(version, schema.VERSION)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _path_of(connection: sqlite3.Connection) -> str:
    for _, name, path in connection.execute("PRAGMA database_list"):
        if name == "main":
            return str(path)
    return ""


def _is_full(error: sqlite3.Error) -> bool:
    return "full" in str(error)


def _ballast_path(path: str) -> str:
    return os.path.join(os.path.dirname(path), _BALLAST)


def _lay_ballast(path: str) -> None:
    """Keep a little room on the disk that can be given up when it is full."""
    target = _ballast_path(path)
    try:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return  # it is there already, or there is no room: nothing to give up then
    try:
        os.write(handle, b"\0" * _BALLAST_BYTES)
    except OSError:
        os.unlink(target)
    finally:
        os.close(handle)


def _drop_ballast(path: str) -> bool:
    try:
        os.unlink(_ballast_path(path))
    except OSError:
        return False
    return True


def _checkpoint_lock(path: str) -> int | None:
    import fcntl

    handle = os.open(path + ".checkpoint", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
