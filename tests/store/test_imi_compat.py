"""iMi 2.0.2 and imi share one file: none of iMi's rows is lost or rewritten, and its statements still work.

# S2.5 S2.44
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.store import db, repositories, worktrees
from tests.store import imi_file

NOW = "2026-01-02T03:04:05.123456789+00:00"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "iMi.db"
    imi_file.make(made)
    return made


@pytest.fixture
def ours(path: Path) -> Iterator[sqlite3.Connection]:
    """The file after we opened it."""
    with closing(db.connect(str(path))) as connection:
        yield connection


@pytest.fixture
def imis(path: Path, ours: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A connection as iMi has it: foreign keys on, nothing else set, its CREATE statements run at the start."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for statement in imi_file.TABLES:
            connection.execute(statement)
        yield connection


def read(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        return imi_file.rows(connection)


def test_opening_imis_registry_changes_none_of_its_rows(path: Path) -> None:
    before = read(path)
    for _ in range(3):
        db.connect(str(path)).close()
    assert read(path) == before
    assert sum(map(len, before.values())) == 12


def test_imis_rows_are_read(ours: sqlite3.Connection) -> None:
    rows = {row.name: row for row in worktrees.list_worktrees(ours, "coolcode", inactive=True)}
    assert {name: row.branch for name, row in rows.items()} == {
        "feat-user-auth": "feat/user-auth",
        "pr-123": "feat-add-auth",
        "trunk-main": "main",
        "feat-found": "feat/found",
        "fix-old": "fix/old",
    }
    assert [name for name, row in rows.items() if not row.active] == ["fix-old"]
    assert rows["pr-123"].type == "pr"
    assert rows["feat-found"].agent_id == "claude-1"
    assert all(times.parse(row.created_at) and times.parse(row.updated_at) for row in rows.values())


def test_imis_statements_still_work(imis: sqlite3.Connection) -> None:
    imis.execute(
        "INSERT OR REPLACE INTO repositories (id, name, path, remote_url, default_branch, created_at, updated_at,"
        " active) VALUES ('r2', 'other', '/o/trunk-main', '', 'main', ?, ?, TRUE)",
        (NOW, NOW),
    )
    insert = (
        "INSERT OR REPLACE INTO worktrees (id, repo_name, worktree_name, branch_name, worktree_type, path, created_at,"
        " updated_at, active, agent_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    imis.execute(insert, ("w9", "other", "feat-new", "feat/new", "feat", "/o/feat-new", NOW, NOW, True, None))
    # made again: the same name under a new id, which is why nothing of ours may point at its ids
    imis.execute(insert, ("w10", "coolcode", "pr-123", "x", "pr", "/p", NOW, NOW, True, None))
    imis.execute(
        "INSERT INTO agent_activities (id, agent_id, worktree_id, activity_type, file_path, description, created_at)"
        " VALUES ('a9', 'claude-1', 'w10', 'created', NULL, 'made', ?)",
        (NOW,),
    )
    imis.execute("UPDATE worktrees SET active = 0, updated_at = ? WHERE repo_name = 'other'", (NOW,))
    imis.execute(
        "INSERT INTO worktree_types (name, branch_prefix, worktree_prefix, description, is_builtin, created_at)"
        " VALUES ('docs', 'docs/', 'docs-', NULL, 0, ?)",
        (NOW,),
    )
    assert imis.execute("SELECT id FROM worktrees WHERE worktree_name = 'pr-123'").fetchall() == [("w10",)]
    assert imis.execute("PRAGMA foreign_key_check").fetchall() == []
    assert imis.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_imis_foreign_keys_still_hold(imis: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        imis.execute(
            "INSERT OR REPLACE INTO worktrees (id, repo_name, worktree_name, branch_name, worktree_type, path,"
            " created_at, updated_at) VALUES ('w', 'nobody', 'n', 'b', 'feat', '/p', ?, ?)",
            (NOW, NOW),
        )


def test_imi_finds_its_columns_and_leaves_ours_empty(imis: sqlite3.Connection) -> None:
    for table, columns in imi_file.COLUMNS.items():
        names = [row[0] for row in imis.execute(f"SELECT * FROM {table}").description]
        assert names[: len(columns)] == columns
        for extra in names[len(columns) :]:  # what an INSERT of iMi's leaves out must be allowed to be empty
            assert (
                imis.execute(
                    'SELECT 1 FROM pragma_table_info(?) WHERE name = ? AND "notnull"', (table, extra)
                ).fetchone()
                is None
            )
            assert imis.execute(f"SELECT count(*) FROM {table} WHERE {extra} IS NOT NULL").fetchone() == (0,)


def test_our_tables_do_not_refer_to_imis_row_ids(ours: sqlite3.Connection) -> None:
    tables = [row[0] for row in ours.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    pointing = {name: ours.execute("SELECT * FROM pragma_foreign_key_list(?)", (name,)).fetchall() for name in tables}
    assert {name for name, found in pointing.items() if found} == {"worktrees", "agent_activities"}


def test_a_worktree_created_again_keeps_its_row_id_and_has_no_owner(ours: sqlite3.Connection) -> None:
    def again(connection: sqlite3.Connection) -> None:
        worktrees.register(connection, "coolcode", "fix-old", branch="fix/old", kind="fix", path="/p")

    db.transact(ours, again)
    row = worktrees.get(ours, "coolcode", "fix-old")
    assert row is not None and row.active and row.agent_id is None
    number = [one[0] for one in imi_file.WORKTREES].index("fix-old")
    assert ours.execute("SELECT id FROM worktrees WHERE worktree_name = 'fix-old'").fetchone() == (
        imi_file.identity(number),
    )
    # what is registered once more while it is in use keeps its owner
    db.transact(ours, worktrees.register, "coolcode", "feat-found", branch="feat/found", kind="feat", path="/p")
    found = worktrees.get(ours, "coolcode", "feat-found")
    assert found is not None and found.agent_id == "claude-1"


def test_imis_repository_row_is_found_by_its_trunk_path(tmp_path: Path) -> None:
    real = tmp_path / "code" / "coolcode" / "trunk-main"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "code")
    path = tmp_path / "iMi.db"
    imi_file.make(path, tmp_path / "link" / "coolcode" / "trunk-main")
    before = read(path)
    with closing(db.connect(str(path))) as connection:
        wanted = repositories.RepositoryRegistration(
            "trunk-main",
            common_dir=str(real / ".git"),
            path=str(real),
            remote_url="https://me:hunter22@example.invalid/acme/coolcode.git",
            default_branch="main",
        )
        name = db.transact(connection, repositories.register, wanted)
        assert name == "coolcode"
        assert repositories.list_common_dirs(connection) == {"coolcode": str(real / ".git")}
    assert read(path) == before


def test_imi_and_iMi_can_write_at_the_same_time(imis: sqlite3.Connection, ours: sqlite3.Connection) -> None:
    imis.execute("UPDATE worktrees SET agent_id = 'other' WHERE worktree_name = 'pr-123'")
    db.transact(ours, worktrees.close, "coolcode", "feat-found", "removed")
    assert imis.execute("SELECT active, agent_id FROM worktrees WHERE worktree_name = 'feat-found'").fetchone() == (
        0,
        None,
    )
    row = worktrees.get(ours, "coolcode", "pr-123")
    assert row is not None and row.agent_id == "other"
