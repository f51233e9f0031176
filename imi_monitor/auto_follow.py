"""While a dashboard or `imi watch` runs, the follower of open runs is started again if it was killed.

The module is a source that starts a process of `runs`, so it stands above sources and runs. It reads the registry only after a
change, and is at rest while no run is open.
"""

from __future__ import annotations

import asyncio

from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.sources.hints import Hint, RefreshRequested, RegistryChanged
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.sources.timers import PollTimer
from imi_monitor.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.async_registry import AsyncRegistry

_CHECK_SECONDS = 0.5
_REST_SECONDS = 3600.0


class AutoFollow(Source):
    name = "follower"

    def __init__(self, registry: AsyncRegistry, database: str) -> None:
        self._registry = registry
        self._database = database
        self._changed = True
        self._timer = PollTimer(_CHECK_SECONDS)

    def handle_hint(self, hint: Hint) -> None:
        if isinstance(hint, RegistryChanged | RefreshRequested):
            self._changed = True
            self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
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
            self._set_pause(is_open, started)
            await self._timer.wait()

    def _set_pause(self, is_open: bool, started: bool) -> None:
        if not is_open:
            self._timer.slow_down(_REST_SECONDS)
        elif started:
            self._timer.failed()  # one that ends at once is started less and less often
        else:
            self._timer.succeeded()


def _ensure(database: str) -> bool:
    from imi_monitor.runs import follower_process

    return follower_process.ensure(database)


def make_source(context: SourceContext) -> AutoFollow | None:
    return None if context.read_only else AutoFollow(context.registry, context.database)
