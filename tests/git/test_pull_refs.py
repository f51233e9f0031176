"""Fetching pull requests with git alone, and the upstream of their branches."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from imi_monitor.git import pull_refs
from imi_monitor.git.refs import changed_files, distance, trunk_ref
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import GitError, ImiError, Refused, UsageError
from tests.helpers import Repo, git
from tests.limits import join


def git_of(repo: Repo) -> Git:
    return Git(str(repo.path / ".git"), str(repo.path / ".git"), str(repo.path))


def test_refs_of_a_remote_are_listed(cloned: Repo, tmp_path: Path) -> None:
    sha = cloned.git("rev-parse", "HEAD")
    cloned.git(
        "push",
        "-q",
        "origin",
        "HEAD:refs/pull/12/head",
        "HEAD:refs/pull/112/head",
        "HEAD:refs/heads/deep/refs/pull/12/head",
    )
    found = pull_refs.list_remote_refs(git_of(cloned), "origin", ["refs/pull/12/head", "refs/heads/*"], timeout=90)
    assert found == {"refs/heads/main": sha, "refs/pull/12/head": sha, "refs/heads/deep/refs/pull/12/head": sha}
    by_path = pull_refs.list_remote_refs(
        git_of(cloned), str(tmp_path / "origin.git"), ["refs/pull/12/head"], timeout=90
    )
    assert by_path["refs/pull/12/head"] == sha


def test_fetching_from_an_address_changes_nothing_else(cloned: Repo, tmp_path: Path) -> None:
    cloned.git("tag", "v1")
    cloned.git("push", "-q", "origin", "v1", "HEAD:refs/heads/x")
    cloned.git("tag", "-d", "v1")
    url = str(tmp_path / "origin.git")
    pull_refs.fetch_from(git_of(cloned), url, ["+refs/heads/x:refs/remotes/imi/origin/fork/a/x"], timeout=90)
    refs = cloned.git("for-each-ref", "--format=%(refname)").splitlines()
    assert refs == [
        "refs/heads/main",
        "refs/remotes/imi/origin/fork/a/x",
        "refs/remotes/origin/HEAD",
        "refs/remotes/origin/main",
        "refs/remotes/origin/x",
    ]
    assert not (cloned.path / ".git" / "FETCH_HEAD").exists()


@pytest.mark.parametrize("address", ["ext::sh -c 'touch canary'", "http://h/x:y", "https://-x/y", "/tmp/a\nb", "fd::3"])
def test_a_forbidden_address_is_refused(cloned: Repo, address: str) -> None:  # G3
    for act in (
        lambda: pull_refs.check_url(git_of(cloned), address),
        lambda: pull_refs.list_remote_refs(git_of(cloned), address, ["refs/heads/x"], timeout=5),
        lambda: pull_refs.fetch_from(git_of(cloned), address, ["refs/heads/x:refs/imi/x"], timeout=5),
        lambda: pull_refs.configure_upstream(git_of(cloned), "main", address, "refs/heads/x", push=True),
    ):
        with pytest.raises(Refused) as caught:
            act()
        assert caught.value.code == "bad-url"
    assert not list(cloned.path.rglob("canary")) and cloned.git("config", "branch.main.remote") == "origin"


def test_an_address_that_insteadof_turns_into_a_program_is_refused(cloned: Repo) -> None:
    git("config", "--global", "url.ext::sh -c touch% canary;.insteadOf", "https://nice.example/", cwd=cloned.path)
    with pytest.raises(Refused):
        pull_refs.fetch_from(git_of(cloned), "https://nice.example/x", ["refs/heads/x:refs/imi/x"], timeout=5)


@pytest.mark.parametrize(
    ("branch", "remote", "merge"),
    [("-x", "origin", "refs/heads/x"), ("x", "-x", "refs/heads/x"), ("x", "origin", "--x")],
)
def test_remote_and_branch_names_that_are_options_are_refused(
    cloned: Repo, branch: str, remote: str, merge: str
) -> None:  # G3
    with pytest.raises((UsageError, Refused)):
        pull_refs.configure_upstream(git_of(cloned), branch, remote, merge, push=True)


def test_the_push_remote_of_an_earlier_branch_is_deleted(cloned: Repo) -> None:
    one = git_of(cloned)
    pull_refs.configure_upstream(one, "fix/it.now", "https://h.example/alice/app.git", "refs/heads/it", push=True)
    assert cloned.git("config", "branch.fix/it.now.pushRemote") == "https://h.example/alice/app.git"
    cloned.git("config", "--add", "branch.fix/it.now.merge", "refs/heads/other")
    pull_refs.configure_upstream(one, "fix/it.now", "origin", "refs/pull/1/head", push=False)
    assert cloned.git("config", "--get-regexp", "^branch.fix/it.now").splitlines() == [
        "branch.fix/it.now.remote origin",
        "branch.fix/it.now.merge refs/pull/1/head",
    ]
    assert pull_refs.configured_upstream(one, "fix/it.now") == ("origin", "refs/pull/1/head")
    assert pull_refs.configured_upstream(one, "nothing") == (None, None)


def test_a_briefly_locked_configuration_is_written(cloned: Repo) -> None:
    lock = cloned.path / ".git" / "config.lock"
    lock.touch()
    free = threading.Timer(0.3, lock.unlink)
    free.start()
    pull_refs.configure_upstream(git_of(cloned), "x", "origin", "refs/heads/x", push=False)
    join(free)
    assert pull_refs.configured_upstream(git_of(cloned), "x") == ("origin", "refs/heads/x")


def test_an_unknown_or_offline_address_is_an_error(cloned: Repo, tmp_path: Path) -> None:
    (tmp_path / "origin.git").rename(tmp_path / "away.git")
    for where, code in (("origin", "offline"), ("nowhere", "no-remote"), (str(tmp_path / "origin.git"), "offline")):
        with pytest.raises(ImiError) as caught:
            pull_refs.list_remote_refs(git_of(cloned), where, ["refs/heads/x"], timeout=90)
        assert caught.value.code == code


def test_listing_a_remote_that_hangs_times_out(cloned: Repo, tmp_path: Path) -> None:  # G5
    hang = tmp_path / "hang"
    hang.write_text("#!/bin/sh\nsleep 60\n")
    hang.chmod(0o755)
    git("config", "--global", "core.sshCommand", str(hang), cwd=tmp_path)
    started = time.monotonic()
    with pytest.raises(GitError) as caught:
        pull_refs.list_remote_refs(git_of(cloned), "ssh://h.example/app.git", ["refs/heads/x"], timeout=0.5)
    assert caught.value.code == "offline" and time.monotonic() - started < 50


def test_distance_counts_commits_on_both_sides(cloned: Repo) -> None:
    one = git_of(cloned)
    assert trunk_ref(one, "origin", "main") == "refs/remotes/origin/main"
    assert trunk_ref(one, "nowhere", "main") == "refs/heads/main"
    assert trunk_ref(one, "origin", "nothing") is None
    cloned.write("new\nline", "x")
    cloned.git("mv", "README.md", "READ")
    cloned.commit("third")
    assert distance(one, "HEAD", "refs/remotes/origin/main") == (1, 0)
    assert distance(one, "refs/remotes/origin/main", "HEAD") == (0, 1)
    assert changed_files(one, "refs/remotes/origin/main", "HEAD") == {"new\nline", "README.md", "READ"}
    for bad in ("--output=x", "main", "HEAD~1"):
        with pytest.raises(UsageError):
            distance(one, bad, "HEAD")
