"""The watched workspaces of other programs are read again while a dashboard, `imi watch` or `imi serve` runs, and shown.

A source that calls functions of an action, so it stands above sources and actions, like `auto_sync`.
"""

from __future__ import annotations

import asyncio
import os
import time

from imi_monitor import paths
from imi_monitor.config import WATCHED_FOLDERS
from imi_monitor.model import times, watched_run
from imi_monitor.model.errors import ImiError
from imi_monitor.model.operator_log import TOOLS
from imi_monitor.model.text import safe
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.sources.timers import sleep_aligned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.board.watched_workspaces import WatchedWorkspace
    from imi_monitor.config import Settings
    from imi_monitor.model.run import Run

_SECONDS = 5.0
_AGAIN_SECONDS = 30.0  # between two reads of what is at work: a process ends, a log falls silent, and no file changes
_TIME_SHARE = 0.0005  # the share of a core that polling may take while no run is at work
_LONGEST_PAUSE = 30.0
_MOST_STAMPS = 2000
_MOST_FOLDERS = 100
_BELOW = (
    ("AGENT_RUN_WORKSPACES",),
    (".compound-state",),
    ("logs", "running-jobs"),
    *(("agents", tool) for tool in TOOLS),
)


class WatchedFolder:
    """What was read of one watched folder, when, and its rows."""

    def __init__(self, stamps: object, read_at: float, found: WatchedWorkspace, rows: tuple[Run, ...]) -> None:
        self.stamps, self.read_at, self.found, self.rows = stamps, read_at, found, rows
        self.recorded = False

    @property
    def works(self) -> bool:
        return any(one.is_open for one in self.rows)


class AutoWatch(Source):
    """Reads a watched folder when something in it has changed; without any it looks at one file."""

    name = "workspaces"

    def __init__(
        self, database: str, settings: Settings, *, seconds: float = _SECONDS, again: float = _AGAIN_SECONDS
    ) -> None:
        self._database = database
        self._settings = settings
        self._seconds, self._again = seconds, again
        self._pause = seconds
        self._folders: dict[str, WatchedFolder] | None = None  # None: nothing was ever watched

    async def run(self, receiver: ReadingReceiver) -> None:
        while True:
            if self._folders is not None or self._is_wanted():
                await self._update(receiver)
            await sleep_aligned(self._pause)

    def _is_wanted(self) -> bool:
        """Whether the user watches a folder, or did in an earlier session."""
        return os.path.exists(paths.watched_file()) or any(map(self._settings.texts, WATCHED_FOLDERS))

    async def _update(self, receiver: ReadingReceiver) -> None:
        try:
            rows = await asyncio.to_thread(self._read)
            receiver.update(watched=rows)
            problem = await asyncio.to_thread(self._record)
        except (ImiError, OSError, ValueError) as error:
            problem = error.sentence if isinstance(error, ImiError) else str(error)
        if problem is not None:
            receiver.set_failure(self.name, "watched workspaces", problem)
        else:
            receiver.set_healthy(self.name)

    def _read(self) -> tuple[Run, ...]:
        """The rows, with what has changed read again. Runs in a thread."""
        from imi_monitor.actions.board import watched_rows, watched_workspaces

        before, self._folders, spent = self._folders or {}, {}, 0.0
        for path in watched_workspaces.list_watched(watched_workspaces.configured(self._settings)):
            begun, known = time.thread_time(), before.get(path)
            stamps, now = _stamps_of(path), time.monotonic()
            spent += time.thread_time() - begun
            if known is None or known.stamps != stamps or (known.works and now - known.read_at >= self._again):
                found = watched_workspaces.read(path)
                known = WatchedFolder(stamps, now, found, watched_rows.make([found], times.now()))
            self._folders[path] = known
        at_rest = not any(known.works for known in self._folders.values())
        self._pause = min(_LONGEST_PAUSE, max(self._seconds, spent / _TIME_SHARE)) if at_rest else self._seconds
        return watched_run.newest([one for known in self._folders.values() for one in known.rows], times.now())

    def _record(self) -> str | None:
        """Record what was read; returns what cannot be read. Runs in a thread."""
        folders = self._folders or {}
        new = [known for known in folders.values() if not known.recorded]
        if new:
            from imi_monitor.actions.board import watched_workspaces
            from imi_monitor.actions.context import Context

            with Context(database=self._database) as context:
                watched_workspaces.record_all(context.connection, [known.found for known in new])
            for known in new:
                known.recorded = True
        gone = [path for path in folders if not os.path.isdir(path)]
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
    return AutoWatch(context.database, context.settings)
