"""The team's Redis as a sink: a live feed of the last events, as CloudEvents in one capped stream. It is no record."""

from __future__ import annotations

import json

from imi_monitor.links import presence_keys, redis_url
from imi_monitor.sinks import envelope
from imi_monitor.sinks.sink import LOST, Sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.config import Settings
    from imi_monitor.links.presence_keys import TeamKeys
    from imi_monitor.links.redis_link import RedisLink
    from imi_monitor.store.event_batches import OutgoingEvent

NAME = "redis"
HOURS: int | None = 24


def is_wanted(settings: Settings) -> bool:
    return bool(settings.text("servers.redis_url"))


def make_sink(settings: Settings, _: str) -> Sink:
    address = redis_url.parse(settings.text("servers.redis_url"), insecure=settings.flag("team.insecure"))
    from imi_monitor.links import redis_link
    from imi_monitor.links.presence_keys import TeamKeys

    keys = TeamKeys(settings.text("team.name"))
    return RedisSink(redis_link.RedisLink(address), keys, f"Redis at {address.shown}", settings.text("team.share"))


class RedisSink(Sink):
    name = NAME
    hours = HOURS

    def __init__(self, link: RedisLink, keys: TeamKeys, label: str, share: str) -> None:
        from imi_monitor.links import redis_link

        self.faults = redis_link.FAULTS
        self.label = label
        self._fault_of = redis_link.fault_of
        self._link, self._keys = link, keys
        self._share = "titles" if share == "prompts" else share
        self._registry = ""

    async def open(self, registry: str) -> int | None:
        """A server that lost its data has no mark of this home: it gets the last day again."""
        self._registry = registry
        return None if await self._link.value(self._keys.feed_mark(registry)) is not None else LOST

    async def deliver(self, batch: Sequence[OutgoingEvent]) -> Mapping[int, str]:
        refused: dict[int, str] = {}
        entries: list[str] = []
        for one in batch:
            try:
                entries.append(json.dumps(envelope.cloud_event(one, self._share), separators=(",", ":")))
            except ValueError as error:
                refused[one.event.seq] = str(error)
        await self._link.feed(self._keys.feed, entries, self._keys.feed_mark(self._registry), presence_keys.MOST_EVENTS)
        return refused

    async def close(self) -> None:
        await self._link.close()

    def fault_of(self, error: Exception) -> str:
        return self._fault_of(error)
