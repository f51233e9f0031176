"""A real RabbitMQ on a free port of loopback, with a node name, folder and epmd of its own; one for all workers of a session."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests import certificates
from tests.certificates import Certificates
from tests.limits import LIMIT
from tests.redis_server import free_port

# IMI_TEST_RABBITMQ: the program of another release
PROGRAM = next(
    filter(os.path.exists, (os.environ.get("IMI_TEST_RABBITMQ", ""), "/usr/lib/rabbitmq/bin/rabbitmq-server")), None
)
_START_SECONDS = 3 * LIMIT  # an Erlang machine on a busy computer
_started: list[subprocess.Popen[bytes]] = []  # by this process; another worker may end them


class RabbitServer:
    """The broker's process, its address, and what can be done to it. Its ports stay over restarts.

    With the program openssl it speaks TLS on a second port, and knows the user `guest` by a certificate as well.
    """

    def __init__(self, folder: Path, port: int = 0, epmd: int = 0, dist: int = 0, tls: int = 0) -> None:
        self.folder = folder
        self.port, self.epmd, self.dist = port or free_port(), epmd or free_port(), dist or free_port()
        self.tls = tls or free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self.certificates = Certificates(folder / "tls")
        self.pid_file = folder / "pid"

    def start(self) -> None:
        assert PROGRAM is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "plugins").write_text("[rabbitmq_auth_mechanism_ssl].\n")
        (self.folder / "rabbitmq.conf").write_text(self._settings() if certificates.are_possible() else "")
        node = {
            "NODENAME": f"imi{self.port}@localhost",
            "NODE_PORT": str(self.port),
            "NODE_IP_ADDRESS": "127.0.0.1",
            "DIST_PORT": str(self.dist),
            "MNESIA_BASE": str(self.folder / "data"),
            "LOG_BASE": str(self.folder / "log"),
            "LOGS": str(self.folder / "log.txt"),
            "PID_FILE": str(self.pid_file),
            "ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "CONF_ENV_FILE": "/dev/null",
            "SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        }
        env = {f"RABBITMQ_{name}": value for name, value in node.items()}
        env |= {"HOME": str(self.folder), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        env |= {"ERL_EPMD_PORT": str(self.epmd), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        with open(self.folder / "out.txt", "ab") as out:
            _started.append(
                subprocess.Popen([PROGRAM], env=env, cwd=self.folder, stdout=out, stderr=out, start_new_session=True)
            )
        until = time.monotonic() + _START_SECONDS
        while not self.answers():
            assert time.monotonic() < until, f"RabbitMQ does not start: {(self.folder / 'out.txt').read_text()[-2000:]}"
            time.sleep(0.2)

    def _settings(self) -> str:
        if not self.certificates.folder.exists():
            self.certificates.make("guest")
        file, key = self.certificates.file, self.certificates.key
        return (
            f"listeners.ssl.1 = 127.0.0.1:{self.tls}\nssl_options.cacertfile = {file('authority')}\n"
            f"ssl_options.certfile = {file('server')}\nssl_options.keyfile = {key('server')}\n"
            "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = false\nssl_cert_login_from = common_name\n"
            "auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = AMQPLAIN\nauth_mechanisms.3 = EXTERNAL\n"
        )

    def answers(self) -> bool:
        """Whether it greets a client: the port alone is open earlier."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.settimeout(2)
                link.sendall(b"AMQP\x00\x00\x09\x01")
                return link.recv(1) == b"\x01"
        except OSError:
            return False

    def kill(self) -> None:
        """kill -9 of the broker: durable queues and persistent messages stay on disk."""
        try:
            os.kill(int(self.pid_file.read_text()), signal.SIGKILL)
        except (OSError, ValueError):
            return
        until = time.monotonic() + LIMIT
        while self.answers():
            assert time.monotonic() < until
            time.sleep(0.05)

    def stop(self) -> None:
        self.kill()
        epmd = shutil.which("epmd")
        if epmd is not None:
            env = {**os.environ, "ERL_EPMD_PORT": str(self.epmd)}
            until = time.monotonic() + 5
            while time.monotonic() < until:  # it stays until it has noticed that its node is gone
                done = subprocess.run([epmd, "-kill"], env=env, check=False, capture_output=True, timeout=LIMIT)
                if b"Killed" in done.stdout:
                    break
                time.sleep(0.1)


def skip_without() -> None:
    if PROGRAM is None:
        pytest.skip("rabbitmq-server (Debian's package) is not installed")
