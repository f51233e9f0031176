"""A lock file of git's that is in the way: which one, and what to do. None is deleted here: a git at work may hold it."""

from __future__ import annotations

import os
import time

from imi_monitor.model.text import safe
from imi_monitor.model.times import age

_SUFFIX = ".lock"


def lock_in_message(lines: list[str]) -> str | None:
    """The lock file that git's own words on stderr name as being there already."""
    for line in lines:
        _, config, rest = line.partition("could not lock config file ")
        path = rest.removesuffix(": File exists") + _SUFFIX
        if config and (rest.endswith(": File exists") or os.path.lexists(path)):  # git does not always say why
            return path
        _, quote, rest = line.partition("Unable to create '")
        path, end, _ = rest.partition(f"{_SUFFIX}': File exists")
        if quote and end:
            return path + _SUFFIX
    return None


def lock_advice(path: str) -> str:
    """The rest of a sentence about it."""
    return (
        f"{safe(path)} exists{_since(path)}: another git is at work there, or died and left it; "
        "when none is running any more, delete that file"
    )


def _since(path: str) -> str:
    try:
        return f", made {age(time.time() - os.lstat(path).st_mtime)} ago"
    except OSError:  # gone by now, or not for us to see
        return ""
