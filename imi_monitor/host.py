"""This machine and its processes: which are alive, which are proven dead, and which use a folder.

A process is identified by (boot, pid, start time): pids are reused, start times within one boot are not.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LINUX = sys.platform.startswith("linux")
MOUNT_LIST = "/proc/self/mountinfo"
STOPPED = ("T", "t")  # states of a process that is stopped until it is continued: ctrl-z, SIGSTOP, a debugger
_MACHINE_ID = "/etc/machine-id"
_HOME = "home:"  # the host of a holder that another home decides about
_this_boot: list[str] = []
_this_machine: list[str] = []


class ProcessIdentity:
    """The identity of a process as a claim stores it. `boot` is `<boot id>/<pid namespace>`, then `/<machine>` if it is known."""

    __slots__ = ("boot", "host", "pid", "started")

    def __init__(self, host: str, boot: str, pid: int | None, started: str | None) -> None:
        self.host = host
        self.boot = boot
        self.pid = pid
        self.started = started


def hostname() -> str:
    return os.environ.get("IMI_HOST") or os.uname().nodename


def boot() -> str:
    """Return `<boot id>/<pid namespace>`: another boot id proves a process dead, another namespace proves nothing."""
    if not _this_boot:
        _this_boot.append(_read_boot())  # it cannot change while this process lives
    return _this_boot[0]


def _read_boot() -> str:
    if _LINUX:
        try:
            namespace = os.readlink("/proc/self/ns/pid")
        except OSError:
            namespace = "?"
        return f"{_read('/proc/sys/kernel/random/boot_id').strip() or '?'}/{namespace}"
    return f"{_run('sysctl', '-n', 'kern.bootsessionuuid') or '?'}/-"


def machine() -> str:
    """Return the machine's id; empty where the system has none. Two machines may have one host name."""
    if not _this_machine:
        _this_machine.append(_read(_MACHINE_ID).strip() if _LINUX else "")
    return _this_machine[0]


def is_other_boot(boot_then: str) -> bool | None:
    """Return True for an earlier boot of this machine; None if unknown, as for a boot of another machine."""
    then, _, rest = boot_then.partition("/")
    machine_then = rest.partition("/")[2]
    if machine_then and machine() and machine_then != machine():
        return None
    now = boot().partition("/")[0]
    return None if "?" in (then, now) else then != now


def remote_holder(home: str) -> ProcessIdentity:
    """Return the identity of a holder in another home: this machine never judges whether its process lives."""
    return ProcessIdentity(_HOME + home, "", None, None)


def home_of(host: str | None) -> str | None:
    """Return the home of a remote holder; None for a holder that this home's processes claimed for."""
    return host.removeprefix(_HOME) if host is not None and host.startswith(_HOME) else None


def uptime() -> float:
    """Return the seconds since boot, sleep included."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def start_time(pid: int) -> str | None:
    """Return when a living process started, as a text to compare for equality; None if it is gone or a zombie."""
    return start_time_and_suspension(pid)[0]


def start_moment(started: str) -> float | None:
    """The seconds since 1970 of a `start_time`; None where the system gives it in another form."""
    if not _LINUX or not started.isdecimal():
        return None
    from imi_monitor.model import times

    return times.now().timestamp() - uptime() + int(started) / os.sysconf("SC_CLK_TCK")


def start_time_and_suspension(pid: int) -> tuple[str | None, bool]:
    """Return (`start_time`, whether it is suspended) of a process with one read."""
    state, started = _read_stat(pid)
    return None if state in ("", "Z", "X") else started, state in STOPPED


def identify_process(pid: int | None) -> ProcessIdentity:
    """Return the identity of `pid`, or only host, boot and machine without a pid."""
    where = f"{boot()}/{machine()}" if machine() else boot()
    return ProcessIdentity(hostname(), where, pid, start_time(pid) if pid else None)


def is_alive(host: str | None, boot_then: str | None, pid: int | None, started: str | None) -> bool | None:
    """Return True if it runs, False if proven dead, None if unknown (another machine or namespace, or no pid)."""
    if not boot_then or (host and (home_of(host) is not None or host != hostname())):
        return None
    other = is_other_boot(boot_then)
    if other is not False:
        return None if other is None else False
    if pid is None or boot_then.split("/")[1:2] != boot().split("/")[1:2]:
        return None
    state, start = _read_stat(pid)
    if state in ("", "Z", "X"):
        return False
    return started is None or start == started


def is_suspended(pid: int) -> bool:
    """Return whether the process exists but is stopped (SIGSTOP, a debugger)."""
    return _read_stat(pid)[0] in STOPPED


def process_name(pid: int) -> str | None:
    """Return the system's name of a process; None when it is gone or unreadable."""
    name = _read(f"/proc/{pid}/comm") if _LINUX else os.path.basename(_run("ps", "-o", "comm=", "-p", str(pid)))
    return name.strip() or None


def foreground_process(leader: int) -> int | None:
    """Return the process in the foreground of this process' terminal; None if that is itself, or unknown. Linux only."""
    text = _read(f"/proc/{leader}/stat") if _LINUX else ""
    fields = text[text.rfind(")") + 2 :].split()
    group = int(fields[5]) if len(fields) > 5 and fields[5].isdecimal() else 0
    return group if group > 0 and group != leader else None


def parent_pid(pid: int) -> int:
    """Return the parent of a process; 0 without one or when unreadable."""
    if not _LINUX:
        answer = _run("ps", "-o", "ppid=", "-p", str(pid)).strip()
        return int(answer) if answer.isdigit() else 0
    text = _read(f"/proc/{pid}/stat")
    fields = text[text.rfind(")") + 2 :].split()
    return int(fields[1]) if len(fields) > 1 else 0


def descendants(roots: list[int]) -> dict[int, str]:
    """Return the start time of each living process that descends from one of these, by pid."""
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, started in _list_processes():
        children.setdefault(parent, []).append((pid, started))
    found: dict[int, str] = {}
    left = list(roots)
    while left:
        for pid, started in children.get(left.pop(), []):
            if pid not in found:
                found[pid] = started
                left.append(pid)
    return found


def processes_by_variable(name: str) -> dict[str, dict[int, str]]:
    """Return {pid: start time} of the living processes that have this variable in their environment, by its value.

    Linux only; processes of other users cannot be read and are not reported.
    """
    found: dict[str, dict[int, str]] = {}
    start = f"{name}=".encode()
    for pid in os.listdir("/proc") if _LINUX else ():
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        value = next((one for one in _read_environment(f"/proc/{pid}/environ") if one.startswith(start)), None)
        started = start_time(int(pid)) if value is not None else None
        if value is not None and started is not None:
            found.setdefault(os.fsdecode(value[len(start) :]), {})[int(pid)] = started
    return found


def _read_environment(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # it ended meanwhile, or belongs to another user
        return []


def _list_processes() -> Iterator[tuple[int, int, str]]:
    """Yield (pid, parent, start time) of the living processes."""
    if not _LINUX:
        for line in _run("ps", "-axo", "pid=,ppid=,state=,lstart=").splitlines():
            words = line.split(None, 3)
            if len(words) == 4 and not words[2].startswith("Z"):
                yield int(words[0]), int(words[1]), words[3].strip()
        return
    for name in os.listdir("/proc"):
        if name.isdigit():
            text = _read(f"/proc/{name}/stat")
            fields = text[text.rfind(")") + 2 :].split()
            if len(fields) > 19 and fields[0] not in ("Z", "X"):
                yield int(name), int(fields[1]), fields[19]


def processes_inside(folder: str) -> list[tuple[int, str]]:
    """Return (pid, command) of the processes whose working directory or an open file is in `folder`.

    Our own process is left out; processes of other users cannot be inspected and are not reported.
    """
    if not _LINUX:
        return _inside_by_lsof(folder)
    root = os.path.realpath(folder)
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _holds(f"/proc/{name}", root):
            found.append((int(name), process_name(int(name)) or "?"))
    return sorted(found)


def writers_inside(folder: str) -> list[tuple[int, str, str]]:
    """Return (pid, command, file) of the processes that have a file in `folder` open for writing, one file of each.

    Processes of other users cannot be inspected and are not reported.
    """
    if not _LINUX:
        return _writers_by_lsof(folder)
    root = os.path.realpath(folder)
    found = ((int(pid), _written(f"/proc/{pid}", root)) for pid in os.listdir("/proc") if pid.isdigit())
    return sorted((pid, process_name(pid) or "?", file) for pid, file in found if file and pid != os.getpid())


def mounts_inside(folder: str) -> list[str]:
    """Return the mount points at `folder` or below it, which must not be deleted with it; Linux only."""
    root = os.path.realpath(folder)
    return sorted({point for _number, point in mounts() if _within(point, root)})


def mounts() -> frozenset[tuple[str, str]]:
    """Return (number, mount point) of every mounted file system; none where the system has no such list."""
    try:
        with open(MOUNT_LIST, "rb") as file:
            lines = [line.split(b" ", 5) for line in file]
    except OSError:  # not Linux
        return frozenset()
    return frozenset(
        (words[0].decode(), os.fsdecode(words[4].decode("unicode_escape").encode("latin-1"))) for words in lines
    )


def _holds(proc: str, root: str) -> bool:
    try:
        if _within(os.readlink(f"{proc}/cwd"), root):
            return True
        return any(_within(os.readlink(f"{proc}/fd/{fd}"), root) for fd in os.listdir(f"{proc}/fd"))
    except OSError:
        return False  # ended meanwhile, or of another user


def _written(proc: str, root: str) -> str | None:
    """A file below `root` that the process has open for writing."""
    try:
        for fd in os.listdir(f"{proc}/fd"):
            file = os.readlink(f"{proc}/fd/{fd}")
            if _within(file, root) and _is_open_for_writing(f"{proc}/fdinfo/{fd}"):
                return file
    except OSError:
        pass  # ended meanwhile, closed it, or of another user
    return None


def _is_open_for_writing(info: str) -> bool:
    """Whether the descriptor's flags, the octal number in the line `flags:`, allow writing."""
    flags = _read(info).partition("flags:")[2].split(maxsplit=1)
    return bool(flags) and int(flags[0], 8) & os.O_ACCMODE != os.O_RDONLY


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _read_stat(pid: int) -> tuple[str, str | None]:
    """Return (state letter, start time) of a process; ('', None) when there is none."""
    if not _LINUX:
        state, _, started = (_run("ps", "-o", "state=,lstart=", "-p", str(pid)) or "").strip().partition(" ")
        return state[:1], started.strip() or None
    text = _read(f"/proc/{pid}/stat")
    # the command's name is in brackets and may contain brackets: parse after the last one
    fields = text[text.rfind(")") + 2 :].split()
    return (fields[0], fields[19]) if len(fields) > 19 else ("", None)


def _read(path: str) -> str:
    try:  # os.open takes half the time of `open`, and this runs forty times a second
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(handle, 4096).decode("utf-8", "replace")
    except OSError:  # it ended meanwhile
        return ""
    finally:
        os.close(handle)


def _run(name: str, *args: str) -> str:
    """Return the output of a system tool, where there is no /proc; empty when it fails.

    psutil would give other start times than the `ps` ones in existing claims, so their processes would count as dead.
    """
    import subprocess

    from imi_monitor import programs

    program = programs.find(name)
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *args], capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _inside_by_lsof(folder: str) -> list[tuple[int, str]]:
    found: dict[int, str] = {}
    pid = 0
    for line in _run("lsof", "-F", "pc", "+D", folder).splitlines():
        if line.startswith("p"):
            pid = int(line[1:])
        elif line.startswith("c") and pid != os.getpid():
            found[pid] = line[1:]
    return sorted(found.items())


def _writers_by_lsof(folder: str) -> list[tuple[int, str, str]]:
    found: dict[int, tuple[int, str, str]] = {}
    pid, command, access = 0, "?", ""
    for line in _run("lsof", "-F", "pcan", "+D", folder).splitlines():
        kind, value = line[:1], line[1:]
        if kind == "p":
            pid = int(value)
        elif kind == "c":
            command = value
        elif kind == "a":
            access = value
        elif kind == "n" and access in ("w", "u") and pid != os.getpid():
            found.setdefault(pid, (pid, command, value))
    return sorted(found.values())
