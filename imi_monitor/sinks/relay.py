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
from imi_monitor.sinks.sink import LOST
from imi_monitor.store import event_batches, registry_identity, sink_cursors
from imi_monitor.store.registry_identity import RegistryIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from imi_monitor.sinks.sink import Sink
    from imi_monitor.store.async_registry import AsyncRegistry
    from imi_monitor.store.event_batches import OutgoingEvent

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_RETRY_PARKED_SECONDS = 600.0
_CLOSE_SECONDS = 1.0
_GATHERED = 0.1  # seconds in which events gather, so that many are delivered at once
_SAVED_EVERY = 10  # batches


class Relay:
    """Delivers the events of one registry to one sink."""

    def __init__(
        self,
        sink: Sink,
        registry: AsyncRegistry,
        *,
        unhurried: bool = True,
        report_change: Callable[[], None] | None = None,
    ) -> None:
        self.sink = sink
        self._registry = registry
        self._report_change = report_change  # the recorded problem, or the number of parked events, is another one
        self._reported: tuple[str | None, int] | None = None
        self._parkings = 0  # events that were parked or tried again
        self._unhurried = unhurried  # yields the processor between two batches
        self._identity: RegistryIdentity | None = None  # the identity of the registry that the relay reads
        self._settled = 0  # the last event that is known to be on disk
        self._position: int | None = None  # the last event that was delivered; None: where the cursor is
        self._saved = 0  # where the cursor is
        self._unsaved = 0  # batches since it was moved
        self._moved = False  # in this delivery: the move has recorded that there is no problem
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
                delivered = await self.drain()
                if (state := (self.problem, self._parkings)) != self._reported:
                    self._reported = state
                    if self._report_change is not None:
                        self._report_change()
                if delivered:
                    self._pause = _FIRST_PAUSE
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_RETRY_PARKED_SECONDS):
                            await self._wake.wait()
                    await asyncio.sleep(_GATHERED)
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
            await self._deliver_all(parked=parked)
        except ImiError as error:
            await self._fail(error.sentence)
        except self.sink.faults as error:
            await self._fail(f"{self.sink.label} {self.sink.fault_of(error)}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            await self._fail(f"{self.sink.label} closed the connection")  # a library cancels what waits for it
        except Exception as error:  # noqa: BLE001  whatever a library raises must stop neither the others nor the dashboard
            await self._fail(f"{self.sink.label}: {_reason(error)}")
        else:
            return True
        return False

    async def _deliver_all(self, *, parked: bool) -> None:
        more, self._moved = True, False
        while more:
            if not self._is_open:
                await self._open()
            more = await self._deliver_batch()
        await self.sink.deliver_more(self._registry)
        if parked or asyncio.get_running_loop().time() >= self._parked_due:
            await self._retry_parked()
        if not self._moved:
            await self._set_problem(None)

    async def _open(self) -> None:
        self._identity = await self._registry.read(RegistryIdentity)
        self._settled, self._position, self._unsaved = 0, None, 0
        begins_at = self.sink.begins_at
        if await self._registry.read(sink_cursors.find, self.sink.name) is None:  # in a registry that is new
            await self._registry.write_unsynced(sink_cursors.add, self.sink.name, begins_at)
        has = await self.sink.open(self._identity.registry_id or "")
        if has is not None:
            cursor = await self._registry.read(sink_cursors.find, self.sink.name)
            if has == LOST:
                has = await self._registry.read(sink_cursors.last_before, begins_at)
            if cursor is not None and has < cursor.seq:
                await self._registry.write_unsynced(sink_cursors.rewind, self.sink.name, has)
        self._is_open = True

    async def _deliver_batch(self) -> bool:
        """Deliver the next events; False if there are no more."""
        found = await self._registry.read(event_batches.read_batch, self.sink.name, self.sink.batch, self._position)
        if found.identity != self._identity:  # another registry has taken its place, or a backup was restored into it
            self._is_open = False
            await self.sink.close()
            return True
        if not found.events:
            if self._unsaved:
                await self._save({})
            return False
        self._saved = found.cursor if self._position is None else self._saved
        began, after = asyncio.get_running_loop().time(), found.events[-1].event.seq
        if after > self._settled:
            await self._registry.settle()
            self._settled = found.last
        refused = await self._deliver(found.events)
        self.delivered += len(found.events) - len(refused)
        self._parkings += len(refused)
        self._position, self._unsaved = after, self._unsaved + 1
        if refused or self._unsaved >= _SAVED_EVERY or after >= found.last:
            await self._save(refused)
        self.problem = None
        if self._unhurried and len(found.events) == self.sink.batch:
            spent = asyncio.get_running_loop().time() - began
            await asyncio.sleep(spent / self.sink.share - spent)
        return self._position is None or after < found.last

    async def _save(self, refused: Mapping[int, str]) -> None:
        """Move the cursor. In a backlog once for several batches: each write of the registry may make a claim wait."""
        assert self._position is not None
        self._moved = await self._registry.write_unsynced(
            sink_cursors.advance, self.sink.name, self._saved, self._position, refused
        )
        self._saved, self._unsaved = self._position, 0
        if not self._moved:  # another relay has moved it: go on from there
            self._position = None

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
        found = await self._registry.read(_read_parked, self.sink.name)
        self._parkings += len(found)
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


def _read_parked(connection: sqlite3.Connection, sink: str) -> tuple[OutgoingEvent, ...]:
    registry = registry_identity.registry_id(connection) or ""
    return event_batches.outgoing(connection, registry, sink_cursors.list_parked(connection, sink))
