"""What watched workspaces hold as rows: of each that is shown its state, its files and the path of its log."""

from __future__ import annotations

import os

from imi_monitor.actions.board import watched_workspaces, workspace_files
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model import operator_log, watched_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from imi_monitor.actions.board.watched_workspaces import WatchedWorkspace
    from imi_monitor.config import Settings
    from imi_monitor.model.run import Run

_SESSION_LOGS = os.path.join("logs", "orchestrator-sessions")


def make(found: Iterable[WatchedWorkspace], now: datetime) -> tuple[Run, ...]:
    """The rows of these workspaces, the newest first; only those that are shown have their files listed."""
    rows = [one for workspace in found for one in _all(workspace)]
    folders = {one.id: folder for one, folder in rows}
    shown = watched_run.newest([one for one, _ in rows], now)
    return tuple(_with_files(one, folders[one.id]) for one in shown)


def read(settings: Settings, now: datetime) -> tuple[Run, ...]:
    """The rows of all watched workspaces as they are now; nothing is recorded."""
    folders = watched_workspaces.list_watched(watched_workspaces.configured(settings))
    return make(map(watched_workspaces.read, folders), now)


def _all(workspace: WatchedWorkspace) -> Iterator[tuple[Run, str | None]]:
    """(row, the folder whose files are its own)."""
    for run in workspace.runs:
        yield watched_run.of_run(run), run.records
    for session in workspace.sessions:
        row = watched_run.of_session(session, workspace.folder)
        if row is not None and operator_log.is_plain(session.name):  # its files name it: it can be anything
            log = os.path.join(workspace.folder, _SESSION_LOGS, session.name, "orchestrator.log")
            folder = os.path.join(watched_workspaces.state_folder(workspace.folder), session.name)
            yield replace(row, folder=folder, log=log if os.path.isfile(log) else None), folder


def _with_files(one: Run, folder: str | None) -> Run:
    return one if folder is None or one.files else replace(one, files=workspace_files.list_files(folder))
