"""Publishes the rows of one home: what changed at once, at most ten times a second, and a sign of life each second."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from imi_monitor.links.presence_keys import LIFETIME, MOST_NEWS, SEPARATOR, TeamKeys
from imi_monitor.links.redis_link import RedisLink, ServerUnfit

# One step of the server: nothing is half done. `again`: the home's key is gone, so that all rows must be sent.
_PUBLISH = """
local function other(key, kind)
  local found = redis.call('TYPE', key).ok
  return found ~= 'none' and found ~= kind
end
if other(KEYS[1], 'hash') or other(KEYS[2], 'stream') or other(KEYS[3], 'hash') then return 'foreign' end
local by = redis.call('HGET', KEYS[1], 'by')
if by and by ~= ARGV[1] then return 'taken' end
local whole = ARGV[3] == 'whole'
if not by and not whole then return 'again' end
redis.call('HSET', KEYS[3], ARGV[5], ARGV[6])  -- the first write: a full server refuses it, but not one behind a DEL
if whole then redis.call('DEL', KEYS[1]) end
local set, gone, names = {'by', ARGV[1], 'n', ARGV[2]}, {}, {}
for i = 8, #ARGV, 2 do
  names[#names + 1] = ARGV[i]
  if ARGV[i + 1] == '' then
    gone[#gone + 1] = ARGV[i]
  else
    set[#set + 1] = ARGV[i]
    set[#set + 1] = ARGV[i + 1]
  end
end
redis.call('HSET', KEYS[1], unpack(set))
if #gone > 0 and not whole then redis.call('HDEL', KEYS[1], unpack(gone)) end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[7], '*', 'h', ARGV[5], 'n', ARGV[2], 'f',
  whole and '*' or table.concat(names, '\\31'))
return 'done'
"""
# 0: the key is gone, or has become another's; publishing the whole home says which
_RENEW = """
if redis.pcall('HGET', KEYS[1], 'by') ~= ARGV[1] then return 0 end
return redis.call('EXPIRE', KEYS[1], ARGV[2])
"""
_LEAVE = """
if redis.call('HGET', KEYS[1], 'by') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[3], ARGV[2], ARGV[4])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'h', ARGV[2], 'n', '0', 'f', '*')
return 1
"""


class PresencePublisher:
    """The publisher of one home. `by` identifies the registry's file on this machine: no copy of it may publish as well."""

    def __init__(self, link: RedisLink, keys: TeamKeys, home: str, by: str, describe: Callable[[], str]) -> None:
        self._link, self._keys, self._home, self._by = link, keys, home, by
        self._describe = describe
        self._sent: dict[str, str] | None = None  # None: the server may not have what was sent
        self._number = 0

    async def publish(self, rows: Mapping[str, str]) -> None:
        """Send what differs from what was sent, or else a sign of life. After an error the next call sends all rows."""
        before, self._sent = self._sent, None
        if before is not None:
            changed = {name: text for name, text in rows.items() if before.get(name) != text}
            changed |= dict.fromkeys(before.keys() - rows.keys(), "")
            if not changed and await self._link.script(_RENEW, [self._keys.home(self._home)], [self._by, LIFETIME]):
                self._sent = before
                return
            if changed and await self._send(changed, whole=False):
                self._sent = dict(rows)
                return
        await self._send(rows, whole=True)
        self._sent = dict(rows)

    async def leave(self) -> None:
        """Take the home's rows away: it is offline from now."""
        keys = [self._keys.home(self._home), self._keys.news, self._keys.homes]
        await self._link.script(_LEAVE, keys, [self._by, self._home, MOST_NEWS, self._describe()])

    async def _send(self, rows: Mapping[str, str], *, whole: bool) -> bool:
        """Send these rows; False if all rows must be sent."""
        self._number += 1
        fields = [word for pair in rows.items() for word in pair]
        kind = "whole" if whole else "part"
        head: list[str | int] = [self._by, self._number, kind, LIFETIME, self._home, self._describe(), MOST_NEWS]
        keys = [self._keys.home(self._home), self._keys.news, self._keys.homes]
        done = await self._link.script(_PUBLISH, keys, [*head, *fields])
        if done == "taken":
            raise ServerUnfit(
                "has rows of this registry from another machine, so this is a copy: run it with a registry of its own"
            )
        if done == "foreign":
            raise ServerUnfit("has a value of another program under a key of imi: choose another team.name")
        return bool(done == "done")


assert SEPARATOR == "\x1f"  # `\\31` of the script
