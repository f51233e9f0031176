"""The files of an agent's last turn, from the records that its program left: no imi has to have run during the turn."""

from __future__ import annotations

import glob
import os
import stat
from importlib import import_module
from typing import Any, BinaryIO

from imi_monitor import paths
from imi_monitor.model.turn_files import NO_FILES, TurnFiles
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import CLOCK_RESOLUTION

RECORDING = ("claude", "codex")
"""Programs whose records hold what a file was before a change. Of the others only the beginning of a turn is known."""

_FIRST_SLICE = 1 << 20
_MOST_READ = 128 << 20  # bytes of one file of records
_MOST_UNDATED = 50  # records without a time that may follow each other
MOST_FILE = 16 << 20  # bytes of one file that are read
MOST_FILES = 500


def read_files(cli: str, session: str | None, cwd: str | None, began_at: str) -> TurnFiles:
    """Return what the program's records say about the files that were changed since then; nothing if it records none."""
    began = fields.seconds(began_at)
    if cli not in RECORDING or session is None or began is None:
        return NO_FILES
    program = import_module(f"imi_monitor.sources.agents.{cli}.turn_record")
    found: TurnFiles = program.read_files(session, cwd, began - CLOCK_RESOLUTION, paths.home(), os.environ)
    return found


def lines_since(path: str, began: float, first: int = _FIRST_SLICE) -> list[bytes]:
    """Return the lines of a file of records from some place before that moment on, at most the last 128 MB."""
    try:
        with open(path, "rb") as file:
            size, window = file.seek(0, os.SEEK_END), first
            while window < min(size, _MOST_READ) and not _is_before(file, size - window, began):
                window *= 4
            start = max(0, size - min(window, _MOST_READ))
            file.seek(start)
            if start:
                file.readline()
            return file.read(_MOST_READ).splitlines()
    except OSError:
        return []


def _is_before(file: BinaryIO, start: int, began: float) -> bool:
    """Whether the first dated record behind that place is older than the moment."""
    file.seek(start)
    file.readline()
    for _ in range(_MOST_UNDATED):
        at = moment_of(fields.record(file.readline()) or {})
        if at is not None:
            return at < began
    return False


def moment_of(record: dict[str, Any]) -> float | None:
    """Return the time of a record, in seconds."""
    return fields.seconds(fields.moment(record.get("timestamp")))


def matching(folder: str, pattern: str) -> list[str]:
    """Return the files below a folder whose names match, in order; the folder's own name is taken as it is."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))


def read_whole(path: str) -> bytes | None:
    """Return the content of a regular file; None when it is not one, cannot be read or is too large."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            info = os.fstat(file.fileno())
            content = file.read() if stat.S_ISREG(info.st_mode) and info.st_size <= MOST_FILE else None
    except (OSError, ValueError):
        return None
    return content
