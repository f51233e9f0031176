"""`imi repair` after plain moves with `mv`."""

from __future__ import annotations

from tests.helpers import Repo, git, imi


def test_repair_without_a_problem(repo: Repo) -> None:
    ran = imi("repair", cwd=repo.path)
    assert ran.code == 0 and "nothing to repair" in ran.out


def test_a_moved_worktree_is_found_beside_the_others(repo: Repo) -> None:
    repo.worktree("feat-a")
    other = repo.worktree("feat-b")
    moved = repo.path.parent / "feat-b-elsewhere"
    other.path.rename(moved)
    dry = imi("repair", "--dry-run", "--json", cwd=repo.path)
    assert [f["to"] for f in dry.data["mended"]] == [str(moved)]
    assert str(other.path) in repo.git("worktree", "list"), "a dry run changes nothing"
    assert imi("repair", cwd=repo.path).code == 0
    assert str(moved) in repo.git("worktree", "list")
    assert git("status", "--porcelain", cwd=moved) == ""


def test_a_worktree_far_away_is_found_when_told(repo: Repo) -> None:
    other = repo.worktree("feat-b")
    far = repo.path.parent / "far" / "away"
    far.parent.mkdir()
    other.path.rename(far)
    lost = imi("repair", cwd=repo.path)
    assert lost.code == 0 and "run `imi repair` with its new folder" in lost.out
    assert imi("repair", str(far.parent), cwd=repo.path).code == 0
    assert git("status", "--porcelain", cwd=far) == ""


def test_a_moved_repository_is_found_by_its_worktrees(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    assert imi("claim", "feat-a", "--agent", "a1", cwd=repo.path).code == 0
    home = repo.path.parent / "new-home"
    repo.path.rename(home)
    away = imi("list", cwd=other.path)
    assert away.code == 1 and "imi repair" in away.err
    assert imi("repair", cwd=home).code == 0
    assert git("status", "--porcelain", cwd=other.path) == ""
    claimed = imi("claims", "--json", cwd=home)
    assert "a1" in claimed.out, "the claims stay with a repository whose folder has another name now"
    assert imi("verify-lock", "feat-a", "--agent", "a1", cwd=home).code == 0
    assert "app@" not in imi("list", "--json", cwd=home).out, "the repository keeps its name in the registry"


def test_two_copies_are_not_guessed(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    git("clone", "-q", repo.path, repo.path.parent / "unrelated", cwd=repo.path)
    for name in ("copy-1", "copy-2"):
        folder = repo.path.parent / name
        folder.mkdir()
        (folder / ".git").write_text((other.path / ".git").read_text())
    other.path.rename(repo.path.parent / "copy-3")
    ran = imi("repair", cwd=repo.path)
    assert ran.code == 0 and "may be any of" in ran.out
    assert str(other.path) in repo.git("worktree", "list")


def test_a_rewritten_git_file_is_left_alone(repo: Repo) -> None:  # G2
    victim = repo.worktree("feat-a")
    other = repo.worktree("feat-b")
    (victim.path / ".git").write_text((other.path / ".git").read_text())
    before = (victim.path / ".git").read_text()
    ran = imi("repair", cwd=repo.path)
    assert "which is not its own record: check it" in ran.out
    assert (victim.path / ".git").read_text() == before


def test_a_folder_that_does_not_exist(repo: Repo) -> None:
    ran = imi("repair", "/nowhere/at/all", cwd=repo.path)
    assert (ran.code, ran.out) == (2, "")
    assert "is not a folder" in ran.err
