"""The sinks: how far each receiver of events is, as the registry records it. Any process delivers, all of them show it."""

from __future__ import annotations

import asyncio

from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import SinkState
from imi_monitor.sources.hints import Hint, RegistryChanged, SinkStateChanged
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.store import sink_cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.async_registry import AsyncRegistry

_PAUSE = 0.5  # between two readings: while much is delivered the cursors move all the time


class SinksSource(Source):
    """Reports the field `sinks` of the snapshot."""

    name = "sinks"

    def __init__(self, registry: AsyncRegistry) -> None:
        self._registry = registry
        self._changed = asyncio.Event()

    def handle_hint(self, hint: Hint) -> None:
        if isinstance(hint, RegistryChanged | SinkStateChanged):
            self._changed.set()

    async def run(self, receiver: ReadingReceiver) -> None:
        shown: tuple[SinkState, ...] = ()
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                found = await self._registry.read(sink_cursors.list_sinks)
            except ImiError:  # the registry source reports it
                continue
            states = tuple(map(sink_cursors.to_model, found))
            if states != shown:
                shown = states
                receiver.update(sinks=states)
            await asyncio.sleep(_PAUSE)


def make_source(context: SourceContext) -> SinksSource:
    return SinksSource(context.registry)
