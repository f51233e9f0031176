"""Who may read and write the registry: owner and mode of its file, of SQLite's side files and of its folder.

Another user who may write into the folder can put a log beside the file, which SQLite would apply to it. Imported only when
something is unusual: all of it is ours, and none of it is open to others.
"""

from __future__ import annotations

import os
import stat

from imi_monitor import paths
from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import registry_file

_OTHERS, _OTHERS_WRITE = 0o077, 0o022


def refuse_foreign(path: str, real: str) -> None:
    """Refuse a folder or file of another user; root's are accepted where the user named the place. Reads nothing of the files."""
    folder = os.path.dirname(real)
    shown = {folder: "its folder", real: "it"}
    for place in (folder, real, *_side_files(real)):
        found = _status(place)
        if found is None or found.st_uid == os.geteuid() or (found.st_uid == 0 and _is_named(path)):
            continue
        what = shown.get(place) or f"its file {safe(os.path.basename(place))}"
        raise RegistryError(
            f"the registry {safe(path)} is not used, because {what} belongs to another user (uid {found.st_uid}): "
            "run as that user, or use --db; nothing of it was read",
            code="registry-foreign",
        )


def close_to_others(path: str, real: str) -> tuple[str, ...]:
    """Take the rights of other users off what is ours; returns a sentence for each change.

    A folder that the user named (`--db`) keeps its mode.
    """
    folder = os.path.dirname(real)
    wanted = [] if _is_named(path) else [(folder, _OTHERS_WRITE)]
    wanted += [(file, _OTHERS) for file in (real, *_side_files(real))]
    return tuple(sentence for place, rights in wanted if (sentence := _take_rights(place, rights)))


def describe_open_place(path: str) -> str | None:
    """Why other users may exchange this file, or what is in this folder; None if they may not, or it does not exist."""
    found = _status(path)
    if found is None:
        return None
    if found.st_uid not in (os.geteuid(), 0):
        return f"{safe(path)} belongs to another user (uid {found.st_uid})"
    if is_writable_by_others(found):
        return f"{safe(path)} is writable by other users (mode {stat.S_IMODE(found.st_mode):04o})"
    return None


def is_writable_by_others(found: os.stat_result) -> bool:
    """True if others may write; a sticky folder protects what is in it, and a group of our own is no other user."""
    mode = found.st_mode
    if mode & stat.S_ISVTX:
        return False
    return bool(mode & stat.S_IWOTH or (mode & stat.S_IWGRP and found.st_gid != os.getegid()))


def _side_files(real: str) -> list[str]:
    return [real + ending for ending in registry_file.SIDE_FILES]


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _is_named(path: str) -> bool:
    return path != paths.default_database()


def _take_rights(place: str, rights: int) -> str | None:
    found = _status(place)
    if found is None or found.st_uid != os.geteuid() or not found.st_mode & rights or stat.S_ISLNK(found.st_mode):
        return None
    was = stat.S_IMODE(found.st_mode)
    mode = was & ~rights
    try:
        os.chmod(place, mode)
    except OSError as error:
        return f"{safe(place)} is open to other users (mode {was:04o}) and stays so ({error.strerror}): change its mode"
    return f"{safe(place)} was open to other users (mode {was:04o}): its mode is {mode:04o} now"
