"""Moments and ages: RFC 3339 in UTC with microseconds, as iMi writes them, and coarse ages for people."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


clock = time.time_ns  # the one clock of the wall, for tests to turn


def now() -> datetime:
    module = _datetime()
    moment: datetime = module.datetime.fromtimestamp(clock() / 1e9, module.timezone.utc)
    return moment


def stamp(moment: datetime | None = None) -> str:
    """A moment as it is stored: `2026-01-27T15:30:00.123456+00:00`."""
    if moment is not None:
        return moment.astimezone(_datetime().timezone.utc).isoformat(timespec="microseconds")
    seconds, nanoseconds = divmod(clock(), 1_000_000_000)
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{nanoseconds // 1000:06d}+00:00"


_loaded: list[Any] = []


def _datetime() -> Any:
    """`datetime`, when it is needed: a claim writes moments down, but never calculates with any, and saves 0.4 ms."""
    if not _loaded:
        try:  # the same classes, without the Python half that costs 1 ms more
            _loaded.append(__import__("_datetime"))
        except ImportError:  # an interpreter that has only that half
            _loaded.append(__import__("datetime"))
    return _loaded[0]


def parse(text: str | None) -> datetime | None:
    """A stored moment, 0 to 9 fraction digits, `Z` or an offset or nothing (UTC); unreadable text is unknown: None."""
    if not text:
        return None
    try:
        moment: datetime = _datetime().datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=_datetime().timezone.utc)


def age(seconds: float | None) -> str:
    """Coarse on purpose: seconds below ten, then tens, then minutes, hours, days. Unknown is `?`."""
    if seconds is None:
        return "?"
    if seconds < 10:
        return f"{max(0, int(seconds))}s"
    if seconds < 60:
        return f"{int(seconds) // 10 * 10}s"
    if seconds < 3600:
        return f"{int(seconds) // 60}m"
    if seconds < 86400:
        return f"{int(seconds) // 3600}h"
    return f"{int(seconds) // 86400}d"


def seconds_until_age_changes(seconds: float) -> float:
    """In how many seconds this age will be told otherwise."""
    step = next((step for below, step in ((10, 1), (60, 10), (3600, 60), (86400, 3600)) if seconds < below), 86400)
    return (max(0, int(seconds)) // step + 1) * step - seconds


def age_of(text: str | None, at: datetime | None = None) -> str:
    """The age of a stored moment, for people."""
    moment = parse(text)
    return age(None if moment is None else ((at or now()) - moment).total_seconds())
