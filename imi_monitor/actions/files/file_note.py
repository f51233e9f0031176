"""The note of a trash entry of files: a private JSON file in its folder, for the day on which no registry lists the entry.

The registry decides. Agents can write into the trash, so a note that is read back is only a claim: it must name its folder,
its repository and a worktree of that, and its files must be inside of the worktree.
"""

from __future__ import annotations

import os
import stat

from imi_monitor import host
from imi_monitor.fast import json_writer
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import layout
from imi_monitor.model import times
from imi_monitor.store import registry_identity, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from imi_monitor.actions.context import Context
    from imi_monitor.store.trash import TrashEntry

NAME = "files.json"
_FORMAT = 1
_LARGEST = 4 << 20
_FIELDS = ("id", "repo_name", "worktree_name", "path", "removed_at", "removed_by", "how")


class FileNoteError(Exception):
    """Why a note cannot be used: the end of a sentence that starts with "its note"."""


@dataclass(frozen=True, slots=True)
class FileNote:
    """The entry as the registry had it, and the registry that listed it."""

    entry: TrashEntry
    registry_id: str | None
    registry_path: str


def write(context: Context, entry: dict[str, str], folder: str, data: dict[str, object]) -> None:
    """Write the note into the entry's folder, readable by its owner only."""
    whole = {
        **entry,
        "format": _FORMAT,
        "removed_at": times.stamp(),
        "data": data,
        "registry_id": registry_identity.registry_id(context.connection),
        "registry_path": os.path.realpath(context.database),
    }
    handle = os.open(os.path.join(folder, NAME), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(handle, "wb") as file:
        file.write(json_writer.dumps(whole).encode("ascii"))


def read(folder: str, repository: layout.Repository) -> FileNote:
    """Return the note, checked against the repository and the folder it lies in."""
    found = _parse(_content(os.path.join(folder, NAME)))
    data = found["data"]
    own = repository.common_dir
    admin_dir = os.path.realpath(str(data["admin_dir"]))
    if found["id"] != os.path.basename(folder) or os.path.realpath(str(data["trash_dir"])) != os.path.realpath(folder):
        raise FileNoteError("names another folder")
    if os.path.realpath(str(data["common_dir"])) != own or not (
        admin_dir == own or os.path.dirname(admin_dir) == os.path.join(own, "worktrees")
    ):
        raise FileNoteError("names another repository")
    if found["how"] not in trash.FILE_ACTS or not all(map(_is_inside, data["files"])):
        raise FileNoteError("is damaged")
    row = (*(found[name] for name in _FIELDS[:3]), host.hostname(), found["path"], folder)
    entry = trash.TrashEntry((*row, *(found[name] for name in _FIELDS[4:]), json_writer.dumps(data), None, None))
    registry = found.get("registry_id")
    return FileNote(entry, registry if isinstance(registry, str) else None, str(found.get("registry_path")))


def exists(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, NAME))


def _is_inside(file: object) -> bool:
    """Whether the note's file is one that an act could have written."""
    if not isinstance(file, dict) or type(file.get("number")) is not int or not isinstance(file.get("path"), str):
        return False
    parts = file["path"].split("/")
    return not any(part in ("", ".", "..") or part.lower() == ".git" for part in parts) and "\0" not in file["path"]


def _parse(content: bytes) -> dict[str, Any]:
    import json

    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise FileNoteError("is damaged (no JSON)") from None
    usual = isinstance(found, dict) and found.get("format") == _FORMAT and isinstance(found.get("data"), dict)
    if not usual or not all(isinstance(found.get(name), str) for name in _FIELDS):
        raise FileNoteError("is damaged, or was written by another version of imi")
    if not isinstance(found["data"].get("files"), list):
        raise FileNoteError("is damaged")
    return {str(name): value for name, value in found.items()}


def _content(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FileNoteError(f"cannot be read ({error.strerror})") from None
    with open(handle, "rb") as file:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_size > _LARGEST:
            raise FileNoteError("is not a small file of yours")
        return file.read(_LARGEST)
