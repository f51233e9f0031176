"""How many runs may have a place at once: as configured, else by the memory of the machine."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.config import Settings

_PER_AGENT = 400 << 20  # bytes that an agent takes at its peak
_FEWEST = 2
_MOST = 16


def at_once(settings: Settings) -> int:
    configured = settings.number("runs.at_once")
    if configured:
        return configured
    return max(_FEWEST, min(_MOST, _memory() // _PER_AGENT // 2))


def _memory() -> int:
    """Bytes of memory that the machine has; half of it is for agents."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
