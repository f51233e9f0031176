"""`python -m imi_monitor` and the console scripts."""

from __future__ import annotations

import sys

from imi_monitor.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
