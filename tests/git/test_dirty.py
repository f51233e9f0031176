"""Whether a worktree is dirty, as `imi release` needs it: nested repositories count, and a failure is never clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.git.dirty import is_dirty
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import GitError
from tests.helpers import Repo, git


def of(repo: Repo, **options: bool) -> Git:
    return Git(str(repo.path / ".git"), None, str(repo.path), **options)


def with_nested(repo: Repo) -> Repo:
    inner = Repo.create(repo.path / "inner")
    repo.git("add", "inner")
    repo.git("commit", "-q", "-m", "gitlink")
    return inner


STATES = {
    "clean": (lambda repo: None, (0, 0)),
    "ignored": (lambda repo: repo.write("build/out", "x"), (0, 0)),
    "modified": (lambda repo: repo.write("README.md", "x"), (1, 0)),
    "staged": (lambda repo: (repo.write("README.md", "x"), repo.git("add", "-A")), (1, 0)),
    "untracked": (lambda repo: (repo.write("dir/a", "x"), repo.write("dir/b", "x")), (0, 2)),
    "deleted": (lambda repo: (repo.path / "README.md").unlink(), (1, 0)),
    "renamed": (lambda repo: repo.git("mv", "README.md", "READ ME"), (2, 0)),
    "hidden untracked": (
        lambda repo: (repo.git("config", "status.showUntrackedFiles", "no"), repo.write("a", "x")),
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_each_uncommitted_state_is_dirty(name: str, repo: Repo) -> None:
    change, counts = STATES[name]
    change(repo)  # type: ignore[operator]
    assert is_dirty(of(repo)) == (counts != (0, 0))


def test_a_conflict_is_dirty(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "other", "HEAD~1")
    repo.write("src/db.py", "other\n")
    repo.commit("other")
    repo.git("merge", "main", check=False)
    assert is_dirty(of(repo))


def test_more_changes_than_fit_are_changes(repo: Repo) -> None:
    for number in range(800):
        repo.write(f"{'long-' * 20}{number}", "x")
    assert is_dirty(of(repo))


@pytest.mark.parametrize("trusted", [False, True])
def test_a_dirty_nested_repository_is_dirty(trusted: bool, repo: Repo) -> None:
    inner = with_nested(repo)
    repo.write(".gitmodules", '[submodule "inner"]\n\tpath = inner\n\turl = x\n\tignore = all\n')
    repo.commit("modules")
    assert not is_dirty(of(repo, trusted=trusted))
    inner.write("new", "x")
    assert is_dirty(of(repo, trusted=trusted))
    inner.commit("moved on")
    assert is_dirty(of(repo, trusted=trusted))


def test_a_dirty_repository_nested_twice_is_dirty(repo: Repo) -> None:
    inner = with_nested(repo)
    innermost = with_nested(inner)
    repo.git("commit", "-q", "-am", "both")
    assert not is_dirty(of(repo))
    innermost.write("new", "x")
    assert is_dirty(of(repo))


def test_a_dirty_submodule_is_dirty(repo: Repo, tmp_path: Path) -> None:
    library = Repo.create(tmp_path / "library")
    repo.git("submodule", "add", "-q", str(library.path), "lib")
    repo.commit("submodule")
    assert not is_dirty(of(repo))
    repo.write("lib/new", "x")
    assert is_dirty(of(repo))


def test_files_in_the_folder_of_a_missing_submodule_are_dirty(repo: Repo, tmp_path: Path) -> None:
    library = Repo.create(tmp_path / "library")
    repo.git("submodule", "add", "-q", str(library.path), "lib")
    repo.commit("submodule")
    linked = repo.worktree("feat-a")
    found = Git(str(repo.path / ".git"), str(repo.path / ".git" / "worktrees" / "feat-a"), str(linked.path))
    assert not is_dirty(found)
    linked.write("lib/precious", "git never looks here")
    assert is_dirty(found)


def test_a_nested_repository_that_cannot_be_opened_is_an_error(repo: Repo) -> None:
    with_nested(repo)
    (repo.path / "inner" / ".git" / "HEAD").unlink()
    git("status", cwd=repo.path, check=False)
    with pytest.raises(GitError):
        is_dirty(of(repo))


def test_a_missing_worktree_is_an_error_not_clean(repo: Repo) -> None:
    with pytest.raises(GitError):
        is_dirty(Git(str(repo.path / ".git"), None, str(repo.path / "gone")))
