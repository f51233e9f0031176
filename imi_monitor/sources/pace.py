"""When to look again: at once when asked, else after a while; after failures later and later, up to a limit.

Waking up is what idling costs, whatever is done then: so all who wait for seconds wake at the same moments.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable


def due(now: float, pause: float) -> float:
    """When a pause that begins now is over: at the last whole second of the loop's clock in it, if it is that long."""
    return float(math.floor(now + pause)) if pause >= 1.0 else now + pause


async def nap(pause: float) -> None:
    """Sleep so long, or a little less."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(due(now, pause) - now)


class Pace:
    """`await pace.next()` returns when it is time. `poke` makes it time now; `failed` and `worked` stretch the pause."""

    def __init__(self, every: float, *, longest: float = 60.0) -> None:
        self._every = every
        self._longest = longest
        self._pause = every
        self._asked = False
        self._waiting: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def poke(self) -> None:
        self._asked = True
        self._wake()

    def soon(self, pause: float) -> None:
        """What was seen is not settled yet: look again after `pause`, then after twice that, up to the usual time."""
        self._pause = min(self._every, max(pause, self._pause * 2 if self._pause < self._every else pause))

    def rest(self, pause: float) -> None:
        """There is nothing to look after: the next turn may come so much later, unless somebody asks."""
        self._pause = max(self._every, pause)

    def worked(self) -> None:
        self._pause = self._every

    def failed(self) -> None:
        # jitter, so that many that failed together do not come back together
        self._pause = min(self._longest, self._pause * 2) * random.uniform(0.8, 1.2)

    async def next(self, news: Callable[[], object] | None = None) -> bool:
        """Wait for the next turn; True when somebody asked for it, False when the pause was over.

        `news` is asked when it is over, and has to be cheap: while there are none, another pause follows.
        """
        if not self._asked:
            await self._wait(news)
        asked, self._asked = self._asked, False
        return asked

    async def _wait(self, news: Callable[[], object] | None) -> None:
        # a bare future: `wait_for` forgets a cancellation which comes together with what it waited for, and a timeout
        # is a cancellation each time it is over
        self._waiting = asyncio.get_running_loop().create_future()
        self._arm(news)
        try:
            await self._waiting
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._waiting = None

    def _arm(self, news: Callable[[], object] | None) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(due(loop.time(), self._pause), self._over, news)

    def _over(self, news: Callable[[], object] | None) -> None:
        """Nobody is woken for nothing."""
        if news is None:
            self._wake()
        else:
            self._arm(news)
            if news():
                self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
