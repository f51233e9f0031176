"""Sinks for tests: one that remembers what it got and can fail, and a registry with events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

from imi_monitor.sinks.sink import Sink
from imi_monitor.store import db, events, sink_cursors
from imi_monitor.store.async_registry import AsyncRegistry, open_registry
from imi_monitor.store.event_batches import OutgoingEvent
from imi_monitor.store.sink_cursors import SinkCursor
from tests.limits import LIMIT


class Unreachable(Exception):
    """The sink of a test is away."""


class RememberingSink(Sink):
    """Remembers each delivery. `broken`: every call fails; `poison`: events of these numbers cannot be delivered."""

    label = "the test"
    faults = (Unreachable,)

    def __init__(self, name: str = "memory", batch: int = 10) -> None:
        self.name, self.batch = name, batch
        self.got: list[int] = []
        self.broken = False
        self.poison: set[int] = set()
        self.position: int | None = None
        self.before_return: Callable[[], None] = lambda: None

    async def open(self, registry: str) -> int | None:
        if self.broken:
            raise Unreachable("connection refused")
        return self.position

    async def deliver(self, batch: Sequence[OutgoingEvent]) -> Mapping[int, str]:
        if self.broken:
            raise Unreachable("connection refused")
        if any(one.event.seq in self.poison for one in batch):
            raise ValueError("this event cannot be written")
        self.got += [one.event.seq for one in batch]
        self.before_return()
        return {}

    def fault_of(self, error: Exception) -> str:
        return f"cannot be reached ({error})"


def add_events(path: Path, count: int, *, kind: str = "worktree.moved", data: dict[str, object] | None = None) -> None:
    def work(connection: object) -> None:
        for number in range(count):
            events.append_row(connection, kind, "app", f"feat-{number % 3}", agent_id="a", data=data)  # type: ignore[arg-type]

    with closing(db.connect(str(path))) as connection:
        db.transact(connection, work)


def configure(path: Path, *names: str, since: str | None = None) -> None:
    with closing(db.connect(str(path))) as connection:
        db.transact(connection, sink_cursors.configure, dict.fromkeys(names, since))


def state(path: Path, name: str = "memory") -> SinkCursor:
    with closing(db.connect(str(path))) as connection:
        found = sink_cursors.find(connection, name)
    assert found is not None
    return found


@asynccontextmanager
async def registry(path: Path) -> AsyncIterator[AsyncRegistry]:
    async with asyncio.timeout(LIMIT), open_registry(str(path)) as opened:
        yield opened
