"""git's lock files: which one blocks a command, and what to do about it. None is deleted: a running git may hold it."""

from __future__ import annotations

import os

from imi_monitor.model import times
from imi_monitor.model.text import safe

_SUFFIX = ".lock"


def lock_in_message(lines: list[str]) -> str | None:
    """Return the lock file that git's messages name as already existing."""
    for line in lines:
        _, config, rest = line.partition("could not lock config file ")
        path = rest.removesuffix(": File exists") + _SUFFIX
        if config and (rest.endswith(": File exists") or os.path.lexists(path)):  # git does not always give the reason
            return path
        _, quote, rest = line.partition("Unable to create '")
        path, end, _ = rest.partition(f"{_SUFFIX}': File exists")
        if quote and end:
            return path + _SUFFIX
    return None


def lock_advice(path: str) -> str:
    """Return the rest of a sentence about a lock file that exists."""
    return (
        f"{safe(path)} exists{_since(path)}: another git is running there, or died and left it; "
        "delete that file when no git is running"
    )


def _since(path: str) -> str:
    try:
        return f", made {times.age(times.clock() / 1e9 - os.lstat(path).st_mtime)} ago"
    except OSError:  # deleted meanwhile, or not readable
        return ""
