"""Is a server there? Asked by `imi doctor` only; nothing is ever sent but a connection, and a PING to Redis.

The answer is None when it is there, else the end of a sentence. No answer holds the URL: it may have a password in it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

TIMEOUT = 1.0
_SLOWEST = 2.5  # looking up a name cannot be given a timeout, so it is left behind in its thread
PORTS = {"redis": 6379, "rediss": 6379, "amqp": 5672, "amqps": 5671, "postgres": 5432, "postgresql": 5432}


def server_address(url: str, schemes: tuple[str, ...]) -> tuple[str, int] | None:
    """(host, port) of a server's URL; None when it is no URL of that kind."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in schemes or not parts.hostname:
        return None
    return parts.hostname, port or PORTS[parts.scheme]


def check_tcp(host: str, port: int) -> str | None:
    """Whether somebody listens there."""
    return _within(lambda: _connect(host, port))


def check_redis(url: str) -> str | None:
    """Whether a Redis answers there, with the password of the URL."""
    return _within(lambda: _ping(url))


def _connect(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), timeout=TIMEOUT).close()
    except TimeoutError:
        return f"does not answer within {TIMEOUT:g} s"
    except (OSError, UnicodeError) as error:  # the second for a name that cannot be one
        return f"cannot be reached ({getattr(error, 'strerror', None) or type(error).__name__})"
    return None


def _ping(url: str) -> str | None:
    try:
        import redis as library
    except ImportError:
        return "cannot be asked: the Python package redis is missing or broken"
    try:
        client = library.Redis.from_url(url, socket_connect_timeout=TIMEOUT, socket_timeout=TIMEOUT)
        try:
            client.ping()
        finally:
            client.close()
    except library.AuthenticationError:
        return "refuses the user or password"
    except library.TimeoutError:
        return f"does not answer within {TIMEOUT:g} s"
    except (library.RedisError, OSError, ValueError) as error:
        return f"does not answer a PING ({type(error).__name__})"
    return None


def _within(ask: Callable[[], str | None]) -> str | None:
    answers: list[str | None] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(_SLOWEST)
    return answers[0] if answers else f"does not answer within {_SLOWEST:g} s"
