"""The background half of a purge: `python -m imi_monitor.actions.removal.trash_sweeper REGISTRY OPERATION…`.

It only deletes what a purge has put aside, gives way to everybody else, and can die at any time: recovery starts it again.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


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


def sweep(database: str, wanted: list[str], started: Callable[[], None]) -> None:
    """Delete what these operations have put aside; `started` is called when they are ours."""
    from imi_monitor.actions.removal import purge
    from imi_monitor.store import db, operations

    connection = db.connect(database, create=False)
    try:
        named = [one for one in operations.list_unfinished(connection) if one.id in wanted and one.kind == purge.SWEEP]
        # whoever adopts it deletes it: a recovery may have started another sweeper meanwhile
        mine = [one for one in named if db.transact(connection, operations.adopt, one)]
        started()
        for operation in mine:
            purge.delete_now(connection, operation)
    finally:
        connection.close()


def main(argv: list[str]) -> int:
    """Returns when the child that does the work has made it its own, so that nobody takes it for abandoned."""
    database, *wanted = argv
    ours, theirs = os.pipe()
    if os.fork():  # before anything is opened
        os.close(theirs)
        os.read(ours, 1)  # ends when the child says so, or dies
        return 0
    os.close(ours)
    os.setsid()
    os.nice(19)
    sweep(database, wanted, lambda: os.close(theirs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
