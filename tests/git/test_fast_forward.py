"""Recovery of an interrupted fast-forward: all files end old or all new, and an edited file is left unchanged."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from imi_monitor.git.fast_forward import recover_fast_forward, undo_fast_forward
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import GitError
from tests.helpers import Repo
from tests.limits import LIMIT


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


def test_a_finished_fast_forward_needs_no_recovery(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.git("merge", "-q", "--ff-only", "next")
    assert recover_fast_forward(git, before, after, began=0.0) is None


def test_a_branch_that_moved_is_left_alone_by_recovery(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.write("x", "x")
    repo.commit("somebody else")
    assert "has moved since" in (recover_fast_forward(git, before, after, began=0.0) or "")


def test_a_half_written_checkout_is_reverted(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    (repo.path / "src" / "db.py").unlink()
    repo.write("src/new/file.py", "fresh\n" * 20)  # the beginning of it
    repo.write("src/api.py", "def api():\n    return 'new'\n" * 50)
    (repo.path / ".git" / "index.lock").write_bytes(b"")
    assert "reverted" in (recover_fast_forward(git, before, after, began=0.0) or "")
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("rev-parse", "HEAD") == before


def test_a_checkout_without_its_ref_is_finished(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.git("read-tree", "-m", "-u", before, after)
    assert recover_fast_forward(git, before, after, began=0.0) == "it was finished"
    assert repo.git("rev-parse", "main") == after
    assert repo.git("status", "--porcelain") == ""


def test_recovery_leaves_an_edited_file(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.write("src/api.py", "my own work\n")
    repo.write("src/new/file.py", "mine\n")
    (repo.path / "src" / "db.py").unlink()
    said = recover_fast_forward(git, before, after, began=0.0) or ""
    assert "2 files changed since" in said
    assert (repo.path / "src" / "api.py").read_text() == "my own work\n"
    assert (repo.path / "src" / "new" / "file.py").read_text() == "mine\n"
    assert (repo.path / "src" / "db.py").exists()


def test_recovery_leaves_a_lock_that_may_belong_to_another_git(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    lock = repo.write(".git/index.lock", "")
    with pytest.raises(GitError, match=r"index\.lock exists.*delete that file"):  # older than the merge
        recover_fast_forward(git, before, after, began=time.time() + 60)
    os.symlink("/bin/sleep", repo.path.parent / "git-commit")
    someone = subprocess.Popen([repo.path.parent / "git-commit", "60"], cwd=repo.path)
    try:
        with pytest.raises(GitError, match="another git is running"):
            recover_fast_forward(git, before, after, began=0.0)
    finally:
        someone.kill()
        someone.wait(LIMIT)
    assert lock.exists()
    assert "reverted" in (recover_fast_forward(git, before, after, began=0.0) or "")
    assert not lock.exists()


def test_a_fast_forward_that_git_aborted_is_undone(repo: Repo, ahead: tuple[Git, str, str]) -> None:
    git, before, after = ahead
    repo.git("read-tree", "-m", "-u", before, after)  # as git does it: the files, then the index, then the ref
    undo_fast_forward(git, before, after)
    assert (repo.git("status", "--porcelain"), repo.git("rev-parse", "HEAD")) == ("", before)
    repo.write("src/new/file.py", "fresh\n" * 20)  # killed, or out of space, among the files
    untouched = os.stat(repo.path / "src/api.py").st_ino
    repo.write("README.md", "mine\n")
    undo_fast_forward(git, before, after)
    assert repo.git("status", "--porcelain") == "M README.md"
    assert os.stat(repo.path / "src/api.py").st_ino == untouched, "what git had not come to is not written"
    repo.git("merge", "-q", "--ff-only", "next")
    undo_fast_forward(git, before, after)  # it had come through after all
    assert repo.git("rev-parse", "HEAD") == after
