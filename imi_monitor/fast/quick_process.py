"""A process that lives for milliseconds: no garbage collection at its start (1 ms of `imi claim`) and no interpreter shutdown
at its end (2 ms). The budget of `imi claim` needs both."""

from __future__ import annotations

import gc
import os
import sys

_COLLECTION_THRESHOLD = 50_000  # objects; those that imports create are no garbage
_USUAL_THRESHOLDS = gc.get_threshold()


def delay_garbage_collection() -> None:
    """Call this before the first import that creates many objects."""
    gc.set_threshold(_COLLECTION_THRESHOLD)


def resume_garbage_collection() -> None:
    """Call this in a process that goes on, after its start: with the threshold of a short one, a full collection comes after
    five million objects, and the widgets of closed screens, which refer to each other, stay in memory until then."""
    gc.freeze()  # modules and classes live until the end
    gc.set_threshold(*_USUAL_THRESHOLDS)
    gc.enable()


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
