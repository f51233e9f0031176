"""Reservations on the team's Redis, of what no home has yet: a branch, a task. Advisory: nothing but the askers obeys them.

Each is one compare-and-set. The epoch grows with every reservation of a name, also when the server has lost its data: the asker
names the highest one that its registry has seen.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model.text import safe

_MOST, _EPOCH_SECONDS = 300, 90 * 86400
_RESERVE = """
local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= 'hash' then return {'foreign'} end
local home, agent = redis.call('HGET', KEYS[1], 'home'), redis.call('HGET', KEYS[1], 'agent')
if home and (home ~= ARGV[1] or agent ~= ARGV[2]) then
  return {'held', agent, redis.call('HGET', KEYS[1], 'host') or '', redis.call('HGET', KEYS[1], 'epoch') or '0',
    redis.call('TTL', KEYS[1])}
end
local epoch = home and tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0')
if not epoch then
  epoch = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') or 0, tonumber(ARGV[4])) + 1
  redis.call('SET', KEYS[2], epoch, 'EX', ARGV[6])
end
redis.call('HSET', KEYS[1], 'home', ARGV[1], 'agent', ARGV[2], 'host', ARGV[5], 'epoch', epoch)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return {home and 'renewed' or 'reserved', ARGV[2], ARGV[5], tostring(epoch), tonumber(ARGV[3])}
"""
_RELEASE = """
if redis.call('HGET', KEYS[1], 'home') ~= ARGV[1] or redis.call('HGET', KEYS[1], 'agent') ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
"""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation of a name: `how` is reserved, renewed, held (by another) or foreign (another program's key)."""

    kind: str
    name: str
    how: str
    agent: str = ""
    host: str = ""
    epoch: int = 0
    seconds: int = 0


class ReservationStore:
    def __init__(self, link: RedisLink, keys: TeamKeys) -> None:
        self._link, self._keys = link, keys

    async def reserve(
        self, kind: str, name: str, *, home: str, agent: str, host: str, seconds: int, floor: int
    ) -> tuple[Reservation, bool]:
        """Reserve the name, or renew the own reservation; and whether a replica has it, where there are replicas."""
        keys = [self._keys.reserved(kind, name), self._keys.reserved_epoch(kind, name)]
        words = await self._link.script(_RESERVE, keys, [home, agent, seconds, floor, host, _EPOCH_SECONDS])
        found = _read(kind, name, words)
        kept = found.how not in ("reserved", "renewed") or await self._link.is_replicated()
        return found, kept

    async def release(self, kind: str, name: str, *, home: str, agent: str) -> bool:
        return bool(await self._link.script(_RELEASE, [self._keys.reserved(kind, name)], [home, agent]))

    async def list_all(self) -> list[Reservation]:
        """The reservations of the team, by kind and name."""
        found = []
        start = self._keys.reserved("", "")[:-1]
        for key in sorted(await self._link.scan(f"{_plain(start)}*", _MOST)):
            kind, _, name = key.removeprefix(start).partition(":")
            if await self._link.type_of(key) != "hash":
                continue
            row = await self._link.hash_fields(key)
            left = await self._link.seconds_left(key)
            words = ["held", row.get("agent", ""), row.get("host", ""), row.get("epoch", "0"), left or 0]
            found.append(_read(safe(kind, 20), safe(name, 200), words))
        return found


def _read(kind: str, name: str, words: object) -> Reservation:
    if not isinstance(words, list) or len(words) != 5:
        return Reservation(kind, name, "foreign")
    how, agent, host, epoch, left = (str(word) for word in words)
    number = int(epoch) if epoch.isdecimal() and len(epoch) < 16 else 0
    seconds = int(left) if left.isdecimal() and len(left) < 10 else 0
    return Reservation(kind, name, how, safe(agent, 120), safe(host, 60), number, seconds)


def _plain(pattern: str) -> str:
    """The text as a pattern that means itself."""
    return "".join(f"\\{sign}" if sign in "*?[]\\" else sign for sign in pattern)
