"""Sends the contexts of this home's terminals to the team's Redis, soon after each change; after a loss of its data, again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from imi_monitor.actions.notes import context_sender
from imi_monitor.links import retry_loop
from imi_monitor.links.context_store import SESSION_SECONDS, ContextStore
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model import times
from imi_monitor.store import contexts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.links.redis_url import RedisAddress
    from imi_monitor.store.async_registry import AsyncRegistry

_LOOK_SECONDS = 10.0
_LEAST_PAUSE = 0.2


class ContextRelay:
    """`report` gets a fault as a sentence."""

    def __init__(
        self,
        registry: AsyncRegistry,
        address: RedisAddress,
        keys: TeamKeys,
        home: str,
        prefix: str,
        report: Callable[[str | None], None],
    ) -> None:
        self._registry, self._address, self._prefix, self._report = registry, address, prefix, report
        self._mark = keys.sent_contexts(home)
        self._changed = asyncio.Event()
        self._problems: dict[str, str] = {}  # by the context that cannot be sent

    def registry_changed(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        link = RedisLink(self._address)
        store = ContextStore(link, self._prefix)

        async def send_and_wait() -> str | None:
            await self._send(store)
            await asyncio.sleep(_LEAST_PAUSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            return next(iter(self._problems.values()), None)

        try:
            await retry_loop.repeat(send_and_wait, self._address, self._report)
        finally:
            await link.close()

    async def _send(self, store: ContextStore) -> None:
        if not await store.has_mark(self._mark):  # the server has lost its data, or never had ours
            kept = times.stamp(times.now() - timedelta(seconds=SESSION_SECONDS))
            await self._registry.write_unsynced(contexts.mark_unsent, kept)
        for row, shared in await self._registry.read(context_sender.read_unsent):
            problem = await store.put(shared)
            await self._registry.write_unsynced(contexts.mark_sent, row.id, row.revision)
            self._problems.pop(row.id, None)
            if problem is not None:
                self._problems[row.id] = problem
        await store.set_mark(self._mark)
