"""A fast-forward that died half way ends as all old or all new, and nobody's edit is touched."""

from __future__ import annotations

import pytest

from imi_monitor.git.run import Git
from imi_monitor.git.unfinished import settle_fast_forward
from tests.helpers import Repo


@pytest.fixture
def ahead(repo: Repo) -> tuple[Git, str, str]:
    """`main` stands at `before`; `after` changes one file, adds one in a folder and deletes one."""
    before = repo.git("rev-parse", "HEAD")
    repo.git("switch", "-q", "-c", "next")
    repo.write("src/api.py", "def api():\n    return 'new'\n" * 50)
    repo.write("src/new/file.py", "fresh\n" * 50)
    repo.git("rm", "-q", "src/db.py")
    after = repo.commit("after")
    repo.git("switch", "-q", "main")
    common = str(repo.path / ".git")
    return Git(common, common, str(repo.path)), before, after


def test_done_already(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.git("merge", "-q", "--ff-only", "next")
    assert settle_fast_forward(git, before, after) is None


def test_the_branch_went_on(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.write("x", "x")
    repo.commit("somebody else")
    assert "moved on" in (settle_fast_forward(git, before, after) or "")


def test_half_of_the_files_written(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    (repo.path / "src" / "db.py").unlink()
    repo.write("src/new/file.py", "fresh\n" * 20)  # the beginning of it
    repo.write("src/api.py", "def api():\n    return 'new'\n" * 50)
    (repo.path / ".git" / "index.lock").write_bytes(b"")
    assert "taken back" in (settle_fast_forward(git, before, after) or "")
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("rev-parse", "HEAD") == before


def test_all_but_the_ref(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.git("read-tree", "-m", "-u", before, after)
    assert settle_fast_forward(git, before, after) == "it was finished"
    assert repo.git("rev-parse", "main") == after
    assert repo.git("status", "--porcelain") == ""


def test_somebodys_edit_is_left(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.write("src/api.py", "my own work\n")
    repo.write("src/new/file.py", "mine\n")
    (repo.path / "src" / "db.py").unlink()
    said = settle_fast_forward(git, before, after) or ""
    assert "2 files changed since" in said
    assert (repo.path / "src" / "api.py").read_text() == "my own work\n"
    assert (repo.path / "src" / "new" / "file.py").read_text() == "mine\n"
    assert (repo.path / "src" / "db.py").exists()
