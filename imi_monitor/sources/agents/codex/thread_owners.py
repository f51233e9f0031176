"""Decides which process works on which Codex thread, and which threads have ended.

Codex keeps `thread-writer-locks/<thread>.lock` locked while a thread is loaded. Holding that lock, even for a moment,
could make Codex fail to get it, so it is never tried: the kernel's list of locks in /proc/locks names the holder.

Where the shared daemon holds the lock, the process a person sees is a terminal in the same folder, or one with the
thread's id among its arguments. A thread without a lock belongs to a free process of its folder, if it was written to
since that process began.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imi_monitor import host
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext

_LOCK = ".lock"
_MOST_LOCKS = 2000
_KERNEL_LOCKS = "/proc/locks"
_SLACK = 2.0  # seconds between a process's start and its first record


@dataclass(frozen=True, slots=True)
class LockFile:
    """A thread's lock file. `pid` None: no process holds it; its process was killed."""

    pid: int | None


class ThreadLocks:
    """The lock files of Codex's threads; the folder is listed only after it changed."""

    def __init__(self, folder: str, kernel: str = _KERNEL_LOCKS) -> None:
        self.folder = folder
        self.threads: Mapping[str, LockFile] = {}
        self.readable = False  # this system shows the holders of locks
        self._kernel = kernel
        self._stamp: tuple[int, int] | None = None
        self._inodes: dict[str, tuple[int, int]] = {}

    def read(self, anew: bool) -> None:
        self._list(anew)
        if not self._inodes:
            self.readable = os.path.exists(self._kernel)
            self.threads = {}
            return
        holders = self._holders()
        self.threads = {
            thread: LockFile(_holder(holders.get(inode, ()), device, os.path.join(self.folder, thread + _LOCK)))
            for thread, (device, inode) in self._inodes.items()
        }

    def _list(self, anew: bool) -> None:
        try:
            stat = os.stat(self.folder)
        except OSError:
            self._stamp, self._inodes = None, {}
            return
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if anew or stamp != self._stamp:
            self._stamp, self._inodes = stamp, _lock_inodes(self.folder)

    def _holders(self) -> dict[int, list[tuple[int, int]]]:
        """inode -> (device, pid) of every held lock."""
        try:
            with open(self._kernel, encoding="ascii", errors="replace") as file:
                lines = file.readlines()
        except OSError:
            self.readable = False
            return {}
        self.readable = True
        found: dict[int, list[tuple[int, int]]] = {}
        for line in lines:
            if (one := _parse_lock(line)) is not None:
                found.setdefault(one[0], []).append(one[1:])
        return found


def _parse_lock(line: str) -> tuple[int, int, int] | None:
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


def _lock_inodes(folder: str) -> dict[str, tuple[int, int]]:
    """thread -> (device, inode) of its lock file."""
    found: dict[str, tuple[int, int]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(_LOCK) and entry.name[:1] != "." and len(found) < _MOST_LOCKS:
                    stat = entry.stat(follow_symlinks=False)
                    found[entry.name.removesuffix(_LOCK)] = (stat.st_dev, stat.st_ino)
    except OSError:
        return found
    return found


def _holder(locks: list[tuple[int, int]] | tuple[()], device: int, path: str) -> int | None:
    """The pid of the holder. btrfs and overlays report another device than `stat`: then open files decide."""
    exact = next((pid for lock, pid in locks if lock == device), None)
    return exact if exact is not None else next((pid for _, pid in locks if _has_open(pid, path)), None)


def _has_open(pid: int, path: str) -> bool:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(_link_target(f"/proc/{pid}/fd/{name}") == path for name in names[:1000])


def _link_target(link: str) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None


# -- threads and processes --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThreadCandidate:
    """A thread that may have a process."""

    id: str
    cwd: str  # real path
    modified_at: float
    working: bool
    terminal: bool = True  # started by a terminal, not by an editor or a phone
    left_by: tuple[int, str] | None = None  # see ProcessHistory.left_by


@dataclass(frozen=True, slots=True)
class ThreadProcess:
    """`alive` None: unknown."""

    alive: bool | None
    pid: int | None = None
    started: str | None = None


def find_owners(
    threads: Sequence[ThreadCandidate], locks: ThreadLocks, context: ReadContext
) -> Mapping[str, ThreadProcess]:
    """The process of each thread. The newest thread comes first: a process most likely works on it."""
    free = sorted(context.processes_of("codex"), key=lambda one: -one.began_at)
    ordered = sorted(threads, key=lambda one: -one.modified_at)
    found: dict[str, ThreadProcess] = {}
    for thread in ordered:
        holder = _lock_holder(locks, thread.id)
        process = next((one for one in free if holder is not None and holder in (one.pid, *one.family)), None)
        if process is not None:
            found[thread.id] = ThreadProcess(True, process.pid, process.started)
            free.remove(process)
    for thread in ordered:
        if thread.id not in found:
            found[thread.id] = _find_other(thread, locks, free)
    return found


def _find_other(thread: ThreadCandidate, locks: ThreadLocks, free: list[AgentProcess]) -> ThreadProcess:
    """The owner of a thread whose lock is not held by one of the agent processes."""
    holder = _lock_holder(locks, thread.id)
    if locks.readable and thread.id in locks.threads and holder is None:
        return ThreadProcess(False)  # the lock was left behind: its process was killed
    process = next((one for one in free if _is_attached(one, thread, holder is not None)), None)
    if process is not None:
        free.remove(process)
        return ThreadProcess(True, process.pid, process.started)
    if holder is None:
        return ThreadProcess(False)
    if thread.working or not is_daemon(holder):  # not a daemon: an editor's server, or a program with Codex inside
        return ThreadProcess(True, holder, host.start_time(holder))
    # the daemon keeps an abandoned thread for half an hour; only of terminals it is known that they are gone
    return ThreadProcess(False if thread.terminal and not free else None)


def _lock_holder(locks: ThreadLocks, thread: str) -> int | None:
    lock = locks.threads.get(thread)
    return lock.pid if lock else None


def _is_attached(process: AgentProcess, thread: ThreadCandidate, loaded: bool) -> bool:
    if thread.id in process.argv:
        return True
    fits = loaded or thread.modified_at >= process.began_at - _SLACK
    if not loaded and thread.left_by is not None:
        fits = thread.left_by == (process.pid, process.started)
    return fits and thread.cwd in (process.cwd, _folder_option(process))


def _folder_option(process: AgentProcess) -> str | None:
    """The folder given with `-C DIR`."""
    for word, value in zip(process.argv, process.argv[1:], strict=False):
        if word in ("-C", "--cd"):
            return os.path.realpath(os.path.join(process.cwd, value))
    return None


def is_daemon(pid: int) -> bool:
    """True for the server that all terminals of a person share."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 16).split(b"\0")
    except OSError:
        return False
    return b"app-server" in words and any(word.startswith((b"unix:", b"--listen=unix:")) for word in words)
