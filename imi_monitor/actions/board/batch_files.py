"""The files that batches are made of: `reports/*.md`, `marketing-priority-*.md` and `tasks/*.json` of a worktree."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from imi_monitor.model import priorities
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.priorities import FileItems
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository

_MOST_BYTES = 1 << 20
_MOST_FILES = 500
_PLACES = (("reports", ".md"), ("tasks", ".json"), ("", ".md"))
_AT_THE_TOP = "marketing-priority-"


@dataclass(frozen=True, slots=True)
class BatchFile:
    """One file. `name` is its path from the worktree's top, which names the batch."""

    name: str
    path: str
    modified_at: float
    found: FileItems

    @property
    def order(self) -> tuple[str, float]:
        """The newest date first, then the newest file."""
        return priorities.date_of(self.name), self.modified_at


def top_of(context: Context) -> tuple[Repository, str]:
    """The repository, and the worktree around the caller; with `--repo` the main worktree."""
    repository = context.repository()
    place = context.place() if not context.explicit_repo else None
    if place is not None and place.path is not None and place.repository.common_dir == repository.common_dir:
        return repository, place.path
    return repository, repository.main_path or repository.home


def list_files(top: str) -> list[BatchFile]:
    """All files that a batch can be made of, the newest first."""
    found = []
    for folder, ending in _PLACES:
        try:
            names = sorted(os.listdir(os.path.join(top, folder)))
        except OSError:
            continue
        for name in names:
            if name.endswith(ending) and not name.startswith(".") and (folder or name.startswith(_AT_THE_TOP)):
                one = _read(top, os.path.join(folder, name))
                if one is not None:
                    found.append(one)
    return sorted(found, key=lambda one: one.order, reverse=True)[:_MOST_FILES]


def find(context: Context, top: str, given: str) -> BatchFile:
    """The file that the user names, from the current folder or from the worktree's top; UsageError if it makes no item."""
    for base in (context.cwd, top):
        path = os.path.realpath(os.path.join(base, given))
        if os.path.exists(path):
            break
    else:
        raise UsageError(
            f"there is no file {safe(given, 200)}: `imi batch` lists those of this worktree", code="no-file"
        )
    inside = os.path.relpath(path, os.path.realpath(top))
    name = path if inside.startswith("..") else inside
    one = _read(top, name)
    if one is None:
        raise UsageError(
            f"{safe(given, 200)} is no plain file, or has more than {_MOST_BYTES >> 20} MB", code="bad-file"
        )
    if one.found.problem is not None:
        raise Refused(f"{safe(name, 200)} cannot be used: {one.found.problem}", code="bad-file")
    return one


def _read(top: str, name: str) -> BatchFile | None:
    path = os.path.join(top, name)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode) or info.st_size > _MOST_BYTES:
                return None
            data = file.read(_MOST_BYTES)
    except OSError:
        return None
    try:
        found = priorities.parse(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        found = FileItems(problem="the file is not UTF-8 text")
    return BatchFile(name, path, info.st_mtime, found)
