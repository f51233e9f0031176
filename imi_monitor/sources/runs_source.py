"""The runs: agents that imi started, with the files in their run folders.

Read when the registry has changed; while runs are open also at a slow tick, because silence and files change without a row.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model import times
from imi_monitor.model.contained_names import REGISTRY_FILE
from imi_monitor.model.errors import ImiError
from imi_monitor.model.run import Run, RunFile
from imi_monitor.sources.hints import Hint, OpenRunsRead, RefreshRequested, RegistryChanged
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.sources.timers import PollTimer
from imi_monitor.store import shown_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.store.async_registry import AsyncRegistry

TICK = 5.0  # seconds between two reads while runs are open
_SHOWN_AFTER = timedelta(hours=1)  # its end
_UNSEEN_AFTER = timedelta(days=1)  # its crash or failure, which a person should see
_SHORTEST_PAUSE = 0.1  # seconds between two reads
_TIME_SHARE = 0.2  # the share of time that reads may take
PARTS = ("search_results", "work_products", "workbench_activity", "media")
_MOST_FILES = 200
_MOST_READ = 2000


class RunsSource(Source):
    name = "runs"

    def __init__(self, registry: AsyncRegistry, tick: float = TICK) -> None:
        self._registry = registry
        self._tick = tick
        self._timer = PollTimer(tick)
        self._files: dict[str, tuple[float, tuple[RunFile, ...]]] = {}  # by run: when they were listed, and they

    def handle_hint(self, hint: Hint) -> None:
        if isinstance(hint, RegistryChanged | RefreshRequested):
            self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        while True:
            began = time.monotonic()
            await self._read(receiver)
            await asyncio.sleep(max(_SHORTEST_PAUSE, (time.monotonic() - began) / _TIME_SHARE))
            await self._timer.wait()

    async def _read(self, receiver: ReadingReceiver) -> None:
        now = times.now()
        try:
            found = await self._registry.read(shown_runs.list_shown, times.stamp(now - _UNSEEN_AFTER))
        except ImiError:
            self._timer.failed()
            return  # the registry's own source reports it; the last runs stay
        shown = [one for one in found if _is_shown(one, now)]
        if shown:
            shown = await asyncio.to_thread(self._with_files, shown)
        receiver.update(runs=tuple(shown))
        receiver.send_hint(OpenRunsRead(tuple(one for one in shown if one.is_open and one.key is None)))
        receiver.set_healthy(self.name)
        if any(one.is_open for one in shown):
            self._timer.succeeded()
        else:
            self._timer.slow_down(_SHOWN_AFTER.total_seconds() / 60 if shown else _SHOWN_AFTER.total_seconds())

    def _with_files(self, found: list[Run]) -> list[Run]:
        """The runs with their files, listed again at each tick: what agents say changes the registry far more often."""
        now, before, self._files = time.monotonic(), self._files, {}
        for one in found:
            listed_at, files = before.get(one.id, (-self._tick, ()))
            if now - listed_at >= 0.9 * self._tick:
                listed_at, files = now, (*list_workspace(one.workspace), *list_files(one.folder))
            self._files[one.id] = listed_at, files
        return [replace(one, files=self._files[one.id][1]) for one in found]


def make_source(context: SourceContext) -> RunsSource:
    return RunsSource(context.registry)


def _is_shown(one: Run, now: datetime) -> bool:
    """An end is shown for an hour; one that a person should see, for as long as it was read."""
    if one.is_open or one.resumable or one.status == "failed" or one.waiting_deliveries:
        return True
    ended = times.parse(one.ended_at)
    return ended is None or now - ended <= _SHOWN_AFTER


def list_files(folder: str) -> tuple[RunFile, ...]:
    """The files in the parts of a run folder, the newest first; links are not followed."""
    files = sorted(_files(folder), key=lambda one: (one.changed_at, one.path), reverse=True)
    return tuple(files[:_MOST_FILES])


def list_workspace(folder: str | None) -> tuple[RunFile, ...]:
    """The files of a contained workspace, which is flat, the newest first."""
    if folder is None:
        return ()
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if (
                    not entry.name.startswith(".")
                    and entry.name != REGISTRY_FILE
                    and entry.is_file(follow_symlinks=False)
                ):
                    info = entry.stat(follow_symlinks=False)
                    found.append(
                        RunFile(entry.name, info.st_size, times.stamp(datetime.fromtimestamp(info.st_mtime, UTC)))
                    )
    except OSError:
        return ()  # it was cleaned
    return tuple(sorted(found, key=lambda one: (one.changed_at, one.path), reverse=True)[:_MOST_FILES])


def _files(folder: str) -> Iterator[RunFile]:
    read = 0
    for part in PARTS:
        for where, folders, names in os.walk(os.path.join(folder, part)):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(where, name)
                try:
                    found = os.lstat(path)
                except OSError:
                    continue
                changed = datetime.fromtimestamp(found.st_mtime, UTC)
                yield RunFile(os.path.relpath(path, folder), found.st_size, times.stamp(changed))
                read += 1
                if read >= _MOST_READ:
                    return
