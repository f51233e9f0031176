"""Commits of imi are signed where the user's own settings say so, with a real key; a repository's settings start no program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from imi_monitor.git import publish
from imi_monitor.git.commit_signature import read_signature
from imi_monitor.git.git_merge import merge_commit
from imi_monitor.model.errors import GitError
from tests.git.git_kit import commit_id, open_git
from tests.helpers import Repo, git

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


def stage(repo: Repo, text: str) -> None:
    repo.write("README.md", text)
    repo.git("add", "README.md")


def signature(repo: Repo, sha: str) -> str:
    return repo.git("cat-file", "commit", sha).partition("gpgsig ")[2]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, timeout=30)
    return path


def settings(**values: str) -> None:
    for name, value in values.items():
        git("config", "--global", name.replace("_", "."), value, cwd=Path("/"))


def test_the_users_settings_decide(repo: Repo, key: Path) -> None:
    stage(repo, "one\n")
    assert signature(repo, publish.commit_staged(open_git(repo), "unsigned")) == ""
    settings(commit_gpgSign="true", gpg_format="ssh", user_signingKey=f"{key}.pub")
    stage(repo, "two\n")
    assert signature(repo, publish.commit_staged(open_git(repo), "signed")).startswith("-----BEGIN SSH SIGNATURE")
    merged = merge_commit(open_git(repo), repo.git("rev-parse", "HEAD^{tree}"), [commit_id(repo)], "a merge")
    assert signature(repo, merged).startswith("-----BEGIN SSH SIGNATURE")


def test_a_failure_says_so_and_commits_nothing(repo: Repo, tmp_path: Path) -> None:
    settings(commit_gpgSign="true", gpg_format="ssh", user_signingKey=str(tmp_path / "none.pub"))
    stage(repo, "one\n")
    before = commit_id(repo)
    with pytest.raises(GitError, match="your git settings sign each commit, and that failed"):
        publish.commit_staged(open_git(repo), "signed")
    assert commit_id(repo) == before and repo.git("diff", "--cached", "--name-only") == "README.md"


def test_a_repository_neither_turns_it_on_nor_names_the_program(repo: Repo, key: Path, tmp_path: Path) -> None:
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    program.chmod(0o755)
    for name, value in (("commit.gpgSign", "true"), ("gpg.format", "openpgp"), ("gpg.program", str(program))):
        repo.git("config", name, value)
    repo.git("config", "gpg.ssh.program", str(program))
    stage(repo, "one\n")
    assert signature(repo, publish.commit_staged(open_git(repo), "unsigned")) == ""
    settings(commit_gpgSign="true", gpg_format="ssh", user_signingKey=f"{key}.pub")
    stage(repo, "two\n")
    assert signature(repo, publish.commit_staged(open_git(repo), "signed")).startswith("-----BEGIN SSH SIGNATURE")
    assert not (tmp_path / "ran").exists() and read_signature().wanted
