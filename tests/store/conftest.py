"""Fixtures of several tests of the registry: another version of SQLite, and a disk that fails."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable

import pytest

from imi_monitor.store import db


@pytest.fixture
def with_sqlite(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int, int], None]:
    """Makes this SQLite another version."""
    return lambda *version: monkeypatch.setattr(sqlite3, "sqlite_version_info", version)


@pytest.fixture
def broken_disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A disk that fails to sync; the list gets the inode of each file."""
    refused: list[int] = []

    def refuse(handle: int) -> None:
        refused.append(os.fstat(handle).st_ino)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(db, "flush_file", refuse)
    return refused
