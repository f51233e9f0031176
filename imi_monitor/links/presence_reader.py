"""Reads what all homes of a team publish, and keeps it equal to the server through restarts, lost news and cut links.

The news name the rows that changed; a number for each home shows whether one is missing, and then the whole home is read
again. The age of a home is the server's: how far its key's lifetime has run down.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from imi_monitor.links import redis_link
from imi_monitor.links.presence_keys import LIFETIME, SEPARATOR, TeamKeys
from imi_monitor.links.redis_link import RedisLink

_AGES = "local ages = {} for i, key in ipairs(KEYS) do ages[i] = redis.call('TTL', key) end return ages"
_AGES_EVERY = 2.0  # seconds
_MOST_HOMES = 200


class PublishedHome:
    """What one home published. `age`: seconds since its last sign of life, None when its rows are gone."""

    __slots__ = ("age", "description", "fields", "ident", "number")

    def __init__(self, ident: str) -> None:
        self.ident = ident
        self.description = ""
        self.fields: dict[str, str] = {}
        self.number = 0
        self.age: int | None = None


class PresenceReader:
    """Follows the homes of a team. After an error call `forget`: the next round reads everything."""

    def __init__(self, link: RedisLink, blocking: RedisLink, keys: TeamKeys) -> None:
        self._link, self._blocking, self._keys = link, blocking, keys
        self.homes: dict[str, PublishedHome] = {}
        self._at: str | None = None
        self._aged_at = 0.0

    def forget(self) -> None:
        self._at = None

    async def read_all(self) -> None:
        """Read every home."""
        at = await self._link.last_entry(self._keys.news)
        described = await self._link.hash_fields(self._keys.homes)
        found: dict[str, PublishedHome] = {}
        for ident in sorted(described)[:_MOST_HOMES]:
            found[ident] = PublishedHome(ident)
            found[ident].description = described[ident]
        self.homes = found
        for home in found.values():
            await self._read_home(home)
        await self._read_ages()
        self._at = at

    async def follow(self) -> set[str]:
        """Wait for news, at most a second; returns the homes of which something changed, ages too."""
        if self._at is None:
            await self.read_all()
            return set(self.homes)
        news = await self._blocking.read_after(self._keys.news, self._at)
        changed = await self._apply(news)
        if not news and await self._is_emptied(self._at):
            self._at = None
        if time.monotonic() - self._aged_at >= _AGES_EVERY:
            changed |= await self._read_ages()
        return changed

    async def _is_emptied(self, at: str) -> bool:
        last = await self._link.last_entry(self._keys.news)
        return redis_link.entry_order(last) < redis_link.entry_order(at)

    async def _apply(self, news: Iterable[tuple[str, dict[str, str]]]) -> set[str]:
        """Read the rows that the feed's entries name, with one request for each home; return the ids of changed homes."""
        wanted: dict[str, set[str] | None] = {}  # None: all rows
        numbers: dict[str, int] = {}
        last = self._at
        for entry, fields in news:
            last, ident, text = entry, fields.get("h", ""), fields.get("n", "")
            number = int(text) if text.isdecimal() and len(text) < 16 else -1
            before = numbers.get(ident, self.homes[ident].number if ident in self.homes else -1)
            rows = wanted.get(ident, set())
            follows = number == before + 1 and number > 1 and fields.get("f", "*") != "*"
            wanted[ident] = rows | set(fields["f"].split(SEPARATOR)) if follows and rows is not None else None
            numbers[ident] = number
        for ident, names in wanted.items():
            await self._read_changed(ident, names, numbers[ident])
        self._at = last
        return set(wanted)

    async def _read_changed(self, ident: str, names: set[str] | None, number: int) -> None:
        home = self.homes.get(ident)
        if home is None or names is None:
            described = (await self._link.hash_values(self._keys.homes, [ident]))[0]
            if described is None or (home is None and len(self.homes) >= _MOST_HOMES):
                return
            home = self.homes.setdefault(ident, PublishedHome(ident))
            home.description = described
            await self._read_home(home)
            return
        fields = sorted(names)
        for name, text in zip(fields, await self._link.hash_values(self._keys.home(ident), fields), strict=True):
            if text is None:
                home.fields.pop(name, None)
            else:
                home.fields[name] = text
        home.number, home.age = number, 0

    async def _read_home(self, home: PublishedHome) -> None:
        fields = await self._link.hash_fields(self._keys.home(home.ident))
        number = fields.pop("n", "0")
        home.number = int(number) if number.isdecimal() and len(number) < 16 else 0
        home.age = 0 if fields.pop("by", None) is not None else None
        if home.age is not None:
            home.fields = fields

    async def _read_ages(self) -> set[str]:
        idents = list(self.homes)
        self._aged_at = time.monotonic()
        if not idents:
            return set()
        keys = [self._keys.home(ident) for ident in idents]
        changed = set()
        for ident, left in zip(idents, await self._link.script(_AGES, keys, []), strict=True):
            age = None if left < 0 else max(0, LIFETIME - int(left))
            if age != self.homes[ident].age:
                self.homes[ident].age = age
                changed.add(ident)
        return changed
