"""Which process works on which Codex thread, and which threads have nobody left.

A thread's lock names its process. Where the shared daemon holds it, a terminal with the same folder (or with the
thread's name among its arguments) is the one that a person sees; without a lock a process of that folder that is not
taken by another thread is believed, if the thread was heard of since it began.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imi_monitor import host
from imi_monitor.sources.agents.base import AgentProcess, World
from imi_monitor.sources.agents.codex.locks import Locks

_SLACK = 2.0  # seconds between a process's start and what it writes first


@dataclass(frozen=True, slots=True)
class Candidate:
    """A thread whose owner is asked for."""

    id: str
    cwd: str  # real path
    heard_at: float  # when its rollout last grew
    working: bool
    terminal: bool = True  # a terminal began it, not an editor or a telephone
    left_by: tuple[int, str] | None = None  # its process ended, and nothing was heard since


@dataclass(frozen=True, slots=True)
class Life:
    """`alive` None: not known."""

    alive: bool | None
    pid: int | None = None
    started: str | None = None


def owners(threads: Sequence[Candidate], locks: Locks, world: World) -> Mapping[str, Life]:
    """The life of each thread, the newest first: it is what a process works on most likely."""
    free = sorted(world.processes_of("codex"), key=lambda one: -one.began_at)
    ordered = sorted(threads, key=lambda one: -one.heard_at)
    found: dict[str, Life] = {}
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


def _otherwise(thread: Candidate, locks: Locks, free: list[AgentProcess]) -> Life:
    holder = _pid(locks, thread.id)
    if locks.readable and thread.id in locks.threads and holder is None:
        return Life(False)  # the lock was left behind: its process was killed
    process = next((one for one in free if _attached(one, thread, holder is not None)), None)
    if process is not None:
        free.remove(process)
        return _life(process)
    if holder is None:
        return Life(False)
    if not is_daemon(holder):  # an editor's server, a program that only has Codex in it
        return Life(True, holder, host.start_time(holder))
    if thread.working:
        return Life(True, holder, host.start_time(holder))
    # the daemon keeps what everybody left for half an hour; only of terminals we know that they are gone
    return Life(False if thread.terminal and not free else None)


def _pid(locks: Locks, thread: str) -> int | None:
    held = locks.threads.get(thread)
    return held.pid if held else None


def _life(process: AgentProcess) -> Life:
    return Life(True, process.pid, process.started)


def _attached(process: AgentProcess, thread: Candidate, loaded: bool) -> bool:
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
