"""Poll timers: pauses, waking, retries, and cancellation."""

from __future__ import annotations

import asyncio

from imi_monitor.sources.timers import PollTimer, aligned_deadline


def test_wait_returns_whether_it_was_woken() -> None:
    async def play() -> list[bool]:
        timer = PollTimer(0.01)
        first = await timer.wait()
        timer.wake()
        return [first, await timer.wait()]

    assert asyncio.run(play()) == [False, True]


def test_a_cancellation_together_with_waking_is_not_lost() -> None:
    """It was once: quitting right after a change of the registry never ended."""

    async def play() -> bool:
        timer = PollTimer(60)
        waiting = asyncio.ensure_future(timer.wait())
        await asyncio.sleep(0.01)
        timer.wake()
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert asyncio.run(play())


def test_a_slowed_timer_waits_until_it_is_woken() -> None:
    async def play() -> tuple[bool, bool]:
        timer = PollTimer(0.01)
        timer.slow_down(60)
        asyncio.get_running_loop().call_later(0.02, timer.wake)
        asked = await timer.wait()
        timer.succeeded()
        return asked, await timer.wait()

    assert asyncio.run(asyncio.wait_for(play(), 30)) == (True, False)


def test_a_pause_is_repeated_until_the_source_is_due() -> None:
    async def play() -> tuple[bool, int, bool]:
        timer, asked = PollTimer(0.001), 0

        def news() -> bool:
            nonlocal asked
            asked += 1
            return asked == 3

        told = await timer.wait(news)
        times = asked
        asyncio.get_running_loop().call_later(0.01, timer.wake)
        return told, times, await timer.wait(lambda: False)

    assert asyncio.run(asyncio.wait_for(play(), 30)) == (False, 3, True)


def test_pauses_of_seconds_end_at_whole_seconds_and_never_late() -> None:
    assert {aligned_deadline(now, pause) for now in (7.0, 7.001, 7.4, 7.999) for pause in (1.0, 1.2)} == {8.0, 9.0}
    assert aligned_deadline(7.4, 5.0) == aligned_deadline(11.9, 1.0) == 12.0
    assert aligned_deadline(7.25, 0.5) == 7.75
    for now in (0.0, 3.3, 1e6 + 0.7):
        for pause in (0.05, 1.0, 2.5, 60.0):
            assert now < aligned_deadline(now, pause) <= now + pause
