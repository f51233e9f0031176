"""A real PostgreSQL on a socket of its own, without TCP; one for all workers of a session, one database for each test."""

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

from tests.limits import LIMIT

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)


def find_program(name: str) -> str | None:
    """A program of the newest installation."""
    found = shutil.which(name) or next(
        (str(path / name) for path in reversed(_FOLDERS) if (path / name).exists()), None
    )
    return os.path.realpath(found) if found else None


class PostgresServer:
    """The server, its socket's folder, and what can be done to it. root may not run one: then it is the user `postgres`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._user = "postgres" if os.getuid() == 0 else None

    def url(self, database: str = "postgres", user: str = "imi") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def create(self) -> None:
        """Make a new cluster of databases; the user `imi` may do everything."""
        self._run("initdb", "-D", f"{self.folder}/data", "-U", "imi", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        settings = (
            f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nfsync = off\nmax_connections = 30\n"
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
