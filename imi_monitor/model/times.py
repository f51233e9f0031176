"""Moments and ages: RFC 3339 in UTC with microseconds, as iMi writes them, and coarse ages for people."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import UTC, datetime
else:
    try:  # the same classes, without the Python half that every agent would pay 1 ms for
        from _datetime import UTC, datetime
    except ImportError:  # an interpreter that has only that half
        from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime | None = None) -> str:
    """A moment as it is stored: `2026-01-27T15:30:00.123456+00:00`."""
    return (moment or now()).astimezone(UTC).isoformat(timespec="microseconds")


def parse(text: str | None) -> datetime | None:
    """A stored moment, 0 to 9 fraction digits, `Z` or an offset or nothing (UTC); unreadable text is unknown: None."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


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


def age_of(text: str | None, at: datetime | None = None) -> str:
    """The age of a stored moment, for people."""
    moment = parse(text)
    return age(None if moment is None else ((at or now()) - moment).total_seconds())
