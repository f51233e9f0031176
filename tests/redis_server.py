"""A real redis-server for one test: on a free port of loopback, without files, and with the faults a server can have."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.limits import LIMIT

# another one can be named: the tests of a team pass on Valkey as well
PROGRAM = os.environ.get("IMI_TEST_REDIS") or shutil.which("redis-server") or shutil.which("valkey-server")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def ask_server(port: int, *words: str) -> str:
    """The raw answer of a server to one command, on a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as link:
        link.settimeout(LIMIT)
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            data = os.fsencode(word)
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        link.sendall(b"".join(parts))
        return link.recv(1 << 16).decode(errors="replace").strip()


class RedisServer:
    """The server's process, its address, and what can be done to it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder, self._options = folder, options
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            [
                PROGRAM,
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--dir",
                str(self._folder),
                "--save",
                "",
                *self._options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + LIMIT
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < until, "redis-server does not start"
            time.sleep(0.01)

    def kill(self) -> None:
        """kill -9; the next `start` begins empty."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.wait(LIMIT)

    def suspend(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def run(self, *words: str) -> str:
        """The raw answer to one command, on a connection of its own."""
        return ask_server(self.port, *words)

    def _answers(self) -> bool:
        try:
            return self.run("PING").startswith(("+PONG", "-"))
        except OSError:
            return False


@contextmanager
def running_server(folder: Path, *options: str) -> Iterator[RedisServer]:
    """A server for the time of the block; the test is skipped where there is none."""
    if PROGRAM is None:
        pytest.skip("neither redis-server nor valkey-server is installed")
    folder.mkdir(exist_ok=True)
    server = RedisServer(folder, *options)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def running_sentinel(folder: Path, primary: int, *, quorum: int) -> Iterator[int]:
    """A Sentinel that watches the primary at this port as the service `team`; its own port."""
    if PROGRAM is None:
        pytest.skip("neither redis-server nor valkey-server is installed")
    folder.mkdir()
    port, config = free_port(), folder / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor team 127.0.0.1 {primary} {quorum}\n"
        "sentinel down-after-milliseconds team 400\nsentinel failover-timeout team 3000\n"
    )
    argv = [PROGRAM, str(config), "--sentinel"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + LIMIT
        while not _accepts(port):
            assert process.poll() is None and time.monotonic() < until, "the Sentinel does not start"
            time.sleep(0.01)
        yield port
    finally:
        process.kill()
        process.wait(LIMIT)


def _accepts(port: int) -> bool:
    try:
        return ask_server(port, "PING").startswith("+PONG")
    except OSError:
        return False
