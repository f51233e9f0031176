"""Decides which process works on which Codex thread, and which threads have ended.

Codex keeps `thread-writer-locks/<thread>.lock` locked while a thread is loaded. Holding that lock, even for a moment,
could make Codex fail to get it, so it is never tried: the kernel's list of locks in /proc/locks names the holder.

Where the shared daemon holds the lock, the process a person sees is a terminal in the same folder, or one with the
thread's id among its arguments; `SessionPairs` decides which one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from imi_monitor import host
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext
from imi_monitor.sources.agents.session_owners import SessionPairs, SessionProcess, SessionTrace

_LOCK = ".lock"
_MOST_LOCKS = 2000
_KERNEL_LOCKS = "/proc/locks"
_FIRST_WORDS = 4  # of a command line, among which `resume` stands; later ones may be a prompt


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


@dataclass(frozen=True, slots=True)
class ThreadProcess:
    """`alive` None: unknown. `began`: of the process that runs the turns; None of a terminal, which only shows them."""

    alive: bool | None
    pid: int | None = None
    started: str | None = None
    began: str | None = None
    tied: bool = False


class ThreadOwners:
    """The process of each thread, kept from read to read."""

    def __init__(self) -> None:
        self._pairs = SessionPairs(resumes=is_resumed)

    def find(
        self, threads: Sequence[ThreadCandidate], locks: ThreadLocks, context: ReadContext
    ) -> Mapping[str, ThreadProcess]:
        terminals = [_in_its_folder(one) for one in context.processes_of("codex")]
        owners = self._pairs.find([_trace(one, locks, terminals) for one in threads], terminals, context.now)
        taken = {one.process.pid for one in owners.values() if one.process is not None and one.alive}
        free = any(one.pid not in taken for one in terminals)
        return {one.id: _thread_process(one, owners[one.id], _lock_holder(locks, one.id), free) for one in threads}


def _trace(thread: ThreadCandidate, locks: ThreadLocks, terminals: Sequence[AgentProcess]) -> SessionTrace:
    holder = _lock_holder(locks, thread.id)
    pids = {pid for one in terminals for pid in (one.pid, *one.family)}
    return SessionTrace(
        thread.id,
        thread.cwd,
        thread.modified_at,
        names=frozenset({thread.id}),
        pid=holder if holder in pids else None,
        loaded=holder is not None,
        freed=locks.readable and thread.id in locks.threads and holder is None,  # left behind: its process was killed
    )


def _thread_process(thread: ThreadCandidate, owner: SessionProcess, holder: int | None, free: bool) -> ThreadProcess:
    """`free`: a terminal runs that has no thread."""
    process = owner.process
    if process is not None and owner.alive:
        runs_turns = holder is None or holder in (process.pid, *process.family)
        began = owner.began if runs_turns else None
        return ThreadProcess(True, process.pid, process.started, began, owner.tied)
    if holder is None:
        return ThreadProcess(owner.alive, tied=owner.tied)
    if thread.working or not is_daemon(holder):  # not a daemon: an editor's server, or a program with Codex inside
        return ThreadProcess(True, holder, host.start_time(holder))
    # the daemon keeps an abandoned thread for half an hour; only of terminals it is known that they are gone
    return ThreadProcess(False if thread.terminal and not free else None)


def _lock_holder(locks: ThreadLocks, thread: str) -> int | None:
    lock = locks.threads.get(thread)
    return lock.pid if lock else None


def is_resumed(words: Sequence[str]) -> bool:
    """True if the command line continues an older thread."""
    return not {"resume", "fork"}.isdisjoint(words[1:_FIRST_WORDS])


def _in_its_folder(process: AgentProcess) -> AgentProcess:
    """The process as if it ran in the folder given with `-C DIR`."""
    for word, value in zip(process.argv, process.argv[1:], strict=False):
        if word in ("-C", "--cd"):
            return replace(process, cwd=os.path.realpath(os.path.join(process.cwd, value)))
    return process


def is_daemon(pid: int) -> bool:
    """True for the server that all terminals of a person share."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 16).split(b"\0")
    except OSError:
        return False
    return b"app-server" in words and any(word.startswith((b"unix:", b"--listen=unix:")) for word in words)
