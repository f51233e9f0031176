"""One connection to a team's Redis or Valkey, 6.2 or newer. Imports redis-py (100 ms), so import it only where one is set.

redis-py's own retries are off: it would send a command again whose answer was lost, and the command would be done twice.
Who uses a link catches `FAULTS` and waits before the next attempt (`RetryPause`). `fault_of` makes a sentence of a fault.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from redis import asyncio as library
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff

from imi_monitor.links import redis_url
from imi_monitor.links.redis_url import RedisAddress
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

T = TypeVar("T")
OLDEST = (6, 2)
BLOCK_SECONDS = 1.0
_REPLICA_MS = 500
_CONNECT_SECONDS, _ANSWER_SECONDS, _BLOCKED_SECONDS = 1.0, 2.0, 4.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


_FEED = """
for i = 2, #ARGV do redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'event', ARGV[i]) end
redis.call('SET', KEYS[2], '1')
return #ARGV - 1
"""


class ServerUnfit(Exception):
    """The server answers, but imi cannot use it: too old, or another machine publishes for this home."""


# the library's faults of a whole cluster are no RedisError
FAULTS: tuple[type[Exception], ...] = (
    exceptions.RedisError,
    exceptions.RedisClusterException,
    OSError,
    TimeoutError,
    ServerUnfit,
)


class RetryPause:
    """The pause before the next attempt: it doubles with each failure, and differs between machines."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE

    def next(self) -> float:
        pause, self._pause = self._pause, min(_LONGEST_PAUSE, self._pause * 2)
        return pause * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._pause = _FIRST_PAUSE


class RedisLink:
    """The commands that imi uses. `blocking`: a connection of its own for reads that wait, which must not time out."""

    def __init__(self, address: RedisAddress, *, blocking: bool = False) -> None:
        self.address = address
        self._client = _open(address, _BLOCKED_SECONDS if blocking else _ANSWER_SECONDS)
        self._scripts: dict[str, Any] = {}

    async def close(self) -> None:
        await self._client.aclose()
        pool = getattr(self._client, "connection_pool", None)  # a cluster has none
        for sentinel in getattr(getattr(pool, "sentinel_manager", None), "sentinels", ()):
            await sentinel.aclose()  # the client leaves these open

    async def check_server(self) -> str | None:
        """Raise ServerUnfit for a server that cannot be used; returns a warning about its settings, if there is one."""
        info: Mapping[str, Any] = await _cancellable(self._client.info())
        if self.address.form == redis_url.CLUSTER and info and all(isinstance(one, dict) for one in info.values()):
            info = next(iter(info.values()))
        found = str(info.get("redis_version", "0"))
        version = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
        if version < OLDEST and not info.get("valkey_version"):
            raise ServerUnfit(f"has version {safe(found, 20)}: imi needs 6.2 or newer")
        policy = str(info.get("maxmemory_policy", "noeviction"))
        if policy != "noeviction":
            return f"may drop keys of imi when it is full (maxmemory-policy {safe(policy, 30)}): set noeviction"
        return None

    async def script(self, source: str, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        """Run a Lua script as one step of the server; a server that forgot it gets it again."""
        if source not in self._scripts:
            self._scripts[source] = self._client.register_script(source)
        return await _cancellable(self._scripts[source](keys=list(keys), args=list(arguments)))

    async def hash_fields(self, key: str) -> dict[str, str]:
        found: dict[str, str] = await _cancellable(self._client.hgetall(key))
        return found

    async def hash_values(self, key: str, fields: Sequence[str]) -> list[str | None]:
        found: list[str | None] = await _cancellable(self._client.hmget(key, list(fields)))
        return found

    async def append(self, key: str, fields: Mapping[str, str], most: int) -> str:
        """Append an entry to a stream that keeps about the newest `most`; returns its id."""
        made: str = await _cancellable(self._client.xadd(key, dict(fields), maxlen=most, approximate=True))
        return made

    async def feed(self, key: str, entries: Sequence[str], mark: str, most: int) -> None:
        """Append events to a stream, and leave a mark that they are there, in one step of the server."""
        await self.script(_FEED, [key, mark], [most, *entries])

    async def reserve(self, key: str, value: str, seconds: int) -> str:
        """Set the key if it is not set; returns what it is then."""
        await _cancellable(self._client.set(key, value, nx=True, ex=seconds))
        return await self.value(key) or ""

    async def last_entry(self, key: str) -> str:
        """The id of the newest entry of a stream; `0-0` if it is empty or gone."""
        found = await _cancellable(self._client.xrevrange(key, count=1))
        return str(found[0][0]) if found else "0-0"

    async def newest(self, key: str, most: int) -> list[tuple[str, dict[str, str]]]:
        """The last entries of a stream, the oldest first."""
        found = await _cancellable(self._client.xrevrange(key, count=most))
        return [(str(ident), dict(fields)) for ident, fields in reversed(found) if fields]

    async def read_after(self, key: str, entry: str, *, block: bool = True) -> list[tuple[str, dict[str, str]]]:
        """The entries of a stream behind this one; waits up to BLOCK_SECONDS for the first."""
        found = await _cancellable(
            self._client.xread({key: entry}, count=200, block=int(BLOCK_SECONDS * 1000) if block else None)
        )
        if not found:
            return []
        entries = next(iter(found.values())) if isinstance(found, dict) else found[0][1]
        if entries and isinstance(entries[0], list) and entries[0] and isinstance(entries[0][0], list | tuple):
            entries = entries[0]  # RESP3 nests the entries of each stream once more
        return [(str(ident), dict(fields)) for ident, fields in entries if fields]

    async def wait_for(self, key: str, seconds: float) -> bool:
        """Wait for an entry of a list, at most so long."""
        return await _cancellable(self._client.blpop([key], timeout=seconds)) is not None

    async def value(self, key: str) -> str | None:
        found: str | None = await _cancellable(self._client.get(key))
        return found

    async def is_replicated(self) -> bool:
        """Whether a replica has what was written, or there is none."""
        if self.address.form == redis_url.CLUSTER:
            return True
        info: Mapping[str, Any] = await _cancellable(self._client.info())
        if not info.get("connected_slaves"):
            return True
        return int(await _cancellable(self._client.wait(1, _REPLICA_MS))) > 0

    async def scan(self, pattern: str, most: int) -> list[str]:
        """The keys that fit, about `most` of them, by SCAN: the server answers others meanwhile."""
        found: dict[str, None] = {}
        async for key in self._client.scan_iter(match=pattern, count=500):
            found[str(key)] = None
            if len(found) >= most:
                break
        return list(found)

    async def type_of(self, key: str) -> str:
        found: str = await _cancellable(self._client.type(key))
        return found

    async def list_items(self, key: str, most: int) -> list[str]:
        """The first items of a list."""
        found: list[str] = await _cancellable(self._client.lrange(key, 0, most - 1))
        return found

    async def seconds_left(self, key: str) -> int | None:
        """Return how long the key lives; None without an end."""
        left = int(await _cancellable(self._client.ttl(key)))
        return left if left >= 0 else None

    async def now_ms(self) -> int:
        """The server's clock in milliseconds, by which the ids of stream entries are made."""
        seconds, microseconds = await _cancellable(self._client.time())
        return int(seconds) * 1000 + int(microseconds) // 1000


async def _cancellable(answer: Awaitable[T]) -> T:
    """The answer; redis-py may lose a cancellation that comes while it connects, and the task would never end."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return await answer
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


def entry_order(ident: str) -> tuple[int, int]:
    """A stream entry's id as what orders it; an id that the server did not make comes first."""
    milliseconds, _, number = ident.partition("-")
    return (int(milliseconds), int(number)) if milliseconds.isdecimal() and number.isdecimal() else (0, 0)


def fault_of(error: Exception) -> str:
    """The end of a sentence that begins with the server: `does not answer within 2 s`. It names no password."""
    text = safe(redact(str(error)), 160)
    in_script = _IN_SCRIPT.search(str(error)) if isinstance(error, exceptions.ResponseError) else None
    code = in_script.group(1) if in_script else ""
    for kind, words in _WORDS:
        if isinstance(error, kind) or kind is _CODES.get(code):
            return words
    if "WRONGTYPE" in text:
        return "has a value of another program under a key of imi: choose another team.name"
    if "certificate" in text or "SSL" in text:
        return "has a certificate that cannot be verified (ssl_ca_certs names the authority's file)"
    if isinstance(error, exceptions.NoPermissionError) or "user executing the script can't" in text:
        return f"does not allow what imi needs: {text}"
    if isinstance(error, exceptions.ResponseError):
        return f"refuses a command: {text}"
    if isinstance(error, ServerUnfit):
        return text
    return "cannot be reached (if it expects TLS, use rediss://)"


_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.AuthenticationError, "refuses the user or password"),
    (exceptions.AuthorizationError, "refuses the user or password"),
    (exceptions.OutOfMemoryError, "is full (OOM) and takes no more data"),
    (exceptions.ReadOnlyError, "is a read-only replica: name the primary"),
    (exceptions.BusyLoadingError, "is still loading its data"),
    (exceptions.InvalidResponse, "is no Redis"),
    (exceptions.MovedError, "is a node of a cluster: use redis+cluster://"),
    (exceptions.RedisClusterException, "does not answer as a cluster (if it is a single server, use redis://)"),
    (MasterNotFoundError, "is not named by any Sentinel that answers"),
    (exceptions.TimeoutError, f"does not answer within {_ANSWER_SECONDS:g} s (slow, or a TLS port?)"),
    (TimeoutError, f"does not answer within {_ANSWER_SECONDS:g} s (slow, or a TLS port?)"),
)

# Redis 6.2 puts a fault of a command in a script behind the place in the script: `... @user_script: 11: -OOM command not ...`
_IN_SCRIPT = re.compile(r": -([A-Z]+) ")
_CODES: Mapping[str, type[Exception]] = {"OOM": exceptions.OutOfMemoryError, "READONLY": exceptions.ReadOnlyError}


def _open(address: RedisAddress, seconds: float) -> Any:
    options: dict[str, Any] = {
        "username": address.user,
        "password": address.password,
        "protocol": 3,
        "decode_responses": True,
        "encoding_errors": "replace",
        "socket_timeout": seconds,
        "socket_connect_timeout": _CONNECT_SECONDS,
        "health_check_interval": 0,
    }
    if address.tls:
        options |= {"ssl": True, **dict(address.options)}
    once = Retry(NoBackoff(), 0)
    if address.form == redis_url.CLUSTER:
        host, port = address.places[0]
        return library.RedisCluster(host=host, port=port, retry=once, **options)
    options |= {"db": address.database, "retry": once}
    if address.form == redis_url.SENTINEL:
        watch = {"socket_timeout": seconds, "socket_connect_timeout": _CONNECT_SECONDS}
        sentinel: Any = Sentinel
        return sentinel(list(address.places), sentinel_kwargs=watch, **options).master_for(address.service)
    if address.socket:
        return library.Redis(unix_socket_path=address.socket, **options)
    host, port = address.places[0]
    return library.Redis(host=host, port=port, **options)
