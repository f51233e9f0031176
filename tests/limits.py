"""Waits for other processes and threads, each with a limit: what hangs fails after a minute and a half and is named.

A machine that is ten times slower must not fail, so no limit is shorter; `tests/test_house.py` forbids waits without one.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import IO, AnyStr, TypeVar

T = TypeVar("T")

LIMIT = 90.0  # seconds


def read_line(stream: IO[AnyStr]) -> AnyStr:
    """The next line of a pipe; empty at its end."""
    return _within(stream.readline, "a line of a pipe")


def read_rest(stream: IO[AnyStr]) -> AnyStr:
    """What is left in a pipe, up to its end."""
    return _within(stream.read, "the end of a pipe")


def read_some(fd: int, size: int) -> bytes:
    """What a pipe or a terminal has, as soon as it has something."""
    if not select.select([fd], [], [], LIMIT)[0]:
        raise TimeoutError(f"nothing to read within {LIMIT:.0f} s")
    return os.read(fd, size)


def join(thread: threading.Thread) -> None:
    """Wait until the thread has ended."""
    thread.join(LIMIT)
    if thread.is_alive():
        raise TimeoutError(f"{thread.name} has not ended within {LIMIT:.0f} s")


def wait_pid(pid: int) -> int:
    """The wait status of a child that was forked."""
    return _poll(lambda: os.waitpid(pid, os.WNOHANG), lambda found: found[0] != 0, f"process {pid}")[1]


def wait_for_zombie(pid: int) -> None:
    """Wait until a child has ended, and leave it as a zombie."""
    options = os.WEXITED | os.WNOWAIT | os.WNOHANG
    _poll(lambda: os.waitid(os.P_PID, pid, options), lambda found: found is not None, f"process {pid}")


def _poll(ask: Callable[[], T], enough: Callable[[T], bool], what: str) -> T:
    until, pause = time.monotonic() + LIMIT, 0.0002
    while not enough(found := ask()):
        if time.monotonic() > until:
            raise TimeoutError(f"{what} has not ended within {LIMIT:.0f} s")
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return found


def _within(act: Callable[[], T], what: str) -> T:
    """The result of a call that may block for ever: a thread makes it, which is given up at the limit."""
    results: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            results.append(act())
        except Exception as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    if failures:
        raise failures[0]
    if not results:
        raise TimeoutError(f"{what} did not come within {LIMIT:.0f} s")
    return results[0]
