"""Migrations: whole or not at all, from every released schema, by many processes at once, and never backwards. # D7 K3"""

from __future__ import annotations

import hashlib
import os
import random
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.model.errors import RegistryError
from imi_monitor.store import claim_requests, db, schema, upgrade
from tests.limits import join
from tests.store import imi_file
from tests.store.claim_kit import request
from tests.store.crash_experiments import experiment
from tests.store.other_releases import release_with


def all_statements() -> list[str]:
    return [statement for script in schema.MIGRATIONS for statement in schema.statements(script)]


def shape(path: Path) -> dict[str, Any]:
    """Everything that migrations create, read without migrating."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            "version": connection.execute("PRAGMA user_version").fetchone()[0],
            "columns": {
                name: connection.execute('SELECT name, type, "notnull" FROM pragma_table_info(?)', (name,)).fetchall()
                for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            },
            "indexes": {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")},
            "sound": connection.execute("PRAGMA integrity_check").fetchone()[0],
        }


def opened(path: Path) -> dict[str, Any]:
    db.connect(str(path)).close()
    return shape(path)


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Any]:
    """The shape of iMi's file after a migration."""
    path = tmp_path / "whole.db"
    imi_file.make(path)
    return opened(path)


def test_migrations_split_into_statements() -> None:
    statements = all_statements()
    assert len(statements) == sum(script.count(";\n") for script in schema.MIGRATIONS)
    assert all(sqlite3.complete_statement(statement) and statement.count(";") == 1 for statement in statements)
    with pytest.raises(ValueError, match="in the middle of a statement: CREATE TABLE x"):
        schema.statements("CREATE TABLE a (b);\nCREATE TABLE x (y)")


def test_new_and_migrated_registries_have_the_same_schema(tmp_path: Path, whole: dict[str, Any]) -> None:
    new = opened(tmp_path / "new.db")
    assert new == whole
    assert new["version"] == schema.VERSION
    assert new["sound"] == "ok"


def test_our_tables_are_keyed_by_names_and_iMis_keep_their_shape(whole: dict[str, Any]) -> None:  # S2.44 S2.45
    for table, columns in imi_file.COLUMNS.items():
        assert [column[0] for column in whole["columns"][table]][: len(columns)] == columns
    ours = whole["columns"].keys() - imi_file.COLUMNS.keys() - {"sqlite_sequence"}
    assert ours == {
        "agent_names",
        "agents",
        "answers",
        "artifacts",
        "asks",
        "automatic_claims",
        "checkpoints",
        "claim_history",
        "claim_queue",
        "claims",
        "commit_positions",
        "contained_workspaces",
        "contexts",
        "day_budgets",
        "deliveries",
        "events",
        "file_log",
        "forges",
        "items",
        "leases",
        "metrics",
        "notes",
        "operations",
        "parked",
        "places",
        "read_parts",
        "recorded_commits",
        "registry",
        "remote_claims",
        "reservations",
        "run_offsets",
        "run_usage",
        "runs",
        "session_events",
        "sessions",
        "sinks",
        "tasks",
        "tool_calls",
        "trash",
        "trust",
    }
    for table in ("claims", "claim_history", "claim_queue", "trash", "operations"):
        assert {"repo_name", "worktree_name"} <= {column[0] for column in whole["columns"][table]}


RELEASED = (
    "343fba7c50c4643960a5dcc133f17dc01ede9d8fa895b58cc02d9f3ec3fff931",
    "3f9d3faab40d4f6c060c3fe4f521915e73387f7c57778a8c076185715f95b9d1",
    "55986194aa04f0a14ff7d226760722b92bba5ca1b57ba71f5b24940067cbf4f1",
    "fa57bd3714283c724f5d856635797e410658370f4db527f33f3ae93d1f7e0f06",
    "0c88e298654af5ceabacc56e0bb4571fdf5d2c0ebd8d87f6d8daa4652e720efc",
)


def test_released_migrations_never_change() -> None:
    """Hashes of the scripts without their comments."""
    scripts = [re.sub(r"(?m)^--.*\n", "", script) for script in schema.MIGRATIONS[: len(RELEASED)]]
    assert [hashlib.sha256(script.encode()).hexdigest() for script in scripts] == [*RELEASED]


def test_a_registry_of_version_1_is_migrated_with_its_rows(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "iMi.db"
    imi_file.make(path)
    with release_with(schema.MIGRATIONS[:1]), closing(db.connect(str(path))) as connection:
        me = host.identify_process(os.getpid())
        connection.execute(
            "INSERT INTO claims (repo_name, worktree_name, agent_id, epoch, claimed_at, host, boot, pid, pid_started)"
            " VALUES ('coolcode', 'pr-123', 'claude-1', 1, '1', ?, ?, ?, ?)",
            (me.host, me.boot, me.pid, me.started),
        )
        connection.execute(
            "INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, host, claimed_at)"
            " VALUES ('coolcode', 'pr-123', 1, 'claude-1', ?, '1')",
            (me.host,),
        )
        before = shape(path)
    assert before["version"] == 1 and "sessions" not in before["columns"]
    with closing(sqlite3.connect(path)) as connection:
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in before["columns"]}
    assert opened(path) == whole, "made step by step or at once, it is the same"
    with closing(db.connect(str(path))) as connection:
        for name, kept in rows.items():
            if name != "sqlite_sequence":
                now = connection.execute(f"SELECT * FROM {name}").fetchall()
                assert [row[: len(old)] for row, old in zip(now, kept, strict=True)] == kept, name
                assert not any(any(row[len(old) :]) for row, old in zip(now, kept, strict=True)), "what is new is empty"
        renewed = db.transact(connection, claim_requests.claim, "coolcode", "pr-123", request("claude-1", os.getpid()))
        assert renewed.how == "renewed"


def test_version_4_adds_the_attempts_of_earlier_claims(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "iMi.db"
    imi_file.make(path)
    with release_with(schema.MIGRATIONS[:3]), closing(db.connect(str(path))) as connection:
        connection.executescript("""
        INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, task_id, host, claimed_at, released_at,
        ended) VALUES ('app', 'x', 1, 'a', 'T-1', 'h', '1', '2', 'released'), ('app', 'x', 2, 'a', NULL, 'h', '3', '4',
        'released'), ('app', 'x', 3, 'a', 'T-3', 'h', '5', NULL, NULL), ('app', 'y', 1, 'b', 'T-4', 'h', '6', NULL, NULL);
        INSERT INTO claims (repo_name, worktree_name, agent_id, epoch, task_id, claimed_at, heartbeat_at)
        VALUES ('app', 'x', 'a', 3, 'T-5', '5', '8'), ('app', 'y', 'b', 1, 'T-4', '6', '9');
        """)
    assert opened(path) == whole
    with closing(db.connect(str(path))) as connection:
        kept = connection.execute(
            "SELECT worktree_name, epoch, task_id, started_at, ended_at, outcome FROM tasks"
        ).fetchall()
    assert kept == [
        ("x", 1, "T-1", "1", None, None),
        ("x", 3, "T-3", "5", "8", None),
        ("x", 3, "T-5", "5", None, None),
        ("y", 1, "T-4", "6", None, None),
    ], "a claim that was renewed for another task has ended the first"


@pytest.fixture
def later_release() -> Iterator[Callable[..., None]]:
    """Makes this imi a later release with these further migrations."""
    with ExitStack() as stack:
        yield lambda *migrations: stack.enter_context(release_with((*schema.MIGRATIONS, *migrations)))


def test_an_older_registry_gets_the_missing_migrations(tmp_path: Path, later_release: Callable[..., None]) -> None:
    path = tmp_path / "iMi.db"
    before = opened(path)
    later_release("CREATE TABLE later (x);\n", "DROP TABLE later;\nCREATE TABLE last (y);\n")
    after = opened(path)
    assert after["version"] == before["version"] + 2
    assert after["columns"].keys() - before["columns"].keys() == {"last"}


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path, later_release: Callable[..., None]) -> None:
    path = tmp_path / "iMi.db"
    before = opened(path)
    later_release("CREATE TABLE later (x);\nCREATE TABLE later (x);\n")
    with pytest.raises(RegistryError, match="table later already exists"):
        db.connect(str(path))
    assert shape(path) == before


def test_a_newer_file_is_refused_and_not_touched(tmp_path: Path) -> None:  # D6 D7
    path = tmp_path / "iMi.db"
    db.connect(str(path)).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(RegistryError, match=r"made by a newer imi .* update imi; nothing was changed") as caught:
            db.connect(str(path))
        assert caught.value.code == "registry-newer"
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".imi-ballast", "home", "iMi.db"]


@pytest.mark.parametrize("version", [0, 1, 7])
def test_another_programs_database_is_refused_and_not_touched(tmp_path: Path, version: int) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(RegistryError, match="no registry of imi: name another file with --db"):
        db.connect(str(path))
    assert path.read_bytes() == before


def test_a_registry_of_an_older_iMi_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "iMi.db"
    imi_file.make(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ALTER TABLE worktrees DROP COLUMN agent_id")
    before = path.read_bytes()
    with pytest.raises(RegistryError, match=r"older than 2\.0\.2 \(worktrees has no agent_id\)"):
        db.connect(str(path))
    assert path.read_bytes() == before


def test_a_column_that_exists_already_is_not_added_again(tmp_path: Path, whole: dict[str, Any]) -> None:
    path = tmp_path / "iMi.db"
    imi_file.make(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ALTER TABLE worktrees ADD COLUMN claimed_at TEXT")
        connection.execute("UPDATE worktrees SET claimed_at = 'then'")
    assert opened(path) == whole
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT DISTINCT claimed_at FROM worktrees").fetchall() == [("then",)]


# D7: killed in the middle -------------------------------------------------------------------------------------------


def killed_at(tmp_path: Path, statement: int, mutant: str = "") -> Path:
    path = tmp_path / f"at-{statement}{mutant}.db"
    imi_file.make(path)
    assert experiment("killed_upgrade", path=str(path), statement=statement, mutant=mutant)["killed"]
    return path


def is_untouched(path: Path) -> bool:
    """Nothing but iMi's own tables with iMi's own columns, and all of its rows."""
    with closing(sqlite3.connect(path)) as connection:
        kept = sum(map(len, imi_file.rows(connection).values()))
    found = shape(path)
    columns = {name: [column[0] for column in columns] for name, columns in found["columns"].items()}
    columns.pop("sqlite_sequence")
    return found["version"] == 0 and found["sound"] == "ok" and columns == imi_file.COLUMNS and kept == 12


def check_killed(tmp_path: Path, statement: int, whole: dict[str, Any]) -> None:
    path = killed_at(tmp_path, statement)
    assert is_untouched(path), statement
    db.connect(str(path)).close()  # K3
    assert shape(path) == whole, statement


@pytest.mark.parametrize("statement", [0, 1, 8, 14, len(all_statements())])
def test_a_migration_killed_before_one_statement_rolls_back(
    tmp_path: Path, whole: dict[str, Any], statement: int
) -> None:
    check_killed(tmp_path, statement, whole)


@pytest.mark.soak
def test_a_migration_killed_before_any_statement_rolls_back(tmp_path: Path, whole: dict[str, Any]) -> None:
    for statement in range(len(all_statements()) + 1):
        check_killed(tmp_path, statement, whole)


@pytest.mark.parametrize("statement", [10, 14, 20])
def test_ddl_outside_of_the_transaction_is_detected(tmp_path: Path, statement: int) -> None:
    assert not is_untouched(killed_at(tmp_path, statement, "ddl-by-script"))


def killed_at_moments(tmp_path: Path, whole: dict[str, Any], count: int) -> None:
    chance = random.Random(7)
    moments = [chance.random() * 8 for _ in range(count)]
    outcomes = set()
    for number, milliseconds in enumerate(moments):
        path = tmp_path / f"moment-{number}.db"
        imi_file.make(path)
        experiment("kill_upgrades", path=str(path), milliseconds=milliseconds)
        found = shape(path)
        assert found == whole or is_untouched(path), milliseconds
        outcomes.add(found["version"])
        assert opened(path) == whole, milliseconds
    assert outcomes <= {0, schema.VERSION}


def test_a_migration_killed_at_any_moment_rolls_back(tmp_path: Path, whole: dict[str, Any]) -> None:
    killed_at_moments(tmp_path, whole, 10)


@pytest.mark.soak
def test_a_migration_killed_at_a_hundred_moments_rolls_back(tmp_path: Path, whole: dict[str, Any]) -> None:
    killed_at_moments(tmp_path, whole, 100)


# D7: many at once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", ["nobody", "iMi"])
def test_eight_processes_create_the_registry_at_once(tmp_path: Path, whole: dict[str, Any], made_by: str) -> None:
    for turn in range(4):
        path = tmp_path / f"{turn}.db"
        if made_by == "iMi":
            imi_file.make(path)
        assert experiment("first_opens", path=str(path), processes=8) == {"failed": 0}
        assert shape(path) == whole


def test_enabling_wal_waits_for_readers(tmp_path: Path) -> None:
    path = tmp_path / "iMi.db"
    imi_file.make(path)
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM worktrees").fetchall()
        done = threading.Timer(0.1, reader.execute, ("ROLLBACK",))
        done.start()
        with closing(db.connect(str(path))) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        join(done)


class Refusing:
    """A connection on which SQLite fails at once, as it does when two processes switch at the same time."""

    def __init__(self, times: int) -> None:
        self.left = times

    def execute(self, _sql: str) -> Refusing:
        if self.left:
            self.left -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return self

    def fetchone(self) -> tuple[str]:
        return ("wal",)


def test_enabling_wal_retries_while_busy() -> None:
    upgrade.enable_wal(Refusing(3), 5.0)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.OperationalError):
        upgrade.enable_wal(Refusing(1000), 0.02)  # type: ignore[arg-type]


def test_enabling_wal_gives_up_after_the_timeout(tmp_path: Path) -> None:
    path = tmp_path / "iMi.db"
    imi_file.make(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM worktrees").fetchall()
        before = time.monotonic()
        with pytest.raises(RegistryError, match="held by another program"):
            db.connect(str(path), busy_seconds=0.2)
        assert time.monotonic() - before >= 0.2
    assert is_untouched(path)
