"""Where the trash is: on the worktree's own file system, private, and never inside a work tree."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor.actions import target as targets
from imi_monitor.actions.context import Context
from imi_monitor.actions.removals import trash_place
from imi_monitor.model.errors import Refused
from tests.actions.removal_kit import act, assert_same, fingerprint, remove, undo
from tests.helpers import Repo


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than the repository."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system here")
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="imi-", dir=shared)))
    yield folder
    shutil.rmtree(folder)


def test_a_worktree_on_another_disk_has_its_trash_there(repo: Repo, other_disk: Path) -> None:
    tree = other_disk / "feat-x"
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(tree))
    (tree / "README.md").write_text("changed\n")
    before = fingerprint(repo, tree)
    outcome = remove(repo, "feat-x", force=True)
    beside = other_disk / ".imi-trash"
    assert str(outcome.data["trash_path"]).startswith(f"{beside}/")
    assert beside.stat().st_mode & 0o777 == 0o700
    assert not (repo.path / ".git" / "imi").exists()
    repo.git("worktree", "prune", "--expire=now")
    undo(repo)
    assert_same(fingerprint(repo, tree), before)
    assert not beside.exists()


def test_purged_there_too(repo: Repo, other_disk: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(other_disk / "feat-x"))
    remove(repo, "feat-x")
    act("trash purge", cwd=repo.path, which=["feat-x"], yes=True, wait=True)
    assert list(other_disk.iterdir()) == []
    assert not (repo.path / ".git" / "worktrees" / "feat-x").exists()


def test_never_inside_a_work_tree(repo: Repo, other_disk: Path) -> None:
    """Beside it would be inside another worktree there, where the trash would be untracked files."""
    outer = other_disk / "feat-outer"
    repo.git("worktree", "add", "-q", "-b", "feat/outer", str(outer))
    repo.git("worktree", "add", "-q", "-b", "feat/inner", str(outer / "wt" / "feat-inner"))
    with pytest.raises(Refused, match="lies on another file system"):
        remove(repo, "feat-inner")
    assert (outer / "wt" / "feat-inner" / "README.md").exists()


def test_the_git_directory_first(repo: Repo) -> None:
    repo.worktree("feat-x")
    with Context(str(repo.path)) as context:
        places = trash_place.roots(targets.find(context, "feat-x"))
    assert places == [f"{repo.path}/.git/imi/trash", f"{repo.path.parent}/.imi-trash"]


@pytest.mark.parametrize("what", ["link", "file"])
def test_a_foreign_thing_in_its_place(repo: Repo, tmp_path: Path, what: str) -> None:
    """Somebody else's folder must not become our trash: through a link it could be anywhere."""
    tree = repo.worktree("feat-x")
    (repo.path / ".git" / "imi").mkdir()
    place = repo.path / ".git" / "imi" / "trash"
    if what == "link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.write_text("x\n")
    with pytest.raises(Refused):
        remove(repo, "feat-x")
    assert tree.git("status", "--porcelain") == ""
    assert "locked" not in repo.git("worktree", "list", "--porcelain")


def test_open_permissions_are_closed(repo: Repo) -> None:
    repo.worktree("feat-x")
    (repo.path / ".git" / "imi" / "trash").mkdir(parents=True, mode=0o755)
    remove(repo, "feat-x")
    assert (repo.path / ".git" / "imi" / "trash").stat().st_mode & 0o777 == 0o700


def test_a_worktree_of_a_bare_repository(tmp_path: Path, repo: Repo) -> None:
    bare = Repo(tmp_path / "cluster" / ".bare")
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare.path))
    tree = tmp_path / "cluster" / "feat-x"
    bare.git("worktree", "add", "-q", "-b", "feat/x", str(tree))
    before = fingerprint(bare, tree)
    act("remove", cwd=tmp_path / "cluster" / ".bare", name="feat-x")
    assert (bare.path / "imi" / "trash").is_dir()
    act("undo", cwd=tmp_path / "cluster" / ".bare")
    assert_same(fingerprint(bare, tree), before)
