"""A full disk: no acknowledged claim is lost, one sentence names the cause, and the ballast makes room. # D4"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, events, registry_file
from tests.helpers import Repo
from tests.store.crash_experiments import experiment

ROUNDS = 40


def full(tmp_path: Path, command: tuple[str, ...], name: str = "full_disk", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = experiment(name, before=command, path=str(tmp_path / "small" / "iMi.db"), **more)
    return found


def test_acknowledged_claims_survive_a_full_disk(tmp_path: Path, small_disk: tuple[str, ...]) -> None:
    found = full(tmp_path, small_disk)
    assert found["lost"] == found["phantom"] == 0, found
    assert found["sound"] and found["together"], found
    assert found["through_ballast"] == 3, found
    assert found["refusals"] in ([], ["registry-full"]), found
    assert found["opened_anew"] in ("done", "registry-full"), found
    assert found["after"] == 3 and found["laid_again"], found


def test_a_full_disk_without_ballast_is_detected(tmp_path: Path, small_disk: tuple[str, ...]) -> None:
    found = full(tmp_path, small_disk, mutant="no-ballast")
    assert found["through_ballast"] < 3, found
    assert found["refusals"] == ["registry-full"], found
    assert found["lost"] == found["phantom"] == 0, found


def test_a_new_process_can_release_on_a_full_disk(tmp_path: Path, small_disk: tuple[str, ...]) -> None:
    found = full(tmp_path, small_disk, "full_disk_at_start")
    assert found == {"opened": "done", "sound": True, "together": True, "events": 2}


@pytest.mark.parametrize("runaway", [False, True])
def test_every_claim_on_a_full_disk_can_be_released(
    tmp_path: Path, small_disk: tuple[str, ...], repo: Repo, runaway: bool
) -> None:
    """Claims may be refused there; what was claimed, before or since, is given back in every round."""
    for name in ("feat-a", "feat-b", "feat-c", "feat-d"):
        repo.worktree(name)
    found = full(tmp_path, small_disk, "full_disk_rounds", repo=str(repo.path), rounds=ROUNDS, runaway=runaway)
    assert found["release"] == found["last"] == ["done"], found
    assert found["claim"] in (["done"], ["done", "registry-full"]), found
    assert found["claims"] >= 30, found


@pytest.mark.soak
@pytest.mark.parametrize("runaway", [False, True])
def test_every_claim_on_a_full_disk_can_be_released_long(
    tmp_path: Path, small_disk: tuple[str, ...], repo: Repo, runaway: bool
) -> None:
    for name in ("feat-a", "feat-b", "feat-c", "feat-d"):
        repo.worktree(name)
    found = full(
        tmp_path, small_disk, "full_disk_rounds", repo=str(repo.path), rounds=700, runaway=runaway, timeout=900
    )
    assert found["release"] == found["last"] == ["done"], found
    assert found["claim"] == ["done", "registry-full"], found


def test_worktrees_on_a_full_disk_can_be_removed_and_brought_back(tmp_path: Path, small_disk: tuple[str, ...]) -> None:
    found = full(tmp_path, small_disk, "full_disk_removals", names=["feat-a", "feat-b", "feat-c"])
    assert found["removed"] == ["done"] * 3, found
    assert found["undone"] == "done", found
    assert found["sound"], found


# The same without a small disk: SQLite's own limit on the size of the file gives the same error -----------------------


def failing(path: str, times: int) -> tuple[list[int], Callable[[sqlite3.Connection], None]]:
    """A transaction that finds the disk full so many times, and the size of the ballast at each of its runs."""
    runs: list[int] = []

    def act(connection: sqlite3.Connection) -> None:
        runs.append(registry_file.ballast_size(path) >> 10)
        events.append_row(connection, "act")
        if len(runs) <= times:
            raise full_error()

    return runs, act


def test_room_is_made_step_by_step_and_the_ballast_is_laid_again(tmp_path: Path) -> None:
    path = str(tmp_path / "iMi.db")
    with closing(db.connect(path)) as connection:
        for times, sizes in ((0, [512]), (1, [512, 512]), (2, [512, 512, 384]), (3, [512, 512, 384, 256])):
            runs, act = failing(path, times)
            before = connection.execute("SELECT count(*) FROM events").fetchone()[0]
            db.transact(connection, act)
            assert runs == sizes
            assert connection.execute("SELECT count(*) FROM events").fetchone()[0] == before + 1
            assert registry_file.ballast_size(path) == registry_file.BALLAST_BYTES


def test_a_part_of_the_ballast_is_for_releases_and_removals(tmp_path: Path) -> None:
    path = str(tmp_path / "iMi.db")
    with closing(db.connect(path)) as connection:
        for transact, sizes in (
            (db.transact, [512, 512, 384, 256]),
            (db.transact_unsynced, [512, 512, 384, 256]),
            (db.transact_with_ballast, [512, 512, 384, 256, 128, 4]),
            (db.transact_unsynced_with_ballast, [512, 512, 384, 256, 128, 4]),
        ):
            runs, act = failing(path, 99)
            with pytest.raises(RegistryError):
                transact(connection, act)
            assert runs == sizes
        db.spare_ballast(connection)
        runs, act = failing(path, 99)
        with pytest.raises(RegistryError):
            db.transact(connection, act)
        assert runs == [512, 512]
    assert registry_file.ballast_size(path) == registry_file.BALLAST_BYTES


def test_a_disk_that_stays_full_is_one_clear_error(tmp_path: Path) -> None:
    path = str(tmp_path / "iMi.db")
    _, act = failing(path, 99)
    with closing(db.connect(path)) as connection:
        with pytest.raises(RegistryError, match="no space left on its disk: free some") as caught:
            db.transact(connection, act)
        assert caught.value.code == "registry-full"
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


def test_a_ballast_takes_what_room_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "iMi.db")
    write = os.write

    def little_room(handle: int, data: bytes) -> int:
        if os.fstat(handle).st_size >= 100 << 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[: 50 << 10])

    with monkeypatch.context() as patch:
        patch.setattr(registry_file.os, "write", little_room)
        registry_file.lay_ballast(path)
    assert registry_file.ballast_size(path) == 100 << 10
    assert not registry_file.cut_ballast(path, 100 << 10)
    assert registry_file.cut_ballast(path, 0) and registry_file.ballast_size(path) == 4 << 10
    assert not registry_file.cut_ballast(path, 0)


def test_errors_other_than_a_full_disk_keep_the_ballast(tmp_path: Path) -> None:
    path = str(tmp_path / "iMi.db")
    with closing(db.connect(path)) as connection, pytest.raises(RegistryError):
        db.transact(connection, lambda inner: inner.execute("SELECT nonsense"))
    assert os.path.exists(registry_file.ballast_path(path))
