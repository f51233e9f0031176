"""Which process holds a Codex thread: the kernel's list of file locks is read, no lock is ever asked for.

Codex keeps `thread-writer-locks/<thread>.lock` locked while a thread is loaded. Trying the lock, even for a moment,
could make Codex itself fail to get it; /proc/locks tells the same and disturbs nobody.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

_ENDING = ".lock"
_MOST = 2000
_KERNEL = "/proc/locks"


@dataclass(frozen=True, slots=True)
class Held:
    """A thread's lock file. `pid` None: the file is there and nobody holds it, so its process was killed."""

    pid: int | None


class Locks:
    """`look` once a look; the folder is listed only when it changed."""

    def __init__(self, folder: str, kernel: str = _KERNEL) -> None:
        self.folder = folder
        self.threads: Mapping[str, Held] = {}
        self.exists = False
        self.readable = False  # this system tells who holds what
        self._kernel = kernel
        self._seen: tuple[int, int] | None = None
        self._inodes: dict[str, tuple[int, int]] = {}

    def look(self, anew: bool) -> None:
        self._list(anew)
        if not self._inodes:
            self.readable = os.path.exists(self._kernel)
            self.threads = {}
            return
        holders = self._holders()
        self.threads = {
            thread: Held(_holder(holders.get(inode, ()), device, os.path.join(self.folder, thread + _ENDING)))
            for thread, (device, inode) in self._inodes.items()
        }

    def _list(self, anew: bool) -> None:
        try:
            stat = os.stat(self.folder)
        except OSError:
            self.exists, self._seen, self._inodes = False, None, {}
            return
        self.exists = True
        seen = (stat.st_mtime_ns, stat.st_ino)
        if anew or seen != self._seen:
            self._seen, self._inodes = seen, _files(self.folder)

    def _holders(self) -> dict[int, list[tuple[int, int]]]:
        """inode -> (device, pid) of every lock that is held."""
        try:
            with open(self._kernel, encoding="ascii", errors="replace") as file:
                lines = file.readlines()
        except OSError:
            self.readable = False
            return {}
        self.readable = True
        found: dict[int, list[tuple[int, int]]] = {}
        for line in lines:
            if (one := _parse(line)) is not None:
                found.setdefault(one[0], []).append(one[1:])
        return found


def _parse(line: str) -> tuple[int, int, int] | None:
    """`1: FLOCK  ADVISORY  WRITE 18586 08:01:131107 0 EOF` as (inode, device, pid); a waiting one is marked `->`."""
    words = line.split()
    if len(words) < 6 or words[1] == "->":
        return None
    try:
        major, minor, inode = words[5].split(":")
        pid = int(words[4])
        return (int(inode), os.makedev(int(major, 16), int(minor, 16)), pid) if pid > 0 else None
    except ValueError:
        return None


def _files(folder: str) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(_ENDING) and entry.name[:1] != "." and len(found) < _MOST:
                    stat = entry.stat(follow_symlinks=False)
                    found[entry.name.removesuffix(_ENDING)] = (stat.st_dev, stat.st_ino)
    except OSError:
        return found
    return found


def _holder(locks: list[tuple[int, int]] | tuple[()], device: int, path: str) -> int | None:
    """Some file systems (btrfs, overlays) tell another device here than `stat` does: then its open files decide."""
    exact = next((pid for lock, pid in locks if lock == device), None)
    return exact if exact is not None else next((pid for _, pid in locks if _has_open(pid, path)), None)


def _has_open(pid: int, path: str) -> bool:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(_target(f"/proc/{pid}/fd/{name}") == path for name in names[:1000])


def _target(link: str) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None
