"""The process of the follower of a registry: whether one runs, and its start. Small, because a dashboard asks twice a second."""

from __future__ import annotations

import fcntl
import os
import sys
import time
import zlib

from imi_monitor import host, paths

_START_SECONDS = 10.0
_TRIES = 5
_PAUSE = 0.01  # seconds
_POLL_SECONDS = 0.1
_LONGEST_PID = 20  # digits


def ensure(database: str) -> bool:
    """Start the follower of this registry if none runs; whether one was started."""
    found = lock(database)
    if found is None:
        return False
    os.close(found)
    import subprocess

    from imi_monitor.runs.run_plan import own_environment

    subprocess.run(
        # the shell ends at once, so that no process of imi has to wait for the follower
        ["/bin/sh", "-c", '"$@" &', "sh", sys.executable, "-m", "imi_monitor.runs.follower", database],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=own_environment(),
        start_new_session=True,
        cwd="/",
        timeout=_START_SECONDS,
        check=False,
    )
    return True


def wait_for_end(database: str, seconds: float) -> bool:
    """Return once no follower of this registry runs; False if one still does after so many seconds."""
    until = time.monotonic() + seconds
    while (found := lock(database)) is None:
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_SECONDS)
    os.close(found)
    return True


def lock(database: str) -> int | None:
    """The lock of the follower, which the descriptor holds; None if another process has it."""
    path = _lock_file(database)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _lock_file(database: str) -> str:
    """It has the number of the last follower's process."""
    name = f"follower-{zlib.crc32(os.path.realpath(database).encode('utf-8', 'surrogateescape')):08x}.lock"
    return os.path.join(paths.state_dir(), "runs", name)


def acquire(database: str) -> int | None:
    """The lock for a follower: another process may have it for a moment, to see whether one runs."""
    for _ in range(_TRIES):
        found = lock(database)
        if found is not None:
            os.ftruncate(found, 0)
            os.pwrite(found, str(os.getpid()).encode(), 0)
            return found
        time.sleep(_PAUSE)
    return None


def watch_end(database: str) -> int | None:
    """A descriptor that can be read once the last follower of this registry has ended; None where there is none."""
    try:
        with open(_lock_file(database), "rb") as file:
            pid = int(file.read(_LONGEST_PID))
        return None if host.start_time(pid) is None else os.pidfd_open(pid)
    except (OSError, ValueError, AttributeError):  # none has begun, it has ended, or another system
        return None
