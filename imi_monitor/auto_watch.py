"""The watched workspaces of other programs are read again while a dashboard, `imi watch` or `imi serve` runs.

A source that calls functions of an action, so it stands above sources and actions, like `auto_sync`.
"""

from __future__ import annotations

import asyncio
import os

from imi_monitor import paths
from imi_monitor.config import WATCHED_FOLDERS
from imi_monitor.model.errors import ImiError
from imi_monitor.model.operator_log import TOOLS
from imi_monitor.model.text import safe
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext

_SECONDS = 5.0
_MOST_STAMPS = 2000
_MOST_FOLDERS = 100
_BELOW = (
    ("AGENT_RUN_WORKSPACES",),
    (".compound-state",),
    ("logs", "running-jobs"),
    *(("agents", tool) for tool in TOOLS),
)


class AutoWatch(Source):
    """Reads the watched folders when something in them has changed; without any it looks at one file."""

    name = "workspaces"

    def __init__(self, context: SourceContext) -> None:
        self._database = context.database
        self._settings = context.settings
        self._stamps: object = None

    async def run(self, receiver: ReadingReceiver) -> None:
        while True:
            try:
                problem = await asyncio.to_thread(self._refresh)
            except (ImiError, OSError, ValueError) as error:
                problem = error.sentence if isinstance(error, ImiError) else str(error)
            if problem is not None:
                receiver.set_failure(self.name, "watched workspaces", problem)
            elif self._stamps is not None:
                receiver.set_healthy(self.name)
            await asyncio.sleep(_SECONDS)

    def _refresh(self) -> str | None:
        """Read what has changed; returns what cannot be read. Runs in a thread."""
        listed = os.path.exists(os.path.join(paths.data_dir(), "watched.json"))
        if self._stamps is None and not listed and not any(map(self._settings.texts, WATCHED_FOLDERS)):
            return None
        from imi_monitor.actions.board import watched_workspaces
        from imi_monitor.actions.context import Context

        folders = watched_workspaces.list_watched(watched_workspaces.configured(self._settings))
        stamps = [_stamps_of(folder) for folder in folders]
        if not folders or stamps == self._stamps:
            return None
        with Context(database=self._database) as context:
            found = watched_workspaces.refresh(context.connection, folders)
        self._stamps = stamps
        gone = [one.folder for one in found if not os.path.isdir(one.folder)]
        return f"{safe(gone[0], 200)} is gone" if gone else None


def _stamps_of(folder: str) -> tuple[tuple[str, int], ...]:
    """When a workspace's folders, files and databases changed: files that are written in place do not change their folder."""
    found: list[tuple[str, int]] = []
    folders: list[tuple[int, str]] = []
    for base in (folder, *(os.path.join(folder, *one) for one in _BELOW)):
        folders += _add_stamps(base, found)
    for _, inner in sorted(folders, reverse=True)[:_MOST_FOLDERS]:
        _add_stamps(inner, found)
    return tuple(sorted(found))


def _add_stamps(base: str, found: list[tuple[str, int]]) -> list[tuple[int, str]]:
    """Add the entries of a folder; returns the folders in it, each with the moment of its change."""
    folders = []
    try:
        with os.scandir(base) as entries:
            for entry in entries:
                changed = entry.stat(follow_symlinks=False).st_mtime_ns
                if len(found) < _MOST_STAMPS:
                    found.append((entry.path, changed))
                if entry.is_dir(follow_symlinks=False):
                    folders.append((changed, entry.path))
    except OSError:
        return []
    return folders


def make_source(context: SourceContext) -> AutoWatch:
    return AutoWatch(context)
