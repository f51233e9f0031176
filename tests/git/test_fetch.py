"""Fetching: only the requested refs, only from allowed addresses, and the meaning of a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor.git.remotes import check_refspec, fetch, url_problem
from imi_monitor.model.errors import GitError, Refused, UsageError
from tests.git.git_kit import commit_id, commit_on_main, make_branch, open_git
from tests.helpers import Repo, git
from tests.limits import read_line


@pytest.fixture
def behind(cloned: Repo, tmp_path: Path) -> Repo:
    """A clone whose origin has moved on: `main` one further, a new branch, a tag and a pull request."""
    git("clone", "-q", str(tmp_path / "origin.git"), str(tmp_path / "other"), cwd=tmp_path)
    other = Repo(tmp_path / "other")
    commit_on_main(other, "news", "news")
    make_branch(other, "feat/new", ("n", "n"))
    other.git("tag", "v1")
    other.git("push", "-q", "origin", "main", "feat/new", "v1", "feat/new:refs/pull/7/head")
    return cloned


def refs_of(repo: Repo) -> str:
    return repo.git("for-each-ref")


def test_fetch_gets_all_branches(behind: Repo) -> None:
    seen: list[str] = []
    fetch(open_git(behind), "origin", on_progress=seen.append)
    names = behind.git("for-each-ref", "--format=%(refname)").splitlines()
    assert names == [
        "refs/heads/main",
        "refs/remotes/origin/HEAD",
        "refs/remotes/origin/feat/new",
        "refs/remotes/origin/main",
    ]
    assert not (behind.path / ".git/FETCH_HEAD").exists()
    assert seen


def test_fetch_gets_a_pull_request(behind: Repo) -> None:
    fetch(open_git(behind), "origin", ["+refs/pull/7/head:refs/remotes/origin/pull/7"])
    assert behind.git("log", "-1", "--format=%s", "origin/pull/7") == "feat/new 0: n"
    assert "feat/new" not in refs_of(behind)


def test_configured_refspecs_are_not_fetched(behind: Repo) -> None:
    """An agent may have written `+refs/heads/*:refs/heads/*`, which throws local commits away."""
    mine = make_branch(behind, "feat/new", ("mine", "mine"))
    behind.git("config", "--replace-all", "remote.origin.fetch", "+refs/heads/*:refs/heads/*")
    behind.git("config", "remote.origin.prune", "true")
    behind.git("config", "remote.origin.tagOpt", "--tags")
    behind.git("update-ref", "refs/remotes/origin/only-here", "HEAD")
    fetch(open_git(behind), "origin")
    fetch(open_git(behind), "origin", ["refs/heads/main:refs/remotes/origin/main"])
    assert commit_id(behind, "refs/heads/feat/new") == mine
    assert commit_id(behind, "refs/remotes/origin/only-here")
    assert behind.git("tag") == ""


@pytest.mark.parametrize(
    "spec",
    [
        "main",
        "--upload-pack=touch x",
        "-f",
        "refs/heads/-f:refs/remotes/o/x",
        "+refs/heads/main:refs/heads/main",
        "+refs/heads/main",
        "refs/heads/main:refs/heads/",
        "refs/heads/*:refs/remotes/o/x",
        "refs/heads/*/*:refs/x/*/*",
        "+refs/heads/*:refs/tags/*",
        "",
        ":",
        "refs/heads/main:",
        "HEAD:refs/heads/x",
        "^refs/heads/main",
    ],
)
def test_refspecs_that_are_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        check_refspec(spec)


def test_a_local_branch_moves_forward_only(behind: Repo) -> None:
    behind.git("checkout", "-q", "-b", "elsewhere")
    fetch(open_git(behind), "origin", ["refs/heads/main:refs/heads/main"])
    assert behind.git("log", "-1", "--format=%s", "main") == "trunk goes on"
    make_branch(behind, "feat/new", ("mine", "mine"))
    behind.git("checkout", "-q", "elsewhere")
    before = refs_of(behind)
    with pytest.raises(GitError):
        fetch(open_git(behind), "origin", ["refs/heads/feat/new:refs/heads/feat/new"])
    assert refs_of(behind) == before


def test_fetch_runs_no_program_of_the_repository(behind: Repo, tmp_path: Path) -> None:  # G1
    canary = tmp_path / "canary"
    behind.git("config", "remote.origin.uploadpack", f"touch {canary}; git-upload-pack")
    behind.git("config", "core.sshCommand", f"touch {canary}")
    hook = behind.path / ".git/hooks/reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
    hook.chmod(0o755)
    fetch(open_git(behind), "origin")
    assert not canary.exists()
    behind.git("fetch", "origin")
    assert canary.exists()  # plain git does run it


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("how", ["url", "insteadOf", "vcs"])
def test_an_address_that_is_a_program_is_refused(behind: Repo, tmp_path: Path, how: str, trusted: bool) -> None:
    canary = tmp_path / "canary"
    address = f"ext::sh -c touch% {canary}"
    behind.git("config", "protocol.ext.allow", "always")
    if how == "url":
        behind.git("config", "remote.origin.url", address)
    elif how == "insteadOf":
        behind.git("config", f"url.{address}.insteadOf", str(tmp_path / "origin.git"))
    else:
        behind.git("config", "remote.origin.vcs", "ext")
        behind.git("config", "remote.origin.url", address.removeprefix("ext::"))  # looks like a path
    before = refs_of(behind)
    with pytest.raises((Refused, GitError)):
        fetch(open_git(behind, trusted=trusted), "origin")
    assert not canary.exists()
    assert refs_of(behind) == before


def test_fetch_without_a_remote_is_an_error(repo: Repo) -> None:
    for name in ("origin", "src"):  # `src` is a directory here, which git would take for an address
        with pytest.raises(GitError) as failed:
            fetch(open_git(repo), name)
        assert failed.value.code == "no-remote"


@pytest.mark.parametrize(
    "address",
    ["/nowhere/at/all", "git://127.0.0.1:1/x", "ssh://127.0.0.1:1/x", "https://127.0.0.1:1/x", "file:///nowhere"],
)
def test_an_unreachable_remote_is_offline(cloned: Repo, address: str) -> None:
    cloned.git("remote", "set-url", "origin", address)
    with pytest.raises(GitError) as failed:
        fetch(open_git(cloned), "origin", timeout=90)
    assert failed.value.code == "offline", failed.value.sentence
    assert failed.value.sentence.startswith("origin: ")


def test_a_remote_that_never_answers_times_out(cloned: Repo) -> None:  # G5
    silent = (
        "import socket, time\n"
        "listening = socket.create_server(('127.0.0.1', 0))\n"
        "print(listening.getsockname()[1], flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", silent], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            cloned.git("remote", "set-url", "origin", f"git://127.0.0.1:{read_line(server.stdout).strip()}/x")
            with pytest.raises(GitError) as failed:
                fetch(open_git(cloned), "origin", timeout=0.5)
        finally:
            server.kill()
    assert failed.value.code == "offline"
    assert "did not answer in time" in failed.value.sentence


def test_a_branch_that_the_remote_lacks_is_no_ref(cloned: Repo) -> None:
    with pytest.raises(GitError) as failed:
        fetch(open_git(cloned), "origin", ["refs/pull/999/head:refs/imi/pull/999"])
    assert failed.value.code == "no-ref"


def test_a_secret_in_an_address_is_not_repeated(cloned: Repo) -> None:  # T4
    cloned.git("remote", "set-url", "origin", "https://me:hunter22@127.0.0.1:1/x")
    with pytest.raises(GitError) as failed:
        fetch(open_git(cloned), "origin", timeout=90)
    assert "hunter22" not in failed.value.sentence + failed.value.stderr


def test_fetch_can_be_cancelled(behind: Repo) -> None:
    before = refs_of(behind)
    with pytest.raises(GitError) as failed:
        fetch(open_git(behind), "origin", cancelled=lambda: True)
    assert failed.value.code == "cancelled"
    assert refs_of(behind) == before


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("https://example.com/a.git", True),
        ("ssh://git@example.com:22/a.git", True),
        ("git@example.com:a/b.git", True),
        ("me@[::1]:a/b.git", True),
        ("/srv/a b.git", True),
        ("../a.git", True),
        ("file:///srv/a.git", True),
        ("git://example.com/a.git", True),
        ("ext::sh -c touch% x", False),
        ("EXT::sh", False),
        ("foo+bar::x", False),
        ("::x", False),
        ("ext::[x]:y", False),
        ("fd::17", False),
        ("http://example.com/a.git", False),
        ("gopher://example.com", False),
        ("-oProxyCommand=touch x", False),
        ("--upload-pack=touch x", False),
        ("ssh://-oProxyCommand=x/y", False),
        ("ssh://me@-oProxyCommand=x/y", False),
        ("-oProxyCommand=x:y", False),
        ("me@-oProxyCommand=x:y", False),
        ("https:///x", False),
        ("https://example.com/\n", False),
        ("", False),
    ],
)
def test_allowed_and_refused_addresses(url: str, good: bool) -> None:  # G3
    assert (url_problem(url) is None) == good
