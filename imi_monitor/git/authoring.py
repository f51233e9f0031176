"""Making history: a new repository and commits in it. For the demonstration, never in somebody's repository."""

from __future__ import annotations

import os

from imi_monitor.git.run import Git
from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def create(path: str, branch: str = "main") -> Git:
    """A new empty repository at `path`, which must not be one yet."""
    os.makedirs(path)
    common = os.path.join(path, ".git")
    os.makedirs(common)
    git = Git(common, common, path)
    git.run("init", "--quiet", f"--initial-branch={branch}")
    return git


def create_bare(path: str, branch: str = "main") -> Git:
    """A new bare repository, as a forge has it."""
    os.makedirs(path)
    git = Git(path)
    git.run("init", "--quiet", "--bare", f"--initial-branch={branch}")
    return git


def commit(git: Git, message: str, author: str, paths: Sequence[str] = (".",)) -> None:
    """Everything under `paths` as one commit by `author`, now by imi's own clock."""
    who = [("user.name", author), ("user.email", f"{author}@demo.invalid"), ("commit.gpgSign", "false")]
    git.run("add", "--all", "--", *paths)
    now = f"{times.clock() // 1_000_000_000} +0000"
    moment = {"GIT_AUTHOR_DATE": now, "GIT_COMMITTER_DATE": now}
    git.run("commit", "--quiet", "--allow-empty", "--no-verify", "-m", message, settings=who, env=moment)
