"""A backup file: a compressed tar archive with the registry, the notes of trash entries and the configuration.

What a backup writes before it is complete is locked by its process, so that the next backup can delete what a killed one
left behind.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

FORMAT = 1
MANIFEST, REGISTRY, CONFIG = "manifest.json", "registry.db", "config.toml"
FOLDER_PREFIX = ".imi-backup-"
_DEFAULT_NAME = r"imi-[0-9]+-[0-9]+-[0-9]+\.tar\.gz"
_LARGEST_SMALL = 8 << 20  # bytes of a manifest, note or configuration


def write(path: str, manifest: dict[str, object], registry: str, small: dict[str, bytes]) -> None:
    """Write a new private file in one step; Refused if it exists or cannot be written."""
    temporary = f"{path}.imi-{os.getpid()}~"
    unfinished = re.compile(rf"({_DEFAULT_NAME}|{re.escape(os.path.basename(path))})\.imi-[0-9]+~")
    discard_abandoned(os.path.dirname(path), lambda name: unfinished.fullmatch(name) is not None)
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                fcntl.flock(handle, fcntl.LOCK_EX)
                with tarfile.open(fileobj=file, mode="w:gz") as archive:
                    _add(archive, MANIFEST, json.dumps(manifest, indent=1).encode())
                    archive.add(registry, REGISTRY, recursive=False)
                    for name, data in small.items():
                        _add(archive, name, data)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)  # unlike a rename it never replaces a file
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
    except FileExistsError:
        raise Refused(f"{safe(path)} exists: name another file", code="exists") from None
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be written: {error.strerror}", code="unwritable") from error


def lock(path: str) -> int | None:
    """Lock a file or folder of this user until the descriptor is closed; None if it is locked, gone or not its own."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        info = os.fstat(handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if info.st_uid == os.geteuid() and os.path.samestat(info, os.lstat(path)):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def is_working_folder(name: str) -> bool:
    return name.startswith(FOLDER_PREFIX)


def discard_abandoned(folder: str, is_ours: Callable[[str], bool]) -> None:
    """Delete what a killed backup left in a folder."""
    try:
        names = [name for name in os.listdir(folder or ".") if is_ours(name)]
    except OSError:
        return
    for path in (os.path.join(folder, name) for name in names):
        handle = lock(path)
        if handle is None:
            continue
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                os.unlink(path)
        os.close(handle)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def read(path: str, registry: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Write the registry of a backup to `registry`; return the manifest and the other files by name.

    Only plain files of the expected names are read, and nothing is extracted by the archive's own paths.
    """
    small: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    continue
                if member.name == REGISTRY:
                    _copy(content, registry)
                elif member.size <= _LARGEST_SMALL:
                    small[member.name] = content.read()
        manifest = json.loads(small.pop(MANIFEST, b"{}"))
    except FileNotFoundError:
        raise Refused(f"there is no backup at {safe(path)}: check the path", code="no-backup") from None
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be read: {error.strerror or error}", code="unreadable") from error
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise Refused(f"{safe(path)} is damaged or no backup of imi: use another one", code="bad-backup") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or not os.path.exists(registry):
        raise Refused(f"{safe(path)} is no backup of this version of imi: use another one", code="bad-backup")
    return manifest, small


def _copy(source: IO[bytes], target: str) -> None:
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        while data := source.read(1 << 20):
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
