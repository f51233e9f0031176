"""This machine and its processes: who is alive, who is proven dead, and who stands inside a folder.

A process is named by (boot, pid, start time): pids are reused, start times within one boot are not.
"""

from __future__ import annotations

import os
import sys
import time

_LINUX = sys.platform.startswith("linux")
STOPPED = ("T", "t")  # states of a process that does nothing until somebody continues it: ctrl-z, SIGSTOP, a debugger
_this_boot: list[str] = []


class ProcessIdentity:
    """A process's identity as it is written into a claim. `boot` is `<boot id>/<pid namespace>`."""

    __slots__ = ("boot", "host", "pid", "started")

    def __init__(self, host: str, boot: str, pid: int | None, started: str | None) -> None:
        self.host = host
        self.boot = boot
        self.pid = pid
        self.started = started


def hostname() -> str:
    return os.environ.get("IMI_HOST") or os.uname().nodename


def boot() -> str:
    """`<boot id>/<pid namespace>`: another boot id proves death, another namespace proves nothing."""
    if not _this_boot:
        _this_boot.append(_ask_boot())  # it cannot change while this process lives
    return _this_boot[0]


def _ask_boot() -> str:
    if _LINUX:
        try:
            namespace = os.readlink("/proc/self/ns/pid")
        except OSError:
            namespace = "?"
        return f"{_read('/proc/sys/kernel/random/boot_id').strip() or '?'}/{namespace}"
    return f"{_ask('sysctl', '-n', 'kern.bootsessionuuid') or '?'}/-"


def uptime() -> float:
    """Seconds since boot, sleep included: the only clock for ages on one machine."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def start_time(pid: int) -> str | None:
    """When a living process started, in a form that only equality is asked of; None if it is gone or a zombie."""
    state, started = _look(pid)
    return None if state in ("", "Z", "X") else started


def start_time_and_suspension(pid: int) -> tuple[str | None, bool]:
    """(start time as above, whether it is suspended) of a process, by one look."""
    state, started = _look(pid)
    return None if state in ("", "Z", "X") else started, state in STOPPED


def identify_process(pid: int | None) -> ProcessIdentity:
    """The identity of `pid`, or of nothing but this boot when there is no pid to watch."""
    return ProcessIdentity(hostname(), boot(), pid, start_time(pid) if pid else None)


def is_alive(host: str | None, boot_then: str | None, pid: int | None, started: str | None) -> bool | None:
    """True: it runs. False: proven dead. None: unknown (another host or namespace, or no pid was given)."""
    if not boot_then or (host and host != hostname()):
        return None
    then, _, namespace_then = boot_then.partition("/")
    now, _, namespace_now = boot().partition("/")
    if "?" in (then, now):
        return None
    if then != now:
        return False
    if pid is None or namespace_then != namespace_now:
        return None
    state, start = _look(pid)
    if state in ("", "Z", "X"):
        return False
    return started is None or start == started


def is_suspended(pid: int) -> bool:
    """Whether the process exists but is stopped (SIGSTOP, a debugger)."""
    return _look(pid)[0] in STOPPED


def process_name(pid: int) -> str | None:
    """What a process is called by the system; None when it is gone or that cannot be told."""
    told = _read(f"/proc/{pid}/comm") if _LINUX else os.path.basename(_ask("ps", "-o", "comm=", "-p", str(pid)))
    return told.strip() or None


def parent_pid(pid: int) -> int:
    """Who started a process; 0 when there is nobody, or it cannot be told."""
    if not _LINUX:
        answer = _ask("ps", "-o", "ppid=", "-p", str(pid)).strip()
        return int(answer) if answer.isdigit() else 0
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(")") + 2 :].split()
    return int(fields[1]) if len(fields) > 1 else 0


def processes_inside(folder: str) -> list[tuple[int, str]]:
    """(pid, command) of the processes whose working directory or open file lies in `folder`; Linux only, else empty.

    Our own process is left out; processes of other users cannot be looked into and are not reported.
    """
    if not _LINUX:
        return _inside_by_lsof(folder)
    root = os.path.realpath(folder)
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _holds(f"/proc/{name}", root):
            found.append((int(name), process_name(int(name)) or "?"))
    return sorted(found)


def mounts_inside(folder: str) -> list[str]:
    """What is mounted at `folder` or below it: that is not the folder's own, and must not be deleted with it. Linux only."""
    root = os.path.realpath(folder)
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            escaped = [line.split(b" ")[4] for line in file]
    except OSError:  # not Linux
        return []
    points = {os.fsdecode(point.decode("unicode_escape").encode("latin-1")) for point in escaped}
    return sorted(point for point in points if _within(point, root))


def _holds(proc: str, root: str) -> bool:
    try:
        if _within(os.readlink(f"{proc}/cwd"), root):
            return True
        return any(_within(os.readlink(f"{proc}/fd/{fd}"), root) for fd in os.listdir(f"{proc}/fd"))
    except OSError:
        return False  # gone meanwhile, or not ours to look into


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _look(pid: int) -> tuple[str, str | None]:
    """(state letter, start time) of a process; ('', None) when there is none."""
    if not _LINUX:
        state, _, started = (_ask("ps", "-o", "state=,lstart=", "-p", str(pid)) or "").strip().partition(" ")
        return state[:1], started.strip() or None
    text = _read(f"/proc/{pid}/stat")
    # the command's name stands in brackets and may hold anything, brackets too: read behind the last one
    fields = text[text.rfind(")") + 2 :].split()
    return (fields[0], fields[19]) if len(fields) > 19 else ("", None)


def _read(path: str) -> str:
    try:
        handle = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC
        )  # not `open`: asked forty times a second, that costs twice as much
    except OSError:
        return ""
    try:
        return os.read(handle, 4096).decode("utf-8", "replace")
    except OSError:  # it ended meanwhile
        return ""
    finally:
        os.close(handle)


def _ask(*argv: str) -> str:
    """A system tool's answer, where there is no /proc; empty when it cannot answer."""
    import subprocess

    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _inside_by_lsof(folder: str) -> list[tuple[int, str]]:
    found: dict[int, str] = {}
    pid = 0
    for line in _ask("lsof", "-F", "pc", "+D", folder).splitlines():
        if line.startswith("p"):
            pid = int(line[1:])
        elif line.startswith("c") and pid != os.getpid():
            found[pid] = line[1:]
    return sorted(found.items())
