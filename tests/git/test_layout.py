"""The native reading of a repository's layout equals git's, and a rewritten `.git` file is not trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imi_monitor.git import layout
from imi_monitor.model.errors import GitError
from tests.helpers import Repo, git


def test_a_repository_is_found_from_a_subdirectory(repo: Repo) -> None:
    place = layout.discover(str(repo.path / "src"))
    assert place is not None
    assert place.path == str(repo.path)
    assert place.repository.common_dir == str(repo.path / ".git")
    assert place.repository.main_path == str(repo.path)


def test_a_repository_is_found_from_a_linked_worktree(repo: Repo) -> None:
    other = repo.worktree("feat-x")
    place = layout.discover(str(other.path))
    assert place is not None
    assert place.path == str(other.path)
    assert place.admin_dir == str(repo.path / ".git" / "worktrees" / "feat-x")
    assert place.repository.main_path == str(repo.path)


def test_no_repository_is_found_outside_one(tmp_path: Path) -> None:
    assert layout.discover(str(tmp_path)) is None


def test_a_cluster_folder_means_its_trunk(cluster: Repo) -> None:
    place = layout.discover(str(cluster.path.parent))
    assert place is not None
    assert place.repository.main_path == str(cluster.path)
    assert place.repository.cluster == str(cluster.path.parent)
    assert place.path is None


def test_linked_worktrees_equal_those_of_git(repo: Repo) -> None:
    repo.worktree("feat-a")
    detached = repo.path.parent / "loose"
    repo.git("worktree", "add", "-q", "--detach", detached)
    repo.git("worktree", "lock", "--reason", "on a stick", detached)
    found = {item.path: item for item in layout.linked_worktrees(str(repo.path / ".git"))}
    listed = [
        line[9:] for line in repo.git("worktree", "list", "--porcelain").splitlines() if line.startswith("worktree ")
    ]
    assert sorted(found) == sorted(listed[1:])
    head = repo.git("rev-parse", "HEAD")
    assert (found[str(detached)].branch, found[str(detached)].head) == (None, head)
    assert found[str(detached)].locked == "on a stick"
    branch = found[str(repo.path.parent / "feat-a")]
    assert (branch.branch, branch.head, branch.locked) == ("feat/a", head, None)


def test_packed_refs_are_read(repo: Repo) -> None:
    repo.worktree("feat-a")
    repo.git("pack-refs", "--all")
    item = layout.linked_worktrees(str(repo.path / ".git"))[0]
    assert item.head == repo.git("rev-parse", "HEAD")


def test_an_unborn_head_has_a_branch_and_no_commit(tmp_path: Path) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "new"), cwd=tmp_path)
    common = str(tmp_path / "new" / ".git")
    assert layout.read_head(common, common) == ("main", None)


def test_a_worktree_without_its_folder_is_missing(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    other.path.rename(repo.path.parent / "elsewhere")
    assert layout.linked_worktrees(str(repo.path / ".git"))[0].missing


def test_a_bare_repository_with_worktrees_is_found(tmp_path: Path, repo: Repo) -> None:
    home = tmp_path / "proj"
    home.mkdir()
    git("clone", "-q", "--bare", repo.path, home / ".bare", cwd=tmp_path)
    (home / ".git").write_text("gitdir: ./.bare\n")
    git("worktree", "add", "-q", home / "trunk-main", "main", cwd=home)
    place = layout.discover(str(home))
    assert place is not None and place.repository.bare and place.repository.main_path is None
    inside = layout.discover(str(home / "trunk-main"))
    assert inside is not None and inside.path == str(home / "trunk-main")
    assert inside.repository.cluster == str(home)


def test_a_bare_repository_shipped_as_content_is_not_found(repo: Repo) -> None:  # G2
    git("init", "-q", "--bare", str(repo.path / "lib"), cwd=repo.path)
    place = layout.discover(str(repo.path / "lib"))
    assert place is not None and place.repository.common_dir == str(repo.path / ".git")


def test_a_rewritten_git_file_is_an_error(repo: Repo, tmp_path: Path) -> None:  # G2
    victim = repo.worktree("feat-a")
    other = repo.worktree("feat-b")
    (victim.path / ".git").write_text((other.path / ".git").read_text())
    with pytest.raises(GitError, match="does not belong") as caught:
        layout.discover(str(victim.path))
    assert caught.value.code == "tampered"
    item = next(i for i in layout.linked_worktrees(str(repo.path / ".git")) if i.path == str(victim.path))
    assert not layout.points_back(item.admin_dir, item.path)
    assert layout.points_back(str(repo.path / ".git" / "worktrees" / "feat-b"), str(other.path))


def test_a_fake_admin_directory_is_an_error(repo: Repo, tmp_path: Path) -> None:  # G2
    victim = repo.worktree("feat-a")
    fake = tmp_path / "evil"
    fake.mkdir()
    (fake / "commondir").write_text(str(repo.path / ".git"))
    (fake / "gitdir").write_text(str(victim.path / ".git"))
    (victim.path / ".git").write_text(f"gitdir: {fake}\n")
    with pytest.raises(GitError, match="does not belong"):
        layout.discover(str(victim.path))


def test_a_moved_worktree_still_belongs_to_its_repository(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    moved = repo.path.parent / "moved"
    other.path.rename(moved)
    place = layout.discover(str(moved))
    assert place is not None and place.path == str(moved)


def test_a_lost_repository_is_an_error_with_advice(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    repo.path.rename(repo.path.parent / "gone")
    with pytest.raises(GitError, match="imi repair"):
        layout.discover(str(other.path))


def test_repository_names_come_from_origin_or_folder(repo: Repo, cloned_name: Repo, cluster: Repo) -> None:
    def name(of: Repo) -> str:
        place = layout.discover(str(of.path))
        assert place is not None
        return layout.repository_name(place.repository)

    assert name(repo) == "app"
    assert name(cluster) == "coolcode"
    for url, expected in (
        ("git@github.com:acme/shop.git", "shop"),
        ("https://example.invalid/a/b/", "b"),
        ("host:solo", "solo"),
    ):
        cloned_name.git("remote", "set-url", "origin", url)
        assert name(cloned_name) == expected


@pytest.fixture
def cloned_name(tmp_path: Path) -> Repo:
    made = Repo.create(tmp_path / "other")
    made.git("remote", "add", "origin", "x")
    return made


def test_unusual_folder_names_are_found(tmp_path: Path) -> None:
    odd = Repo.create(tmp_path / "a b\n'c'" / "ünï")
    linked = odd.worktree("feat-ü")
    place = layout.discover(str(linked.path))
    assert place is not None and place.path == str(linked.path)


def test_folder_names_that_are_not_utf8_are_found(repo: Repo) -> None:
    folder = os.path.join(os.fsencode(repo.path.parent), b"feat-\xff")
    repo.git("worktree", "add", "-q", "-b", "odd", os.fsdecode(folder))
    place = layout.discover(os.fsdecode(folder))
    assert place is not None and os.fsencode(place.path or "") == folder


def test_a_named_pipe_in_place_of_a_file_does_not_block(repo: Repo) -> None:  # G5
    head = repo.path / ".git" / "HEAD"
    head.unlink()
    os.mkfifo(head)
    common = str(repo.path / ".git")
    assert layout.read_head(common, common) == (None, None)
    os.mkfifo(repo.path / "elsewhere")
    assert layout.read_regular(str(repo.path / "elsewhere"), 10) is None
