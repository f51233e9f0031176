"""Folders of Denker's older sessions, `denker_<digits>`: all their files move into one workspace, and no file is lost.

Of several files with one name the newest keeps it, the others get the digits of their folder; equal content is kept once. The old
folders go to the trash after the copies are on the disk.
"""

from __future__ import annotations

import hashlib
import os
import re

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import contained_names
from imi_monitor.model.errors import ImiError
from imi_monitor.runs.contained import workspace_place, workspace_trash
from imi_monitor.runs.contained.file_door import FileDoor
from imi_monitor.store import contained_work, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_NAME = re.compile(r"denker_(\d+)")
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class MigratedFolders:
    """`moved` are the new names of the files, `trash` the places of the old folders, `left` what stays where it is and why."""

    moved: tuple[str, ...]
    trash: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _OldFile:
    path: str
    digits: str
    changed: int


def find(root: str) -> list[str]:
    """The old folders beside the workspaces, or in the folder above."""
    places = [root, os.path.dirname(root)]
    found = []
    for place in places:
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        paths = [os.path.join(place, name) for name in names if _NAME.fullmatch(name)]
        found += [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]
    return [path for path in found if os.lstat(path).st_uid == os.geteuid()]


def migrate(connection: sqlite3.Connection, root: str, workspace: str, agent: str) -> MigratedFolders:
    """Move the files of all old folders into the workspace, and the folders into the trash, where `imi undo` finds them."""
    folders = find(root)
    if not folders:
        return MigratedFolders((), (), ())
    workspace_place.make(workspace)
    moved: list[str] = []
    left: list[str] = []
    with FileDoor(workspace, agent) as door:
        names = set(door.names())
        contents = {_digest(door.read(name)) for name in names}
        for file in sorted((one for folder in folders for one in _files(folder)), key=lambda one: -one.changed):
            try:
                name = _migrate_file(door, file, names, contents)
            except (ImiError, OSError) as error:
                left.append(f"{file.path}: {error}")
                continue
            if name is not None:
                moved.append(name)
    if moved:
        db.transact(connection, _log, workspace, moved, agent)
    done = [folder for folder in folders if not any(one.startswith(f"{folder}/") for one in left)]
    trash = [_move(connection, folder, workspace, agent) for folder in done]
    return MigratedFolders(tuple(moved), tuple(trash), tuple(left))


def _log(connection: sqlite3.Connection, workspace: str, moved: list[str], agent: str) -> None:
    contained_work.open_life(connection, os.path.basename(workspace), workspace)
    for name in moved:
        contained_work.log(connection, workspace, "migrated", name, agent=agent)


def _migrate_file(door: FileDoor, file: _OldFile, names: set[str], contents: set[bytes]) -> str | None:
    """The new name of a file; None if its content is there already."""
    handle = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as opened:
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(27, "it is too large for a workspace")
    if _digest(data) in contents:
        return None
    base = os.path.basename(file.path).lstrip(".-") or "file"
    stem, dot, ending = base.rpartition(".") if "." in base[1:] else (base, "", "")
    candidates = [base, f"{stem}_{file.digits}{dot}{ending}"]
    candidates += [f"{stem}_{file.digits}_{number}{dot}{ending}" for number in range(2, 1000)]
    name = next(one for one in candidates if one not in names and one != contained_names.REGISTRY_FILE)
    door.write(name, data)
    names.add(name)
    contents.add(_digest(data))
    return name


def _files(folder: str) -> list[_OldFile]:
    """All files at any depth, without Denker's registry."""
    digits = os.path.basename(folder).rpartition("_")[2]
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name != contained_names.REGISTRY_FILE and os.path.isfile(path) and not os.path.islink(path):
                found.append(_OldFile(path, digits, os.lstat(path).st_mtime_ns))
    return found


def _move(connection: sqlite3.Connection, folder: str, workspace: str, agent: str) -> str:
    """Its place in the trash, which is recorded before it is moved there."""
    ident = os.urandom(5).hex()
    place, why = workspace_trash.place_of(workspace, ident), f"its files moved into {os.path.basename(workspace)}"
    about = {"by": agent, "how": "migrated", "why": why}
    db.transact(connection, workspace_trash.record, ident, folder, place, files=len(_files(folder)), **about)
    workspace_trash.move(folder, place)
    return place


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
