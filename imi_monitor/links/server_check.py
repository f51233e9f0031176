"""Checks for `imi doctor` whether a server answers: opens a connection, and reads the version and settings of a Redis.

A check returns None if it answers, else the end of a sentence, without the URL because it may contain a password.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.links.redis_url import RedisAddress

TIMEOUT = 1.0
_SLOWEST = 2.5  # a name lookup has no timeout, so a slow one is abandoned in its thread


def check_tcp(host: str, port: int, *, longest: float = _SLOWEST) -> str | None:
    """Check that a server accepts connections."""
    return _within(longest, lambda: _connect(host, port))


def check_redis(address: RedisAddress) -> str | None:
    """Check that a Redis answers to this user and can be used by a team."""
    return _within(_SLOWEST, lambda: _read_version(address))


def _connect(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), timeout=TIMEOUT).close()
    except TimeoutError:
        return f"does not answer within {TIMEOUT:g} s"
    except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
        return f"cannot be reached ({getattr(error, 'strerror', None) or type(error).__name__})"
    return None


def _read_version(address: RedisAddress) -> str | None:
    try:
        from imi_monitor.links import redis_link
    except ImportError:
        return "cannot be checked: the Python package redis is missing or broken"
    import asyncio

    async def read() -> str | None:
        link = redis_link.RedisLink(address)
        try:
            return await link.check_server()
        finally:
            await link.close()

    try:
        return asyncio.run(read())
    except redis_link.FAULTS as error:
        return redis_link.fault_of(error)


def _within(seconds: float, check: Callable[[], str | None]) -> str | None:
    answers: list[str | None] = []
    thread = threading.Thread(target=lambda: answers.append(check()), daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else f"does not answer within {seconds:g} s"
