"""The relay: each sink gets every event at least once and in order, whatever fails, and no sink waits for another."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from imi_monitor.sinks.relay import Relay
from imi_monitor.store.async_registry import AsyncRegistry
from tests.limits import LIMIT
from tests.sinks.sink_kit import RememberingSink, add_events, configure, registry, state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "iMi.db"
    add_events(made, 25)
    configure(made, "memory", "other")
    return made


def drained(path: Path, sink: RememberingSink, *, parked: bool = False) -> bool:
    async def work() -> bool:
        async with registry(path) as opened:
            return await Relay(sink, opened, unhurried=False).drain(parked=parked)

    return asyncio.run(work())


def test_all_events_are_delivered_once_and_in_order(path: Path) -> None:
    sink = RememberingSink()
    assert drained(path, sink) and sink.got == list(range(1, 26))
    assert (state(path).seq, state(path).backlog, state(path).problem) == (25, 0, None)
    add_events(path, 2)
    assert state(path).backlog == 2
    assert drained(path, sink) and sink.got == list(range(1, 28))
    assert state(path, "other").backlog == 27, "each sink has a cursor of its own"


def test_a_sink_that_is_away_gets_everything_later(path: Path) -> None:
    sink = RememberingSink()
    sink.broken = True
    assert not drained(path, sink)
    away = state(path)
    assert (away.seq, away.backlog) == (0, 25) and away.waiting_since is not None
    assert away.problem == "the test cannot be reached (connection refused)" and away.problem_since is not None
    sink.broken = False
    assert drained(path, sink) and sink.got == list(range(1, 26))
    assert state(path).problem is None


def test_an_event_that_no_library_takes_is_parked_and_tried_again(path: Path) -> None:
    sink = RememberingSink()
    sink.poison = {7, 25}
    assert drained(path, sink)
    assert sorted(sink.got) == [seq for seq in range(1, 26) if seq not in (7, 25)]
    assert (state(path).seq, state(path).parked, state(path).problem) == (25, 2, None)
    sink.poison = {25}
    assert drained(path, sink, parked=True) and state(path).parked == 1
    assert sink.got[-1] == 7


def test_the_cursor_moves_only_after_the_delivery_and_only_from_where_it_was(path: Path) -> None:
    """Two relays of one sink, as while one process hands its duties over: nothing is skipped."""
    first, second = RememberingSink(), RememberingSink()
    cursors: list[tuple[int, int]] = []  # what was delivered or is under way, and where the cursor is then
    first.before_return = lambda: cursors.append((len(first.got), state(path).seq))

    def overtaken() -> None:
        first.before_return = lambda: None
        thread = threading.Thread(target=drained, args=(path, second))
        thread.start()
        thread.join(LIMIT)

    assert drained(path, first)
    assert cursors and all(seq < got for got, seq in cursors), cursors
    add_events(path, 5)
    first.before_return = overtaken
    assert drained(path, first)
    assert set(first.got) | set(second.got) == set(range(1, 31)) and state(path).seq == 30


def test_a_sink_that_lost_its_data_gets_it_again(path: Path) -> None:
    sink = RememberingSink()
    assert drained(path, sink)
    sink.got, sink.position = [], 20
    assert drained(path, sink) and sink.got == [21, 22, 23, 24, 25]


def test_a_running_relay_waits_out_a_fault_and_blocks_no_other(path: Path) -> None:
    away, other = RememberingSink("memory"), RememberingSink("other")
    away.broken = True

    async def work() -> None:
        async with registry(path) as opened:
            relays = [Relay(sink, opened) for sink in (away, other)]
            tasks = [asyncio.create_task(relay.run()) for relay in relays]
            async with asyncio.timeout(LIMIT):
                while len(other.got) < 25:
                    await asyncio.sleep(0.01)
                assert away.got == []
                away.broken = False
                while len(away.got) < 25:
                    await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(work())
    assert state(path).problem is None


def test_a_registry_that_takes_the_place_of_another_is_delivered_from_its_start(path: Path, tmp_path: Path) -> None:
    sink = RememberingSink()
    other = tmp_path / "other" / "iMi.db"
    other.parent.mkdir()
    add_events(other, 7)

    async def work() -> None:
        async with registry(path) as opened:
            relay = Relay(sink, opened, unhurried=False)
            assert await relay.drain()
            sink.got.clear()
            for file in path.parent.glob("iMi.db*"):
                file.unlink()
            other.replace(path)
            await relay.drain()  # the first read may still find the file that is gone
            assert await relay.drain()

    asyncio.run(work())
    assert sink.got == list(range(1, 8)) and state(path).backlog == 0


def test_nothing_is_told_that_a_power_cut_could_undo(path: Path) -> None:
    """Each event is on disk before it is delivered; a backlog needs one sync."""
    order: list[str] = []
    sink = RememberingSink()
    sink.before_return = lambda: order.append("deliver")

    class Settling(AsyncRegistry):
        async def settle(self) -> None:
            await super().settle()
            order.append("settle")

    async def work() -> None:
        async with registry(path) as opened:
            opened.__class__ = Settling
            relay = Relay(sink, opened, unhurried=False)
            await relay.drain()
            await asyncio.to_thread(add_events, path, 1)
            await relay.drain()

    asyncio.run(work())
    assert order == ["settle", "deliver", "deliver", "deliver", "settle", "deliver"]


def test_what_a_library_raises_or_cancels_is_a_fault_like_others(path: Path) -> None:
    class Odd(RememberingSink):
        raises: BaseException = KeyError("vhost")

        async def open(self, registry: str) -> int | None:
            raise self.raises

    for error, says in ((KeyError("vhost"), "KeyError: 'vhost'"), (asyncio.CancelledError(), "closed the connection")):
        sink = Odd()
        sink.raises = error
        assert not drained(path, sink) and says in str(state(path).problem)


def test_a_sink_that_is_configured_later_begins_where_it_should(path: Path) -> None:
    configure(path, "memory", "fresh", since="2999-01-01T00:00:00")
    assert state(path, "fresh").backlog == 0 and state(path).backlog == 25
    configure(path, "memory", "whole", since="2001-01-01T00:00:00")
    assert state(path, "whole").backlog == 25
    assert not state(path, "fresh").active, "what is not configured any more is waited for by nothing"
