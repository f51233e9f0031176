"""The name of the dashboard's process, by which tmux names its window and `ps` and `top` list it."""

from __future__ import annotations

import os
import sys

_ARGUMENTS_START, _ARGUMENTS_END = 45, 46  # fields of /proc/self/stat behind the program's name


def set_title(name: str) -> None:
    """Let the kernel list this process as `name` with its arguments, instead of as `python …`; on Linux only.

    A program's arguments stand in its own memory, where the kernel reads them.
    """
    line = b"\0".join(map(os.fsencode, (name, *sys.argv[1:]))) + b"\0"
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_END])
        if not start or len(line) > end - start:
            return
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(line.ljust(end - start, b"\0"))
        with open("/proc/self/comm", "wb", buffering=0) as file:
            file.write(os.fsencode(name))
    except (OSError, ValueError, IndexError):
        return  # a kernel that does not allow it: the process keeps its name
