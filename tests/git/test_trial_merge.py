"""Trial merges include uncommitted edits and write nothing to the repository or an index."""

from __future__ import annotations

import pytest

from imi_monitor.git.git_merge import TrialMerge, TrialSide, branch_files, expand_folders
from imi_monitor.git.runner import Git
from tests.helpers import Repo, tree_hash


def side(repo: Repo, other: Repo, *edits: str) -> TrialSide:
    common = str(repo.path / ".git")
    git = Git(common, f"{common}/worktrees/{other.path.name}", str(other.path))
    return TrialSide(git, other.git("rev-parse", "HEAD"), edits)


@pytest.fixture
def pair(repo: Repo) -> tuple[Repo, Repo]:
    return repo.worktree("feat-a"), repo.worktree("feat-b")


def test_uncommitted_edits_conflict_in_a_trial_merge(repo: Repo, pair: tuple[Repo, Repo]) -> None:
    for name, other in zip("ab", pair, strict=True):
        other.write("README.md", f"{name}\n")
    before = tree_hash(repo.path / ".git")
    with TrialMerge(str(repo.path / ".git")) as trial:
        left, right = (trial.commit(side(repo, other, "README.md")) for other in pair)
        assert trial.conflicts(side(repo, pair[0]).git, left, right) == ("README.md",)
    assert tree_hash(repo.path / ".git") == before


def test_the_same_edit_on_both_sides_does_not_conflict(repo: Repo, pair: tuple[Repo, Repo]) -> None:
    for other in pair:
        other.write("README.md", "same\n")
    with TrialMerge(str(repo.path / ".git")) as trial:
        left, right = (trial.commit(side(repo, other, "README.md")) for other in pair)
        assert left == right, "the same content is the same commit"
        assert trial.conflicts(side(repo, pair[0]).git, left, right) == ()


def test_new_deleted_and_staged_files_are_in_a_trial_merge(repo: Repo, pair: tuple[Repo, Repo]) -> None:
    a, b = pair
    a.write("new/file.txt", "a\n")
    b.write("new/file.txt", "b\n")
    b.git("add", "new/file.txt")
    (a.path / "src/api.py").unlink()
    b.write("src/api.py", "changed\n")
    with TrialMerge(str(repo.path / ".git")) as trial:
        left = trial.commit(side(repo, a, *expand_folders(str(a.path), ["new/", "src/api.py"])))
        right = trial.commit(side(repo, b, "new/file.txt", "src/api.py"))
        assert set(trial.conflicts(side(repo, a).git, left, right)) == {"new/file.txt", "src/api.py"}


def test_a_clean_worktree_needs_no_trial_commit(repo: Repo, pair: tuple[Repo, Repo]) -> None:
    with TrialMerge(str(repo.path / ".git")) as trial:
        assert trial.commit(side(repo, pair[0])) == repo.git("rev-parse", "HEAD")


def test_files_that_branch_and_trunk_changed(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    other.write("mine.txt", "x")
    head = other.commit("mine")
    repo.write("README.md", "theirs")
    trunk = repo.commit("theirs")
    own, theirs = branch_files(Git(str(repo.path / ".git")), head, trunk)
    assert (own, theirs) == ({"mine.txt"}, {"README.md"})
