"""The registry is asked when it was written, by whomever, also where no watcher tells; and hardly ever when it was not."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.sources import registry_source as module
from imi_monitor.sources.registry_source import RegistrySource
from imi_monitor.sources.source import RegistryReading
from imi_monitor.store import async_registry, db, events
from imi_monitor.store.async_registry import AsyncRegistry
from tests.sources.test_changes_source import until


class Board:
    """As much of one as this source speaks to."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def registry(self, picture: RegistryReading) -> None:
        self.events += [line.type for line in picture.events]

    def well(self, source: str, note: str | None = None) -> None:
        pass


class Counted:
    """A registry that counts how often it is asked."""

    def __init__(self, registry: AsyncRegistry) -> None:
        self._registry = registry
        self.asked = 0

    async def read(self, work: object, *args: object) -> object:
        self.asked += 1
        return await self._registry.read(work, *args)  # type: ignore[arg-type]


def write(path: str, name: str) -> None:
    """As another program does it."""
    with closing(db.connect(path)) as connection:
        db.transact(connection, events.append_row, name)


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "iMi.db")
    db.connect(made).close()
    return made


def followed(path: str, work: Callable[[Counted, Board, RegistrySource], object]) -> None:
    async def main() -> None:
        async with async_registry.open_registry(path) as opened:
            registry, board = Counted(opened), Board()
            source = RegistrySource(registry, path, lambda: board.events.append("news"))  # type: ignore[arg-type]
            running = asyncio.ensure_future(source.run(board))  # type: ignore[arg-type]
            try:
                await work(registry, board, source)  # type: ignore[misc]
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TICK", 0.01)
    monkeypatch.setattr(module, "_SURE", 3600.0)
    monkeypatch.setattr(module, "_UNSETTLED", 0.1)


def test_what_nobody_announced_is_found(path: str, often: None) -> None:
    async def work(_: Counted, board: Board, __: RegistrySource) -> None:
        for number in range(30):
            await asyncio.to_thread(write, path, f"event.{number}")
            await until(lambda: board.events and board.events[-1] == f"event.{number}")  # noqa: B023
        assert board.events == ["news", *(each for number in range(30) for each in ("news", f"event.{number}"))]

    followed(path, work)


def test_who_was_not_written_to_is_not_asked(path: str, often: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(registry: Counted, board: Board, _: RegistrySource) -> None:
        await asyncio.to_thread(write, path, "event")
        await until(lambda: "event" in board.events)
        await asyncio.sleep(0.3)  # until its files are so old that another commit would give them a new mark
        asked = registry.asked
        await asyncio.sleep(0.3)
        assert registry.asked == asked
        monkeypatch.setattr(module, "_SURE", 0.0)
        await until(lambda: registry.asked > asked)

    followed(path, work)


def test_a_commit_that_is_told_before_it_can_be_seen_is_looked_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages are written, which is what a watcher tells; then the disk is waited for, and only then it counts."""
    monkeypatch.setattr(module, "_TICK", 3600.0)
    monkeypatch.setattr(module, "_COMES_WITHIN", 3600.0)

    async def work(registry: Counted, board: Board, source: RegistrySource) -> None:
        await until(lambda: registry.asked >= 2)
        os.utime(path)
        source.look()
        asked = registry.asked
        await until(lambda: registry.asked > asked)
        await asyncio.to_thread(write, path, "late")
        await until(lambda: board.events == ["news", "news", "late"])

    followed(path, work)


def test_a_mark_that_the_next_commit_may_leave_as_it_is_is_none(tmp_path: Path) -> None:
    files = [str(tmp_path / "db"), str(tmp_path / "db-wal")]
    Path(files[0]).touch()
    assert module._marks(files) is None, "it was written just now"
    then = time.time() - 60
    os.utime(files[0], (then, then))
    before = module._marks(files)
    assert before is not None
    Path(files[1]).touch()
    os.utime(files[1], (then, then))
    assert module._marks(files) not in (None, before), "a log appeared"
