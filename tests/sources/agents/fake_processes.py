"""Programs that look like agents to the system: the right name, the right command line, the right folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SLEEP, SHELL = shutil.which("sleep") or "/bin/sleep", "/bin/sh"


def named(folder: Path, name: str, what: str = SLEEP) -> str:
    """A file of that name that runs `what`."""
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
    """It, and all that it started, are gone afterwards."""
    process = subprocess.Popen(argv, cwd=cwd, start_new_session=True, **more)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def soon(true: Callable[[], bool]) -> None:
    """Wait until it is so; what never becomes so is a failure."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)
