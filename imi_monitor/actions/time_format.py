"""Times as users type them (`2h`, `3d`, a date) and as the command line prints them (`14:02:09`, `12m 05s`)."""

from __future__ import annotations

from imi_monitor.model import times
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def since(text: str | None, advice: str = "use 10m, 2h, 3d, or 2026-01-27T15:30") -> str | None:
    """The time stamp that `--since` stands for; None without a text."""
    from datetime import datetime, timedelta

    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit in _SECONDS and number.isdecimal() and number.isascii() and len(number) < 7:
        return times.stamp(times.now() - timedelta(seconds=int(number) * _SECONDS[unit]))
    try:
        return times.stamp(datetime.fromisoformat(text).astimezone())  # without an offset: local time
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"--since {safe(text)!r} is not a time: {advice}", code="bad-option") from error


def clock(text: str | None) -> str:
    """A stored time stamp in local time, with the day in front when it is not today."""
    moment = times.parse(text)
    if moment is None:
        return "??:??:??"
    local = moment.astimezone()
    today = local.date() == times.now().astimezone().date()
    return f"{local:%H:%M:%S}" if today else f"{local:%Y-%m-%d %H:%M:%S}"


def span(seconds: float | None) -> str:
    """A duration: `3s`, `12m 05s`, `2h 10m`, `3d 4h`; a dash when it is unknown."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"
