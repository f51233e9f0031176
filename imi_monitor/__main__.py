"""`python -m imi_monitor` and the console scripts."""

from __future__ import annotations

import sys

from imi_monitor.fast import quick_exit

__all__ = ["main"]


def main() -> int:
    """Run one command line. Its output is flushed and the registry closed before the process ends."""
    from imi_monitor.cli import command_runner

    return quick_exit.leave(command_runner.main())


if __name__ == "__main__":
    sys.exit(main())
