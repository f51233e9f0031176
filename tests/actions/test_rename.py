"""`imi rename`: folder, branch, row and claim are renamed together; a pushed branch keeps its name."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from imi_monitor import paths
from imi_monitor.store import db, operations
from tests.helpers import Repo, git, imi


def test_folder_branch_and_claim_go_together(repo: Repo) -> None:
    made = Path(imi("feat", "old", cwd=repo.path).out.splitlines()[-1])
    assert imi("claim", "old", "--agent", "a1", cwd=repo.path).code == 0
    ran = imi("rename", "feat-old", "new", "--agent", "a1", "--json", cwd=repo.path)
    assert ran.code == 0, ran
    path = Path(ran.data["worktree_path"])
    assert path == made.parent / "feat-new" and path.is_dir() and not made.exists()
    assert git("branch", "--show-current", cwd=path) == "feat/new"
    assert repo.git("branch", "--list", "feat/old") == ""
    assert imi("verify-lock", "feat-new", "--agent", "a1", "--epoch", str(ran.data["epoch"]), cwd=repo.path).code == 0
    assert imi("release", "feat-new", "--agent", "a1", cwd=repo.path).code == 0


def test_uncommitted_work_moves_along(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    other.write("README.md", "changed\n")
    other.write(".env", "SECRET=1\n")
    assert imi("rename", "feat-a", "feat-b", cwd=repo.path).code == 0
    moved = repo.path.parent / "feat-b"
    assert (moved / "README.md").read_text() == "changed\n"
    assert (moved / ".env").read_text() == "SECRET=1\n"
    assert git("status", "--porcelain", cwd=moved) == "M README.md"


def test_a_pushed_branch_keeps_its_name(cloned: Repo) -> None:
    other = cloned.worktree("feat-a")
    other.git("push", "-q", "-u", "origin", "feat/a")
    assert imi("rename", "feat-a", "feat-b", cwd=cloned.path).code == 0
    assert git("branch", "--show-current", cwd=cloned.path.parent / "feat-b") == "feat/a"


def test_a_name_used_before_is_free_again(repo: Repo) -> None:
    for name in ("one", "two"):
        assert imi("feat", name, cwd=repo.path).code == 0
    assert imi("remove", "feat-two", cwd=repo.path).code == 0
    assert repo.git("branch", "-D", "feat/two")
    assert imi("rename", "feat-one", "two", cwd=repo.path).code == 0
    assert imi("go", "feat-two", cwd=repo.path).out.strip().endswith("feat-two")


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["feat-a", "bad name"], 2, "sign"),
        (["feat-a", "feat-b"], 1, "feat-b exists"),
        (["feat-a", "feat-B"], 1, "case"),
        (["app", "other"], 1, "main worktree"),
        (["nothing", "other"], 1, "no worktree"),
    ],
)
def test_renames_that_are_refused(repo: Repo, words: list[str], code: int, expected: str) -> None:
    repo.worktree("feat-a")
    repo.worktree("feat-b")
    ran = imi("rename", *words, cwd=repo.path)
    assert ran.code == code and expected in ran.err, ran
    assert (repo.path.parent / "feat-a").is_dir()


def test_anothers_claim_and_a_lock_refuse(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    assert imi("claim", "feat-a", "--agent", "a1", cwd=repo.path).code == 0
    assert "a1" in imi("rename", "feat-a", "feat-c", "--agent", "a2", cwd=repo.path).err
    repo.git("worktree", "lock", other.path)
    assert "locked" in imi("rename", "feat-a", "feat-c", "--agent", "a1", cwd=repo.path).err


@pytest.mark.parametrize("moved", [False, True])
def test_an_interrupted_rename_is_completed_by_the_next_command(repo: Repo, moved: bool) -> None:  # K3
    path = Path(imi("feat", "old", cwd=repo.path).out.splitlines()[-1])
    new = path.parent / "feat-new"
    data: dict[str, object] = {
        "old_name": "feat-old",
        "new_name": "feat-new",
        "old_path": str(path),
        "new_path": str(new),
        "old_branch": "feat/old",
        "new_branch": "feat/new",
    }
    connection = db.connect(paths.default_database())

    def begin(inner: sqlite3.Connection) -> None:
        identity = operations.begin(inner, "rename", "app", "feat-old", data)
        inner.execute("UPDATE operations SET pid = 1, pid_started = 'not this' WHERE id = ?", (identity,))

    db.transact(connection, begin)
    if moved:
        os.rename(path, new)  # git died before it had changed its pointer
    ran = imi("list", "--json", cwd=repo.path)
    assert ran.code == 0, ran
    assert operations.list_unfinished(connection) == []
    connection.close()
    where = new if moved else path
    assert git("status", "--porcelain", cwd=where) == ""
    assert git("branch", "--show-current", cwd=where) == ("feat/new" if moved else "feat/old")
    assert str(where) in ran.out
