"""When to look again: at once when asked, else after a while; after failures later and later, up to a limit."""

from __future__ import annotations

import asyncio
import random


class Pace:
    """`await pace.next()` returns when it is time. `poke` makes it time now; `failed` and `worked` stretch the pause."""

    def __init__(self, every: float, *, longest: float = 60.0) -> None:
        self._every = every
        self._longest = longest
        self._pause = every
        self._asked = asyncio.Event()

    def poke(self) -> None:
        self._asked.set()

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

    async def next(self) -> bool:
        """Wait for the next turn; True when somebody asked for it, False when the pause was over."""
        try:
            # not `wait_for`: that forgets a cancellation which comes together with what it waited for
            async with asyncio.timeout(self._pause):
                await self._asked.wait()
        except TimeoutError:
            return False
        finally:
            self._asked.clear()
        return True
