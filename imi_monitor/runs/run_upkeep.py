"""Launch folders that are not needed any more: the output of old runs is packed into their run folders, the rest deleted.

A launch folder belongs to the registry that it names. Nothing is deleted before what it holds is on the disk elsewhere.
"""

from __future__ import annotations

import gzip
import os
import shutil
from contextlib import suppress
from datetime import timedelta

from imi_monitor import host, paths
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.runs import job_log, launch_folder, run_archive, run_folder, run_stop, run_wall
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.runs.launch_folder import LaunchFolder
    from imi_monitor.store.runs import RunRow

_ABANDONED_SECONDS = 86_400.0  # a launch folder without a row that is older was left by a start that was killed


def registry_of(connection: sqlite3.Connection) -> str:
    return os.path.realpath(connection.path) if isinstance(connection, db.RegistryConnection) else ""


def pack_old(connection: sqlite3.Connection, days: int) -> None:
    """Pack the output of the runs that have been over for so many days; 0: of none."""
    known = {row.id: row for row in db.read(connection, runs.list_runs)}
    before = times.stamp(times.now() - timedelta(days=days))
    old: list[RunRow] = []
    for name in _launches():
        row, folder = known.get(name), launch_folder.folder_of(name)
        if row is None:
            _remove_abandoned(folder, registry_of(connection))
        elif days and not row.is_open and (row.ended_at or before) < before:
            old.append(row)
    left = run_stop.list_left_behind(old)
    for row in old:
        if row.id not in left:  # its launch folder is how `imi stop` finds them
            _pack(launch_folder.folder_of(row.id), row)


def pack(row: RunRow) -> None:
    """Pack the output of an ended run into its folder now."""
    folder = launch_folder.folder_of(row.id)
    if os.path.isdir(folder.path):
        _pack(folder, row)


def archive_old(connection: sqlite3.Connection, days: int, trash_days: int) -> None:
    """Archive the folders of runs that have been over for so many days (0: of none), and forget folders that are gone."""
    before = times.stamp(times.now() - timedelta(days=days))
    ended = [row for row in db.read(connection, runs.list_runs) if not row.is_open and row.host == host.hostname()]
    left = run_stop.list_left_behind([row for row in ended if row.archive is None]) if days else {}
    for row in ended:
        if row.archive:
            run_archive.purge(row, trash_days)
        elif row.archive is None and not os.path.isdir(row.folder):
            db.transact(connection, runs.set_archive, row, "")
        elif row.archive is None and days and (row.ended_at or before) < before and row.id not in left:
            with suppress(ImiError, OSError):  # the next follower tries again
                archive(connection, row)


def archive(connection: sqlite3.Connection, row: RunRow) -> str:
    """Pack the folder of an ended run, and move it out of sight; returns the path of the archive."""
    pack(row)
    path = run_archive.pack(row)
    db.transact(connection, runs.set_archive, row, path)
    run_archive.remove(row)
    return path


def compress_logs(connection: sqlite3.Connection, days: int) -> None:
    """Compress the job logs of runs that have been over for so many days; 0: of none."""
    before = times.stamp(times.now() - timedelta(days=days))
    for row in db.read(connection, runs.list_runs) if days else []:
        if not row.is_open and (row.ended_at or before) < before:
            job_log.compress(row)


def _launches() -> list[str]:
    try:
        with os.scandir(os.path.join(paths.state_dir(), "runs")) as entries:
            return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _remove_abandoned(folder: LaunchFolder, registry: str) -> None:
    """Remove what a killed start left: no process was started in it, and its registry has no run of this name."""
    try:
        age = times.clock() / 1e9 - os.stat(folder.path).st_mtime
        if not folder.is_starter_dead() and age < _ABANDONED_SECONDS:
            return
        if folder.registry() == registry and folder.shut_gate():
            made = folder.run_folder()
            if made is not None:
                run_folder.remove_unused(made)
            run_wall.forget(folder)
            folder.remove()
    except OSError:
        return  # another process removes it, or the disk refuses it: the next follower tries again


def _pack(folder: LaunchFolder, row: RunRow) -> None:
    try:
        if os.path.isdir(row.folder):  # else the user has removed it, and with it the output
            _pack_output(folder.file("out"), os.path.join(row.folder, run_folder.PACKED))
            with open(os.path.join(row.folder, "prompt.txt"), "w", encoding="utf-8", errors="replace") as file:
                file.write(folder.prompt())
            errors = folder.error_lines(1 << 20)
            if errors:
                with open(os.path.join(row.folder, run_folder.ERRORS), "w", encoding="utf-8") as file:
                    file.write(errors)
            run_folder.unlink_output(row.folder)
        folder.remove()
    except OSError:
        return  # as above


def _pack_output(path: str, packed: str) -> None:
    """Write the file compressed, whole or not at all."""
    if not os.path.exists(path):
        return  # packed before
    with open(path, "rb") as source, open(packed + ".new", "wb") as target:
        with gzip.open(target, "wb") as stream:
            shutil.copyfileobj(source, stream)
        target.flush()
        os.fsync(target.fileno())
    os.rename(packed + ".new", packed)
