"""While a dashboard or `imi watch` runs, the follower of open runs is started again if it was killed.

The module is a source that starts a process of `runs`, so it stands above sources and runs. It reads the registry only after a
change, and is at rest while no run is open. The system reports the end of the follower's process.
"""

from __future__ import annotations

import asyncio
import os

from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.sources.hints import Hint, RefreshRequested, RegistryChanged
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.sources.timers import PollTimer
from imi_monitor.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.async_registry import AsyncRegistry

_CHECK_SECONDS = 0.5
_WATCHED_SECONDS = 5.0
_REST_SECONDS = 3600.0


class AutoFollow(Source):
    name = "follower"

    def __init__(self, registry: AsyncRegistry, database: str, pause: float = _WATCHED_SECONDS) -> None:
        """`pause`: seconds between two looks while the system reports the follower's end."""
        self._registry = registry
        self._database = database
        self._pause = pause
        self._changed = True
        self._timer = PollTimer(_CHECK_SECONDS)
        self._watched: int | None = None  # can be read once the follower has ended

    def handle_hint(self, hint: Hint) -> None:
        if isinstance(hint, RegistryChanged | RefreshRequested):
            self._changed = True
            self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        try:
            await self._run(receiver)
        finally:
            self._unwatch()

    async def _run(self, receiver: ReadingReceiver) -> None:
        is_open = started = False
        while True:
            try:
                if self._changed:
                    self._changed = False
                    is_open = await self._registry.read(runs.has_open_here)
                started = is_open and await asyncio.to_thread(_ensure, self._database)
                receiver.set_healthy(self.name)
            except RegistryError:  # the source of the registry reports it
                self._changed = True
                receiver.set_healthy(self.name)
            except (ImiError, OSError) as error:
                self._changed = True
                receiver.set_failure(self.name, "starting the follower of runs", str(error))
            self._watch(is_open)
            self._set_pause(is_open, started)
            await self._timer.wait()

    def _watch(self, is_open: bool) -> None:
        if not is_open:
            self._unwatch()
        elif self._watched is None:
            from imi_monitor.runs import follower_process

            self._watched = follower_process.watch_end(self._database)
            if self._watched is not None:
                asyncio.get_running_loop().add_reader(self._watched, self._follower_ended)

    def _unwatch(self) -> None:
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            os.close(self._watched)
            self._watched = None

    def _follower_ended(self) -> None:
        self._unwatch()
        self._timer.wake()

    def _set_pause(self, is_open: bool, started: bool) -> None:
        if not is_open:
            self._timer.slow_down(_REST_SECONDS)
        elif started:
            self._timer.failed()  # one that ends at once is started less and less often
        elif self._watched is not None:
            self._timer.slow_down(self._pause)
        else:
            self._timer.succeeded()


def _ensure(database: str) -> bool:
    from imi_monitor.runs import follower_process

    return follower_process.ensure(database)


def make_source(context: SourceContext) -> AutoFollow | None:
    return None if context.read_only else AutoFollow(context.registry, context.database)
