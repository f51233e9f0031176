"""Shared files that are new or gone are linked or unlinked in every worktree while a dashboard or `imi watch` runs.

Only a change of which files are shared leads to a sync, so that starting a dashboard changes nothing. Several monitors may
do this at once: the lock of `info/exclude` lets one sync at a time, and the second one finds nothing left to do.
The module is a source that calls the sync action's functions, so it stands above sources and actions. The action is
imported in the threads that call it, to keep its import out of the event loop at the start.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from imi_monitor.actions.context import Context
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import count, safe
from imi_monitor.sources.hints import Hint, RosterRead, SharedFilesChanged
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.sources.timers import PollTimer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.sync.shared_files import SharedFiles
    from imi_monitor.actions.sync.sync_action import SyncResult

_CHECK_SECONDS = 60.0
_FIRST_RETRY = 2.0

SharedNames = tuple[tuple[str, str], ...]  # (name, path) of each shared file


class AutoSync(Source):
    """Syncs a repository when the set of its shared files has changed."""

    name = "sync"

    def __init__(self, database: str) -> None:
        self._database = database
        self._known: dict[str, SharedNames] = {}  # by repository
        self._unread: set[str] = set()  # repositories whose shared files were never read
        self._changed: set[str] = set()  # repositories whose shared files may have changed
        self._closing = False
        self._timer = PollTimer(_CHECK_SECONDS)

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._unread |= {entry.common_dir for entry in entries} - self._known.keys()
            case SharedFilesChanged(common_dir, seen):
                if seen and common_dir not in self._known:
                    self._known[common_dir] = ()  # the first reading may come after the change: nothing was shared
                self._changed.add(common_dir)
            case _:
                return
        if self._is_due():
            self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        try:
            while True:
                await self._timer.wait(self._is_due)
                unread, self._unread = self._unread - self._known.keys(), set()
                for common_dir in unread:
                    self._known[common_dir] = await asyncio.to_thread(read_shared_names, self._database, common_dir)
                changed, self._changed = self._changed, set()
                for common_dir in changed:
                    await self._sync(receiver, common_dir)
        finally:
            self._closing = True

    def _is_due(self) -> bool:
        return bool(self._changed or self._unread)

    async def _sync(self, receiver: ReadingReceiver, common_dir: str) -> None:
        known = self._known.get(common_dir, ())
        try:
            names, result = await asyncio.to_thread(
                sync_if_changed, self._database, common_dir, known, lambda: self._closing
            )
        except (ImiError, OSError) as error:
            self._changed.add(common_dir)
            self._timer.retry_soon(_FIRST_RETRY)
            receiver.set_failure(self.name, "linking shared files", str(error))
            return
        self._known[common_dir] = names
        self._timer.succeeded()
        problem = None if result is None else _problem_with(result, set(names) - set(known))
        if problem is not None:
            receiver.set_failure(self.name, "linking shared files", problem)
        elif result is not None:
            receiver.set_healthy(self.name)


def make_source(context: SourceContext) -> AutoSync | None:
    return None if context.read_only else AutoSync(context.database)


def find_shared_folders(database: str, common_dir: str) -> tuple[str, tuple[str, ...]] | None:
    """The folder that holds `sync/` and the folders of shared files in it; None if the first does not exist."""
    from imi_monitor.actions.sync import shared_files

    try:
        repository = layout.repository_at(common_dir)
        with Context(database=database) as context:
            settings = context.settings_of(repository)
            home = shared_files.sync_home(repository, settings)
            folders = ("sync", *shared_files.shared_folders(settings))
    except (ImiError, OSError):
        return None
    return (home, folders) if os.path.isdir(home) else None


def read_shared_names(database: str, common_dir: str) -> SharedNames:
    """The shared files of a repository; none if they cannot be read, which the next sync reports."""
    from imi_monitor.actions.sync import shared_files

    try:
        repository = layout.repository_at(common_dir)
        with Context(database=database) as context:
            shared = shared_files.read_shared_files(repository, context.settings_of(repository))
    except (ImiError, OSError):
        return ()
    return () if shared is None else _names_of(shared)


def sync_if_changed(
    database: str, common_dir: str, known: SharedNames, cancelled: Callable[[], bool]
) -> tuple[SharedNames, SyncResult | None]:
    """Sync unless the shared files are the known ones; returns them, and the result of a sync.

    Slow (files, git, registry): call it in a thread.
    """
    from imi_monitor.actions.sync import shared_files, sync_action

    repository = layout.repository_at(common_dir)
    with Context(database=database, cancelled=cancelled) as context:
        settings = context.settings_of(repository)
        shared = shared_files.read_shared_files(repository, settings)
        names = () if shared is None else _names_of(shared)
        if set(names) == set(known) or not settings.flag("sync.enabled"):
            return names, None
        result = sync_action.sync_worktrees(context, repository)
        return names if result is None else _names_of(result.shared), result


def _names_of(shared: SharedFiles) -> SharedNames:
    return tuple((name, source.path) for name, source in shared.sources.items())


def _problem_with(result: SyncResult, new: set[tuple[str, str]]) -> str | None:
    """Return why new shared files are not linked everywhere; None if they are."""
    names = {name for name, _ in new}
    found = {problem: trees for problem, trees in result.problems().items() if problem[0] in names}
    if not found:
        return None
    (name, reason), worktrees = next(iter(found.items()))
    where = f" in {safe(worktrees[0])}" if worktrees else ""
    more = f" ({count(len(found) - 1, 'more problem')})" if len(found) > 1 else ""
    return f"{safe(name)}: {reason}{where}{more}: see `imi sync --check`"
