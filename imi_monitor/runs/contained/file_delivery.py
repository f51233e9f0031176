"""Delivery: a finished file goes from a contained workspace to where a person wants it, whole, and never in place of another.

Copy to a temporary name in the target folder, synchronise, link without replacing, then delete the original. Each step can be
repeated after a crash: a target with the same content is the delivered file.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress

from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.contained.file_door import FileDoor

_MOST_NAMES = 1000


def target_of(name: str, wanted: str, cwd: str) -> str:
    """The path that a person means: a folder keeps the file's name."""
    path = os.path.join(cwd, os.path.expanduser(wanted))
    if wanted.endswith("/") or os.path.isdir(path):
        path = os.path.join(path, name)
    return os.path.normpath(path)


def is_below(target: str, folders: list[str]) -> bool:
    """Whether the target lies in one of these folders, through no link out of them."""
    place = os.path.realpath(os.path.dirname(target))
    allowed = (os.path.realpath(os.path.expanduser(one)) for one in folders if one)
    return any(f"{place}/".startswith(f"{one}/") for one in allowed)


def deliver(door: FileDoor, name: str, target: str) -> str:
    """Move the file to the target, or beside a file that is there; returns its path. Refused without a target folder."""
    data = door.read(name)
    folder, base = os.path.split(target)
    if not os.path.isdir(folder):
        raise Refused(f"{safe(name)} was not delivered: there is no folder {safe(folder)}", code="no-folder")
    temporary = os.path.join(folder, f".{base[:100]}.imi-delivery~")
    try:
        _write(temporary, data)
        final = _place(temporary, folder, base, data)
    except OSError as error:
        raise Refused(
            f"{safe(name)} was not delivered to {safe(target)}: {error.strerror}", code="unwritable"
        ) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    _synchronise(folder)
    door.delete(name)
    return final


def _write(path: str, data: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)  # left by a crash
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _place(temporary: str, folder: str, base: str, data: bytes) -> str:
    """Give the file its name, or the next free one: `report (1).pdf`."""
    digest = hashlib.sha256(data).digest()
    stem, dot, ending = base.rpartition(".") if "." in base[1:] else (base, "", "")
    for number in range(_MOST_NAMES):
        name = base if not number else f"{stem} ({number}){dot}{ending}"
        final = os.path.join(folder, name)
        try:
            os.link(temporary, final)
        except FileExistsError:
            if _digest(final) == digest:
                return final  # delivered before a crash
            continue
        return final
    raise FileExistsError(17, "too many files of this name")


def _digest(path: str) -> bytes | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return hashlib.sha256(file.read()).digest()
    except OSError:
        return None


def _synchronise(folder: str) -> None:
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
