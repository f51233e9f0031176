"""`python -m imi_monitor` and the console scripts."""

from __future__ import annotations

import sys

from imi_monitor.fast import quick_process

__all__ = ["main"]


def main() -> int:
    """Run one command line. Its output is flushed and the registry closed before the process ends."""
    quick_process.delay_garbage_collection()
    from imi_monitor.cli import command_runner

    return quick_process.leave(command_runner.main())


if __name__ == "__main__":
    sys.exit(main())
