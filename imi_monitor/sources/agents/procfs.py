"""Processes as Linux tells them in /proc, read without any library: one line of one small file, when it is needed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

_MOST = 32 << 10  # of a command line: a prompt may be given in it
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_GONE = (b"Z", b"X", b"x")
_DELETED = " (deleted)"
_PTS = range(136, 144)  # major numbers of pseudo terminals


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Of /proc/<pid>/stat, what we need."""

    pid: int
    comm: str
    state: str
    parent: int
    started: str  # as host.start_time tells it
    tty: str | None

    @property
    def began_at(self) -> float:
        """Seconds since 1970."""
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(self.started) / _TICKS


def pids(proc: str = "/proc") -> dict[int, int]:
    """Every process, with a number that is another one when its pid is used again: one listing, and no file is opened."""
    with os.scandir(proc) as entries:
        return {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}


def stat(pid: int) -> ProcessStat | None:
    """None when it is gone, or nothing but its exit code is left."""
    text = _read(f"/proc/{pid}/stat", 4096)
    # the command's name stands in brackets and may hold anything, brackets too: read behind the last one
    end = text.rfind(b")")
    fields = text[end + 2 :].split()
    if len(fields) < 20 or fields[0] in _GONE:
        return None
    comm = text[text.find(b"(") + 1 : end].decode("utf-8", "replace")
    return ProcessStat(pid, comm, fields[0].decode(), int(fields[1]), fields[19].decode(), _terminal(int(fields[4])))


def command_line(pid: int) -> bytes:
    return _read(f"/proc/{pid}/cmdline", _MOST)


def argv(line: bytes) -> tuple[str, ...]:
    words = line.rstrip(b"\0")
    return tuple(os.fsdecode(word) for word in words.split(b"\0")) if words else ()


def exe(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(_DELETED)
    except OSError:
        return None


def owner(pid: int) -> int | None:
    """Its real user. Not the owner of /proc/<pid>: that is root for a program that hardens itself, as codex does."""
    for line in _read(f"/proc/{pid}/status", 4096).split(b"\n"):
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def raw_cwd(pid: int) -> str | None:
    """As the system writes it, with what it says of a deleted folder."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def cwd(pid: int) -> str | None:
    """Its folder, also when that was deleted; None when it may not be asked, or is another one than that path is here."""
    link = f"/proc/{pid}/cwd"
    try:
        path = os.readlink(link)
        if path.endswith(_DELETED) and os.stat(link).st_nlink == 0:
            return path.removesuffix(_DELETED)
        here, there = os.stat(path), os.stat(link)
    except OSError:
        return None
    # a container's /workspace is not the one that lies here
    return path if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) else None


def _terminal(number: int) -> str | None:
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if major in _PTS:
        return f"/dev/pts/{(major - _PTS.start) * 256 + minor}"
    return f"/dev/tty{minor}" if major == 4 else None


def _read(path: str, most: int) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, most)
    except OSError:  # it ended meanwhile
        return b""
    finally:
        os.close(handle)
