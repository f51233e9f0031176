"""The registry for the event loop: whole transactions, no thread left behind, no transaction open after a cancellation. # D8"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

import aiosqlite
import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import async_registry, db, events
from tests.helpers import ROOT
from tests.limits import LIMIT


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "iMi.db")
    db.connect(made).close()
    return made


def counted(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def slow(connection: sqlite3.Connection, seconds: float = 0.05) -> str:
    """A transaction that can be caught in the middle: its first half is written before it sleeps."""
    events.append_row(connection, "slow.half")
    time.sleep(seconds)
    return events.append_row(connection, "slow.whole")


def failing(connection: sqlite3.Connection) -> None:
    events.append_row(connection, "failing")
    raise KeyError("on purpose")


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "_connection_worker_thread" in thread.name]


def settled(path: str) -> int:
    """The number of events, after checking that no connection is open."""
    assert workers() == []
    with closing(db.connect(path, busy_seconds=0)) as connection:
        return db.transact(connection, counted)


def test_aiosqlite_calls_execute_and_fetchall_of_any_connection_in_its_thread() -> None:
    """The public behaviour that store/async_registry.py relies on; if this fails, aiosqlite has changed it."""
    calls: list[tuple[str, object]] = []

    class Connection:
        def execute(self, sql: str, parameters: object) -> Connection:
            calls.append((threading.current_thread().name, parameters))
            return self

        def fetchall(self) -> list[object]:
            return []

        def close(self) -> None:
            calls.append((threading.current_thread().name, "closed"))

    async def body() -> None:
        link = aiosqlite.Connection(Connection, iter_chunk_size=64)  # type: ignore[arg-type]
        await link
        await link.execute_fetchall("", ("call",))
        await link.stop()  # type: ignore[misc]
        with pytest.raises(ValueError):
            await link.execute_fetchall("", ("late",))

    asyncio.run(body())
    assert [what for _, what in calls] == [("call",), "closed"]
    assert threading.current_thread().name not in {name for name, _ in calls}


def test_writes_and_reads_with_arguments_and_results(path: str) -> None:
    async def body() -> None:
        async with async_registry.open_registry(path) as registry:
            identity = await registry.write(events.append_row, "one", "app", agent_id="claude-1", data={"n": 1})
            found = await registry.read(events.list_events, 0, kinds=("one",))
            assert [event.id for event in found] == [identity]
            assert found[0].agent_id == "claude-1"

    asyncio.run(body())
    assert settled(path) == 1


def test_each_transaction_runs_as_one_call_in_the_thread(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    execute_fetchall = aiosqlite.Connection.execute_fetchall

    def counting(self: aiosqlite.Connection, *args: object) -> object:
        nonlocal calls
        calls += 1
        return execute_fetchall(self, *args)  # type: ignore[arg-type]

    async def body() -> None:
        async with async_registry.open_registry(path) as registry:
            monkeypatch.setattr(aiosqlite.Connection, "execute_fetchall", counting)
            await registry.write(slow, 0)
            await registry.read(counted)

    asyncio.run(body())
    assert calls == 2


def test_many_tasks_share_one_registry(path: str) -> None:
    async def body() -> None:
        async with async_registry.open_registry(path) as registry:
            before = threading.active_count()
            await asyncio.gather(
                *(registry.write(events.append_row, f"e{n}") for n in range(50)), registry.read(counted)
            )
            assert threading.active_count() == before
            assert await registry.read(counted) == 50

    asyncio.run(body())
    assert settled(path) == 50


def test_the_event_loop_runs_during_a_write(path: str) -> None:
    async def body() -> int:
        async with async_registry.open_registry(path) as registry:
            writing = asyncio.create_task(registry.write(slow, 0.1))
            ticks = 0
            while not writing.done():
                await asyncio.sleep(0.005)
                ticks += 1
            return ticks

    assert asyncio.run(body()) >= 5


def test_an_error_reaches_the_caller_and_rolls_back(path: str) -> None:
    async def body() -> None:
        async with async_registry.open_registry(path) as registry:
            with pytest.raises(KeyError, match="on purpose"):
                await registry.write(failing)
            with pytest.raises(RegistryError, match="no such table"):
                await registry.read(lambda connection: connection.execute("SELECT * FROM nowhere"))
            await registry.write(events.append_row, "after")

    asyncio.run(body())
    assert settled(path) == 1


def test_a_failed_open_raises_and_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, however long one looks at it\n" * 100)

    async def body(name: str, create: bool) -> None:
        async with async_registry.open_registry(str(tmp_path / name), create=create):
            raise AssertionError("opened")

    for name, create, said in (("text.db", True, "not an SQLite database"), ("none.db", False, "there is no registry")):
        with pytest.raises(RegistryError, match=said):
            asyncio.run(body(name, create))
        assert workers() == []


def test_a_closed_registry_raises(path: str) -> None:
    async def body() -> None:
        async with async_registry.open_registry(path) as registry:
            pass
        for ask in (registry.write, registry.read):
            with pytest.raises(RegistryError, match="was closed"):
                await ask(counted)

    asyncio.run(body())


# Cancellation -------------------------------------------------------------------------------------------------------


def test_a_cancelled_writer_leaves_no_transaction_open(path: str) -> None:
    """The caller is cancelled in the middle: the transaction ends, and the next one does not wait."""

    async def body() -> None:
        async with async_registry.open_registry(path) as registry:
            task = asyncio.create_task(registry.write(slow))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with closing(db.connect(path, busy_seconds=1)) as other:
                db.transact(other, events.append_row, "another program")
            await registry.write(events.append_row, "we too")

    asyncio.run(body())
    assert settled(path) == 4  # both halves of the slow one, or none of it: here it had begun


def test_a_writer_cancelled_before_its_turn_does_nothing(path: str) -> None:
    async def body() -> None:
        async with async_registry.open_registry(path) as registry:
            first = asyncio.create_task(registry.write(slow))
            second = asyncio.create_task(registry.write(events.append_row, "unwanted"))
            await asyncio.sleep(0.02)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            await first
            assert await registry.read(counted) == 2

    asyncio.run(body())
    assert settled(path) == 2


def test_opening_and_closing_can_be_cancelled(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = db.connect

    def slowly(*args: object, **kwargs: object) -> sqlite3.Connection:
        time.sleep(0.05)
        return connect(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(db, "connect", slowly)

    async def body(after: float) -> None:
        async def use() -> None:
            async with async_registry.open_registry(path) as registry:
                writing = asyncio.ensure_future(registry.write(slow))
                await asyncio.sleep(0.01)
                writing.cancel()

        task = asyncio.create_task(use())
        await asyncio.sleep(after)
        for _ in range(3):  # several cancellations, as a caller may send
            task.cancel()
            await asyncio.sleep(0.005)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert workers() == []

    for after in (0.01, 0.055, 0.075):
        asyncio.run(body(after))
    monkeypatch.undo()
    assert settled(path) % 2 == 0


def test_the_event_loop_runs_while_a_cancelled_registry_closes(path: str) -> None:
    written, released = threading.Event(), threading.Event()

    def write(connection: sqlite3.Connection) -> bool:
        slow(connection)
        written.set()
        return released.wait(LIMIT)

    async def body() -> None:
        async def use() -> None:
            async with async_registry.open_registry(path) as registry:
                done = asyncio.ensure_future(registry.write(write))
                done.add_done_callback(lambda done: done.cancelled())
                await asyncio.to_thread(written.wait, LIMIT)

        task = asyncio.create_task(use())
        await asyncio.to_thread(written.wait, LIMIT)
        task.cancel()
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not released.is_set() and not task.done()
        released.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(body())
    assert settled(path) == 2


# D8 -----------------------------------------------------------------------------------------------------------------


async def _leaves(path: str, _: float) -> None:
    async with async_registry.open_registry(path) as registry:
        await registry.write(slow, 0.001)


async def _raises(path: str, _: float) -> None:
    async with async_registry.open_registry(path) as registry:
        await registry.write(slow, 0.001)
        raise KeyError("in the block")


async def _fails_inside(path: str, _: float) -> None:
    async with async_registry.open_registry(path) as registry:
        await registry.write(failing)


async def _is_cancelled(path: str, after: float) -> None:
    task = asyncio.create_task(_leaves_slowly(path))
    await asyncio.sleep(after)
    task.cancel()
    await task


async def _leaves_slowly(path: str) -> None:
    async with async_registry.open_registry(path) as registry:
        await asyncio.gather(*(registry.write(slow, 0.003) for _ in range(3)))


async def _is_forgotten(path: str, after: float) -> None:
    """The loop ends while another task is in the middle: it is cancelled with all that are left."""
    left = asyncio.create_task(_leaves_slowly(path))
    await asyncio.sleep(after)
    raise KeyError(f"the main task dies and leaves {left}")


async def _runs_out_of_time(path: str, after: float) -> None:
    async with asyncio.timeout(after):
        await _leaves_slowly(path)


ENDINGS: tuple[Callable[[str, float], Awaitable[None]], ...] = (
    _leaves,
    _raises,
    _fails_inside,
    _is_cancelled,
    _is_forgotten,
    _runs_out_of_time,
)


def starts_and_stops(path: str, rounds: int) -> None:
    chance = random.Random(5)
    for number in range(rounds):
        ending = ENDINGS[number % len(ENDINGS)]
        before = time.monotonic()
        with suppress(KeyError, TimeoutError, asyncio.CancelledError):
            asyncio.run(ending(path, chance.random() * 0.02))  # type: ignore[arg-type]
        assert time.monotonic() - before < LIMIT, ending
        assert settled(path) % 2 == 0, ending  # halves come in pairs: nothing was left in the middle


def test_twenty_starts_and_stops(path: str) -> None:
    starts_and_stops(path, 24)


@pytest.mark.soak
def test_two_hundred_starts_and_stops(path: str) -> None:
    starts_and_stops(path, 204)


def exits(path: str, ending: str, runner: str) -> None:
    """A whole program that ends in its own way, without closing anything."""
    program = (
        "import asyncio, sys\n"
        "from imi_monitor.store import async_registry, events\n"
        "async def main():\n"
        "    global manager, registry\n"
        "    manager = async_registry.open_registry(sys.argv[1])\n"
        "    registry = await manager.__aenter__()\n"
        "    await registry.write(events.append_row, 'made')\n"
        f"    {ending}\n"
        f"{runner}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert settled(path) == 1, done.stderr


@pytest.mark.parametrize("runner", ["asyncio.run(main())", "asyncio.new_event_loop().run_until_complete(main())"])
@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "raise KeyError('x')"])
def test_a_program_that_never_closes_the_registry_does_not_hang(path: str, ending: str, runner: str) -> None:
    exits(path, ending, runner)
