"""Ends or completes the starts that a crash interrupted. The gate decides between the keeper and recovery."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.runs import launch_folder, launcher
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.runs import RunRow


def recover(connection: sqlite3.Connection) -> None:
    """Take over each start whose process is proven dead: adopt the agent if it runs, else end the run."""
    for row in db.read(connection, runs.list_starting_here):
        if host.is_alive(row.host, row.boot, row.pid, row.pid_started) is False:
            _recover_start(connection, row)


def _recover_start(connection: sqlite3.Connection, row: RunRow) -> None:
    if not db.transact(connection, runs.take_over_start, row):
        return  # another process recovers it
    folder = launch_folder.folder_of(row.id)
    if folder.shut_gate():
        why = "the process that started it died before the agent ran"
        launcher.fail(connection, row, why, starter_died=True)
        return
    born = folder.birth()
    assert born is not None  # the gate opens after the birth is recorded
    launcher.adopt(connection, row, born)
