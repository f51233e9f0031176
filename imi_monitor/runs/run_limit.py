"""How many runs may have a place at once: as configured, else by the free memory; none while the budget of the day is used up."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta

from imi_monitor.model import times
from imi_monitor.runs import day_budget
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.config import Settings

_PER_AGENT = 400 << 20  # bytes that an agent takes at its peak
_RESERVE = 512 << 20  # bytes that are left to everything else
_FEWEST = 2
_MOST = 16
_GROWS = timedelta(seconds=60)  # in which an agent has not yet taken the memory that it will need


def at_once(connection: sqlite3.Connection, settings: Settings) -> int:
    if day_budget.list_used_up(connection, settings):
        return 0
    configured = settings.number("runs.at_once")
    if configured:
        return configured
    working, young = db.read(connection, runs.count_places, times.stamp(times.now() - _GROWS))
    return by_memory(_free_memory(), working - young)


def by_memory(free: int, settled: int) -> int:
    """`free`: bytes of memory that are free; `settled`: the agents that work and have taken their part of the rest."""
    return max(_FEWEST, min(_MOST, settled + max(0, free - _RESERVE) // _PER_AGENT))


def _free_memory() -> int:
    """Bytes that new processes can have; half of the machine's memory where the system does not say."""
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
