"""A real PostgreSQL on a socket of its own, and with TLS on a port of loopback; one for all workers of a session.

Each test has a database of its own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import certificates
from tests.certificates import Certificates
from tests.limits import LIMIT
from tests.redis_server import free_port

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)


def find_program(name: str) -> str | None:
    """A program of the newest installation."""
    found = shutil.which(name) or next(
        (str(path / name) for path in reversed(_FOLDERS) if (path / name).exists()), None
    )
    return os.path.realpath(found) if found else None


class PostgresServer:
    """The server, its socket's folder, and what can be done to it. root may not run one: then it is the user `postgres`.

    Whoever comes over TCP needs TLS and a password (SCRAM).
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.certificates = Certificates(folder / "tls")
        self._user = "postgres" if os.getuid() == 0 else None

    def url(self, database: str = "postgres", user: str = "imi") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}&port={self.port}"

    def create(self) -> None:
        """Make a new cluster of databases; the user `imi` may do everything."""
        self._run("initdb", "-D", f"{self.folder}/data", "-U", "imi", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        encryption = ""
        if certificates.are_possible():
            self.certificates.make("imi")
            for file in (self.certificates.file("server"), self.certificates.key("server")):
                self._write(f"data/{Path(file).name}", Path(file).read_text())
            (self.folder / "data" / "server.key").chmod(0o600)
            encryption = "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n"
        self._write("data/pg_hba.conf", "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        settings = (
            f"{encryption}listen_addresses = '127.0.0.1'\nport = {self.port}\n"
            f"unix_socket_directories = '{self.folder}'\nfsync = off\nmax_connections = 30\n"
            "shared_buffers = 16MB\nautovacuum = off\n"
        )
        self._write("data/postgresql.auto.conf", settings)

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """A database with a name of its own; its address."""
        import psycopg

        name = f"t{uuid.uuid4().hex[:10]}"
        with psycopg.connect(self.url(), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")
            yield self.url(name)
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def start(self) -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "start")

    def stop(self) -> None:
        """Stop as after a power cut: it recovers when it starts again."""
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *words: str) -> None:
        found = find_program(program)
        assert found is not None
        done = subprocess.run(
            [found, *words],
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
            cwd="/",
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program == "initdb" else subprocess.DEVNULL,
            text=True,
            timeout=LIMIT,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        )
        assert done.returncode == 0, f"{program}: {done.stdout}"

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        if self._user:
            shutil.chown(path, self._user, self._user)


def new_folder() -> Path:
    """A folder that the server's user can reach; pytest's are closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="imi-pg-", dir="/tmp"))
    folder.chmod(0o755)
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    return folder


def skip_without() -> None:
    if find_program("initdb") is None or find_program("pg_ctl") is None:
        pytest.skip("PostgreSQL's server is not installed")
    if os.getuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
