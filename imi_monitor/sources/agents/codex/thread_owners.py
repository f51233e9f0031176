"""Which process holds a Codex thread: the kernel's list of file locks is read, no lock is ever asked for.

Codex keeps `thread-writer-locks/<thread>.lock` locked while a thread is loaded. Trying the lock, even for a moment,
could make Codex itself fail to get it; /proc/locks tells the same and disturbs nobody.

Which process works on which Codex thread, and which threads have nobody left.

A thread's lock names its process. Where the shared daemon holds it, a terminal with the same folder (or with the
thread's name among its arguments) is the one that a person sees; without a lock a process of that folder that is not
taken by another thread is believed, if the thread was heard of since it began.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imi_monitor import host
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext

_ENDING = ".lock"
_MOST = 2000
_KERNEL = "/proc/locks"


@dataclass(frozen=True, slots=True)
class LockFile:
    """A thread's lock file. `pid` None: the file is there and nobody holds it, so its process was killed."""

    pid: int | None


class ThreadLocks:
    """`look` once a look; the folder is listed only when it changed."""

    def __init__(self, folder: str, kernel: str = _KERNEL) -> None:
        self.folder = folder
        self.threads: Mapping[str, LockFile] = {}
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
            thread: LockFile(_holder(holders.get(inode, ()), device, os.path.join(self.folder, thread + _ENDING)))
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


_SLACK = 2.0  # seconds between a process's start and what it writes first


@dataclass(frozen=True, slots=True)
class ThreadCandidate:
    """A thread whose owner is asked for."""

    id: str
    cwd: str  # real path
    heard_at: float  # when its rollout last grew
    working: bool
    terminal: bool = True  # a terminal began it, not an editor or a telephone
    left_by: tuple[int, str] | None = None  # its process ended, and nothing was heard since


@dataclass(frozen=True, slots=True)
class ThreadProcess:
    """`alive` None: not known."""

    alive: bool | None
    pid: int | None = None
    started: str | None = None


def find_owners(
    threads: Sequence[ThreadCandidate], locks: ThreadLocks, world: ReadContext
) -> Mapping[str, ThreadProcess]:
    """The life of each thread, the newest first: it is what a process works on most likely."""
    free = sorted(world.processes_of("codex"), key=lambda one: -one.began_at)
    ordered = sorted(threads, key=lambda one: -one.heard_at)
    found: dict[str, ThreadProcess] = {}
    for thread in ordered:
        holder = _pid(locks, thread.id)
        process = next((one for one in free if holder is not None and holder in (one.pid, *one.family)), None)
        if process is not None:
            found[thread.id] = _life(process)
            free.remove(process)
    for thread in ordered:
        if thread.id not in found:
            found[thread.id] = _otherwise(thread, locks, free)
    return found


def _otherwise(thread: ThreadCandidate, locks: ThreadLocks, free: list[AgentProcess]) -> ThreadProcess:
    holder = _pid(locks, thread.id)
    if locks.readable and thread.id in locks.threads and holder is None:
        return ThreadProcess(False)  # the lock was left behind: its process was killed
    process = next((one for one in free if _attached(one, thread, holder is not None)), None)
    if process is not None:
        free.remove(process)
        return _life(process)
    if holder is None:
        return ThreadProcess(False)
    if not is_daemon(holder):  # an editor's server, a program that only has Codex in it
        return ThreadProcess(True, holder, host.start_time(holder))
    if thread.working:
        return ThreadProcess(True, holder, host.start_time(holder))
    # the daemon keeps what everybody left for half an hour; only of terminals we know that they are gone
    return ThreadProcess(False if thread.terminal and not free else None)


def _pid(locks: ThreadLocks, thread: str) -> int | None:
    held = locks.threads.get(thread)
    return held.pid if held else None


def _life(process: AgentProcess) -> ThreadProcess:
    return ThreadProcess(True, process.pid, process.started)


def _attached(process: AgentProcess, thread: ThreadCandidate, loaded: bool) -> bool:
    if thread.id in process.argv:
        return True
    heard = loaded or thread.heard_at >= process.began_at - _SLACK
    if not loaded and thread.left_by is not None:
        heard = thread.left_by == (process.pid, process.started)
    return heard and thread.cwd in (process.cwd, _told_folder(process))


def _told_folder(process: AgentProcess) -> str | None:
    """The folder it was told to work in: `-C DIR`."""
    for word, value in zip(process.argv, process.argv[1:], strict=False):
        if word in ("-C", "--cd"):
            return os.path.realpath(os.path.join(process.cwd, value))
    return None


def is_daemon(pid: int) -> bool:
    """Whether it is the server that all of a person's terminals share."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 16).split(b"\0")
    except OSError:
        return False
    return b"app-server" in words and any(word.startswith((b"unix:", b"--listen=unix:")) for word in words)
