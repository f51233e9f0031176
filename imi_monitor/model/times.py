"""Moments as they are stored (RFC 3339 in UTC with microseconds, as iMi writes them), and coarse ages for people."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime


clock = time.time_ns  # the only source of the time of day, so that tests can replace it


def now() -> datetime:
    from datetime import UTC, datetime  # here and below not at the top: a claim stamps moments and needs none of it

    return datetime.fromtimestamp(clock() / 1e9, UTC)


def stamp(moment: datetime | None = None) -> str:
    """Return a moment (default: now) as it is stored: `2026-01-27T15:30:00.123456+00:00`."""
    if moment is not None:
        from datetime import UTC

        return moment.astimezone(UTC).isoformat(timespec="microseconds")
    seconds, nanoseconds = divmod(clock(), 1_000_000_000)
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{nanoseconds // 1000:06d}+00:00"


def parse(text: str | None) -> datetime | None:
    """Parse a stored moment; None when it cannot be parsed.

    It may have 0 to 9 fraction digits and `Z`, an offset or nothing (UTC).
    """
    if not text:
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def age(seconds: float | None) -> str:
    """Return a coarse age: seconds below ten, then tens of seconds, minutes, hours, days. Unknown is `?`."""
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
    """Return the number of seconds until the displayed age changes."""
    step = next((step for below, step in ((10, 1), (60, 10), (3600, 60), (86400, 3600)) if seconds < below), 86400)
    return (max(0, int(seconds)) // step + 1) * step - seconds


def age_of(text: str | None, at: datetime | None = None) -> str:
    """Return the displayed age of a stored moment."""
    moment = parse(text)
    return age(None if moment is None else ((at or now()) - moment).total_seconds())
