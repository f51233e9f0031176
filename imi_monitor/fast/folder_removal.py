"""Deletes a small folder without `shutil`, which imports `re`, `fnmatch` and the compressors: 6 ms of `imi undo`."""

from __future__ import annotations

import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(path: str, within: int | None = None) -> None:
    """Delete the folder and all in it. No link is followed, also not one that appears meanwhile."""
    handle = os.open(path, _FOLDER, dir_fd=within)
    try:
        for name in os.listdir(handle):
            if stat.S_ISDIR(os.lstat(name, dir_fd=handle).st_mode):
                remove_folder(name, handle)
            else:
                os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)
    os.rmdir(path, dir_fd=within)
