"""Server checks: an answer within seconds in every case, and never a part of the URL."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor.links import server_check
from tests.limits import LIMIT


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


@pytest.mark.parametrize(
    ("url", "schemes", "wanted"),
    [
        ("redis://host", ("redis", "rediss"), ("host", 6379)),
        ("rediss://u:p@h:7000/1", ("redis", "rediss"), ("h", 7000)),
        ("amqp://u:p%40@h/vhost", ("amqp", "amqps"), ("h", 5672)),
        ("amqps://h", ("amqp", "amqps"), ("h", 5671)),
        ("postgresql://u@[::1]/db", ("postgres", "postgresql"), ("::1", 5432)),
        ("http://h", ("redis", "rediss"), None),
        ("redis", ("redis",), None),
        ("redis://", ("redis",), None),
        ("redis://h:port", ("redis",), None),
        ("redis://h:99999", ("redis",), None),
        ("redis://[::1", ("redis",), None),
    ],
)
def test_host_and_port_of_a_server_url(url: str, schemes: tuple[str, ...], wanted: tuple[str, int] | None) -> None:
    assert server_check.server_address(url, schemes) == wanted


def test_a_tcp_check_of_an_open_and_a_closed_port(silent: int, closed_port: int) -> None:
    assert server_check.check_tcp("127.0.0.1", silent) is None
    assert server_check.check_tcp("127.0.0.1", closed_port) == "cannot be reached (Connection refused)"
    for nonsense in ("no such host.invalid", "x" * 80 + ".invalid"):
        assert "cannot be reached" in str(server_check.check_tcp(nonsense, 1))


def test_a_silent_redis_times_out(silent: int) -> None:
    assert server_check.check_redis(f"redis://:hunter2@127.0.0.1:{silent}") == "does not answer within 1 s"


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
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer a PING"),
    ],
)
def test_a_server_that_is_no_redis_or_refuses_the_password(answering: list[bytes], words: bytes, says: str) -> None:
    answering[0] = words
    problem = server_check.check_redis(f"redis://:hunter2@127.0.0.1:{answering[1].decode()}")
    assert problem is not None and says in problem and "hunter2" not in problem


def test_a_closed_port_is_no_redis(closed_port: int) -> None:
    problem = server_check.check_redis(f"redis://:hunter2@127.0.0.1:{closed_port}")
    assert problem is not None and "hunter2" not in problem


def test_a_missing_redis_package_is_reported(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    assert "the Python package redis is missing" in str(server_check.check_redis(f"redis://127.0.0.1:{closed_port}"))


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server here")
def test_a_real_redis_answers(tmp_path: Path, closed_port: int) -> None:
    server = subprocess.Popen(
        ["redis-server", "--port", str(closed_port), "--bind", "127.0.0.1", "--requirepass", "hunter2", "--save", ""],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 10
        while server_check.check_tcp("127.0.0.1", closed_port) and time.monotonic() < until:
            time.sleep(0.02)
        assert server_check.check_redis(f"redis://:hunter2@127.0.0.1:{closed_port}") is None
        assert server_check.check_redis(f"redis://:wrong@127.0.0.1:{closed_port}") == "refuses the user or password"
    finally:
        server.terminate()
        server.wait(LIMIT)
