"""Commits that nothing but a purged worktree still knew, kept under `refs/imi/kept/`: purging frees files, never commits."""

from __future__ import annotations

import os

from imi_monitor.git.commits import log
from imi_monitor.git.layout import read_small
from imi_monitor.git.refs import check_ref
from imi_monitor.model.names import is_commit_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.run import Git

_ROOM = "refs/imi/kept"
# What git would look at to find a commit again. The admin directory's own refs and logs go away with it.
_KNOWN = ("--not", "--branches", "--tags", "--remotes", f"--glob={_ROOM}", "--not")
_AUTOSTASHES = ("rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH")


def keep(git: Git, name: str, tips: Sequence[str | None]) -> list[str]:
    """Give refs to these commits and to the half-done stashes of git's admin directory, where no ref has them; the refs."""
    stashed = [read_small(os.path.join(git.admin_dir, autostash)) for autostash in _AUTOSTASHES]
    made: list[str] = []
    for sha in dict.fromkeys([*tips, *stashed]):
        if sha and is_commit_id(sha) and log(git, sha, options=_KNOWN, limit=1):
            ref = check_ref(f"{_ROOM}/{name}" + (f"-{len(made)}" if made else ""))
            git.run("update-ref", "--no-deref", "-m", "imi", "--end-of-options", ref, sha)
            made.append(ref)
    return made
