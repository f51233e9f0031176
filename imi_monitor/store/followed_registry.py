"""The registry of a process that goes on: other programs replace, delete, empty, damage or migrate its file meanwhile.

SQLite goes on with the file that it has open, whatever became of it. So the file's stamp is compared before each use, and the
file is opened again when it differs: then this process finds what every other command finds, an error included.

Closing the last connection moves the log into the file. That must not happen to a file that may be another one by now, and has
to happen to a log that lost its name.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable
from sqlite3 import Connection

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, lost_registry, registry_file, schema

_PASSING = {"registry-busy", "registry-full", "not-utf8"}  # errors that say nothing about the file
_SHARED_FIRST, _SHARED_BYTES = 0x40000002, 510  # where SQLite's readers lock a database
_left_open: list[Connection] = []
Connect = Callable[[bool], Connection]  # called with whether it may make a new file


class FollowedRegistry:
    """`connection()` is a connection to the file that is there now. All calls come from one thread."""

    def __init__(self, path: str, connect: Connect, *, create: bool = False, opened: Connection | None = None) -> None:
        self._path = path
        self._connect = connect
        self._create = create
        self._is_first = opened is None  # only the first opening may make a file: one that vanishes later is an error
        self._connection: Connection | None = None
        self._aside: Connection | None = None  # in doubt, and open until there is another one of the same file
        self._stamp: object = None
        self._written: object = None
        if opened is not None:
            self._use(opened)

    def connection(self) -> Connection:
        """RegistryError while the file cannot be used."""
        if self._connection is None or not self._is_current(self._connection):
            self._open_again()
        assert self._connection is not None
        return self._connection

    def handle(self, error: BaseException) -> None:
        """An error of the connection: open the file again at the next use if it may be damaged."""
        if isinstance(error, RegistryError) and is_about_file(error):
            self._set_aside()

    def close(self) -> None:
        """Close the connection; one that is still in doubt ends with the process."""
        if self._connection is None and self._aside is not None:
            _left_open.append(self._aside)  # a connection without a reference is closed
            self._aside = None
        self._close_aside()
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _is_current(self, connection: Connection) -> bool:
        stamp = _read_stamp(connection)
        if stamp is None or self._stamp is None:
            return False
        if stamp != self._stamp:
            if not isinstance(connection, db.RegistryConnection) or stamp != connection.checkpoint_stamp:
                return False
            self._note_file(connection, stamp)  # it differs by a checkpoint of this connection
        try:
            return db.schema_version(connection) == schema.VERSION
        except db.Error:
            return False

    def _open_again(self) -> None:
        self._set_aside()
        is_first, self._is_first = self._is_first, False
        try:
            self._use(self._connect(self._create and is_first))
        except RegistryError as error:
            raise error if is_first else self._explained(error) from error
        self._close_aside()

    def _use(self, connection: Connection) -> None:
        self._connection = connection
        self._note_file(connection, _read_stamp(connection))

    def _note_file(self, connection: Connection, stamp: object) -> None:
        self._stamp, self._written = stamp, _read_written(connection)

    def _set_aside(self) -> None:
        """Close the connection if that is safe, else keep it until there is another one: then the log stays where it is."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._close_aside()
        if not db.is_same_file(connection):
            connection.close()  # SQLite leaves the log of a file that has no name alone
        elif db.is_current(connection) or _read_written(connection) is None:
            self._aside = connection
        elif _read_written(connection) == self._written:
            connection.close()  # only the log lost its name: it is moved into the file
        else:
            _close_without_log(connection)

    def _close_aside(self) -> None:
        aside, self._aside = self._aside, None
        if aside is not None:
            aside.close()

    def _explained(self, error: RegistryError) -> RegistryError:
        """The error as it is for a process that goes on."""
        if error.code == "registry-missing":
            return lost_registry.gone_error(self._path)
        if error.code == registry_file.NEWER_CODE:
            return registry_file.restart_error(self._path)
        return error


def is_about_file(error: RegistryError) -> bool:
    """False if the registry was only busy, or its disk full: then what was read before still holds."""
    return error.code not in _PASSING


def _read_stamp(connection: Connection) -> object:
    """Return the stamp; None unless the connection is to the file that is there now."""
    if isinstance(connection, db.RegistryConnection) and db.is_current(connection):
        return registry_file.stamp(connection.named, connection.path)
    return None


def _read_written(connection: Connection) -> object:
    """Return when the file itself was written last, and its size; None if it is empty or gone."""
    try:
        info = os.stat(connection.named if isinstance(connection, db.RegistryConnection) else "")
    except OSError:
        return None
    return (info.st_mtime_ns, info.st_size) if info.st_size else None


def _close_without_log(connection: Connection) -> None:
    """Close it, but leave its log out of the file, which another program has written and whose log it has removed.

    A reader keeps SQLite from moving the log. The reader's handle stays open: closing one drops all locks on the file.
    """
    set_lock = getattr(fcntl, "F_OFD_SETLK", None)
    try:
        if set_lock is None or not isinstance(connection, db.RegistryConnection):
            raise OSError
        handle = os.open(connection.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.fcntl(handle, set_lock, struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, _SHARED_FIRST, _SHARED_BYTES, 0))
    except OSError:  # not on this system: until imi is started again, the file cannot be used
        _left_open.append(connection)
        return
    connection.close()
    fcntl.fcntl(handle, set_lock, struct.pack("hhqqi", fcntl.F_UNLCK, os.SEEK_SET, _SHARED_FIRST, _SHARED_BYTES, 0))
