"""The background half of a purge, a program of its own: `python -m imi_monitor.actions.sweeper REGISTRY OPERATION…`.

It only deletes what a purge has put aside, gives way to everybody else, and can die at any time: recovery starts it again.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys


def delete_tree(path: str) -> None:
    """Delete a folder and all below it, also where folders are read-only; links are deleted, never followed."""
    _open_up(path)
    for folder, names, _ in os.walk(path):
        for name in names:  # before the walk enters it
            _open_up(os.path.join(folder, name))
    shutil.rmtree(path)


def _open_up(folder: str) -> None:
    info = os.lstat(folder)
    if stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) & 0o700 != 0o700:
        os.chmod(folder, 0o700)


def sweep(database: str, wanted: list[str]) -> int:
    """Delete what these operations have put aside; how many of them are done."""
    from imi_monitor.actions import purge
    from imi_monitor.store import db, operations

    done = 0
    connection = db.connect(database, create=False)
    try:
        for operation in operations.unfinished(connection):
            mine = operation.id in wanted and operation.kind == purge.SWEEP
            # whoever adopts it deletes it: a recovery may have started another sweeper meanwhile
            if mine and db.transact(connection, operations.adopt, operation):
                purge.delete_now(connection, operation)
                done += 1
    finally:
        connection.close()
    return done


def main(argv: list[str]) -> int:
    database, *wanted = argv
    if os.fork():  # before anything is opened; the caller does not wait for the child
        return 0
    os.setsid()
    os.nice(19)
    sweep(database, wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
