"""The age of trash entries, safe against a wrong clock.

An entry counts as old only if two clocks agree: the wall clock, which may be a year off, and the time this machine has been
running since the removal (suspend included), which no clock setting changes. Time with the machine switched off is missing
from the second one, so the entry is kept longer, which is the safe side.
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
_STEP = 3600.0  # seconds of running time between two records of it


def age_by_clock(entry: trash.TrashEntry) -> float | None:
    """Seconds since the removal by the wall clock; None if the date is unreadable or in the future."""
    moment = times.parse(entry.removed_at)
    seconds = None if moment is None else (times.now() - moment).total_seconds()
    return None if seconds is None or seconds < 0 else seconds


def proven_age(entry: trash.TrashEntry) -> float:
    """Seconds this machine has provably been running since the removal."""
    lived = _lived(entry)
    lived[_boot()] = _in_this_boot(entry)
    return sum(lived.values())


def is_over(entry: trash.TrashEntry, days: float) -> bool:
    """True if the entry has been in the trash for this many days by both clocks."""
    clock = age_by_clock(entry)
    return clock is not None and clock >= days * DAY and proven_age(entry) >= days * DAY


def record_running_time(context: Context) -> None:
    """Record how long this boot has lasted in each trash entry, at most once an hour; entries without a note get one."""
    due = [entry for entry in trash.list_kept(context.connection, what="all") if _grown(entry)]
    if due:
        db.transact(context.connection, _write, due)
        from imi_monitor.actions.removal import trash_note

        trash_note.write_missing_notes(context, [entry for entry in due if entry.kind == "worktree"])


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
