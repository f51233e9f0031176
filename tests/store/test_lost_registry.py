"""A registry that vanished is not silently a new one; one that never was is. # M3"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, lost_registry, registry_file, registry_identity, schema
from tests import registry_faults
from tests.helpers import become_another_user
from tests.store import imi_file
from tests.store.crash_experiments import experiment
from tests.store.other_releases import release_with


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "place" / "iMi.db"
    db.connect(str(made)).close()
    return made


def refusal(path: Path) -> RegistryError:
    before = sorted(os.listdir(path.parent))
    for create in (True, False):
        with pytest.raises(RegistryError) as caught:
            db.connect(str(path), create=create)
        assert caught.value.code == lost_registry.CODE
    assert sorted(os.listdir(path.parent)) == before, "nothing is made"
    return caught.value


def ident(path: Path) -> str | None:
    with closing(db.connect(str(path))) as connection:
        return registry_identity.registry_id(connection)


def test_a_deleted_registry_is_refused_while_its_ballast_names_it(path: Path) -> None:
    registry_faults.delete_registry(path)
    sentence = refusal(path).sentence
    assert sentence.startswith(f"the registry {path} is gone, but the ballast {path.parent}/.imi-ballast names it")
    assert "`imi doctor --new-registry`" in sentence and "restore a copy" in sentence


def test_an_emptied_registry_is_refused(path: Path) -> None:
    registry_faults.empty_registry(path)
    assert "is empty, but the ballast" in refusal(path).sentence
    assert path.read_bytes() == b""


def test_a_database_without_tables_is_refused(path: Path) -> None:
    registry_faults.delete_registry(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE x (y)")
        connection.execute("DROP TABLE x")
    assert "is empty, but the ballast" in refusal(path).sentence


def test_a_new_registry_of_iMi_does_not_replace_a_vanished_one_silently(path: Path) -> None:
    registry_faults.delete_registry(path)
    imi_file.make(path)
    assert "was replaced by a new one of another program" in refusal(path).sentence
    db.connect(str(path), begin_new=True).close()
    assert ident(path)


def test_the_word_of_a_person_starts_a_new_one(path: Path) -> None:
    before = ident(path)
    registry_faults.delete_registry(path)
    db.connect(str(path), begin_new=True).close()
    now = ident(path)
    assert now not in (None, before)
    assert registry_file_names(path) == {str(path): now}


def test_without_traces_a_missing_registry_is_new_as_on_the_first_day(path: Path) -> None:
    registry_faults.delete_registry(path)
    os.unlink(registry_file.ballast_path(str(path)))
    assert ident(path)


def test_a_copy_put_back_is_the_same_registry(path: Path, tmp_path: Path) -> None:
    before = ident(path)
    registry_faults.copy_registry(path, tmp_path / "copy.db")
    registry_faults.delete_registry(path)
    refusal(path)
    registry_faults.replace_registry(path, tmp_path / "copy.db")
    assert ident(path) == before


def registry_file_names(path: Path) -> object:
    return lost_registry.read_names(registry_file.ballast_path(str(path))).get("registries")


def test_two_registries_in_one_folder_share_the_ballast_and_not_their_traces(path: Path) -> None:
    other = path.with_name("other.db")
    db.connect(str(other)).close()
    assert registry_file_names(path) == {str(path): ident(path), str(other): ident(other)}
    third = path.with_name("third.db")
    db.connect(str(third)).close()
    registry_faults.delete_registry(other)
    refusal(other)
    assert ident(path)


def test_a_link_names_the_same_registry(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    registry_faults.delete_registry(path)
    with pytest.raises(RegistryError, match="names it"):
        db.connect(str(link))


def test_a_ballast_of_another_user_is_no_trace(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry_faults.delete_registry(path)
    become_another_user(monkeypatch)
    assert lost_registry.list_traces(str(path)) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"registries": 7}', b'{"registries": {"x": 1}}', b"\xff" * 99])
def test_an_odd_ballast_is_no_trace(path: Path, content: bytes) -> None:
    ballast = Path(registry_file.ballast_path(str(path)))
    ballast.write_bytes(content)
    registry_faults.delete_registry(path)
    assert lost_registry.list_traces(str(path)) == []
    assert ident(path)
    assert dict(registry_file_names(path) or {})[str(path)] == ident(path)  # type: ignore[call-overload]


def test_a_ballast_that_is_a_link_or_a_pipe_is_no_trace_and_is_not_written(path: Path, tmp_path: Path) -> None:
    ballast = Path(registry_file.ballast_path(str(path)))
    target = tmp_path / "target"
    ballast.rename(target)
    before = target.read_bytes()
    ballast.symlink_to(target)
    registry_file.name_ballast(str(path), "other")
    assert target.read_bytes() == before
    assert lost_registry.list_traces(str(path)) == []
    ballast.unlink()
    os.mkfifo(ballast)
    assert lost_registry.list_traces(str(path)) == []


def test_an_older_registry_names_itself_when_it_is_migrated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = path.with_name("old.db")
    with release_with(schema.MIGRATIONS[:4]):
        db.connect(str(old)).close()
    assert str(old) not in dict(registry_file_names(path) or {})  # type: ignore[call-overload]
    made = ident(old)
    assert dict(registry_file_names(path) or {})[str(old)] == made  # type: ignore[call-overload]


def test_processes_that_make_the_registry_together_are_no_traces_of_each_other(tmp_path: Path) -> None:
    for turn in range(8):
        path = tmp_path / str(turn) / "iMi.db"
        path.parent.mkdir()
        assert experiment("first_opens", path=str(path), processes=8) == {"failed": 0}
        assert registry_file_names(path) == {str(path): ident(path)}
