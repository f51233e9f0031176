"""When a source looks again, and that it ends when it is told to."""

from __future__ import annotations

import asyncio

from imi_monitor.sources.pace import Pace


def test_asked_or_over() -> None:
    async def play() -> list[bool]:
        pace = Pace(0.01)
        first = await pace.next()
        pace.poke()
        return [first, await pace.next()]

    assert asyncio.run(play()) == [False, True]


def test_an_end_that_comes_together_with_news_is_not_forgotten() -> None:
    """It was once: quitting right after a change of the registry then waited for ever."""

    async def play() -> bool:
        pace = Pace(60)
        waiting = asyncio.ensure_future(pace.next())
        await asyncio.sleep(0.01)
        pace.poke()
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert asyncio.run(play())


def test_who_has_nothing_to_do_rests_until_somebody_asks() -> None:
    async def play() -> tuple[bool, bool]:
        pace = Pace(0.01)
        pace.rest(60)
        asyncio.get_running_loop().call_later(0.02, pace.poke)
        asked = await pace.next()
        pace.worked()
        return asked, await pace.next()

    assert asyncio.run(asyncio.wait_for(play(), 30)) == (True, False)
