"""`Git` for the repositories of tests, and histories that several tests need."""

from __future__ import annotations

import os
from pathlib import Path

from imi_monitor.git.runner import Git
from tests.helpers import Repo, git


def open_git(place: Repo | Path, *, trusted: bool = False) -> Git:
    """Return `Git` for a work tree (or a bare repository), found by plain git."""
    path = place.path if isinstance(place, Repo) else place
    dirs = git("rev-parse", "--path-format=absolute", "--git-common-dir", "--absolute-git-dir", cwd=path).splitlines()
    bare = git("rev-parse", "--is-bare-repository", cwd=path) == "true"
    return Git(os.path.realpath(dirs[0]), os.path.realpath(dirs[1]), None if bare else str(path), trusted=trusted)


def commit_id(repo: Repo, revision: str = "HEAD") -> str:
    return repo.git("rev-parse", "--verify", f"{revision}^{{commit}}")


def make_branch(repo: Repo, branch: str, *changes: tuple[str, str], start: str = "main") -> str:
    """Make a branch with one commit for each (file, text); leaves the repository on `main`. Returns the branch's tip."""
    repo.git("checkout", "-q", "-b", branch, start)
    for number, (name, text) in enumerate(changes):
        repo.write(name, text)
        repo.commit(f"{branch} {number}: {name}")
    tip = commit_id(repo)
    repo.git("checkout", "-q", "main")
    return tip


def commit_on_main(repo: Repo, name: str, text: str, message: str = "trunk goes on") -> str:
    repo.write(name, text)
    return repo.commit(message)


def start_conflict(repo: Repo, name: str = "README.md") -> None:
    """Start a merge that stops with one file in conflict."""
    make_branch(repo, "theirs", (name, "theirs\n"))
    commit_on_main(repo, name, "ours\n")
    repo.git("merge", "theirs", check=False)
