"""The relay of one sink: reads the log behind the cursor, delivers, moves the cursor. Each sink has its own, so none waits.

What is told to others must not be undone by a power cut: the log is on disk before it is delivered. The cursor moves after the
sink has the events, so that each arrives at least once; receivers know an event by its id. An event that a sink refuses is
parked: the cursor goes on, and the event is tried again later.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from imi_monitor.model.errors import ImiError
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe
from imi_monitor.store import event_batches, registry_identity, sink_cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from imi_monitor.sinks.sink import Sink
    from imi_monitor.store.async_registry import AsyncRegistry
    from imi_monitor.store.event_batches import OutgoingEvent

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_RETRY_PARKED_SECONDS = 600.0
_CLOSE_SECONDS = 1.0
_MOST_SHARE = 0.5  # of a core, while a backlog is delivered


class Relay:
    """Delivers the events of one registry to one sink."""

    def __init__(self, sink: Sink, registry: AsyncRegistry, *, unhurried: bool = True) -> None:
        self.sink = sink
        self._registry = registry
        self._unhurried = unhurried  # leaves the processor to others between two batches
        self._registry_id = ""
        self._is_open = False
        self._wake = asyncio.Event()
        self._pause = _FIRST_PAUSE
        self._parked_due = 0.0
        self.problem: str | None = None
        self.delivered = 0

    def wake(self) -> None:
        """The log may have new events."""
        self._wake.set()

    async def run(self) -> None:
        """Deliver until cancelled; a fault of the sink or of the registry is waited out."""
        try:
            while True:
                self._wake.clear()
                if await self.drain():
                    self._pause = _FIRST_PAUSE
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_RETRY_PARKED_SECONDS):
                            await self._wake.wait()
                else:
                    await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
                    self._pause = min(_LONGEST_PAUSE, self._pause * 2)
        finally:
            with suppress(*self.sink.faults, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self.sink.close()

    async def drain(self, *, parked: bool = False) -> bool:
        """Deliver all that waits; False if a fault ended it, which `problem` then names. `parked`: try those again now."""
        try:
            if not self._is_open:
                await self._open()
            while await self._deliver_batch():
                pass
            await self.sink.deliver_more(self._registry)
            if parked or asyncio.get_running_loop().time() >= self._parked_due:
                await self._retry_parked()
            await self._set_problem(None)
        except ImiError as error:
            self.problem = error.sentence  # of the registry, which its source reports, or of the archive
            await self._fail(error.sentence)
            return False
        except self.sink.faults as error:
            await self._fail(f"{self.sink.label} {self.sink.fault_of(error)}")
            return False
        return True

    async def _open(self) -> None:
        found: str | None = await self._registry.read(registry_identity.registry_id)
        self._registry_id = found or ""
        has = await self.sink.open(self._registry_id)
        if has is not None:
            cursor = await self._registry.read(sink_cursors.find, self.sink.name)
            if cursor is not None and has < cursor.seq:
                await self._registry.write_unsynced(sink_cursors.rewind, self.sink.name, has)
        self._is_open = True

    async def _deliver_batch(self) -> bool:
        """Deliver the next events; False if there are none."""
        before, batch = await self._registry.read(
            event_batches.read_batch, self._registry_id, self.sink.name, self.sink.batch
        )
        if not batch:
            return False
        began = asyncio.get_running_loop().time()
        await self._registry.settle()
        refused = await self._deliver(batch)
        after = batch[-1].event.seq
        if await self._registry.write_unsynced(sink_cursors.advance, self.sink.name, before, after, refused):
            self.delivered += len(batch) - len(refused)
        self.problem = None
        if self._unhurried and len(batch) == self.sink.batch:
            spent = asyncio.get_running_loop().time() - began
            await asyncio.sleep(spent * (1 - _MOST_SHARE) / _MOST_SHARE)
        return True

    async def _deliver(self, batch: Sequence[OutgoingEvent]) -> Mapping[int, str]:
        """Deliver; when the batch fails without being a fault of the sink, one event of it is bad: find it."""
        try:
            return await self.sink.deliver(batch)
        except Exception as error:
            if isinstance(error, (ImiError, *self.sink.faults)):
                raise
            if len(batch) == 1:  # an event that a library cannot take must not stop all that follow
                return {batch[0].event.seq: _reason(error)}
        refused: dict[int, str] = {}
        for one in batch:
            refused |= await self._deliver((one,))
        return refused

    async def _retry_parked(self) -> None:
        self._parked_due = asyncio.get_running_loop().time() + _RETRY_PARKED_SECONDS
        found = await self._registry.read(_read_parked, self._registry_id, self.sink.name)
        for one in found:
            refused = await self._deliver((one,))
            if one.event.seq in refused:
                why = refused[one.event.seq]
                await self._registry.write_unsynced(sink_cursors.park, self.sink.name, one.event.seq, why)
            else:
                await self._registry.write_unsynced(sink_cursors.unpark, self.sink.name, one.event.seq)
                self.delivered += 1

    async def _fail(self, why: str) -> None:
        self._is_open = False
        with suppress(*self.sink.faults, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.sink.close()
        await self._set_problem(safe(redact(why), 300))

    async def _set_problem(self, why: str | None) -> None:
        """Record the state, if it is new."""
        self.problem = why
        with suppress(ImiError):  # the registry cannot be used: its source reports that
            cursor = await self._registry.read(sink_cursors.find, self.sink.name)
            if cursor is not None and cursor.problem != why:
                await self._registry.write_unsynced(sink_cursors.set_problem, self.sink.name, why)


def _reason(error: Exception) -> str:
    return safe(redact(f"{type(error).__name__}: {error}"), 300)


def _read_parked(connection: sqlite3.Connection, registry: str, sink: str) -> tuple[OutgoingEvent, ...]:
    return event_batches.outgoing(connection, registry, sink_cursors.list_parked(connection, sink))
