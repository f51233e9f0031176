"""A registry has an id of its own from its first moment on, and a generation that restores raise."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.store import db, registry_identity, schema
from tests.store import imi_file
from tests.store.other_releases import release_with


def test_each_new_registry_has_an_id_of_its_own(tmp_path: Path) -> None:
    found = set()
    for name in ("one.db", "two.db"):
        path = str(tmp_path / name)
        for _ in range(2):
            with closing(db.connect(path)) as connection:
                found.add(registry_identity.registry_id(connection))
                assert registry_identity.generation(connection) == 1
    assert len(found) == 2 and None not in found


def test_a_registry_of_iMi_and_an_older_one_of_imi_get_an_id(tmp_path: Path) -> None:
    path = tmp_path / "iMi.db"
    imi_file.make(path)
    with release_with(schema.MIGRATIONS[:4]), closing(db.connect(str(path))) as connection:
        assert registry_identity.registry_id(connection) is None
        assert registry_identity.generation(connection) == 0
    with closing(db.connect(str(path))) as connection:
        made = registry_identity.registry_id(connection)
    with closing(db.connect(str(path))) as connection:
        assert made and registry_identity.registry_id(connection) == made


def test_a_restore_raises_the_generation_and_predecessors_are_kept(tmp_path: Path) -> None:
    with closing(db.connect(str(tmp_path / "iMi.db"))) as connection:
        db.transact(connection, registry_identity.raise_generation)
        assert registry_identity.generation(connection) == 2
        db.transact(connection, registry_identity.add_predecessors, ["a", "b"])
        db.transact(connection, registry_identity.add_predecessors, ["b", "c"])
        assert registry_identity.predecessors(connection) == ("a", "b", "c")
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("UPDATE registry SET id = NULL")
