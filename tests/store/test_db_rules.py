"""Connections and transactions at their borders: which file is open, how long is waited, what a checkpoint and the ballast do."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, events, registry_file
from tests import registry_faults
from tests.limits import LIMIT


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "place" / "iMi.db")


@pytest.fixture
def registry(path: str) -> Iterator[db.RegistryConnection]:
    made = db.connect(path)
    assert isinstance(made, db.RegistryConnection)
    yield made
    made.close()


@pytest.fixture
def plain(path: str, registry: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """As another user of this package brings it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        yield made


@pytest.fixture
def old_sqlite(with_sqlite: Callable[[int, int, int], None]) -> None:
    with_sqlite(3, 40, 1)


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def statements(connection: sqlite3.Connection, act: Callable[[], object]) -> list[str]:
    """What SQLite executes during an act."""
    found: list[str] = []
    connection.set_trace_callback(found.append)
    act()
    connection.set_trace_callback(None)
    return [one.strip() for one in found]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def write(connection: sqlite3.Connection, number: int = 1) -> None:
    for _ in range(number):
        db.transact_unsynced(connection, events.append_row, "x" * 3000)


# -- which file is open ---------------------------------------------------------------------------------------------------


def test_a_connection_of_another_kind_is_used_as_it_is(path: str, plain: sqlite3.Connection) -> None:
    assert (db.is_current(plain), db.is_same_file(plain), db.file_of(plain), db.notes(plain)) == (True, True, None, ())
    assert db.data_version(plain)[0] == 0
    before = pragma(plain, "synchronous")
    db.spare_ballast(plain)
    db.sync_to_disk(plain)
    for transact in (db.transact, db.transact_unsynced, db.transact_with_ballast, db.transact_unsynced_with_ballast):
        assert transact(plain, lambda inner, word, *, more: word + more, "a", more="b") == "ab"
    assert (pragma(plain, "synchronous"), pragma(plain, "busy_timeout")) == (before, 5000)
    os.unlink(path)
    assert db.is_current(plain) and db.is_same_file(plain)


def test_the_file_of_a_connection_is_its_device_and_inode(path: str, registry: db.RegistryConnection) -> None:
    info = os.stat(path)
    assert db.file_of(registry) == (info.st_dev, info.st_ino)
    registry.identity = None
    assert (db.file_of(registry), db.is_current(registry), db.is_same_file(registry)) == (None, False, False)


def test_a_connection_that_stands_in_for_the_registry_takes_no_transaction(registry: db.RegistryConnection) -> None:
    registry.stands_in_for = RegistryError("the registry is gone", code="gone")
    ran: list[int] = []
    with pytest.raises(RegistryError) as caught:
        db.transact(registry, lambda inner: ran.append(1))
    assert (caught.value, ran) == (registry.stands_in_for, [])
    registry.identity = None
    assert db.is_current(registry), "it is no file that could be replaced"


def test_a_registry_that_was_deleted_is_not_the_current_one(path: str, registry: db.RegistryConnection) -> None:
    assert db.is_current(registry) and db.is_same_file(registry)
    os.rename(path, path + ".old")
    assert not db.is_current(registry) and not db.is_same_file(registry)
    os.rename(path + ".old", path)
    os.unlink(path + "-wal")
    assert db.is_same_file(registry) and not db.is_current(registry), "its log is gone"


def test_without_a_log_only_the_file_counts(path: str, registry: db.RegistryConnection) -> None:
    registry.has_wal = False
    write(registry)
    os.unlink(path + "-wal")
    assert db.is_current(registry)
    os.rename(path, path + ".old")
    Path(path).write_bytes(Path(path + ".old").read_bytes())
    assert not db.is_current(registry)


def test_a_relative_path_names_the_file_after_the_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(db.connect("iMi.db")) as connection:
        monkeypatch.chdir("/")
        assert db.is_current(connection)
        db.transact(connection, events.append_row, "made")


def test_a_link_that_names_another_file_is_noticed(path: str, registry: sqlite3.Connection, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with closing(db.connect(str(link))) as connection:
        assert db.is_current(connection) and db.is_same_file(connection)
        link.unlink()
        db.connect(str(tmp_path / "other" / "iMi.db")).close()
        link.symlink_to(tmp_path / "other" / "iMi.db")
        assert not db.is_current(connection) and not db.is_same_file(connection)


def test_each_connection_has_a_number_and_a_version_that_changes_with_the_commits_of_others(path: str) -> None:
    with closing(db.connect(path)) as one, closing(db.connect(path)) as other:
        first, second = db.data_version(one), db.data_version(other)
        assert 0 < first[0] == second[0] - 1
        write(one)
        assert db.data_version(one) == first
        assert db.data_version(other)[0] == second[0] and db.data_version(other)[1] != second[1]


def test_a_registry_is_made_only_when_that_is_wanted(path: str) -> None:
    with pytest.raises(RegistryError):
        db.connect(path, create=False)
    assert not os.path.exists(path)
    with closing(db.connect(path)) as made:
        db.leave_trace(made)
    registry_faults.delete_registry(Path(path))
    with pytest.raises(RegistryError, match="is gone"):
        db.connect(path)
    with closing(db.connect(path, begin_new=True)) as made:
        assert made.execute("SELECT count(*) FROM events").fetchone() == (0,)


def test_what_was_closed_to_others_is_told_although_the_registry_cannot_be_opened(
    path: str, registry: sqlite3.Connection
) -> None:
    registry.close()
    os.chmod(path, 0o644)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RegistryError) as caught:
            db.connect(path, busy_seconds=0.01)
    assert any("was open to other users" in one for one in caught.value.details)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_connection_is_opened_with_its_own_settings(path: str) -> None:
    with closing(db.connect(path, busy_seconds=3)) as connection:
        found = {name: pragma(connection, name) for name in ("busy_timeout", "journal_size_limit", "foreign_keys")}
        assert found == {"busy_timeout": 3000, "journal_size_limit": 512 << 10, "foreign_keys": 1}
        write(connection)
        db.checkpoint(connection, "PASSIVE")
        assert pragma(connection, "busy_timeout") == 3000
    handles = open_files()
    with pytest.raises(RegistryError):
        db.connect(os.path.dirname(path))
    assert open_files() == handles


# -- waiting for another writer -------------------------------------------------------------------------------------------


class Clock:
    """Sleeping moves it, and after so many pauses the other writer ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chance: bytes) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self.ends: Callable[[], object] = list
        self.after = 0
        self._thread, self._real_sleep = threading.get_ident(), time.sleep
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self._sleep)
        monkeypatch.setattr(os, "urandom", lambda number: chance * number)

    def _sleep(self, seconds: float) -> None:
        if threading.get_ident() != self._thread:  # one that an earlier test has left
            return self._real_sleep(seconds)
        self.now += seconds
        self.pauses.append(seconds)
        if len(self.pauses) == self.after:
            self.ends()
        return None


@pytest.mark.parametrize(("chance", "factor"), [(b"\x00", 0.75), (b"\xff", 1.25)])
def test_a_writer_tries_again_after_pauses_that_shrink_and_then_grow(
    path: str, registry: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, chance: bytes, factor: float
) -> None:
    with closing(db.connect(path, busy_seconds=1)) as other:
        registry.execute("BEGIN IMMEDIATE")
        clock = Clock(monkeypatch, chance)
        with pytest.raises(RegistryError, match="held by another program"):
            db.transact(other, events.append_row, "late")
        monkeypatch.undo()
        waited = 0.0
        for pause in clock.pauses:
            assert pause == pytest.approx(factor * max(0.00008, 0.014 - waited, waited / 500), rel=1e-6)
            waited += pause
        assert 1.0 < waited < 1.01, "no longer than its timeout and one pause"
        assert not other.in_transaction
        registry.execute("ROLLBACK")


def test_a_writer_goes_on_when_the_other_ends(
    path: str, registry: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(db.connect(path)) as other:
        registry.execute("BEGIN IMMEDIATE")
        clock = Clock(monkeypatch, b"\x80")
        clock.after, clock.ends = 3, lambda: registry.execute("ROLLBACK")
        assert db.transact(other, lambda inner: inner.in_transaction)
        assert len(clock.pauses) == 3
        monkeypatch.undo()
        assert pragma(other, "busy_timeout") == 5000


def test_sqlite_does_not_wait_by_itself_for_the_write_lock(registry: sqlite3.Connection) -> None:
    found = statements(registry, lambda: db.transact(registry, lambda inner: inner.execute("SELECT 7")))
    wait = found.index("PRAGMA busy_timeout = 0")
    assert found[wait + 1] == "BEGIN IMMEDIATE"
    assert found[wait + 2] == "PRAGMA busy_timeout = 5000", "reads inside of it wait"
    assert found.index("SELECT 7") < found.index("COMMIT")


@pytest.mark.parametrize("statement", ["nonsense", "SELECT * FROM nowhere"])
def test_an_error_of_work_is_no_reason_to_try_again(registry: sqlite3.Connection, statement: str) -> None:
    runs: list[int] = []

    def work(connection: sqlite3.Connection) -> None:
        runs.append(1)
        connection.execute(statement)

    for act in (db.transact, db.read):
        with pytest.raises(RegistryError):
            act(registry, work)
    assert (runs, registry.in_transaction) == ([1, 1], False)


def test_work_that_ends_its_transaction_itself_hides_no_error(registry: sqlite3.Connection) -> None:
    """As SQLite does it after some errors."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        raise ValueError("no")

    for act in (db.transact, db.read):
        with pytest.raises(ValueError, match="no"):
            act(registry, work)


def test_commits_wait_for_the_disk_as_the_last_transaction_asked(registry: db.RegistryConnection) -> None:
    def found(act: Callable[..., object]) -> list[str]:
        return [one for one in statements(registry, lambda: act(registry, lambda _: 1)) if "synchronous" in one]

    assert found(db.transact) == []
    assert found(db.transact_unsynced) == ["PRAGMA synchronous = NORMAL"]
    assert found(db.transact_unsynced) == []
    assert found(db.transact) == ["PRAGMA synchronous = FULL"]
    registry.has_wal = False
    assert found(db.transact_unsynced) == [], "a rollback journal is always synced"


def test_the_log_is_flushed_once_and_closed(path: str, registry: db.RegistryConnection, broken_disk: list[int]) -> None:
    write(registry)
    handles = open_files()
    with pytest.raises(RegistryError, match="cannot be put on its disk"):
        db.sync_to_disk(registry)
    assert (broken_disk, open_files()) == ([os.stat(path + "-wal").st_ino], handles)
    os.rename(path + "-wal", path + "-x")
    with pytest.raises(RegistryError, match="cannot be put on its disk"):
        db.sync_to_disk(registry)
    registry.has_wal = False
    db.sync_to_disk(registry)
    os.rename(path + "-x", path + "-wal")


@pytest.mark.parametrize(
    ("columns", "clause"),
    [
        ({}, ("", [])),
        ({"a": None}, ("", [])),
        ({"a": 1}, (" WHERE a = ?", [1])),
        ({"a": 1, "b": None, "c": ""}, (" WHERE a = ? AND c = ?", [1, ""])),
    ],
)
def test_a_clause_compares_what_is_given(columns: dict[str, object], clause: tuple[str, list[object]]) -> None:
    assert db.where(**columns) == clause


# -- the log --------------------------------------------------------------------------------------------------------------


def test_a_connection_with_a_grown_log_is_closed_when_it_is_left(path: str, registry: sqlite3.Connection) -> None:
    registry.close()
    left = db.connect(path)
    write(left)
    assert os.stat(path + "-wal").st_size < 128 << 10
    db.leave_open(left)
    write(left, 40)
    assert os.stat(path + "-wal").st_size > 128 << 10
    db.leave_open(left)
    with pytest.raises(sqlite3.ProgrammingError):
        left.execute("SELECT 1")


def test_a_connection_whose_log_is_gone_is_left_open(path: str, registry: sqlite3.Connection) -> None:
    write(registry, 40)
    os.rename(path + "-wal", path + "-x")
    db.leave_open(registry)
    assert pragma(registry, "application_id")
    os.rename(path + "-x", path + "-wal")


def checkpoints(registry: sqlite3.Connection, path: str, **more: int) -> list[str]:
    found = statements(registry, lambda: db.checkpoint_if_due(registry, path, **more))
    return [one.removeprefix("PRAGMA ") for one in found]


def test_a_new_sqlite_checkpoints_by_itself(
    path: str, registry: sqlite3.Connection, with_sqlite: Callable[[int, int, int], None]
) -> None:
    write(registry)
    with_sqlite(3, 51, 3)
    assert checkpoints(registry, path, due_bytes=1) == []
    assert not db.checkpoint_if_due(registry, path, due_bytes=1)


def test_a_checkpoint_is_due_from_a_size_on_and_waits_for_readers_from_a_larger(
    path: str, registry: sqlite3.Connection, old_sqlite: None
) -> None:
    write(registry)
    size = os.stat(path + "-wal").st_size
    assert checkpoints(registry, path, due_bytes=size + 1) == checkpoints(registry, path) == []
    assert checkpoints(registry, path + "-none", due_bytes=0) == []
    passive = ["busy_timeout = 20", "wal_checkpoint(PASSIVE)", "busy_timeout = 5000"]
    assert checkpoints(registry, path, due_bytes=size) == passive
    for size, mode in ((1 << 20, "PASSIVE"), ((4 << 20) - 1, "PASSIVE"), (4 << 20, "RESTART")):
        stands_in = path + "-of-that-size"
        with open(stands_in + "-wal", "wb") as log:
            log.truncate(size)
        assert checkpoints(registry, stands_in) == [passive[0], f"wal_checkpoint({mode})", passive[2]]
    with open(stands_in + "-wal", "wb") as log:
        log.truncate((1 << 20) - 1)
    assert checkpoints(registry, stands_in) == []


def test_the_lock_on_checkpoints_is_private_and_given_back(
    path: str, registry: sqlite3.Connection, old_sqlite: None, tmp_path: Path
) -> None:
    write(registry)
    Path(path + ".checkpoint").unlink(missing_ok=True)
    handles = open_files()
    assert db.checkpoint_if_due(registry, path, due_bytes=1)
    assert stat.S_IMODE(os.stat(path + ".checkpoint").st_mode) == 0o600
    assert db.checkpoint_if_due(registry, path, due_bytes=1), "the lock is free again"
    os.unlink(path + ".checkpoint")
    (tmp_path / "other").write_text("keep")
    os.symlink(tmp_path / "other", path + ".checkpoint")
    assert not db.checkpoint_if_due(registry, path, due_bytes=1), "another file than ours"
    assert open_files() == handles


def test_a_lock_that_another_process_has_leaves_nothing_open(
    path: str, registry: sqlite3.Connection, old_sqlite: None
) -> None:
    import fcntl

    write(registry)
    with open(path + ".checkpoint", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        handles = open_files()
        assert not db.checkpoint_if_due(registry, path, due_bytes=1)
        assert open_files() == handles


def test_a_checkpoint_that_fails_is_left_to_the_next_writer(
    path: str, plain: sqlite3.Connection, old_sqlite: None
) -> None:
    plain.execute("SELECT count(*) FROM events")
    handles = open_files()
    plain.execute("BEGIN")
    plain.execute("DELETE FROM events")
    assert not db.checkpoint_if_due(plain, path, due_bytes=1), "not inside of a transaction"
    plain.execute("ROLLBACK")
    assert open_files() == handles
    assert db.checkpoint_if_due(plain, path, due_bytes=1)


def test_a_connection_knows_the_stamp_of_the_file_that_its_checkpoint_has_written(
    path: str, registry: db.RegistryConnection, old_sqlite: None
) -> None:
    write(registry)
    assert registry.checkpoint_stamp is None
    assert db.checkpoint_if_due(registry, path, due_bytes=1)
    assert registry.checkpoint_stamp == registry_file.stamp(path, path) is not None
    until = time.monotonic() + LIMIT
    while not (found := registry_file.stamp(path, path)) or not found[-1]:
        assert time.monotonic() < until
        time.sleep(0.005)
    assert db.checkpoint_if_due(registry, path, due_bytes=1)
    assert registry.checkpoint_stamp is None, "the file is older than this checkpoint"


# -- the ballast ----------------------------------------------------------------------------------------------------------


def test_work_that_gives_back_may_use_the_whole_ballast(registry: db.RegistryConnection) -> None:
    usual = registry.kept_ballast
    assert usual == registry_file.KEPT_FOR_RELEASES
    seen = [db.transact_with_ballast(registry, lambda inner: registry.kept_ballast)]
    seen.append(db.transact_unsynced_with_ballast(registry, lambda inner: registry.kept_ballast))
    with pytest.raises(ZeroDivisionError):
        db.transact_with_ballast(registry, lambda inner: 1 // 0)
    assert (seen, registry.kept_ballast) == ([0, 0], usual)
    db.spare_ballast(registry)
    assert registry.kept_ballast == registry_file.BALLAST_BYTES


def test_ballast_is_lent_only_for_the_full_disk_on_which_it_lies(
    path: str, registry: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = registry_file.BALLAST_BYTES
    assert db.lend_ballast(registry, str(tmp_path)) == 0, "there is room"
    full = SimpleNamespace(f_bfree=0, f_bavail=0, f_frsize=4096, f_files=0, f_ffree=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert db.lend_ballast(registry, str(tmp_path / "none")) == 0
    if os.path.isdir("/dev/shm") and os.stat("/dev/shm").st_dev != os.stat(path).st_dev:
        assert db.lend_ballast(registry, "/dev/shm") == 0
    assert registry_file.ballast_size(path) == whole
    assert db.lend_ballast(registry, str(tmp_path)) == whole
    assert registry_file.ballast_size(path) == registry_file.KEPT_FOR_RELEASES
    db.take_back_ballast(registry, 0)
    assert registry_file.ballast_size(path) == registry_file.KEPT_FOR_RELEASES
    db.take_back_ballast(registry, whole)
    assert registry_file.ballast_size(path) == whole


def test_opening_a_registry_lays_no_ballast(path: str, registry: sqlite3.Connection) -> None:
    """The hot verbs open it all day; others lay it again."""
    os.unlink(registry_file.ballast_path(path))
    with closing(db.connect(path)) as connection:
        write(connection)
    assert not registry_file.has_ballast(path)


def test_a_connection_that_is_closed_lays_the_ballast_again(path: str, registry: sqlite3.Connection) -> None:
    os.unlink(registry_file.ballast_path(path))
    db.restore_ballast(path + "-none")
    assert not registry_file.has_ballast(path), "a folder without a registry gets none"
    db.close(registry)
    assert registry_file.ballast_size(path) == registry_file.BALLAST_BYTES
    with pytest.raises(sqlite3.ProgrammingError):
        registry.execute("SELECT 1")
