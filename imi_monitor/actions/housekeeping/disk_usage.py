"""Disk use of folders, as the blocks that the file system has allocated.

A file with several links is counted once for one measurement. Symbolic links and other file systems are not entered.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from imi_monitor.model.errors import ImiError

_BLOCK = 512  # the unit of st_blocks
_CHECK_EVERY = 64  # folders between two looks for a cancellation


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
