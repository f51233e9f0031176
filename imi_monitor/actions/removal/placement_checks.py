"""Checks that no option overrides: only a linked worktree, in the place git recorded, can be removed.

They read files without git: until they pass, git must not run in the folder, which may not be what it claims to be.
"""

from __future__ import annotations

import os
import sys

from imi_monitor import host, paths
from imi_monitor.git import layout
from imi_monitor.model import names
from imi_monitor.model.advice import missing_folder
from imi_monitor.model.text import safe
from imi_monitor.model.verdict import NEVER, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target


def placement_reasons(context: Context, found: Target) -> list[Reason]:
    """The first reason why the folder must not be moved; later checks assume that the earlier ones passed."""
    return list(_reasons(context, found))[:1]


def never(code: str, sentence: str) -> Reason:
    return Reason(code, sentence, override=NEVER)


def _reasons(context: Context, found: Target) -> Iterator[Reason]:
    shown = safe(found.name)
    if found.is_main:
        yield never("main-worktree", f"{shown} is the repository's main worktree")
        return
    if found.linked is None:
        yield never("not-listed", f"only the registry lists {shown}, git does not: run `imi prune` to forget it")
        return
    if not found.name.isprintable():
        yield never(
            "odd-name", f"the registry cannot store the name {shown}: rename the folder with `git worktree move`"
        )
    if found.kind == "trunk" or os.path.basename(found.path) in names.RESERVED:
        yield never("trunk", f"{shown} is the trunk, or a name reserved for imi's own folders")
    yield from _place(found, found.linked)
    yield from _contents(context, found)


def _place(found: Target, linked: layout.LinkedWorktree) -> Iterator[Reason]:
    shown, path = safe(found.path), found.path
    recorded = os.path.join(
        os.path.realpath(found.repository.common_dir), "worktrees", os.path.basename(linked.admin_dir)
    )
    if os.path.realpath(linked.admin_dir) != recorded:
        yield never("admin-elsewhere", f"git's record of {shown} is not below the repository: {safe(linked.admin_dir)}")
    if not os.path.isdir(path):
        yield never("missing", missing_folder(found.name, path))
        return
    owner, me = os.lstat(path).st_uid, os.geteuid()
    if me not in (owner, 0):
        yield never(
            "another-user",
            f"{shown} belongs to another user (uid {owner}), who could not reach it in your trash: ask that user",
        )
    if os.path.realpath(path) != path:
        yield never(
            "symlinked",
            f"{shown} is a path through a symbolic link to {safe(os.path.realpath(path))}: "
            "run `imi repair` there first",
        )
    if not layout.points_back(linked.admin_dir, path):
        yield never(
            "tampered",
            f"the .git file of {shown} does not belong to this worktree (tampered with, or a copy): check it",
        )
    mounted = host.mounts_inside(path)
    if path in mounted or os.lstat(path).st_dev != os.lstat(os.path.dirname(path)).st_dev:
        yield never("mount-point", f"{shown} is a mount point and cannot be moved: unmount it first")
    if mounted:
        where = safe(mounted[0])
        yield never("mounted", f"{where} is mounted inside and its files belong elsewhere: unmount it first")


def _contents(context: Context, found: Target) -> Iterator[Reason]:
    """Refuse if the folder contains something that more than this worktree depends on."""
    repository = found.repository
    others = [item.path for item in layout.linked_worktrees(repository.common_dir) if item.admin_dir != found.admin_dir]
    kept = {
        "your home folder": [paths.home()],
        "the repository itself": [repository.common_dir, *([repository.main_path] if repository.main_path else [])],
        "another worktree": others,
        "the registry": [context.database],
        "the running imi program": [os.path.dirname(__file__), sys.prefix],
    }
    for what, places in kept.items():
        inside = [place for place in places if _within(place, found.path)]
        if inside:
            yield never("contains", f"{safe(found.path)} holds {what} ({safe(inside[0])})")


def _within(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real == root or real.startswith(root.rstrip("/") + "/")
