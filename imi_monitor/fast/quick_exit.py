"""Leaving the process without the interpreter's shutdown: saves 1.9 ms of `imi claim`, which its budget needs."""

from __future__ import annotations

import os
import sys


def leave(status: int) -> int:
    """End the process at once, or return `status` if a loaded module may have threads or work left at exit."""
    if {"atexit", "threading"} & sys.modules.keys():
        return status
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the command has reported it already
            continue
    os._exit(status)
