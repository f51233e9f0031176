"""What is never removed, whatever is asked: everything that is not exactly one linked worktree in the place git recorded.

Native reading only: before these questions are answered no git may run in the folder, for it may not be what it says.
"""

from __future__ import annotations

import os
import sys

from imi_monitor import host, paths
from imi_monitor.git import layout
from imi_monitor.model import names
from imi_monitor.model.text import safe
from imi_monitor.model.verdict import NEVER, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target


def placement_reasons(context: Context, found: Target) -> list[Reason]:
    """Why this place must not be moved; the first is enough, for the later questions rest on the earlier ones."""
    return list(_reasons(context, found))[:1]


def never(code: str, sentence: str) -> Reason:
    return Reason(code, sentence, override=NEVER)


def _reasons(context: Context, found: Target) -> Iterator[Reason]:
    shown = safe(found.name)
    if found.is_main:
        yield never("main-worktree", f"{shown} is the repository's main worktree")
        return
    if found.linked is None:
        yield never("not-listed", f"git does not list {shown}, the registry alone does: `imi prune` forgets it")
        return
    if not found.name.isprintable():
        yield never(
            "odd-name", f"{shown} is no name that the registry can hold: rename the folder with `git worktree move`"
        )
    if found.kind == "trunk" or os.path.basename(found.path) in names.RESERVED:
        yield never("trunk", f"{shown} is the trunk, or a name kept for imi's own folders")
    yield from _place(found, found.linked)
    yield from _contents(context, found)


def _place(found: Target, linked: layout.LinkedWorktree) -> Iterator[Reason]:
    shown, path = safe(found.path), found.path
    recorded = os.path.join(
        os.path.realpath(found.repository.common_dir), "worktrees", os.path.basename(linked.admin_dir)
    )
    if os.path.realpath(linked.admin_dir) != recorded:
        yield never("admin-elsewhere", f"git's record of {shown} is not where it belongs: {safe(linked.admin_dir)}")
    if not os.path.isdir(path):
        yield never("missing", f"{shown} is not there: `imi repair` finds it if it was moved, `imi prune` forgets it")
        return
    if os.path.realpath(path) != path:
        yield never(
            "symlinked",
            f"{shown} is reached through a symbolic link and is really {safe(os.path.realpath(path))}: "
            "run `imi repair` there first",
        )
    if not layout.points_back(linked.admin_dir, path):
        yield never(
            "tampered",
            f"the .git file of {shown} does not belong to this worktree (tampered with, or a copy): look at it",
        )
    mounted = host.mounts_inside(path)
    if path in mounted or os.lstat(path).st_dev != os.lstat(os.path.dirname(path)).st_dev:
        yield never("mount-point", f"{shown} is a mount point and cannot be moved: unmount it first")
    if mounted:
        where = safe(mounted[0])
        yield never("mounted", f"{where} is mounted inside, and what it shows lies elsewhere: unmount it first")


def _contents(context: Context, found: Target) -> Iterator[Reason]:
    """Things that must not go with it, because more than this worktree depends on them."""
    repository = found.repository
    others = [item.path for item in layout.linked_worktrees(repository.common_dir) if item.admin_dir != found.admin_dir]
    kept = {
        "the root of the file system": ["/"],
        "your home folder": [paths.home()],
        "the repository itself": [repository.common_dir, *([repository.main_path] if repository.main_path else [])],
        "another worktree": others,
        "the registry": [context.database],
        "imi itself, which runs from there": [os.path.dirname(__file__), sys.prefix],
    }
    for what, places in kept.items():
        inside = [place for place in places if _within(place, found.path)]
        if inside:
            yield never("contains", f"{safe(found.path)} holds {what} ({safe(inside[0])})")


def _within(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real == root or real.startswith(root.rstrip("/") + "/")
