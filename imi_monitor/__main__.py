"""`python -m imi_monitor` and the console scripts."""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["main"]

_GARBAGE = 50_000  # objects between two looks for it: nothing that is loaded at the start is any


def main() -> int:
    """Run one command line and leave, at once if nobody has anything left to do.

    Taking the interpreter down piece by piece costs an agent 2 ms on every claim. Nobody needs it who has not loaded
    what can leave threads behind or act at the end; everything is flushed and the registry closed by then.
    """
    gc.set_threshold(_GARBAGE)  # before anything is loaded: 0.4 ms of an `imi claim`
    from imi_monitor.cli import command_runner as command

    status = command.main()
    if not {"atexit", "threading"} & sys.modules.keys():
        _flush()
        os._exit(status)
    return status


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # `command.main` has told it, as far as there is somebody to tell
            continue


if __name__ == "__main__":
    sys.exit(main())
