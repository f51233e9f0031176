"""Where the trash is: on the worktree's own file system, private, and never inside a work tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.actions import worktree_lookup as targets
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import purge, trash_folder
from imi_monitor.model.errors import Refused
from imi_monitor.store import trash
from tests.actions.removal_kit import act, assert_same, fingerprint, remove, undo
from tests.helpers import ROOT, Ran, Repo, git, imi_argv


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


def test_on_another_disk_only_the_folder_beside_it_can_hold_the_trash(repo: Repo, other_disk: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(other_disk / "feat-x"))
    with Context(str(repo.path)) as context:
        places = list(trash_folder.trash_roots(targets.find_worktree(context, "feat-x")))
    assert places == [f"{other_disk}/.imi-trash"]


def test_a_trash_on_another_disk_is_purged_too(repo: Repo, other_disk: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(other_disk / "feat-x"))
    remove(repo, "feat-x")
    act("trash purge", cwd=repo.path, which=["feat-x"], yes=True, wait=True)
    assert list(other_disk.iterdir()) == []
    assert not (repo.path / ".git" / "worktrees" / "feat-x").exists()


def test_the_trash_is_never_inside_a_work_tree(repo: Repo, other_disk: Path) -> None:
    """Beside it would be inside another worktree there, where the trash would be untracked files."""
    outer = other_disk / "feat-outer"
    repo.git("worktree", "add", "-q", "-b", "feat/outer", str(outer))
    repo.git("worktree", "add", "-q", "-b", "feat/inner", str(outer / "wt" / "feat-inner"))
    with pytest.raises(Refused, match="is on another file system"):
        remove(repo, "feat-inner")
    assert (outer / "wt" / "feat-inner" / "README.md").exists()


def test_the_git_directory_is_the_first_choice_for_the_trash(repo: Repo) -> None:
    repo.worktree("feat-x")
    with Context(str(repo.path)) as context:
        places = list(trash_folder.trash_roots(targets.find_worktree(context, "feat-x")))
    assert places == [f"{repo.path}/.git/imi/trash", f"{repo.path.parent}/.imi-trash"]


@pytest.mark.parametrize("what", ["link", "file", "another user's"])
def test_a_foreign_file_in_place_of_the_trash_is_refused(repo: Repo, tmp_path: Path, what: str) -> None:
    """A foreign folder must not become the trash: through a link it could be anywhere."""
    tree = repo.worktree("feat-x")
    (repo.path / ".git" / "imi").mkdir()
    place = repo.path / ".git" / "imi" / "trash"
    if what == "link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    elif what == "file":
        place.write_text("x\n")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        place.mkdir()
        os.chown(place, 12345, -1)
    with pytest.raises(Refused):
        remove(repo, "feat-x")
    assert tree.git("status", "--porcelain") == ""
    assert "locked" not in repo.git("worktree", "list", "--porcelain")


def test_the_trash_folder_is_made_private(repo: Repo) -> None:
    repo.worktree("feat-x")
    (repo.path / ".git" / "imi" / "trash").mkdir(parents=True, mode=0o755)
    remove(repo, "feat-x")
    assert (repo.path / ".git" / "imi" / "trash").stat().st_mode & 0o777 == 0o700


def test_a_worktree_of_a_bare_repository_is_removed_and_restored(tmp_path: Path, repo: Repo) -> None:
    bare = Repo(tmp_path / "cluster" / ".bare")
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare.path))
    tree = tmp_path / "cluster" / "feat-x"
    bare.git("worktree", "add", "-q", "-b", "feat/x", str(tree))
    before = fingerprint(bare, tree)
    act("remove", cwd=tmp_path / "cluster" / ".bare", name="feat-x")
    assert (bare.path / "imi" / "trash").is_dir()
    act("undo", cwd=tmp_path / "cluster" / ".bare")
    assert_same(fingerprint(bare, tree), before)


def with_mount(source: Path, at: Path, *words: str, cwd: Path) -> Ran:
    """Run imi in a private mount namespace in which `source` is also mounted at `at`."""
    script = 'mount --bind "$0" "$1" || exit 77; shift; exec "$@"'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = ["unshare", "--mount", "sh", "-c", script, str(source), str(at), *imi_argv(*words)]
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("nothing can be mounted here")
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "letters.txt").write_text("all of them\n")
    return folder


def test_a_worktree_with_a_mount_inside_is_not_removed(repo: Repo, precious: Path) -> None:
    """A purge of the trash would delete the files of the mounted file system."""
    tree = repo.worktree("feat-x")
    at = tree.path / "my data"
    at.mkdir()
    ran = with_mount(precious, at, "remove", "feat-x", "--force", "--yes-really", "feat-x", cwd=repo.path)
    assert (ran.code, f"{at} is mounted inside" in ran.err) == (1, True), ran
    assert (tree.path / "README.md").exists() and (precious / "letters.txt").exists()


def test_a_purge_stops_at_a_mount(repo: Repo, precious: Path) -> None:
    tree = repo.worktree("feat-x")
    (tree.path / "data").mkdir()
    at = Path(str(remove(repo, "feat-x").data["trash_path"])) / "data"
    ran = with_mount(precious, at, "trash", "purge", "feat-x", "--yes", "--wait", cwd=repo.path)
    assert f"{at} is mounted in it" in ran.out, ran
    assert (precious / "letters.txt").exists() and at.is_dir()
    undo(repo)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_running_deletion_stops_at_a_mount(repo: Repo, monkeypatch: pytest.MonkeyPatch, recorded: bool) -> None:
    repo.worktree("feat-x")
    aside = f"{Path(str(remove(repo, 'feat-x').data['trash_path'])).parent}.purging"
    real = host.mounts_inside
    monkeypatch.setattr(host, "mounts_inside", lambda path: [f"{path}/x"] if path == aside else real(path))
    with Context(str(repo.path)) as context, pytest.raises(Refused, match="is mounted inside the folder to delete"):
        if recorded:
            act("trash purge", cwd=repo.path, which=["feat-x"], yes=True, wait=True)
        else:  # as without a usable registry
            purge.purge_unrecorded(context, trash.list_kept(context.connection)[0], agent="me")
    assert os.path.exists(f"{aside}/worktree/README.md")


def test_mounts_inside_a_folder_are_found() -> None:
    assert "/proc" in host.mounts_inside("/")
    assert host.mounts_inside("/proc")[0] == "/proc"
    assert host.mounts_inside(os.path.dirname(__file__)) == []


def test_the_trash_of_a_bind_mount_is_on_the_same_mount(repo: Repo, tmp_path: Path) -> None:
    """Then a rename from one to the other fails in spite of equal device numbers (also in some containers)."""
    disk = tmp_path / "disk"
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(disk / "feat-x"))
    ran = with_mount(disk, disk, "remove", "feat-x", "--json", cwd=repo.path)
    assert ran.code == 0, ran
    assert ran.data["trash_path"].startswith(f"{disk}/.imi-trash/")
    assert not (repo.path / ".git" / "imi").exists()
    undo(repo)
    assert git("status", "--porcelain", cwd=disk / "feat-x") == ""


def test_a_worktree_that_is_a_mount_point_is_not_removed(repo: Repo, precious: Path) -> None:
    tree = repo.worktree("feat-x")
    shutil.copy(tree.path / ".git", precious)
    ran = with_mount(precious, tree.path, "remove", "feat-x", "--force", cwd=repo.path)
    assert (ran.code, "is a mount point and cannot be moved" in ran.err) == (1, True), ran
    assert (tree.path / "README.md").exists() and (precious / "letters.txt").exists()
