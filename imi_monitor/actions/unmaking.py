"""Taking a creation back: what was made goes, what was there or is somebody's work stays. For rollback and recovery.

Every step may be done twice, so that this too can die anywhere. The proofs of "we made it": git's own lock on the new
worktree carries our note from its first moment, and so does the first entry of the new branch's reflog.
"""

from __future__ import annotations

import os
import time

from imi_monitor.git import heads, layout
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.plan import Plan
    from imi_monitor.actions.shared_sources import Shared
    from imi_monitor.git.run import Git


def note(identity: str) -> str:
    """What marks the branch and the worktree that an operation made."""
    return f"imi create {identity}"


def unlock(admin_dir: str, text: str) -> None:
    """Take our lock off the finished worktree; somebody else's stays."""
    lock = os.path.join(admin_dir, "locked")
    if layout.read_small(lock) == text:
        os.unlink(lock)


def undo(context: Context, git: Git, plan: Plan, identity: str, admin_dir: str | None = None) -> list[str]:
    """Take back all that this operation made; gives lines about what had to be kept.

    `admin_dir` is given by who knows that it is ours although its lock is off already.
    """
    from imi_monitor.git import half_made

    text = note(identity)
    admin_dir = admin_dir or half_made.locked_with(git.common_dir, text)
    if admin_dir is None and half_made.at(git.common_dir, plan.path) is not None:
        return _drop_branch(git, plan, text)  # somebody else has a worktree there
    if admin_dir is not None:
        _lock_again(admin_dir, text)
    scratch = os.path.join(git.common_dir, f"imi-create-{identity}.index")
    kept = half_made.take_away(git, plan.path, plan.sha, _is_ours(context, plan), scratch)
    if kept:
        if admin_dir is not None:
            unlock(admin_dir, text)
        return [_kept(plan, kept)]
    if admin_dir is not None:
        half_made.drop_admin(admin_dir)
    _drop_empty_admins(git.common_dir, plan.path)
    left = _drop_branch(git, plan, text)
    for folder in reversed(plan.folders):
        _drop_if_empty(folder)
    return left


def follow(git: Git, branch: str, upstream: str) -> None:
    """Let a new branch follow the remote one it came from, as `git checkout` would."""
    remote, _, name = upstream.partition("/")
    for key, value in (("remote", remote), ("merge", f"refs/heads/{name}")):
        git.run("config", "--local", "--replace-all", f"branch.{branch}.{key}", value)


def _unfollow(git: Git, branch: str, upstream: str) -> None:
    """Only what `follow` wrote: the section may hold more, from an earlier branch of that name."""
    remote, _, name = upstream.partition("/")
    for key, value in (("remote", remote), ("merge", f"refs/heads/{name}")):
        git.run("config", "--local", "--fixed-value", "--unset-all", f"branch.{branch}.{key}", value, ok=(0, 5))


def _lock_again(admin_dir: str, text: str) -> None:
    """Put our lock back on what was unlocked just before the end, so that a second attempt still knows whose it is."""
    with open(os.path.join(admin_dir, "locked"), "w", encoding="ascii") as file:
        file.write(text)


def _is_ours(context: Context, plan: Plan) -> Callable[[str], bool]:
    """Whether an untracked name is a link to a shared file; only looked into when there is such a name."""
    found: list[Shared | None] = []

    def is_ours(name: str) -> bool:
        full = os.path.join(plan.path, name)
        if not os.path.islink(full):
            return False
        if not found:
            from imi_monitor.actions import shared_sources

            found.append(shared_sources.read(plan.repository, context.settings))
        shared = found[0]
        target = os.path.join(os.path.dirname(full), os.readlink(full))
        target = os.path.join(os.path.realpath(os.path.dirname(target)), os.path.basename(target))
        return shared is not None and shared.ours(target)

    return is_ours


def _kept(plan: Plan, names: list[str]) -> str:
    shown = ", ".join(safe(name) for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"kept {safe(plan.path)}: it holds what is not from the checkout ({shown}); look at it, then `imi remove` it"


def _drop_empty_admins(common_dir: str, path: str) -> None:
    """git died before its first word was in its directory: then nothing but its name tells whose that is."""
    root, stem = os.path.join(common_dir, "worktrees"), os.path.basename(path)
    blank = [name for name in _names(root) if _numbered(name, stem) and _is_blank(os.path.join(root, name))]
    if blank:
        time.sleep(0.05)  # longer than a living git needs to write it
    for name in blank:
        admin_dir = os.path.join(root, name)
        if _is_blank(admin_dir):
            _drop_file(os.path.join(admin_dir, "locked"))
            _drop_if_empty(admin_dir)


def _is_blank(admin_dir: str) -> bool:
    """Nothing in it, or a lock that was opened and not yet written."""
    found = _names(admin_dir)
    return not found or (found == ["locked"] and layout.read_small(os.path.join(admin_dir, "locked")) == "")


def _numbered(name: str, stem: str) -> bool:
    number = name.removeprefix(stem)
    return name.startswith(stem) and (not number or number.isdecimal())


def _drop_branch(git: Git, plan: Plan, text: str) -> list[str]:
    if not plan.new_branch:
        return []
    if heads.untouched(git, plan.branch, text) != plan.sha:
        return []  # never made, made by somebody else, or already worked on
    from imi_monitor.git.branches import delete_branch

    if plan.upstream:
        _unfollow(git, plan.branch, plan.upstream)
    try:
        delete_branch(git, plan.branch, plan.sha)
    except Refused as problem:
        return [f"kept the branch {safe(plan.branch)}: {problem.sentence}"]
    return []


def _drop_file(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def _drop_if_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # gone, or somebody else's things are in it by now


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
