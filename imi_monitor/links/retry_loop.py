"""Repeats one duty on the team's Redis for ever: a fault is reported as a sentence and waited out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from imi_monitor.links import redis_link
from imi_monitor.model.errors import ImiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.links.redis_url import RedisAddress


async def repeat(
    act: Callable[[], Awaitable[str | None]], address: RedisAddress, report: Callable[[str | None], None]
) -> NoReturn:
    """Run `act`, which waits for its next occasion itself, again and again.

    What it returns is in the way of its duty without being a fault: it is reported, and not waited out.
    """
    pause, reported = redis_link.RetryPause(), None
    while True:
        problem, fails = None, False
        try:
            problem = await act()
        except redis_link.FAULTS as error:
            problem, fails = f"{address.shown} {redis_link.fault_of(error)}", True
        except ImiError as error:
            problem, fails = error.sentence, True
        if problem != reported:
            reported = problem
            report(problem)
        if fails:
            await asyncio.sleep(pause.next())
        else:
            pause.reset()
