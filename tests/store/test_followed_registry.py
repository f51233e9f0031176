"""A process that goes on uses the registry that is there now, whatever became of the file it opened. # H3"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, events, registry_file, registry_identity
from imi_monitor.store.followed_registry import FollowedRegistry
from tests import registry_faults


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "registry" / "iMi.db"
    with closing(db.connect(str(made))) as connection:
        db.transact(connection, events.append_row, "first")
    return made


@pytest.fixture
def followed(path: Path) -> Iterator[FollowedRegistry]:
    made = FollowedRegistry(str(path), lambda create: db.connect(str(path), create=create))
    read(made)
    yield made
    made.close()


def read(followed: FollowedRegistry) -> list[str]:
    try:
        return db.read(followed.connection(), lambda inner: [event.type for event in events.list_events(inner, 0)])
    except RegistryError as error:
        followed.handle(error)
        raise


def write(path: Path, kind: str) -> None:
    with closing(db.connect(str(path))) as connection:
        db.transact(connection, events.append_row, kind)


def age(path: Path) -> None:
    """Until another write cannot leave the same time stamps."""
    while time.time_ns() - path.stat().st_mtime_ns < 60_000_000:
        time.sleep(0.01)


def test_a_copy_in_the_place_of_the_file_is_read(path: Path, followed: FollowedRegistry, tmp_path: Path) -> None:
    before = registry_identity.RegistryIdentity(followed.connection())
    registry_faults.copy_registry(path, tmp_path / "copy.db")
    write(path, "lost")
    assert read(followed) == ["first", "lost"]
    registry_faults.replace_registry(path, tmp_path / "copy.db")
    write(path, "new")
    assert read(followed) == ["first", "new"]
    assert registry_identity.RegistryIdentity(followed.connection()) != before


def test_a_connection_is_kept_while_the_file_is_the_same(path: Path, followed: FollowedRegistry) -> None:
    age(path)
    kept = followed.connection()
    for number in range(5):
        write(path, f"event.{number}")
        assert followed.connection() is kept
    age(path)
    registry_faults.settle(path)  # a checkpoint changes the file
    assert followed.connection() is not kept


def test_a_checkpoint_opens_the_file_again_only_twice(path: Path) -> None:
    """At once, and when another write would leave another time; not at each use in between."""
    opened: list[bool] = []

    def connect(create: bool) -> sqlite3.Connection:
        opened.append(create)
        return db.connect(str(path), create=create)

    followed = FollowedRegistry(str(path), connect)
    age(path)
    read(followed)
    opened.clear()
    write(path, "second")
    registry_faults.settle(path)
    for _ in range(20):
        read(followed)
    age(path)
    for _ in range(20):
        read(followed)
    assert 1 <= len(opened) <= 2
    followed.close()


def test_a_checkpoint_of_its_own_opens_the_file_again_once(path: Path) -> None:
    """Not at once, because the stamp is known, but when a write of another program would leave another time."""
    opened: list[bool] = []

    def connect(create: bool) -> sqlite3.Connection:
        opened.append(create)
        return db.connect(str(path), create=create)

    followed = FollowedRegistry(str(path), connect)
    age(path)
    db.transact(followed.connection(), events.append_row, "second")
    opened.clear()
    before = path.stat().st_mtime_ns
    assert db.checkpoint_if_due(followed.connection(), str(path), due_bytes=1)
    assert path.stat().st_mtime_ns > before
    age(path)
    assert [read(followed)[-1] for _ in range(20)] == ["second"] * 20 and len(opened) == 1
    followed.close()


def test_a_write_in_place_beside_a_checkpoint_of_its_own_is_found(path: Path, followed: FollowedRegistry) -> None:
    age(path)
    connection = followed.connection()
    db.transact(connection, events.append_row, "second")
    assert db.checkpoint_if_due(connection, str(path), due_bytes=1)
    with path.open("r+b") as file:
        file.write(b"garbagegarbage!!")
    age(path)
    with pytest.raises(RegistryError):
        read(followed)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (registry_faults.delete_registry, "registry-lost"),
        (registry_faults.empty_registry, "registry-lost"),
        (registry_faults.overwrite_header, "registry-corrupt"),
        (registry_faults.overwrite_pages, "registry-corrupt"),
        (registry_faults.make_newer, "registry-newer"),
        (registry_faults.put_folder_in_place, "registry-open"),
    ],
)
def test_what_became_of_the_file_is_an_error_until_it_is_repaired(
    path: Path, followed: FollowedRegistry, tmp_path: Path, fault: Callable[[Path], None], code: str
) -> None:
    registry_faults.copy_registry(path, tmp_path / "copy.db")
    age(path)
    fault(path)
    for _ in range(3):
        with pytest.raises(RegistryError) as raised:
            read(followed)
        assert raised.value.code == code
    if path.is_dir():
        path.rmdir()
    registry_faults.replace_registry(path, tmp_path / "copy.db")
    assert read(followed) == ["first"]
    write(path, "after")
    assert read(followed) == ["first", "after"]


def test_repair_in_place_is_found(path: Path, followed: FollowedRegistry) -> None:
    registry_faults.settle(path)
    good = path.read_bytes()
    age(path)
    registry_faults.overwrite_header(path)
    with pytest.raises(RegistryError):
        read(followed)
    with path.open("r+b") as file:
        file.write(good)
    assert read(followed) == ["first"]


def test_a_registry_that_vanished_without_a_trace_is_not_made_again(path: Path, followed: FollowedRegistry) -> None:
    registry_faults.delete_registry(path)
    Path(registry_file.ballast_path(str(path))).unlink()
    with pytest.raises(RegistryError, match="is gone: restore a copy") as raised:
        read(followed)
    assert raised.value.code == "registry-lost" and not path.exists()


def test_a_log_without_its_names_reaches_the_file(path: Path, followed: FollowedRegistry) -> None:
    """`rm iMi.db-wal iMi.db-shm`: SQLite goes on in the files that have no name; closing moves them into the registry."""
    db.transact(followed.connection(), events.append_row, "second")
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    assert read(followed) == ["first", "second"]
    db.transact(followed.connection(), events.append_row, "third")
    with closing(db.connect(str(path))) as other:
        assert [event.type for event in events.list_events(other, 0)] == ["first", "second", "third"]


def test_a_copy_written_into_the_file_is_not_mixed_with_its_former_log(
    path: Path, followed: FollowedRegistry, tmp_path: Path
) -> None:
    """`rm iMi.db-wal iMi.db-shm; cp copy.db iMi.db`: the same file, in which the log of before would be damage."""
    registry_faults.copy_registry(path, tmp_path / "copy.db")
    for number in range(50):
        db.transact(followed.connection(), events.append_row, f"lost.{number}")
    age(path)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    path.write_bytes((tmp_path / "copy.db").read_bytes())
    assert read(followed) == ["first"]
    write(path, "after")
    assert read(followed) == ["first", "after"]
    assert followed.connection().execute("PRAGMA quick_check").fetchone()[0] == "ok"


def test_an_emptied_file_keeps_its_log(path: Path, followed: FollowedRegistry) -> None:
    """`: > iMi.db`: the log has the last commits, so nothing writes it into the empty file."""
    db.transact(followed.connection(), events.append_row, "second")
    path.write_bytes(b"")
    log = Path(f"{path}-wal").read_bytes()
    with pytest.raises(RegistryError) as raised:
        read(followed)
    assert raised.value.code == "registry-lost"
    assert path.read_bytes() == b"" and Path(f"{path}-wal").read_bytes() == log


def test_a_transaction_in_a_file_that_is_not_the_registry_is_refused(path: Path, tmp_path: Path) -> None:
    with closing(db.connect(str(path))) as connection:
        registry_faults.copy_registry(path, tmp_path / "copy.db")
        registry_faults.replace_registry(path, tmp_path / "copy.db")
        with pytest.raises(RegistryError) as raised:
            db.transact(connection, events.append_row, "into the dead file")
        assert raised.value.code == "registry-replaced"
        assert len(events.list_events(connection, 0)) == 1, "nothing was written"


def test_a_transaction_during_which_the_file_is_replaced_is_no_success(path: Path, tmp_path: Path) -> None:
    registry_faults.copy_registry(path, tmp_path / "copy.db")
    with closing(db.connect(str(path))) as connection:

        def write_late(inner: sqlite3.Connection) -> None:
            events.append_row(inner, "late")
            registry_faults.replace_registry(path, tmp_path / "copy.db")

        with pytest.raises(RegistryError) as raised:
            db.transact(connection, write_late)
        assert raised.value.code == "registry-replaced"


def test_a_transaction_in_a_schema_of_a_newer_imi_is_refused(path: Path) -> None:
    with closing(db.connect(str(path))) as connection:
        registry_faults.make_newer(path)
        with pytest.raises(RegistryError, match="restart imi") as raised:
            db.transact(connection, events.append_row, "too old")
        assert raised.value.code == "registry-newer"
        assert len(events.list_events(connection, 0)) == 1


def test_a_copy_without_a_log_is_used_at_once(path: Path, tmp_path: Path) -> None:
    """As `VACUUM INTO` and backups make it: the first connection switches the log on."""
    with closing(db.connect(str(path))) as connection:
        connection.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    write(tmp_path / "copy.db", "second")
    with closing(db.connect(str(tmp_path / "copy.db"))) as connection:
        assert [event.type for event in events.list_events(connection, 0)] == ["first", "second"]


def test_a_link_that_points_elsewhere_is_followed(path: Path, tmp_path: Path) -> None:
    link, other = tmp_path / "link.db", tmp_path / "other" / "iMi.db"
    write(other, "other")
    link.symlink_to(path)
    followed = FollowedRegistry(str(link), lambda create: db.connect(str(link), create=create))
    assert read(followed) == ["first"]
    os.unlink(link)
    link.symlink_to(other)
    assert read(followed) == ["other"]
    followed.close()
