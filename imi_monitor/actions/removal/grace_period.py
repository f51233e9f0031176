"""How long something has been in the trash, told so that no wrong clock can empty it.

The wall clock can be a year off in either direction. So an entry counts as old only if two clocks agree: the wall clock, and
the time this machine was seen running since (suspend included), which no setting of the clock can change. Where the machine
was switched off, or imi was not called before it was, time is missing, and the entry is kept for longer: that is the safe side.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.store import db, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context

DAY = 86400.0
_STEP = 3600.0  # seconds of running time between two notes of it


def age_by_clock(entry: trash.TrashEntry) -> float | None:
    """Seconds since it was removed by the wall clock; None when that cannot be: unreadable, or in the future."""
    moment = times.parse(entry.removed_at)
    seconds = None if moment is None else (times.now() - moment).total_seconds()
    return None if seconds is None or seconds < 0 else seconds


def proven_age(entry: trash.TrashEntry) -> float:
    """Seconds that this machine has provably been running since it was removed."""
    lived = _lived(entry)
    lived[_boot()] = _in_this_boot(entry)
    return sum(lived.values())


def is_over(entry: trash.TrashEntry, days: float) -> bool:
    """Whether it has certainly been in the trash for so many days."""
    clock = age_by_clock(entry)
    return clock is not None and clock >= days * DAY and proven_age(entry) >= days * DAY


def record_running_time(context: Context) -> None:
    """Write down how long this boot has lasted, for the entries that are in the trash; at most once an hour each."""
    due = [entry for entry in trash.list_kept(context.connection) if _grown(entry)]
    if due:
        db.transact(context.connection, _write, due)


def _write(connection: sqlite3.Connection, entries: list[trash.TrashEntry]) -> None:
    for entry in entries:
        lived = {**_lived(entry), _boot(): _in_this_boot(entry)}
        trash.set_data(connection, entry.id, {**entry.data, "lived": lived})


def _grown(entry: trash.TrashEntry) -> bool:
    return _in_this_boot(entry) >= _lived(entry).get(_boot(), 0.0) + _STEP


def _in_this_boot(entry: trash.TrashEntry) -> float:
    before = float(str(entry.data["uptime"])) if entry.data["boot"] == _boot() else 0.0
    return max(0.0, host.uptime() - before)


def _lived(entry: trash.TrashEntry) -> dict[str, float]:
    kept = entry.data.get("lived")
    return {str(boot): float(seconds) for boot, seconds in kept.items()} if isinstance(kept, dict) else {}


def _boot() -> str:
    return host.boot().partition("/")[0]
