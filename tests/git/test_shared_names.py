"""Names that git tracks: found in the index, or by git itself in doubt. # S1"""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.git import shared_names
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import GitError
from tests.helpers import Repo


class _Counting(Git):
    """git that counts how often it is asked."""

    __slots__ = ("asked",)
    asked: int

    def run(self, *args, **options):  # type: ignore[no-untyped-def]
        self.asked += 1
        return super().run(*args, **options)


@pytest.fixture
def git(repo: Repo) -> _Counting:
    admin = str(repo.path / ".git")
    made = _Counting(admin, admin, str(repo.path))
    made.asked = 0
    return made


def found(git: _Counting, *names: str) -> dict[str, str]:
    return shared_names.tracked_names(git, git.admin_dir, names)


def test_untracked_names_need_no_process(git: _Counting, repo: Repo) -> None:
    for number in range(300):
        repo.write(f"deep/{number}/api.py", "x")
        repo.write(f"deep/{number}/config.py", "x")
    repo.commit("many")
    assert (
        found(git, ".env", "api.py", "a", "e", "pi.py", "deep/new", "src/db", "config", ".vscode/settings.json") == {}
    )
    assert git.asked == 0


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("length", [1, 7, 4000])
def test_every_kind_of_tracked_name_has_its_reason(git: _Counting, repo: Repo, version: int, length: int) -> None:
    name = "/".join(["n" * 200] * (length // 201) + ["n" * max(1, length % 201)])
    repo.git("update-index", "--add", "--cacheinfo", f"100644,{repo.git('rev-parse', 'HEAD:README.md')},{name}")
    repo.git("commit", "-q", "-m", "long")
    if version == 3:
        repo.git("update-index", "--skip-worktree", "src/api.py", name)
    else:
        repo.git("update-index", f"--index-version={version}")
    head = (repo.path / ".git" / "index").read_bytes()[4:8]
    assert int.from_bytes(head) == version
    assert found(git, name)[name].startswith("is tracked")
    assert found(git, "src")["src"] == "is a folder with tracked files"
    assert "its folder src/api.py is tracked" in found(git, "src/api.py/below")["src/api.py/below"]
    assert found(git, "src/api", "rc/api.py", name + "x") == {}


def test_without_an_index_no_name_is_tracked(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.git("init", "-q")
    admin = str(tmp_path / ".git")
    assert shared_names.tracked_names(Git(admin, admin, str(tmp_path)), admin, ["a"]) == {}


def test_names_that_git_cannot_check_count_as_tracked(git: _Counting, repo: Repo) -> None:
    (repo.path / ".git" / "index").write_bytes(b"DIRC\0\0\0\4broken")
    assert found(git, "a")["a"].startswith("git cannot say whether it is tracked")


def test_unignored_names(git: _Counting, repo: Repo) -> None:
    (repo.path / ".git" / "info" / "exclude").write_text("/.env\n/conf/a\n/b\n")
    names = [".env", "conf/a", "b"]
    assert shared_names.unignored_names(git, str(repo.path), names) == set()
    assert git.asked == 0
    repo.write("conf/.gitignore", "!a\n")
    assert shared_names.unignored_names(git, str(repo.path), names) == {"conf/a"}
    repo.write(".gitignore", "\n!b\n")
    assert shared_names.unignored_names(git, str(repo.path), names) == {"conf/a", "b"}
    (repo.path / ".gitignore").unlink()
    (repo.path / ".gitignore").symlink_to("conf/.gitignore")
    assert shared_names.unignored_names(git, str(repo.path), names) == {"conf/a"}, "git does not follow a link there"
    (repo.path / ".git" / "config").write_text("[broken\n")
    with pytest.raises(GitError):
        shared_names.unignored_names(git, str(repo.path), names)
