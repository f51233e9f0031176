"""The registry is read when any process wrote it, also without a file event, and hardly ever otherwise."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from imi_monitor.sources.hints import RegistryChanged, RegistryWritten
from imi_monitor.sources.registry_source import RegistrySource, RegistryTiming, settled_stamps
from imi_monitor.store import async_registry, db, events
from imi_monitor.store.async_registry import AsyncRegistry
from tests.sources.source_kit import RecordingReceiver, running, until


class CountingRegistry:
    """Counts how often the registry is read."""

    def __init__(self, registry: AsyncRegistry) -> None:
        self._registry = registry
        self.reads = 0

    async def read(self, work: object, *args: object) -> object:
        self.reads += 1
        return await self._registry.read(work, *args)  # type: ignore[arg-type]


def write(path: str, name: str) -> None:
    """Write as another program does."""
    with closing(db.connect(path)) as connection:
        db.transact(connection, events.append_row, name)


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "iMi.db")
    db.connect(made).close()
    return made


Work = Callable[[CountingRegistry, RecordingReceiver, RegistrySource], Awaitable[None]]


def run(path: str, work: Work, timing: RegistryTiming) -> None:
    async def main() -> None:
        async with async_registry.open_registry(path) as opened:
            registry, receiver = CountingRegistry(opened), RecordingReceiver()
            source = RegistrySource(cast(AsyncRegistry, registry), path, timing)
            async with running(source, receiver):
                await work(registry, receiver, source)

    asyncio.run(main())


def event_types(receiver: RecordingReceiver) -> list[str]:
    return [event.type for reading in receiver.registry for event in reading.events]


OFTEN = RegistryTiming(tick=0.01, at_least_every=3600, unsettled=0.1)


def test_writes_without_a_file_event_are_found(path: str) -> None:
    async def work(_: CountingRegistry, receiver: RecordingReceiver, __: RegistrySource) -> None:
        for number in range(30):
            await asyncio.to_thread(write, path, f"event.{number}")
            await until(lambda: event_types(receiver)[-1:] == [f"event.{number}"])  # noqa: B023
        assert event_types(receiver) == [f"event.{number}" for number in range(30)]
        assert receiver.hints == [RegistryChanged()] * len(receiver.registry)

    run(path, work, OFTEN)


def test_a_registry_that_was_not_written_is_not_read(path: str) -> None:
    async def work(registry: CountingRegistry, receiver: RecordingReceiver, _: RegistrySource) -> None:
        await asyncio.to_thread(write, path, "event")
        await until(lambda: "event" in event_types(receiver))
        await asyncio.sleep(0.3)  # until its files are so old that another commit would change their stamps
        reads = registry.reads
        await asyncio.sleep(0.3)
        assert registry.reads == reads

    run(path, work, OFTEN)


def test_the_registry_is_read_now_and_then_whatever_its_files_look_like(path: str) -> None:
    async def work(registry: CountingRegistry, _: RecordingReceiver, __: RegistrySource) -> None:
        await until(lambda: registry.reads > 20)

    run(path, work, replace(OFTEN, at_least_every=0.0))


def test_a_commit_that_becomes_visible_after_its_file_event_is_found(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages are written, which causes the event; only after the disk has synced them the commit is visible."""

    async def work(registry: CountingRegistry, receiver: RecordingReceiver, source: RegistrySource) -> None:
        await until(lambda: registry.reads >= 2)
        os.utime(f"{path}-wal")
        source.handle_hint(RegistryWritten())
        reads = registry.reads
        await until(lambda: registry.reads > reads)
        await asyncio.to_thread(write, path, "late")
        await until(lambda: event_types(receiver) == ["late"])

    run(path, work, RegistryTiming(tick=3600, visible_within=3600))


def test_stamps_that_the_next_commit_might_repeat_are_none(tmp_path: Path) -> None:
    files = [str(tmp_path / "db"), str(tmp_path / "db-wal")]
    Path(files[0]).touch()
    assert settled_stamps(files, 10.0) is None, "it was written just now"
    then = time.time() - 60
    os.utime(files[0], (then, then))
    before = settled_stamps(files, 10.0)
    assert before is not None
    Path(files[1]).touch()
    os.utime(files[1], (then, then))
    assert settled_stamps(files, 10.0) not in (None, before), "a log appeared"
