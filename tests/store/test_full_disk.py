"""A full disk: no acknowledged claim is lost, one sentence names the cause, and the ballast makes room. # D4"""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, events, registry_file
from tests.store.crash_experiments import experiment

_UNSHARE = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user")


@pytest.fixture
def small(tmp_path: Path) -> tuple[str, ...]:
    """The command that runs another one with a file system of 2 MB at `tmp_path/small`, gone when it ends."""
    place = tmp_path / "small"
    place.mkdir()
    script = 'mount -t tmpfs -o size=2m,mode=0700 none "$0" && exec "$@"'
    command = (*_UNSHARE, "sh", "-c", script, str(place))
    try:
        done = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode:
        pytest.skip("this user may not mount a small file system")
    return command


def full(tmp_path: Path, command: tuple[str, ...], name: str = "full_disk", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = experiment(name, before=command, path=str(tmp_path / "small" / "iMi.db"), **more)
    return found


def test_acknowledged_claims_survive_a_full_disk(tmp_path: Path, small: tuple[str, ...]) -> None:
    found = full(tmp_path, small)
    assert found["lost"] == found["phantom"] == 0, found
    assert found["sound"] and found["together"], found
    assert found["through_ballast"] == 3, found
    assert found["refusals"] in ([], ["registry-full"]), found
    assert found["opened_anew"] in ("done", "registry-full"), found
    assert found["after"] == 3 and found["laid_again"], found


def test_a_full_disk_without_ballast_is_detected(tmp_path: Path, small: tuple[str, ...]) -> None:
    found = full(tmp_path, small, mutant="no-ballast")
    assert found["through_ballast"] < 3, found
    assert found["refusals"] == ["registry-full"], found
    assert found["lost"] == found["phantom"] == 0, found


def test_a_new_process_can_release_on_a_full_disk(tmp_path: Path, small: tuple[str, ...]) -> None:
    found = full(tmp_path, small, "full_disk_at_start")
    assert found == {"opened": "done", "sound": True, "together": True, "events": 2}


# The same without a small disk: SQLite's own limit on the size of the file gives the same error -----------------------


def test_a_full_disk_costs_the_ballast_and_the_transaction_runs_once(tmp_path: Path) -> None:
    path = str(tmp_path / "iMi.db")
    runs = []

    def act(connection: sqlite3.Connection) -> None:
        runs.append(os.path.exists(registry_file.ballast_path(path)))
        events.append_row(connection, "act")
        if len(runs) == 1:
            raise full_error()

    with closing(db.connect(path)) as connection:
        db.transact(connection, act)
        assert runs == [True, False]
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
        runs.clear()
        db.transact(connection, act)  # the ballast is gone; moving the log into the database makes room too
        assert runs == [False, False]
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (2,)


def test_a_disk_that_stays_full_is_one_clear_error(tmp_path: Path) -> None:
    runs = []

    def act(connection: sqlite3.Connection) -> None:
        runs.append(events.append_row(connection, "act"))
        raise full_error()

    with closing(db.connect(str(tmp_path / "iMi.db"))) as connection:
        with pytest.raises(RegistryError, match="no space left on its disk: free some") as caught:
            db.transact(connection, act)
        assert caught.value.code == "registry-full"
        assert len(runs) == 2
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)


def full_error() -> sqlite3.Error:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA max_page_count = 3")
        try:
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
        except sqlite3.Error as error:
            return error
    raise AssertionError("SQLite took more pages than it was allowed")


def test_a_ballast_that_does_not_fit_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "iMi.db")

    def no_room(_handle: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for write in (no_room, lambda _handle, data: len(data) // 2):
        with monkeypatch.context() as patch:
            patch.setattr(registry_file.os, "write", write)
            registry_file.create_ballast(path)
        assert not os.path.exists(registry_file.ballast_path(path))


def test_errors_other_than_a_full_disk_keep_the_ballast(tmp_path: Path) -> None:
    path = str(tmp_path / "iMi.db")
    with closing(db.connect(path)) as connection, pytest.raises(RegistryError):
        db.transact(connection, lambda inner: inner.execute("SELECT nonsense"))
    assert os.path.exists(registry_file.ballast_path(path))
