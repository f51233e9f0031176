"""Opening and writing: a new file is private, transactions are whole, no writer starves, and the log stays small."""

from __future__ import annotations

import fcntl
import gc
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, events, registry_file
from tests.store.crash_experiments import experiment


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "deep" / "iMi.db")


@pytest.fixture
def registry(path: str) -> Iterator[sqlite3.Connection]:
    with closing(db.connect(path)) as connection:
        yield connection


def events_in(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def test_what_was_closed_to_other_users_is_told_once(path: str, registry: sqlite3.Connection) -> None:
    os.chmod(path, 0o644)
    with closing(db.connect(path)) as first, closing(db.connect(path)) as second:
        assert f"{path} was open to other users (mode 0644): its mode is 0600 now" in db.notes(first)
        assert db.notes(second) == ()


def test_a_connection_that_is_left_open_keeps_its_log(path: str, registry: sqlite3.Connection) -> None:
    """Closing the last one would move the log into the database, which a process that ends does not wait for."""
    registry.close()
    left = db.connect(path)
    db.transact(left, events.append_row, "made")
    db.leave_open(left)
    del left
    gc.collect()
    assert os.stat(path + "-wal").st_size > 0


def test_an_error_of_any_connection_names_its_file(path: str, registry: sqlite3.Connection) -> None:
    """Programs of tests and other users of this package bring a connection of their own."""
    with closing(sqlite3.connect(path, isolation_level=None)) as plain, pytest.raises(RegistryError) as caught:
        db.transact(plain, lambda inner: inner.execute("SELECT no_such_column FROM events"))
    assert path in caught.value.sentence


def test_a_new_registry_is_readable_only_by_its_owner(path: str, registry: sqlite3.Connection) -> None:
    db.transact(registry, events.append_row, "made")
    modes = {
        name: stat.S_IMODE(os.stat(os.path.join(os.path.dirname(path), name)).st_mode)
        for name in os.listdir(os.path.dirname(path))
    }
    assert modes.pop("iMi.db-wal") == modes.pop("iMi.db-shm") == modes["iMi.db"] == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_the_registry_uses_wal_and_full_synchronisation(registry: sqlite3.Connection) -> None:
    found = {
        name: registry.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "mmap_size")
    }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000, "mmap_size": 0}


@pytest.mark.parametrize("name", ["ordinary", "a b#c?d%41e&f=g", "quote'\"\\", "ümläut-日本", b"raw-\xff\xfe"])
def test_a_registry_opens_in_a_folder_of_any_name(tmp_path: Path, name: str | bytes) -> None:
    folder = tmp_path / (os.fsdecode(name) if isinstance(name, bytes) else name)
    path = str(folder / "iMi.db")
    for _ in range(2):
        with closing(db.connect(path)) as connection:
            db.transact(connection, events.append_row, "made")
    assert sorted(os.listdir(folder)) == [".imi-ballast", "iMi.db"]
    with closing(db.connect(path)) as connection:
        assert events_in(connection) == 2


def test_side_files_lie_beside_the_real_file_of_a_symbolic_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (tmp_path / "link.db").symlink_to(real / "iMi.db")
    with closing(db.connect(str(tmp_path / "link.db"))) as connection:
        db.transact(connection, events.append_row, "made")
        assert os.path.exists(registry_file.ballast_path(str(tmp_path / "link.db")))
    assert sorted(os.listdir(real)) == [".imi-ballast", "iMi.db"]
    assert sorted(os.listdir(tmp_path)) == ["home", "link.db", "real"]


def test_an_error_rolls_the_transaction_back(registry: sqlite3.Connection) -> None:
    def half(connection: sqlite3.Connection, error: BaseException) -> None:
        events.append_row(connection, "half")
        raise error

    for error in (ValueError("no"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()):
        with pytest.raises(type(error)):
            db.transact(registry, half, error)
        assert not registry.in_transaction
        assert events_in(registry) == 0


def test_sqlite_errors_become_sentences_and_end_the_transaction(registry: sqlite3.Connection) -> None:
    with pytest.raises(RegistryError, match=r"no such table"):
        db.transact(registry, lambda connection: connection.execute("DELETE FROM nowhere"))
    with pytest.raises(RegistryError, match=r"no such table"):
        db.read(registry, lambda connection: connection.execute("SELECT * FROM nowhere"))
    assert not registry.in_transaction


def test_a_name_that_is_not_utf8_is_refused_and_named(registry: sqlite3.Connection) -> None:
    with pytest.raises(RegistryError, match=r"only UTF-8 names, and /x/caf\\xe9 is not") as caught:
        db.transact(registry, events.append_row, "made", os.fsdecode(b"/x/caf\xe9"))
    assert caught.value.code == "not-utf8"


def test_a_read_sees_one_state_and_writes_nothing(path: str, registry: sqlite3.Connection) -> None:  # S4.9
    with closing(db.connect(path)) as other:

        def twice(connection: sqlite3.Connection) -> tuple[int, int]:
            before = events_in(connection)
            db.transact(other, events.append_row, "meanwhile")
            return before, events_in(connection)

        assert db.read(registry, twice) == (0, 0)
    db.read(registry, events.append_row, "written while reading")
    assert events_in(registry) == 1
    with pytest.raises(KeyError):
        db.read(registry, lambda _: {}["x"])
    assert not registry.in_transaction


def test_a_writer_waits_no_longer_than_its_timeout(path: str, registry: sqlite3.Connection) -> None:
    with closing(db.connect(path, busy_seconds=0.2)) as other:
        registry.execute("BEGIN IMMEDIATE")
        before = time.monotonic()
        with pytest.raises(RegistryError, match="held by another program") as caught:
            db.transact(other, events.append_row, "late")
        assert time.monotonic() - before >= 0.2
        assert caught.value.code == "registry-busy"
        registry.execute("ROLLBACK")
        db.transact(other, events.append_row, "now")
        assert other.execute("PRAGMA busy_timeout").fetchone() == (200,)


def test_a_transaction_that_reads_first_holds_the_write_lock(path: str, registry: sqlite3.Connection) -> None:
    """A deferred transaction would let the other writer in between and then fail at once, whatever its timeout."""
    with closing(db.connect(path, busy_seconds=0)) as other:

        def look_then_write(connection: sqlite3.Connection) -> int:
            before = events_in(connection)
            with pytest.raises(RegistryError, match="held by another program"):
                db.transact(other, events.append_row, "in between")
            events.append_row(connection, "mine")
            return before

        assert db.transact(registry, look_then_write) == 0
    assert events_in(registry) == 1


def test_wal_is_switched_on_again_after_another_program_disabled_it(path: str) -> None:
    db.connect(path).close()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    with closing(db.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_ballast_is_created_again(path: str, registry: sqlite3.Connection) -> None:
    ballast = registry_file.ballast_path(path)
    assert os.stat(ballast).st_size == registry_file.BALLAST_BYTES
    os.unlink(ballast)
    db.restore_ballast(path)
    assert os.stat(ballast).st_size == registry_file.BALLAST_BYTES
    os.unlink(ballast)
    db.restore_ballast(path + "-that-is-not-there")
    assert not os.path.exists(ballast)
    db.leave_trace(registry)
    assert os.stat(ballast).st_size == registry_file.BALLAST_BYTES
    assert path.encode() in Path(ballast).read_bytes()[:1000], "the ballast names its registry"


# Checkpoints --------------------------------------------------------------------------------------------------------


def fill(connection: sqlite3.Connection, transactions: int) -> None:
    for _ in range(transactions):
        db.transact(connection, events.append_row, "filler", data={"pad": "x" * 30_000})


@pytest.fixture
def old_sqlite(with_sqlite: Callable[[int, int, int], None]) -> None:
    """An SQLite that two checkpoints at once can damage."""
    with_sqlite(3, 40, 1)


@pytest.mark.parametrize("old", [True, False])
def test_the_log_stays_small_with_any_sqlite(
    path: str, old: bool, with_sqlite: Callable[[int, int, int], None]
) -> None:
    with_sqlite(3, 40 if old else 54, 0)
    with closing(db.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        fill(connection, 300)  # about 12 MB
        assert os.stat(path + "-wal").st_size < 8 << 20
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0 if old else 1000,)
        assert events_in(connection) == 300


def test_sqlite_versions_that_need_a_single_checkpointer(with_sqlite: Callable[[int, int, int], None]) -> None:
    for version, single in (((3, 40, 1), True), ((3, 51, 2), True), ((3, 51, 3), False), ((3, 54, 0), False)):
        with_sqlite(*version)
        assert db.needs_single_checkpointer() is single


def test_a_checkpoint_is_left_to_the_process_that_has_the_lock(
    path: str, registry: sqlite3.Connection, old_sqlite: None
) -> None:
    db.transact(registry, events.append_row, "one")
    with open(path + ".checkpoint", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert db.checkpoint_if_due(registry, path, due_bytes=1) is False
    assert db.checkpoint_if_due(registry, path, due_bytes=1) is True


def test_a_lock_file_that_cannot_be_made_costs_no_commit(
    path: str, registry: sqlite3.Connection, old_sqlite: None
) -> None:
    if os.path.exists(path + ".checkpoint"):
        os.unlink(path + ".checkpoint")
    os.symlink("/nowhere/at/all", path + ".checkpoint")
    registry.execute("PRAGMA synchronous = OFF")
    fill(registry, 50)  # a checkpoint is due
    assert os.stat(path + "-wal").st_size > 1 << 20
    assert events_in(registry) == 50


def test_a_long_reader_stops_no_writer(path: str, registry: sqlite3.Connection, old_sqlite: None) -> None:
    registry.execute("PRAGMA synchronous = OFF")
    with closing(db.connect(path)) as reader:
        reader.execute("BEGIN")
        events_in(reader)
        fill(registry, 120)  # a checkpoint that waits for readers is due
        assert os.stat(path + "-wal").st_size > 4 << 20
        with closing(db.connect(path, busy_seconds=3600)) as writer:  # one that waits for the reader does not end
            db.transact(writer, events.append_row, "at once")
        assert events_in(reader) == 0


def under_load(path: str, seconds: float) -> None:
    found = experiment("load", path=path, processes=8, seconds=seconds)
    assert found["failed"] == 0, found
    assert found["kept"] == found["written"] > 100, found
    assert found["largest"] < 8 << 20, found
    assert found["at_once"] == 1, found
    assert found["worst"] < 4, found


@pytest.mark.skipif(not db.needs_single_checkpointer(), reason="this SQLite checkpoints by itself")
def test_eight_writers_one_checkpointer(path: str) -> None:
    under_load(path, 2)


@pytest.mark.soak
@pytest.mark.skipif(not db.needs_single_checkpointer(), reason="this SQLite checkpoints by itself")
def test_eight_writers_one_checkpointer_long(path: str) -> None:  # K1: the log stays under 8 MB
    under_load(path, 60)


def synchronous(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA synchronous").fetchone()[0])


def test_only_an_unsynced_transaction_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    registry = db.connect(str(tmp_path / "r.db"))
    assert db.transact_unsynced(registry, synchronous) == 1
    assert db.transact(registry, synchronous) == 2
    with pytest.raises(ZeroDivisionError):
        db.transact_unsynced(registry, lambda _: 1 // 0)
    assert db.transact(registry, synchronous) == 2
    registry.close()


def test_sync_to_disk_flushes_the_log_or_raises(path: str, broken_disk: list[int]) -> None:
    with closing(db.connect(path)) as registry:
        db.transact_unsynced(registry, events.append_row, "made")
        assert broken_disk == []
        with pytest.raises(RegistryError, match=r"cannot be put on its disk \(Input/output error\): check the disk"):
            db.sync_to_disk(registry)
        assert broken_disk == [os.stat(path + "-wal").st_ino]


def test_sync_to_disk_keeps_sqlites_locks(path: str) -> None:
    """Closing a file drops this process's POSIX locks on it: on the log there are none."""
    registry = db.connect(path)
    registry.execute("BEGIN IMMEDIATE")
    db.sync_to_disk(registry)
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "try: c.execute('BEGIN IMMEDIATE'); print('taken')\nexcept sqlite3.OperationalError as e: print(e)"
    )
    said = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "database is locked"
    registry.execute("ROLLBACK")
    registry.close()


def test_without_wal_every_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """A rollback journal that is not synced can damage the file."""
    path = tmp_path / "r.db"
    db.connect(str(path)).close()
    other = sqlite3.connect(path, isolation_level=None)
    assert other.execute("PRAGMA journal_mode = DELETE").fetchone()[0] == "delete"
    other.execute("BEGIN")
    other.execute("SELECT * FROM events").fetchall()  # so that the log cannot be switched on again
    registry = db.connect(str(path))
    other.execute("COMMIT")
    assert registry.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    assert db.transact_unsynced(registry, synchronous) == 2
    registry.close()
    other.close()
