"""The door to a contained workspace: files by plain names, opened below one folder and never through a link.

A write is a temporary file and a rename in the same folder, so a reader sees the old file or the new one. The shared registry
`workspace_metadata.json` has Denker's shape and changes under a lock on the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import contained_names, times
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LARGEST = 64 << 20
_MOST_FOUND = 200


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of the workspace; `agents` are those that wrote it through the door."""

    name: str
    size: int
    modified_at: str
    agents: tuple[str, ...]

    def data(self) -> dict[str, object]:
        return {"name": self.name, "size": self.size, "modified_at": self.modified_at, "agents": list(self.agents)}


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left behind."""

    name: str
    size: int
    sha256: str
    created: bool


class FileDoor:
    """The files of one workspace. As a context manager it closes the folder."""

    def __init__(self, path: str, agent: str) -> None:
        self.path = path
        self._agent = agent
        try:
            self._folder = os.open(path, _FOLDER_FLAGS)
        except OSError as error:
            raise Refused(
                f"there is no workspace at {safe(path)}: `imi file write` or `imi start --contained` makes it",
                code="missing",
            ) from error

    def __enter__(self) -> FileDoor:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def names(self) -> list[str]:
        """The names of all files, without the registry and what is hidden."""
        found = []
        for name in os.listdir(self._folder):
            if name == contained_names.REGISTRY_FILE or name.startswith("."):
                continue
            if stat.S_ISREG(os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mode):
                found.append(name)
        return sorted(found)

    def list_files(self) -> list[FileFacts]:
        known = self._registry().get("files", {})
        found = []
        for name in self.names():
            with suppress(FileNotFoundError):
                info = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
                entry = known.get(name) if isinstance(known, dict) else None
                agents = entry.get("agents", []) if isinstance(entry, dict) else []
                at = times.stamp(datetime.fromtimestamp(info.st_mtime_ns / 1e9, UTC))
                found.append(FileFacts(name, info.st_size, at, tuple(map(str, agents)) or ("unknown",)))
        return found

    def read(self, name: str) -> bytes:
        """The content; Refused for what is no plain file of the workspace."""
        with self._opened(name) as handle:
            data = bytearray()
            while chunk := os.read(handle, 1 << 20):
                data += chunk
                if len(data) > _LARGEST:
                    raise Refused(f"{safe(name)} is larger than {_LARGEST >> 20} MB", code="too-large")
            return bytes(data)

    def write(self, name: str, data: bytes) -> Written:
        """Write the whole file, new or in place of the one that is there."""
        contained_names.check_file(name)
        created = not self._exists(name)
        if not created:
            with self._opened(name):
                pass  # refused for a link, a folder or a file with other names
        temporary = f".{name[:80]}.{os.getpid()}~"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self._folder)
        handle = os.open(temporary, flags, 0o600, dir_fd=self._folder)
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.rename(temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._folder)
            raise
        digest = hashlib.sha256(data).hexdigest()
        self._register(name, len(data), digest)
        return Written(name, len(data), digest, created)

    def edit(self, name: str, old: str, new: str) -> Written:
        """Replace a text that the file has exactly once."""
        text = self.read(name).decode("utf-8", "surrogateescape")
        count = text.count(old) if old else 0
        if count != 1:
            what = (
                "is empty"
                if not old
                else "is not in it"
                if not count
                else f"is in it {count} times: give more of its surroundings"
            )
            raise UsageError(f"{safe(name)} was not edited: the old text {what}", code="no-match")
        return self.write(name, text.replace(old, new).encode("utf-8", "surrogateescape"))

    def find(self, text: str) -> list[tuple[str, int, str]]:
        """(file, line number, line) of the lines that contain the text."""
        found = []
        for name in self.names():
            with suppress(Refused, OSError):
                for number, line in enumerate(self.read(name).decode("utf-8", "replace").splitlines(), 1):
                    if text.casefold() in line.casefold():
                        found.append((name, number, line))
                    if len(found) >= _MOST_FOUND:
                        return found
        return found

    def delete(self, name: str) -> None:
        """Delete a file that was delivered."""
        os.unlink(contained_names.check_file(name), dir_fd=self._folder)
        self._forget(name)

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        contained_names.check_file(name)
        try:
            handle = os.open(name, _READ_FLAGS, dir_fd=self._folder)
        except FileNotFoundError:
            near = ", ".join(safe(one, 60) for one in self.names()[:8]) or "none"
            raise Refused(f"there is no file {safe(name)} in the workspace (there: {near})", code="missing") from None
        except OSError as error:
            raise Refused(
                f"{safe(name)} is no plain file of the workspace: {error.strerror}", code="no-file"
            ) from error
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
                raise Refused(f"{safe(name)} is no plain file of the workspace alone", code="no-file")
            yield handle
        finally:
            os.close(handle)

    def _exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    # -- the shared registry ---------------------------------------------------------------------------------------------

    def _registry(self) -> dict[str, Any]:
        try:
            handle = os.open(contained_names.REGISTRY_FILE, _READ_FLAGS, dir_fd=self._folder)
        except OSError:
            return {}
        with open(handle, encoding="utf-8", errors="replace") as file:
            try:
                found = json.loads(file.read(_LARGEST))
            except ValueError:
                return {}  # written by another program, and damaged: what is written next is whole again
        return found if isinstance(found, dict) else {}

    @contextmanager
    def _changed_registry(self) -> Iterator[dict[str, Any]]:
        fcntl.flock(self._folder, fcntl.LOCK_EX)
        try:
            registry = self._registry()
            registry.setdefault("session_id", os.path.basename(self.path))
            registry.setdefault("created", times.stamp())
            for key in ("files", "agents"):
                if not isinstance(registry.get(key), dict):
                    registry[key] = {}
            yield registry
            self._write_registry(registry)
        finally:
            fcntl.flock(self._folder, fcntl.LOCK_UN)

    def _write_registry(self, registry: dict[str, Any]) -> None:
        temporary = f".registry.{os.getpid()}~"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600, dir_fd=self._folder), "w", encoding="utf-8") as file:
            json.dump(registry, file, indent=2)
        os.rename(temporary, contained_names.REGISTRY_FILE, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _register(self, name: str, size: int, sha256: str) -> None:
        """One entry for each file, in Denker's shape, with who wrote it and its digest."""
        with self._changed_registry() as registry:
            before = registry["files"].get(name)
            entry = (
                dict(before)
                if isinstance(before, dict)
                else {"agent": self._agent, "created": times.stamp(), "metadata": {}}
            )
            agents = (
                [one for one in entry.get("agents", []) if one != self._agent]
                if isinstance(entry.get("agents"), list)
                else []
            )
            place = os.path.join(self.path, name)
            facts = {"file_id": name, "path": name, "absolute_path": place, "size": size, "sha256": sha256}
            registry["files"][name] = {**entry, **facts, "updated": times.stamp(), "agents": [*agents, self._agent]}
            listed = registry["agents"].setdefault(self._agent, [])
            if isinstance(listed, list) and name not in listed:
                listed.append(name)

    def _forget(self, name: str) -> None:
        with self._changed_registry() as registry:
            registry["files"].pop(name, None)
            for listed in registry["agents"].values():
                if isinstance(listed, list) and name in listed:
                    listed.remove(name)
