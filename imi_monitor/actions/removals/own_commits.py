"""Where the commits of a worktree are besides here: on a branch, pushed, merged, stashed; and in its submodules.

A branch is kept unless asked otherwise, so commits that are not pushed or not merged are notes: nothing happens to them.
They are refusals on a detached HEAD, which no branch remembers, and when the branch is to be deleted.
"""

from __future__ import annotations

import os
from functools import partial

from imi_monitor.actions.removals import placement
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import count, safe
from imi_monitor.model.verdict import NOTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removals.inspection import Look
    from imi_monitor.actions.target import Target
    from imi_monitor.git.run import Git
    from imi_monitor.git.status import Status


def look_at_branch(context: Context, seen: Look, status: Status, *, deep: bool) -> None:
    """Where its commits are besides here."""
    assert seen.git is not None
    git = seen.git
    seen.trunk = seen.ask("which branch is the trunk", lambda: _trunk(context, git))
    if status.branch is not None and status.branch == seen.trunk:
        seen.reasons.append(placement.never("trunk", f"{safe(status.branch)} is the repository's default branch"))
        return
    if status.oid is None:
        return  # no commit yet: there are only files, and those were looked at
    if status.branch is None:
        _detached(seen, git, status.oid)
    else:
        _kept_commits(context, seen, status.branch, status.oid, deep=deep)
    _stash(seen, git, status)


def _trunk(context: Context, git: Git) -> str:
    from imi_monitor.git import refs

    settings = context.settings
    configured = settings.text("git_settings.default_branch") or None
    return refs.default_branch(git, settings.text("git_settings.remote_name"), configured)


def _detached(seen: Look, git: Git, oid: str) -> None:
    from imi_monitor.git import commits

    options = ("--not", "--branches", "--tags", "--remotes", "--not")
    alone = seen.ask("whether its commits are on a branch", lambda: commits.log(git, oid, options=options))
    if alone:
        subjects = [f"{made.sha[:10]} {made.subject}" for made in alone]
        seen.add(
            "detached", f"{count(len(alone), 'commit')} on no branch: `git branch NAME` there keeps them", subjects
        )


def _kept_commits(context: Context, seen: Look, branch: str, oid: str, *, deep: bool) -> None:
    from imi_monitor.git import commits, distance, proofs

    assert seen.git is not None
    git = seen.git
    remote = context.settings.text("git_settings.remote_name")
    alone = seen.ask(
        "whether its commits are pushed", lambda: commits.log(git, oid, options=("--not", "--remotes", "--not"))
    )
    seen.trunk_ref = seen.ask("where the trunk is", lambda: distance.trunk_ref(git, remote, seen.trunk or branch))
    base = seen.trunk_ref
    own = seen.ask("whether it is merged", lambda: commits.log(git, oid, f"^{base}")) if base else None
    if deep and base:
        seen.proof = seen.ask("whether it is merged", lambda: proofs.merge_proof(git, oid, base))
    if own == [] or seen.proof:
        return  # all in the trunk
    if own and seen.trunk:
        subjects = [f"{made.sha[:10]} {made.subject}" for made in own]
        seen.add("unmerged", f"{_commits(own)} not in {safe(seen.trunk)}; {_kept(branch)}", subjects, NOTE)
    if alone and _has_remote(git, seen):
        subjects = [f"{made.sha[:10]} {made.subject}" for made in alone]
        seen.add("unpushed", f"{_commits(alone)} on no remote; {_kept(branch)}", subjects, NOTE)


def _commits(commits: Sequence[object]) -> str:
    return count(len(commits), "commit")


def _kept(branch: str) -> str:
    return f"branch {safe(branch)} is kept"


def _has_remote(git: Git, seen: Look) -> bool:
    from imi_monitor.git.remotes import remotes

    return bool(seen.ask("which remotes there are", lambda: remotes(git)))


def _stash(seen: Look, git: Git, status: Status) -> None:
    from imi_monitor.git.status import stashes

    entries = seen.ask("whether something is stashed", lambda: stashes(git, status.branch))
    if entries:
        words = (
            f"{count(len(entries), 'stash entry', 'stash entries')} made here; the stash is the repository's and stays"
        )
        seen.add("stash", words, entries, NOTE)


def look_at_submodules(seen: Look) -> None:
    from imi_monitor.git import nested

    assert seen.git is not None
    git = seen.git
    for path in seen.ask("which submodules there are", lambda: list(nested.paths(git))) or []:
        name = os.path.relpath(path, seen.found.path)
        said = seen.ask(f"the state of submodule {safe(name)}", partial(_submodule, seen.found, git, path))
        if said:
            seen.add("submodule", f"submodule {safe(name)} has {said}")


def _submodule(found: Target, git: Git, path: str) -> str | None:
    """What only this submodule has: changes, or commits that none of its remotes has. Its objects go with the worktree."""
    from imi_monitor.git import commits, nested
    from imi_monitor.git.dirty import is_dirty

    inner = nested.inside(git, path)
    if inner is None:
        return "files that git never looked at" if os.path.isdir(path) and os.listdir(path) else None
    homes = (os.path.join(found.admin_dir or "", "modules"), os.path.join(found.repository.common_dir, "modules"), path)
    if not inner.admin_dir.startswith(tuple(os.path.realpath(home) + os.sep for home in homes)):
        raise GitError(f"its .git file names {safe(inner.admin_dir)}, which is not where a submodule is kept")
    if is_dirty(inner):
        return "uncommitted changes"
    own = commits.log(inner, "HEAD", options=("--branches", "--not", "--remotes", "--not"))
    return f"{_commits(own)} on no remote" if own else None
