"""Disk use of folders, as the blocks that the file system has allocated.

A file with several links is counted once for one measurement. Symbolic links and other file systems are not entered.

`MEASURE` is the program of a process that measures worktrees for the dashboard, with the lowest priority: walking through
folders in one of the dashboard's own threads would delay its painting.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from imi_monitor.model.errors import ImiError

_BLOCK = 512  # the unit of st_blocks
_CHECK_EVERY = 64  # folders between two looks for a cancellation
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MEASURE = (
    "-s", "-S", "-P", "-c",
    "import sys; sys.path.insert(0, sys.argv[1]); from imi_monitor import disk_usage; disk_usage.measure_requested()",
    _ROOT,
)  # fmt: skip


@dataclass(slots=True)
class FolderUsage:
    """What one folder uses. `changed_at` is the newest time of a file in it; `unreadable` counts folders left out."""

    size: int = 0
    files: int = 0
    changed_at: float | None = None
    unreadable: int = 0


@dataclass(slots=True)
class DiskMeasurement:
    """One measurement of several folders; a file with several links belongs to the first folder that has it."""

    cancelled: Callable[[], bool]
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def measure(self, folder: str, *, without: Collection[str] = ()) -> FolderUsage:
        """The use of a folder, without the folders in `without` (real paths); a missing one uses nothing."""
        found = FolderUsage()
        try:
            top = os.lstat(folder)
        except OSError:
            return found
        found.size = top.st_blocks * _BLOCK
        pending, done = [os.path.realpath(folder)], 0
        while pending:
            done += 1
            if done % _CHECK_EVERY == 0 and self.cancelled():
                raise ImiError("the measurement was cancelled: nothing was changed", code="cancelled")
            pending += self._measure_entries(pending.pop(), top.st_dev, without, found)
        return found

    def _measure_entries(self, folder: str, device: int, without: Collection[str], found: FolderUsage) -> list[str]:
        """Add the entries of one folder; return the folders in it."""
        below = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    info = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        if entry.path in without or info.st_dev != device:
                            continue
                        below.append(entry.path)
                    elif info.st_nlink > 1 and not self._is_first(info):
                        continue
                    else:
                        _add_file(found, info)
                    found.size += info.st_blocks * _BLOCK
        except FileNotFoundError:
            return []  # deleted meanwhile
        except OSError:
            found.unreadable += 1
        return below

    def _is_first(self, info: os.stat_result) -> bool:
        identity = (info.st_dev, info.st_ino)
        if identity in self._seen:
            return False
        self._seen.add(identity)
        return True


def _add_file(found: FolderUsage, info: os.stat_result) -> None:
    found.files += 1
    if stat.S_ISREG(info.st_mode) and (found.changed_at is None or info.st_mtime > found.changed_at):
        found.changed_at = info.st_mtime


@dataclass(frozen=True, slots=True)
class WorktreeFolders:
    """A worktree's own folders. `admin_dir` is its part of git's data, None for the main worktree."""

    path: str
    admin_dir: str | None
    elsewhere: frozenset[str]  # real paths inside of it that are not its own: other worktrees and the shared git data


def measure_worktree(measurement: DiskMeasurement, folders: WorktreeFolders) -> FolderUsage:
    """The worktree's files and its own part of git's data, without worktrees inside of it and the shared part."""
    usage = measurement.measure(folders.path, without=folders.elsewhere)
    if folders.admin_dir is not None:
        add_usage(usage, measurement.measure(folders.admin_dir))
    return usage


def add_usage(usage: FolderUsage, more: FolderUsage) -> None:
    """Add git's own files of a worktree: they count as use, not as files of the worktree."""
    usage.size += more.size
    usage.unreadable += more.unreadable


# -- in a process of its own ----------------------------------------------------------------------------------------------


def requests(worktrees: Collection[WorktreeFolders]) -> bytes:
    """The standard input of `MEASURE`: a line for each worktree."""
    lines = [json.dumps([one.path, one.admin_dir, sorted(one.elsewhere)]) for one in worktrees]
    return "".join(f"{line}\n" for line in lines).encode()


def answer(line: bytes) -> tuple[int, int | None, int]:
    """Read a line that `MEASURE` wrote: the number of the request, the bytes (None: the folder is gone), and how many
    folders were left out."""
    number, size, unreadable = json.loads(line)
    return number, size, unreadable


def measure_requested() -> None:
    """Write an answer for each request, as soon as it is known; end with the process that asked."""
    os.nice(19)
    asked_by = os.getppid()
    for number, line in enumerate(sys.stdin):
        path, admin_dir, elsewhere = json.loads(line)
        measurement = DiskMeasurement(lambda: os.getppid() != asked_by)
        usage = measure_worktree(measurement, WorktreeFolders(path, admin_dir, frozenset(elsewhere)))
        size = usage.size if os.path.isdir(path) else None
        sys.stdout.write(f"{json.dumps([number, size, usage.unreadable])}\n")
        sys.stdout.flush()
