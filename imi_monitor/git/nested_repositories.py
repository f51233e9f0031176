"""Repositories inside a work tree that its index records: submodules, or any folder that a pull request records as one.

git starts git inside them, and each has its own configuration, with filters of any name. So `git status` does not enter them,
and a command that has to enter them also gets settings that disable their programs.
"""

from __future__ import annotations

import os

from imi_monitor.git import layout, safety
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.git.runner import Git

_GITLINK_MODE = b"\0\0\xe0\0"  # 160000 as an index entry holds it
_CHUNK = 1 << 20
_TIMEOUT = 30.0


def nested_paths(git: Git) -> Iterator[str]:
    """Yield the paths that the index records as repositories, whether they exist or not."""
    if git.work_tree is None or not _may_have(git.admin_dir):
        return
    for entry in git.run("ls-files", "--stage", "-z", timeout=_TIMEOUT).stdout.split(b"\0"):
        if entry.startswith(b"160000 "):
            yield os.path.join(git.work_tree, os.fsdecode(entry.partition(b"\t")[2]))


def open_nested(git: Git, path: str) -> Git | None:
    """Return git in the nested repository at `path`, not trusted; None when there is no repository."""
    if not os.path.lexists(os.path.join(path, ".git")):
        return None
    place = layout.discover(path)
    if place is None or place.path is None or os.path.realpath(path) != place.path:
        raise GitError(f"{safe(path)} is a nested repository that cannot be opened: check it by hand")
    return type(git)(place.repository.common_dir, place.admin_dir, place.path, cancelled=git.cancelled)


def neutral_settings(git: Git) -> list[tuple[str, str]]:
    """Return the settings that disable the programs of all nested repositories, at any depth."""
    found: list[tuple[str, str]] = []
    for path in nested_paths(git):
        nested = open_nested(git, path)
        if nested is not None:
            found += safety.neutral_settings(nested.common_dir, nested.admin_dir, False, thorough=True)
            found += neutral_settings(nested)
    return found


def _may_have(admin_dir: str) -> bool:
    """Return False if the bytes of the index rule a nested repository out, which saves a process in nearly every worktree."""
    names = [name for name in os.listdir(admin_dir) if name == "index" or name.startswith("sharedindex.")]
    return any(_contains(os.path.join(admin_dir, name), _GITLINK_MODE) for name in names)


def _contains(path: str, wanted: bytes) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe in its place must not block
    try:
        tail = b""
        while data := os.read(fd, _CHUNK):
            if wanted in tail + data:
                return True
            tail = data[1 - len(wanted) :]
        return False
    finally:
        os.close(fd)
