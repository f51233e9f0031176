"""Commits read with GitPython: the same as git reads, nothing executed, no variable inherited."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor.git import gitpython_commits
from imi_monitor.git.gitpython_commits import recent_commits
from imi_monitor.model.errors import GitError, UsageError
from tests.git.git_kit import commit_id, commit_on_main, make_branch
from tests.helpers import Repo, git


def common(repo: Repo) -> str:
    return str(repo.path / ".git")


def by_git(repo: Repo, *args: str) -> list[str]:
    return repo.git("log", "--format=%H %an %s", *args).split("\n")


def shown(repo: Repo, ref: str = "HEAD", limit: int = 20) -> list[str]:
    return [f"{one.sha} {one.author} {one.subject}" for one in recent_commits(common(repo), ref, limit)]


@pytest.fixture(params=["GitPython", "git"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both readers must return the same."""
    if request.param == "git":
        monkeypatch.setenv("GIT_NOTES_REF", "refs/notes/x")  # a foreign variable rules GitPython out
    return str(request.param)


def test_recent_commits_equal_git_log(repo: Repo, reader: str) -> None:
    make_branch(repo, "feat", ("a", "a"))
    commit_on_main(repo, "b", "b", "subject \u2028 \x1b[31m\n\nbody")
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "feat")
    repo.git("pack-refs", "--all")
    assert shown(repo) == by_git(repo)
    assert shown(repo, "refs/heads/feat", 2) == by_git(repo, "-2", "feat")
    assert shown(repo, commit_id(repo, "feat")) == by_git(repo, "feat")
    when = recent_commits(common(repo))[0].at
    assert when == repo.git("log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%S.000000+00:00", "--format=%cd")


@pytest.fixture
def no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """What GitPython cannot read fails, instead of being read by git."""
    monkeypatch.setattr(gitpython_commits, "Git", None)


def test_gitpython_reads_without_running_our_git(repo: Repo, no_fallback: None) -> None:
    expected = by_git(repo)
    assert shown(repo) == expected


def test_unborn_unknown_and_hostile_refs(repo: Repo, tmp_path: Path, reader: str) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "new"), cwd=tmp_path)
    assert recent_commits(str(tmp_path / "new/.git")) == []
    with pytest.raises(GitError) as failed:
        recent_commits(common(repo), "refs/heads/none")
    assert failed.value.code == "no-ref"
    for name in ("--output=x", "main", "HEAD~1", "refs/heads/--output=x", "../../secret", "refs/../../x"):
        with pytest.raises(UsageError):
            recent_commits(common(repo), name)
    assert not (tmp_path / "x").exists()


def test_shallow_sha256_and_bare_repositories_are_read(cloned: Repo, tmp_path: Path, reader: str) -> None:
    git("clone", "-q", "--depth=1", f"file://{tmp_path}/origin.git", "thin", cwd=tmp_path)
    assert len(shown(Repo(tmp_path / "thin"))) == 1
    assert len(recent_commits(str(tmp_path / "origin.git"), "refs/heads/main")) == 2
    git("init", "-q", "--object-format=sha256", "-b", "main", str(tmp_path / "long"), cwd=tmp_path)
    made = Repo(tmp_path / "long")
    made.write("a", "a")
    made.commit("long ids")
    assert shown(made) == by_git(made)


def test_no_program_of_the_repository_runs_and_no_child_is_left(repo: Repo, tmp_path: Path) -> None:  # G1
    canary = tmp_path / "canary"
    repo.git("config", "core.fsmonitor", f"touch {canary}")
    repo.git("config", "core.sshCommand", f"touch {canary}")
    repo.git("config", "core.alternateRefsCommand", f"touch {canary}")
    recent_commits(common(repo))
    assert not canary.exists()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if b"cat-file" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_missing_object_is_not_fetched_by_a_program_of_the_repository(repo: Repo, tmp_path: Path) -> None:  # G1
    canary = tmp_path / "canary"
    second = commit_on_main(repo, "a", "a")
    commit_on_main(repo, "b", "b")
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", str(tmp_path)),
        ("remote.origin.uploadpack", f"touch {canary}; git-upload-pack"),
    ):
        repo.git("config", key, value)
    (repo.path / ".git/objects" / second[:2] / second[2:]).unlink()
    with pytest.raises(GitError):
        recent_commits(common(repo))
    assert not canary.exists()
    repo.git("log", check=False)
    assert canary.exists()  # plain git does run it


def test_git_variables_of_the_environment_do_not_change_the_repository(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repo.create(tmp_path / "other")
    commit_on_main(other, "z", "z", "elsewhere")
    expected = by_git(repo)
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git/objects"))
    monkeypatch.setenv("GIT_COMMON_DIR", str(other.path / ".git"))
    assert shown(repo) == expected


def test_a_git_that_is_gone_since_the_import_is_looked_up_again(
    repo: Repo, no_fallback: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    recent_commits(common(repo))
    monkeypatch.setattr("git.Git.GIT_PYTHON_GIT_EXECUTABLE", "/nowhere/git")
    assert shown(repo) == by_git(repo)


def test_a_configured_work_tree_is_ignored(repo: Repo, tmp_path: Path, no_fallback: None) -> None:  # G2
    other = Repo.create(tmp_path / "other")
    commit_on_main(repo, "y", "y", "only here")
    repo.git("config", "core.worktree", str(other.path))
    listed = [one.sha for one in recent_commits(common(repo))]
    repo.git("config", "--unset", "core.worktree")
    assert listed == repo.git("rev-list", "HEAD").split()


def test_gitpython_is_imported_only_when_needed() -> None:
    code = "import sys, imi_monitor.git.gitpython_commits; sys.exit('git' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
