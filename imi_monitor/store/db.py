"""Connections to the registry, and transactions.

The file is opened only through SQLite: a plain `open` and `close` of it in this process would drop SQLite's POSIX locks
and lose another process's commits. Every write goes through `transact`: BEGIN IMMEDIATE (a deferred transaction that
turns into a write fails at once while another process writes), COMMIT, or ROLLBACK on any error.
"""

from __future__ import annotations

import os
import time

from imi_monitor.fast.lean_sqlite import sqlite3
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.model.errors import RegistryError
from imi_monitor.store import registry_file, schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Concatenate, ParamSpec, TypeVar

    from imi_monitor.store.lost_registry import FindTraces
    from imi_monitor.store.registry_file import FileIdentity, FileStamp, RefuseLost

    P = ParamSpec("P")
    T = TypeVar("T")

    Failure = sqlite3.Error | UnicodeEncodeError

# What `sqlite3` raises; the second for a text that is not UTF-8, which SQLite cannot store.
Error = (sqlite3.Error, UnicodeEncodeError)
BUSY_SECONDS = 5.0
# SQLite 3.7.0 to 3.51.2 can damage a WAL when two connections checkpoint or reset it at the same moment.
SAFE_CHECKPOINT = (3, 51, 3)
_CHECKPOINT_BYTES = 1 << 20
_RESTART_BYTES = 4 << 20
_CHECKPOINT_TIMEOUT_MS = 20
_KEPT_WAL_BYTES = 512 << 10
_LEFT_WAL_BYTES = 128 << 10
_FIRST_PAUSE, _SHORTEST_PAUSE, _PAUSE_SHARE = 0.014, 0.00008, 1 / 500
flush_file = getattr(os, "fdatasync", os.fsync)
_left_open: list[sqlite3.Connection] = []
_openings = 0


class RegistryConnection(sqlite3.Connection):
    """A connection with the path of its file: SQLite does not report a path that is not UTF-8."""

    path = ""
    named = ""  # the path it was opened by, which may be a link
    identity: FileIdentity | None = None  # the identity of the open file
    opening = 0  # the number of this connection in this process
    timeout = BUSY_SECONDS
    unsynced = False  # its commits do not wait for the disk
    has_wal = False  # the file has a write-ahead log, which cannot be switched off while we are connected
    stands_in_for: RegistryError | None = None  # why the real registry cannot be used, or only be read
    notes: tuple[str, ...] = ()  # the changes of permissions that keep other users out of the file
    checkpoint_stamp: FileStamp | None = None  # the file's stamp right after the last checkpoint of this connection
    kept_ballast = registry_file.KEPT_FOR_RELEASES  # bytes of the ballast that stay reserved on a full disk


def connect(
    path: str,
    *,
    create: bool = True,
    busy_seconds: float = BUSY_SECONDS,
    find_traces: FindTraces | None = None,
    begin_new: bool = False,
) -> sqlite3.Connection:
    """An open registry of the current schema, closed to other users. Any failure is one RegistryError and changes no content.

    A registry is new only if no trace names an earlier one at this path (`find_traces` finds those outside of its folder),
    or if `begin_new` says so.
    """

    def refuse_lost(real: str, state: str) -> None:
        if not begin_new:
            from imi_monitor.store import lost_registry

            lost_registry.refuse_lost(path, real, state, find_traces)

    checked = registry_file.check_file(path, create, refuse_lost)
    real, fresh = checked.real, checked.fresh
    changes = () if checked.private else _close_to_others(path, real)  # first: new side files get the mode of the file
    if fresh:
        registry_file.lay_ballast(real)
    try:
        connection = _retry_with_room(real, path, lambda: _open(real, fresh, busy_seconds, refuse_lost), None)
    except RegistryError as error:
        error.details = (*error.details, *changes)
        raise
    connection.notes = changes
    connection.named = path if os.path.isabs(path) else real
    connection.identity = checked.identify(connection.named)
    if connection.has_wal and connection.identity is not None and None in connection.identity:
        schema_version(connection)  # the log was switched on just now: the first query makes its files
        connection.identity = checked.identify(connection.named)
    return connection


def is_current(connection: sqlite3.Connection) -> bool:
    """False if the file that is open is not the registry any more, or no longer has its log."""
    if not isinstance(connection, RegistryConnection) or connection.stands_in_for is not None:
        return True
    found, opened = registry_file.identify(connection.named, connection.path), connection.identity
    if found is None or opened is None:
        return False
    return found == opened if connection.has_wal else found[:2] == opened[:2]


def is_same_file(connection: sqlite3.Connection) -> bool:
    """False if the path names another file than the one that is open, or none."""
    if not isinstance(connection, RegistryConnection):
        return True
    return registry_file.is_at(connection.named, connection.identity)


def file_of(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Device and inode of the file that is open."""
    identity = connection.identity if isinstance(connection, RegistryConnection) else None
    return None if identity is None else identity[:2]


def schema_version(connection: sqlite3.Connection) -> int:
    """The version of the file's schema, which a newer imi may raise while this one has the file open."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def transact(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run `work(connection, …)` as one transaction; returns its result once it is on disk.

    On a full disk `work` runs again after a rollback: it must have no effect outside its transaction.
    """
    _set_sync(connection, False)
    return _transact(connection, work, *args, **kwargs)


def _transact(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    if isinstance(connection, RegistryConnection) and connection.stands_in_for is not None:
        raise connection.stands_in_for
    path = _path_of(connection)
    result = _retry_with_room(path, path, lambda: _transact_once(connection, work, *args, **kwargs), connection)
    checkpoint_if_due(connection, path)
    return result


def transact_unsynced(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Like `transact`, but without waiting for the disk: the commit is synced with the next one that is.

    It is visible at once, never torn and not lost with the process; only a power cut can undo it. Use it where that does
    no harm: after a power cut every holder is proven dead by its boot, so a lost release or heartbeat changes nothing.
    A removal must not be lost, and a claim not after it was reported: call `sync_to_disk` first. The wait for the disk
    is most of the time for which other writers are blocked.
    """
    _set_sync(connection, True)
    return _transact(connection, work, *args, **kwargs)


def transact_with_ballast(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Like `transact`, for what gives back: releases and removals, of which there are no more than claims and worktrees.

    On a full disk they may use all of the ballast. Other work leaves a part of it, so that every claim can be released.
    """
    return _use_whole_ballast(connection, lambda: transact(connection, work, *args, **kwargs))


def transact_unsynced_with_ballast(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Like `transact_with_ballast`, but without waiting for the disk."""
    return _use_whole_ballast(connection, lambda: transact_unsynced(connection, work, *args, **kwargs))


def _use_whole_ballast(connection: sqlite3.Connection, act: Callable[[], T]) -> T:
    if not isinstance(connection, RegistryConnection):
        return act()
    before, connection.kept_ballast = connection.kept_ballast, 0
    try:
        return act()
    finally:
        connection.kept_ballast = before


def spare_ballast(connection: sqlite3.Connection) -> None:
    """Keep this connection's writes off the ballast: records of observations can wait for space."""
    if isinstance(connection, RegistryConnection):
        connection.kept_ballast = registry_file.BALLAST_BYTES


def _set_sync(connection: sqlite3.Connection, wanted: bool) -> None:
    """Make the next commits wait for the disk or not. Without the write-ahead log they always wait: an unsynced rollback
    journal can damage the file."""
    if isinstance(connection, RegistryConnection) and connection.has_wal and connection.unsynced != wanted:
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if wanted else 'FULL'}")
        connection.unsynced = wanted


def sync_to_disk(connection: sqlite3.Connection) -> None:
    """Wait until every commit is on disk; other processes can write meanwhile.

    The log, unlike the database, may be opened outside SQLite: it has no locks that closing it would drop.
    """
    if not (isinstance(connection, RegistryConnection) and connection.has_wal):
        return  # every commit waited for the disk
    try:
        log = os.open(connection.path + "-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            flush_file(log)
        finally:
            os.close(log)
    except OSError as error:
        from imi_monitor.store import registry_file

        raise registry_file.sync_error(error, connection.path) from error


def read(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run `work(connection, …)` on one consistent state, without writing."""
    try:
        connection.execute("BEGIN")
        try:
            return work(connection, *args, **kwargs)
        finally:
            _roll_back(connection)
    except Error as error:
        raise registry_error(error, _path_of(connection)) from error


def where(**columns: object) -> tuple[str, list[object]]:
    """A WHERE clause that compares the columns whose value is not None, and the values."""
    given = {name: value for name, value in columns.items() if value is not None}
    return " WHERE " + " AND ".join(f"{name} = ?" for name in given) if given else "", list(given.values())


def data_version(connection: sqlite3.Connection) -> tuple[int, int]:
    """What changes when another connection commits or the file is opened again; it costs microseconds, so it can be polled."""
    opening = connection.opening if isinstance(connection, RegistryConnection) else 0
    return opening, int(connection.execute("PRAGMA data_version").fetchone()[0])


def leave_open(connection: sqlite3.Connection) -> None:
    """Leave the connection open until the process ends, as after a kill; close it only if the log has grown.

    Closing the last connection moves the log into the database and deletes it: three fsyncs that gain nothing, because
    every commit is on disk already. The next process reads the log.
    """
    try:
        grown = os.stat(_path_of(connection) + "-wal").st_size > _LEFT_WAL_BYTES
    except OSError:
        grown = False
    if grown:
        connection.close()
    else:
        _left_open.append(connection)  # a connection without a reference is closed


def lend_ballast(connection: sqlite3.Connection, folder: str) -> int:
    """On a full disk, free the part of the ballast that is not kept for releases, for small files in `folder`.

    Returns what `take_back_ballast` needs; 0 when nothing was freed.
    """
    path = _path_of(connection)
    try:
        same_disk = os.stat(folder).st_dev == os.stat(os.path.dirname(path)).st_dev
    except OSError:
        return 0
    if not (same_disk and registry_file.is_space_scarce(folder)):
        return 0
    size = registry_file.ballast_size(path)
    while registry_file.cut_ballast(path, registry_file.KEPT_FOR_RELEASES):
        pass
    return size


def take_back_ballast(connection: sqlite3.Connection, size: int) -> None:
    """Lay again what `lend_ballast` freed, as far as it was not used."""
    if size:
        registry_file.lay_ballast(_path_of(connection), size)


def _close_to_others(path: str, real: str) -> tuple[str, ...]:
    from imi_monitor.store import registry_access

    return registry_access.close_to_others(path, real)


def notes(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return what was changed when it was opened to keep other users out."""
    return connection.notes if isinstance(connection, RegistryConnection) else ()


def close(connection: sqlite3.Connection) -> None:
    """Close the connection; on a disk that was full, the room that SQLite's side files leave goes back into the ballast."""
    path = _path_of(connection)
    connection.close()
    restore_ballast(path)


def needs_single_checkpointer() -> bool:
    return sqlite3.sqlite_version_info < SAFE_CHECKPOINT


def checkpoint_if_due(connection: sqlite3.Connection, path: str, due_bytes: int = _CHECKPOINT_BYTES) -> bool:
    """Move a grown log into the database; with an old SQLite only one process at a time may do so.

    SQLite also makes a checkpoint when the last connection closes. That one is safe even with an old SQLite: it runs
    under the exclusive lock on the database, so no other process can write, checkpoint or reset the log meanwhile.
    """
    if not needs_single_checkpointer():
        return False  # SQLite checkpoints by itself
    try:
        size = os.stat(path + "-wal").st_size
    except OSError:
        return False
    return size >= due_bytes and _checkpoint_alone(connection, path, "PASSIVE" if size < _RESTART_BYTES else "RESTART")


def restore_ballast(path: str) -> None:
    """Lay the ballast again if a full disk cost some of it; called by commands that are not hot."""
    if os.path.exists(path) and registry_file.ballast_size(path) < registry_file.BALLAST_BYTES:
        registry_file.lay_ballast(path)


def leave_trace(connection: sqlite3.Connection) -> None:
    """Lay the ballast again and name the registry in it; called by commands that are not hot."""
    from imi_monitor.store import registry_identity

    path = _path_of(connection)
    restore_ballast(path)
    ident = registry_identity.registry_id(connection)
    if ident is not None:
        registry_file.name_ballast(path, ident)


def registry_error(error: Failure, path: str) -> RegistryError:
    """An `Error` as a RegistryError: what is wrong with which file, and what to do."""
    from imi_monitor.store import registry_file

    return registry_file.registry_error(error, path)


def _retry_with_room(real: str, path: str, act: Callable[[], T], connection: sqlite3.Connection | None) -> T:
    """Run `act`; while the disk is full, make some room and run it again, so that claims and removals still work."""
    try:
        return act()
    except Error as error:
        if not registry_file.is_disk_full(error, real):
            raise registry_error(error, path) from error
        failure: Failure = error
    ballast = registry_file.ballast_size(real)
    try:
        for _ in _make_room(real, connection):
            try:
                return act()
            except Error as error:
                if not registry_file.is_disk_full(error, real):
                    raise registry_error(error, path) from error
                failure = error
        raise registry_error(failure, path) from failure
    finally:
        if ballast:
            registry_file.lay_ballast(real, ballast)  # at once, before another program takes what is left of the room


def _make_room(real: str, connection: sqlite3.Connection | None) -> Iterator[None]:
    """Make a little more room with each step, until there is none left to make.

    Moving the log into the database lets the next commit overwrite the log; for that the database must have room to grow,
    so each slice of the ballast is followed by a checkpoint. To open the registry, all of the ballast may be used: the
    side files that need it are deleted again.
    """
    if connection is not None and _checkpoint_alone(connection, real, "PASSIVE"):
        yield
    keep = connection.kept_ballast if isinstance(connection, RegistryConnection) else 0
    while registry_file.cut_ballast(real, keep):
        if connection is not None:
            _checkpoint_alone(connection, real, "PASSIVE")
        yield


def _open(real: str, fresh: bool, busy_seconds: float, refuse_lost: RefuseLost) -> RegistryConnection:
    connection = sqlite3.connect(
        _uri(real, fresh), timeout=busy_seconds, isolation_level=None, uri=True, factory=RegistryConnection
    )
    global _openings
    _openings += 1
    try:
        connection.path = real
        connection.opening = _openings
        connection.timeout = busy_seconds
        _prepare(connection, real, busy_seconds, refuse_lost)
        connection.has_wal = connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        connection.execute("PRAGMA user_version").fetchone()  # the first read makes the log, which `identify` finds
    except BaseException:
        connection.close()
        raise
    return connection


def _uri(real: str, fresh: bool) -> str:
    """The file as a URI that never creates an existing registry by accident, and creates a new one as private.

    SQLite copies the mode of the `modeof` file, which is our ballast, 0600; -wal and -shm follow the database.
    """
    quoted = _quoted(real)
    if not fresh:
        return f"file://{quoted}?mode=rw"
    model = registry_file.ballast_path(real)
    return f"file://{quoted}?modeof={_quoted(model)}" if registry_file.has_ballast(real) else f"file://{quoted}"


def _quoted(path: str) -> str:
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.~"
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in os.fsencode(path))


def _prepare(connection: sqlite3.Connection, real: str, busy_seconds: float, refuse_lost: RefuseLost) -> None:
    version = schema_version(connection)
    ours = connection.execute("PRAGMA application_id").fetchone()[0]
    if version != schema.VERSION or ours != schema.APPLICATION_ID:
        from imi_monitor.store import upgrade

        upgrade.upgrade(connection, real, busy_seconds, refuse_lost)
        # into the file while the disk has room: the ballast of a full disk is smaller than a schema in the log
        with suppress(sqlite3.Error):  # a busy or full disk: the log keeps everything
            checkpoint(connection, "PASSIVE")
    else:
        _enable_wal(connection, busy_seconds)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_KEPT_WAL_BYTES}")
    if needs_single_checkpointer():
        connection.execute("PRAGMA wal_autocheckpoint = 0")


def _enable_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch the write-ahead log on. Another connected program may keep it off, which only costs speed."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if not _is_busy(error):
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")


def _transact_once(
    connection: sqlite3.Connection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    _begin(connection)
    try:
        _refuse_changed(connection)
        result = work(connection, *args, **kwargs)
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise
    if not is_same_file(connection):
        raise registry_file.replaced_error(_path_of(connection))
    return result


def _refuse_changed(connection: sqlite3.Connection) -> None:
    """Refuse to write into a file that is not the registry any more, or whose schema a newer imi has changed."""
    if not is_current(connection):
        raise registry_file.replaced_error(_path_of(connection))
    if isinstance(connection, RegistryConnection) and schema_version(connection) != schema.VERSION:
        raise registry_file.restart_error(connection.path)


def _begin(connection: sqlite3.Connection) -> None:
    """Take the write lock, or fail as busy after the connection's timeout.

    SQLite's own waiting sleeps 100 ms at a time while others take the lock hundreds of times, and under load one process
    starves for seconds. Trying again every few milliseconds bounds the worst wait.
    """
    timeout = _timeout_of(connection)
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        if not _try_begin(connection, last=False):
            _retry_begin(connection, time.monotonic() + timeout)
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")


def _retry_begin(connection: sqlite3.Connection, until: float) -> None:
    """Try again after pauses that shrink with the time waited, so that the longest waiter tries most often.

    Equal pauses make the order random, and one process always loses; short pauses for all take time from the work. After
    a long wait one process holds the lock all the time: then the pauses grow again, and waiting costs little.
    """
    begun = now = time.monotonic()
    while not _try_begin(connection, last=now > until):
        waited = now - begun
        pause = max(_SHORTEST_PAUSE, _FIRST_PAUSE - waited, waited * _PAUSE_SHARE)
        time.sleep(pause * (0.75 + os.urandom(1)[0] / 510))  # keeps waiters out of step
        now = time.monotonic()


def _try_begin(connection: sqlite3.Connection, *, last: bool) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if last or not _is_busy(error):
            raise
        return False
    return True


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # some errors roll back themselves
        connection.execute("ROLLBACK")


def _path_of(connection: sqlite3.Connection) -> str:
    if isinstance(connection, RegistryConnection):
        return connection.path
    return next((str(path) for _, name, path in connection.execute("PRAGMA database_list") if name == "main"), "")


def _checkpoint_alone(connection: sqlite3.Connection, path: str, mode: str) -> bool:
    """Run a checkpoint unless another process does; False when it did not run."""
    lock = _checkpoint_lock(path)
    if lock is None:
        return False
    try:
        checkpoint(connection, mode)
        if isinstance(connection, RegistryConnection):
            stamp = registry_file.stamp(connection.named, path)
            is_settled = stamp is None or stamp[-1]  # then this checkpoint has written nothing
            connection.checkpoint_stamp = None if is_settled else stamp
        return True
    except sqlite3.Error:
        return False  # a busy or full disk: the next writer tries again, and the log keeps everything meanwhile
    finally:
        os.close(lock)


def checkpoint(connection: sqlite3.Connection, mode: str) -> None:
    """Run the checkpoint with a short timeout.

    PASSIVE waits for no process, but never catches up with many writers; RESTART blocks them and waits for readers. The
    timeout keeps one long reader from stopping all writers.
    """
    connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_TIMEOUT_MS}")
    try:
        connection.execute(f"PRAGMA wal_checkpoint({mode})")
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(_timeout_of(connection) * 1000)}")


def _timeout_of(connection: sqlite3.Connection) -> float:
    return connection.timeout if isinstance(connection, RegistryConnection) else BUSY_SECONDS


def _checkpoint_lock(path: str) -> int | None:
    """The lock on checkpoints, released by closing it; None when another process has it or it cannot be had."""
    import fcntl

    try:
        handle = os.open(path + ".checkpoint", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
