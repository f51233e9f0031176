"""Server checks: an answer within seconds in every case, and never a part of the URL."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor.links import redis_url, server_check
from tests.limits import LIMIT
from tests.redis_server import running_server


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.fixture
def silent() -> Iterator[int]:
    """A server that listens and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def answering() -> Iterator[list[bytes]]:
    """A server with one fixed answer: the test puts the words first, and the port is appended."""
    words: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)

        def serve() -> None:
            try:
                with server.accept()[0] as peer:
                    peer.settimeout(2)
                    while peer.recv(4096):
                        peer.sendall(words[0])
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        words.append(b"")
        words.append(str(server.getsockname()[1]).encode())
        yield words
    thread.join(6)


def test_a_tcp_check_of_an_open_and_a_closed_port(silent: int, closed_port: int) -> None:
    assert server_check.check_tcp("127.0.0.1", silent) is None
    assert server_check.check_tcp("127.0.0.1", closed_port) == "cannot be reached (Connection refused)"
    for nonsense in ("no such host.invalid", "x" * 80 + ".invalid"):
        assert "cannot be reached" in str(server_check.check_tcp(nonsense, 1))


def test_a_silent_redis_times_out(silent: int) -> None:
    assert server_check.check_redis(redis_url.parse(f"redis://:hunter2@127.0.0.1:{silent}")) == (
        "does not answer within 2 s (slow, or a TLS port?)"
    )


def test_a_name_lookup_that_never_ends_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def slow(*_args: object, **_kwargs: object) -> socket.socket:
        released.wait(LIMIT)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", slow)
    assert server_check.check_tcp("slow.invalid", 1, longest=0.1) == "does not answer within 0.1 s"
    released.set()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (b"-WRONGPASS invalid username-password pair or user is disabled.\r\n", "refuses the user or password"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no Redis"),
    ],
)
def test_a_server_that_is_no_redis_or_refuses_the_password(answering: list[bytes], words: bytes, says: str) -> None:
    answering[0] = words
    problem = server_check.check_redis(redis_url.parse(f"redis://:hunter2@127.0.0.1:{answering[1].decode()}"))
    assert problem is not None and says in problem and "hunter2" not in problem


def test_a_closed_port_is_no_redis(closed_port: int) -> None:
    problem = server_check.check_redis(redis_url.parse(f"redis://:hunter2@127.0.0.1:{closed_port}"))
    assert problem is not None and "hunter2" not in problem


def test_a_missing_redis_package_is_reported(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "imi_monitor.links.redis_link", raising=False)
    monkeypatch.delattr("imi_monitor.links.redis_link", raising=False)
    assert "the Python package redis is missing" in str(
        server_check.check_redis(redis_url.parse(f"redis://127.0.0.1:{closed_port}"))
    )


def test_a_real_redis_answers(tmp_path: Path) -> None:
    with running_server(tmp_path / "redis", "--requirepass", "hunter2") as server:
        place = f"127.0.0.1:{server.port}"
        assert server_check.check_redis(redis_url.parse(f"redis://:hunter2@{place}")) is None
        assert server_check.check_redis(redis_url.parse(f"redis://:wrong@{place}")) == "refuses the user or password"
        assert "refuses" in str(server_check.check_redis(redis_url.parse(f"redis://{place}")))


def test_a_redis_that_may_drop_keys_is_reported(tmp_path: Path) -> None:
    with running_server(tmp_path / "redis", "--maxmemory-policy", "allkeys-lru") as server:
        assert "may drop keys of imi" in str(server_check.check_redis(redis_url.parse(server.url)))
