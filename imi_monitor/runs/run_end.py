"""What follows the recorded end of a run, outside of the registry: its files, the last reports, the presence lock.

The end is recorded first. A process that dies behind that leaves the launch folder without its mark, and the next follower
does it again; each part may be done twice.
"""

from __future__ import annotations

import os

from imi_monitor.runs import job_log, launch_folder, run_claim, run_folder, run_wall, state_files
from imi_monitor.runs.contained import workspace_end
from imi_monitor.runs.contained.request_folder import RequestFolder
from imi_monitor.runs.report_observer import ReportObserver
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.store.runs import RunRow

_MARK = "settled"
_MOST_ERRORS = 1 << 20


def settle(connection: sqlite3.Connection, row: RunRow, reports: ReportObserver | None = None) -> None:
    """Do what follows the end of this run, which is recorded."""
    folder = launch_folder.folder_of(row.id)
    over = db.read(connection, runs.by_id, row.id) or row
    run_folder.write_end(over)
    (reports or ReportObserver(over)).look(connection, last=True)
    job_log.end(over, folder.error_lines(_MOST_ERRORS))
    state_files.write_run(connection, over)
    run_claim.mirror(connection, over)
    run_wall.settle(connection, over)
    RequestFolder(over).look(connection)
    workspace_end.settle(connection, over)
    if os.path.isdir(folder.path):
        folder.mark(_MARK)


def settle_left(connection: sqlite3.Connection, write_files: Callable[[RunRow], None]) -> None:
    """Settle the ended runs of this machine whose follower died behind the record of their end.

    `write_files` writes anew what is made from their output.
    """
    for row in db.read(connection, runs.list_ended_here):
        folder = launch_folder.folder_of(row.id)
        if os.path.isdir(folder.path) and not folder.has_mark(_MARK):
            write_files(row)
            settle(connection, row)
