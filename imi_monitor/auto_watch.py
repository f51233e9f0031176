"""The watched workspaces of other programs are read again while a dashboard, `imi watch` or `imi serve` runs.

A source that calls functions of an action, so it stands above sources and actions, like `auto_sync`.
"""

from __future__ import annotations

import asyncio
import os

from imi_monitor import paths
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext

_SECONDS = 5.0
_MOST_STAMPS = 2000


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
        if self._stamps is None and not listed and not self._settings.texts("watch.folders"):
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
    """The moments of change of a workspace's folders and databases, two levels down."""
    found: list[tuple[str, int]] = []
    for base in (folder, os.path.join(folder, "AGENT_RUN_WORKSPACES"), os.path.join(folder, ".compound-state")):
        try:
            with os.scandir(base) as entries:
                for entry in entries:
                    if len(found) < _MOST_STAMPS:
                        found.append((entry.path, entry.stat(follow_symlinks=False).st_mtime_ns))
        except OSError:
            continue
    return tuple(sorted(found))


def make_source(context: SourceContext) -> AutoWatch:
    return AutoWatch(context)
