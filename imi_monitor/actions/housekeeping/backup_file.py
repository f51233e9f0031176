"""A backup file: a compressed tar archive with the registry, the notes of trash entries and the configuration."""

from __future__ import annotations

import io
import json
import os
import tarfile
from contextlib import suppress
from typing import IO, Any

from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

FORMAT = 1
MANIFEST, REGISTRY, CONFIG = "manifest.json", "registry.db", "config.toml"
_LARGEST_SMALL = 8 << 20  # bytes of a manifest, note or configuration


def write(path: str, manifest: dict[str, object], registry: str, small: dict[str, bytes]) -> None:
    """Write a new private file in one step; Refused if it exists or cannot be written."""
    temporary = f"{path}.imi-{os.getpid()}~"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
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
