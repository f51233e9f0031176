"""The GitPython room: the same answers as git's own, nothing executed, nothing inherited."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor.git import commit_log
from imi_monitor.git.commit_log import read_config, read_refs, recent_commits, remote_urls, tags
from imi_monitor.model.errors import GitError, UsageError
from tests.git.asking import branch_with, on_main, sha_of
from tests.helpers import Repo, git


def common(repo: Repo) -> str:
    return str(repo.path / ".git")


def by_git(repo: Repo, *args: str) -> list[str]:
    return repo.git("log", "--format=%H %an %s", *args).split("\n")


def shown(repo: Repo, ref: str = "HEAD", limit: int = 20) -> list[str]:
    return [f"{one.sha} {one.author} {one.subject}" for one in recent_commits(common(repo), ref, limit)]


@pytest.fixture(params=["GitPython", "git"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reading must say the same."""
    if request.param == "git":
        monkeypatch.setattr(commit_log, "_open", lambda common_dir: None)
    return str(request.param)


def test_recent_commits(repo: Repo, reader: str) -> None:
    branch_with(repo, "feat", ("a", "a"))
    on_main(repo, "b", "b", "subject \u2028 \x1b[31m\n\nbody")
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "feat")
    repo.git("pack-refs", "--all")
    assert shown(repo) == by_git(repo)
    assert shown(repo, "refs/heads/feat", 2) == by_git(repo, "-2", "feat")
    assert shown(repo, sha_of(repo, "feat")) == by_git(repo, "feat")
    when = recent_commits(common(repo))[0].when
    assert when == repo.git("log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%S.000000+00:00", "--format=%cd")


def test_gitpython_itself_is_what_reads(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = by_git(repo)
    monkeypatch.setattr(commit_log, "Git", None)  # asking git instead would fail
    assert shown(repo) == expected
    assert list(read_refs(common(repo))) == ["refs/heads/main"]


def test_unborn_unknown_and_hostile(repo: Repo, tmp_path: Path, reader: str) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "new"), cwd=tmp_path)
    assert recent_commits(str(tmp_path / "new/.git")) == []
    with pytest.raises(GitError) as failed:
        recent_commits(common(repo), "refs/heads/none")
    assert failed.value.code == "no-ref"
    for name in ("--output=x", "main", "HEAD~1", "refs/heads/--output=x", "../../secret", "refs/../../x"):
        with pytest.raises(UsageError):
            recent_commits(common(repo), name)
    assert not (tmp_path / "x").exists()


def test_shallow_sha256_and_bare(cloned: Repo, tmp_path: Path, reader: str) -> None:
    git("clone", "-q", "--depth=1", f"file://{tmp_path}/origin.git", "thin", cwd=tmp_path)
    assert len(shown(Repo(tmp_path / "thin"))) == 1
    assert len(recent_commits(str(tmp_path / "origin.git"), "refs/heads/main")) == 2
    git("init", "-q", "--object-format=sha256", "-b", "main", str(tmp_path / "long"), cwd=tmp_path)
    made = Repo(tmp_path / "long")
    made.write("a", "a")
    made.commit("long ids")
    assert shown(made) == by_git(made)


def test_refs_and_tags(repo: Repo, reader: str) -> None:
    repo.git("tag", "v1")
    repo.git("tag", "-a", "-m", "two", "v2")
    repo.git("pack-refs", "--all")
    branch_with(repo, "feat/x", ("a", "a"))
    lines = repo.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads").splitlines()
    assert read_refs(common(repo)) == dict(line.split(" ") for line in lines)
    assert tags(common(repo)) == {"v1": sha_of(repo), "v2": repo.git("rev-parse", "v2")}
    assert read_refs(common(repo), "refs/none") == {}


def test_names_that_are_no_utf8(repo: Repo) -> None:
    with (repo.path / ".git/packed-refs").open("wb") as file:
        file.write(f"{sha_of(repo)} refs/heads/".encode() + b"caf\xff\n")
    assert read_refs(common(repo)) == {"refs/heads/main": sha_of(repo), "refs/heads/caf\udcff": sha_of(repo)}


def test_configuration_is_the_repositorys_own(cloned: Repo, own_home: Path, tmp_path: Path) -> None:
    cloned.git("config", "remote.Up.Stream.url", "https://example.com/a.git")
    cloned.git("config", "--add", "remote.origin.url", "second")
    cloned.git("config", "imi.flag", "yes")
    (tmp_path / "more").write_text("[imi]\n\tincluded = yes\n")
    cloned.git("config", "include.path", str(tmp_path / "more"))
    assert remote_urls(common(cloned)) == {"origin": f"{tmp_path}/origin.git", "Up.Stream": "https://example.com/a.git"}
    assert read_config(common(cloned), "IMI.Flag") == "yes"
    assert read_config(common(cloned), "remote.Up.Stream.url") == "https://example.com/a.git"
    assert [read_config(common(cloned), key) for key in ("imi.included", "user.name", "imi.none", "none", "a.b.c")] == [
        None
    ] * 5


def test_a_configuration_that_blocks_is_refused(repo: Repo) -> None:  # G5
    repo.git("config", "include.path", "pipe")
    os.mkfifo(repo.path / ".git/pipe")
    assert read_config(common(repo), "core.bare") == "false"
    (repo.path / ".git/config").unlink()
    os.mkfifo(repo.path / ".git/config")
    with pytest.raises(GitError):
        read_config(common(repo), "core.bare")


def test_nothing_of_the_repository_runs_and_nothing_is_left_running(repo: Repo, tmp_path: Path) -> None:  # G1
    canary = tmp_path / "canary"
    repo.git("config", "core.fsmonitor", f"touch {canary}")
    repo.git("config", "core.sshCommand", f"touch {canary}")
    repo.git("config", "core.alternateRefsCommand", f"touch {canary}")
    recent_commits(common(repo))
    read_refs(common(repo))
    assert not canary.exists()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if b"cat-file" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_missing_object_is_not_fetched_by_a_program_of_the_repository(repo: Repo, tmp_path: Path) -> None:  # G1
    canary = tmp_path / "canary"
    second = on_main(repo, "a", "a")
    on_main(repo, "b", "b")
    for key, value in (
        ("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin"), ("remote.origin.promisor", "true"),
        ("remote.origin.url", str(tmp_path)), ("remote.origin.uploadpack", f"touch {canary}; git-upload-pack"),
    ):  # fmt: skip
        repo.git("config", key, value)
    (repo.path / ".git/objects" / second[:2] / second[2:]).unlink()
    with pytest.raises(GitError):
        recent_commits(common(repo))
    assert not canary.exists()
    repo.git("log", check=False)
    assert canary.exists()  # plain git does run it


def test_variables_around_us_do_not_lead_elsewhere(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Repo.create(tmp_path / "other")
    on_main(other, "z", "z", "elsewhere")
    expected = by_git(repo)
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git/objects"))
    monkeypatch.setenv("GIT_COMMON_DIR", str(other.path / ".git"))
    assert shown(repo) == expected


def test_a_work_tree_that_lies_is_not_asked(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # G2
    other = Repo.create(tmp_path / "other")
    on_main(repo, "y", "y", "only here")
    repo.git("config", "core.worktree", str(other.path))
    monkeypatch.setattr(commit_log, "Git", None)  # the second way of reading would mend it
    listed = [one.sha for one in recent_commits(common(repo))]
    repo.git("config", "--unset", "core.worktree")
    assert listed == repo.git("rev-list", "HEAD").split()


def test_gitpython_is_imported_only_when_needed() -> None:
    code = "import sys, imi_monitor.git.commit_log; sys.exit('git' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
