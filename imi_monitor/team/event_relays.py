"""The duty to deliver events: one relay for each sink that the settings ask for."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from imi_monitor import sinks
from imi_monitor.model.errors import ImiError
from imi_monitor.sinks.relay import Relay
from imi_monitor.sources.hints import SinkStateChanged
from imi_monitor.store import sink_cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.source import ReadingReceiver, SourceContext

_GRACE = 1.0  # seconds after the start, which has more urgent work
_RETRY_SECONDS = 10.0


class EventRelays:
    """Runs the relays; a sink whose library is missing has its reason recorded, and the others go on."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._relays: list[Relay] = []

    def wake(self) -> None:
        """The log may have new events."""
        for relay in self._relays:
            relay.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        await asyncio.sleep(_GRACE)
        wanted = sinks.wanted(self._context.settings)
        while not await self._configure(sinks.beginnings(wanted)):
            await asyncio.sleep(_RETRY_SECONDS)
        for name, module in wanted.items():
            try:
                sink = module.make_sink(self._context.settings, self._context.database)
            except ImiError as error:
                with suppress(ImiError):  # the registry source reports it
                    await self._context.registry.write_unsynced(sink_cursors.set_problem, name, error.sentence)
                continue
            relay = Relay(sink, self._context.registry, report_change=lambda: receiver.send_hint(SinkStateChanged()))
            self._relays.append(relay)
        async with asyncio.TaskGroup() as group:
            for relay in self._relays:
                group.create_task(relay.run())

    async def _configure(self, wanted: dict[str, str | None]) -> bool:
        """Record which sinks there are; False while the registry cannot be used."""
        try:
            if not await self._context.registry.read(sink_cursors.is_configured, wanted):
                await self._context.registry.write(sink_cursors.configure, wanted)
        except ImiError:  # the registry source reports it
            return False
        return True
