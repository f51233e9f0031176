"""Where the trash is: on the worktree's own file system, so that removing and undoing is one rename, and private.

First choice is inside the repository's git directory, where no work tree sees it; else a hidden folder beside the worktree.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from imi_monitor.git import layout
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.target import Target

BESIDE = ".imi-trash"
GITFILE = "gitfile"  # of an entry that is being brought back


def roots(found: Target) -> list[str]:
    """The folders that can hold the trash for this worktree, best first; Refused when there is none."""
    device = os.lstat(found.path).st_dev
    parent = os.path.dirname(found.path)
    places = []
    if os.stat(found.repository.common_dir).st_dev == device:
        places.append(os.path.join(found.repository.common_dir, "imi", "trash"))
    if os.stat(parent).st_dev == device and not _inside_work_tree(found, parent):
        places.append(os.path.join(parent, BESIDE))
    if not places:
        raise other_file_system(found)
    return places


def other_file_system(found: Target) -> Refused:
    return Refused(
        f"{safe(found.name)} lies on another file system than its repository and cannot be moved into a trash without "
        f"copying: nothing was done; `git worktree move` it beside {safe(found.repository.home)} first",
        code="other-file-system",
    )


def prepare(trash_dir: str) -> None:
    """Make the folder of one trash entry, readable by nobody else."""
    root = os.path.dirname(trash_dir)
    for attempt in range(3):
        os.makedirs(root, mode=0o700, exist_ok=True)
        for folder in (root, os.path.dirname(root)) if os.path.basename(root) == "trash" else (root,):
            _make_private(folder)
        try:
            os.mkdir(trash_dir, 0o700)
            return
        except FileNotFoundError:  # another removal found the root empty and took it away just now
            if attempt == 2:
                raise


def discard(trash_dir: str) -> None:
    """Take an entry's folder away again once nothing of the worktree is in it."""
    import shutil

    copy = os.path.join(trash_dir, "admin")
    if os.path.lexists(copy):
        shutil.rmtree(copy)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(trash_dir, GITFILE))
    drop_if_empty(trash_dir)
    drop_root(os.path.dirname(trash_dir))


def drop_root(root: str) -> None:
    """The trash itself goes with its last entry, so that nothing of ours is left behind in a repository."""
    drop_if_empty(root)
    if os.path.basename(root) == "trash":
        drop_if_empty(os.path.dirname(root))


def drop_if_empty(folder: str) -> None:
    with suppress(OSError):  # something else is in it, or it is gone already
        os.rmdir(folder)


def _make_private(folder: str) -> None:
    info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise Refused(
            f"{safe(folder)} should be imi's own folder and is not: look at it yourself", code="trash-foreign"
        )
    if stat.S_IMODE(info.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _inside_work_tree(found: Target, folder: str) -> bool:
    """Whether the folder lies in a work tree of the repository, where the trash would show up as untracked files."""
    trees = [item.path for item in layout.linked_worktrees(found.repository.common_dir)]
    trees += [found.repository.main_path] if found.repository.main_path else []
    real = os.path.realpath(folder)
    return any(real == tree or real.startswith(tree + os.sep) for tree in map(os.path.realpath, trees))
