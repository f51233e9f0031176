"""The process of the follower of a registry: whether one runs, and its start. Small, because a dashboard asks twice a second."""

from __future__ import annotations

import fcntl
import os
import sys
import time
import zlib

from imi_monitor import paths

_START_SECONDS = 10.0
_TRIES = 5
_PAUSE = 0.01  # seconds
_POLL_SECONDS = 0.1


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
    folder = os.path.join(paths.state_dir(), "runs")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    name = f"follower-{zlib.crc32(os.path.realpath(database).encode('utf-8', 'surrogateescape')):08x}.lock"
    handle = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def acquire(database: str) -> int | None:
    """The lock for a follower: another process may have it for a moment, to see whether one runs."""
    for _ in range(_TRIES):
        found = lock(database)
        if found is not None:
            return found
        time.sleep(_PAUSE)
    return None
