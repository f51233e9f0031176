"""Processes that look like agents: the right name, command line and folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.limits import LIMIT

SLEEP, SHELL = shutil.which("sleep") or "/bin/sleep", "/bin/sh"


def named(folder: Path, name: str, what: str = SLEEP) -> str:
    """A link of that name to the program `what`."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(what)
    return str(path)


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


@contextmanager
def running(argv: Sequence[str], cwd: Path, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process; it and its children are killed at the end."""
    process = subprocess.Popen(argv, cwd=cwd, start_new_session=True, **more)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait(LIMIT)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def soon(true: Callable[[], bool]) -> None:
    """Wait until the condition holds; fail after 30 seconds."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)
