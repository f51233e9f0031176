"""Settings files of agent programs: read in full, replaced in one step, links followed to their target."""

from __future__ import annotations

import contextlib
import os

from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

_LARGEST = 8 << 20


def read(path: str) -> bytes | None:
    """The content; None when the file does not exist."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be read: {error.strerror}", code="unreadable") from error
    if len(data) > _LARGEST:
        raise Refused(f"{safe(path)} is too large for a settings file", code="unreadable")
    return data


def write(path: str, data: bytes, mode: int = 0o600, expected: bytes | bool | None = True) -> None:
    """Replace the file in one step; Refused when its content is no longer `expected` (True: any content)."""
    target = os.path.realpath(path)
    temporary = f"{target}.imi-{os.getpid()}~"
    try:
        _write_beside(target, temporary, data, mode)
        try:
            if expected is not True and read(target) != expected:
                raise Refused(f"{safe(path)} was changed by another program just now: try again", code="changing")
            os.rename(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        _sync_folder(target)
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be written: {error.strerror}", code="unwritable") from error


def _write_beside(target: str, temporary: str, data: bytes, mode: int) -> None:
    owner = None
    with contextlib.suppress(FileNotFoundError):
        info = os.stat(target)
        mode, owner = info.st_mode & 0o7777, (info.st_uid, info.st_gid)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o600), "wb") as file:
        try:
            if owner is not None and owner != (os.getuid(), os.getgid()):
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(temporary)
            raise


def delete(path: str, expected: bytes | None) -> None:
    """Delete the file; Refused when its content is no longer `expected`."""
    target = os.path.realpath(path)
    try:
        if read(target) != expected:
            raise Refused(f"{safe(path)} was changed by another program just now: try again", code="changing")
        os.unlink(target)
        _sync_folder(target)
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be deleted: {error.strerror}", code="unwritable") from error


def _sync_folder(target: str) -> None:
    folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_folders(path: str) -> list[str]:
    """Make the missing folders above a file; return them, the outermost first."""
    missing = []
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    try:
        for each in reversed(missing):
            os.mkdir(each, 0o700)
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be created: {error.strerror}", code="unwritable") from error
    return missing[::-1]


def remove_folders(folders: list[str]) -> list[str]:
    """Remove these folders where they are empty; return the ones that stay."""
    left = list(folders)
    while left:
        try:
            os.rmdir(left[-1])
        except FileNotFoundError:
            pass
        except OSError:
            return left
        left.pop()
    return left
