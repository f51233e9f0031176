"""What can happen to a registry's file, done to it as another program or a person would."""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.store import schema
from tests.helpers import ROOT, Ran, Repo, imi

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2


def make_claimed_worktrees(repo: Repo) -> Repo:
    """Make feat-one, which keeper has claimed, and feat-two."""
    for name in ("one", "two"):
        assert imi("feat", name, cwd=repo.path).code == 0
    assert imi("claim", "feat-one", "--agent", "keeper", cwd=repo.path).code == 0
    return repo


def settle(path: Path) -> None:
    """Move the log into the file, as the end of the last connection does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def overwrite_header(path: Path) -> None:
    settle(path)
    with path.open("r+b") as file:
        file.write(b"garbagegarbage!!")


def overwrite_pages(path: Path) -> None:
    """All pages but the first: the file opens, and its first query fails."""
    settle(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))


def deny_access(monkeypatch: pytest.MonkeyPatch, protected: list[str]) -> None:
    """Let the system say that these paths cannot be written; root may write into every folder."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) not in protected and real(path, mode))


def make_newer(path: Path) -> None:
    """What the migration of a later release leaves."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE later (x)")
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")


def put_folder_in_place(path: Path) -> None:
    path.rename(path.with_name("moved.db"))
    path.mkdir()


def copy_registry(path: Path, target: Path) -> None:
    """A consistent copy, as a backup makes it."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def replace_registry(path: Path, copy: Path) -> None:
    """Put a copy into the place of the registry, whose log goes with it."""
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copy(copy, f"{path}.new")
    os.replace(f"{path}.new", path)


def delete_registry(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def empty_registry(path: Path) -> None:
    """`: > iMi.db`, with its log gone as well."""
    settle(path)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(b"")


def write_protect(home: Path) -> None:
    """Let nothing below the folder be written; root needs `imi_without_privilege` to notice."""
    for folder, _, files in os.walk(home, topdown=False):
        for name in files:
            os.chmod(os.path.join(folder, name), 0o400)
        os.chmod(folder, 0o500)


def allow_writing(home: Path) -> None:
    for folder, _, _ in os.walk(home):
        os.chmod(folder, 0o700)


def imi_without_privilege(*args: str | Path, cwd: Path | None = None) -> Ran:
    """`imi …` as a user that file modes bind: the child gives up root's right to ignore them."""
    if not sys.platform.startswith("linux"):
        pytest.skip("drops a right of Linux")
    libc = ctypes.CDLL(None)

    def drop() -> None:
        if os.geteuid() == 0:
            for right in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
                if libc.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0):
                    os._exit(99)

    done = subprocess.run(
        [sys.executable, "-m", "imi_monitor", *map(str, args)],
        preexec_fn=drop,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if done.returncode == 99:
        pytest.skip("this root may not give up its rights")
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)
