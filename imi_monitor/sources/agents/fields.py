"""Reading what others wrote without trusting a single field: a wrong type is an unknown value, never an exception."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

from imi_monitor.model import times

MOST_TEXT = 2000  # characters of a prompt or a message that are kept
MOST_PATH = 4096
_MOST_SECONDS = 4_102_444_800.0  # the year 2100: beyond it a number of seconds is one of milliseconds


def record(line: bytes | str) -> dict[str, Any] | None:
    """One JSON object; None for anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text(value: object, most: int = MOST_TEXT) -> str | None:
    """One that says something, bounded."""
    return value.strip()[:most] or None if isinstance(value, str) else None


def path(value: object) -> str | None:
    """As it was written: a name may begin or end with a blank."""
    return value[:MOST_PATH] if isinstance(value, str) and value.strip() else None


def number(value: object) -> int | None:
    """A count: whole, not negative, not a truth value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return int(value) if 0 <= value < 1 << 53 else None


def table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def moment(value: object) -> str | None:
    """A moment in our own form, from RFC 3339 or from seconds or milliseconds since 1970."""
    try:
        if isinstance(value, str):
            parsed = times.parse(value)
            return times.stamp(parsed) if parsed else None
        count = number(value)
        if not count:
            return None
        return times.stamp(datetime.fromtimestamp(count if count < _MOST_SECONDS else count / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def seconds(stamp: str | None) -> float | None:
    """A stamp as seconds since 1970."""
    parsed = times.parse(stamp)
    return parsed.timestamp() if parsed else None


def at(wall: float) -> str:
    """A moment of the wall clock as a stamp."""
    return times.stamp(datetime.fromtimestamp(wall, UTC))


def one_line(value: str | None, most: int = 200) -> str | None:
    """A command or a question as it is shown beside a tool: one line."""
    return " ".join(value.split())[:most] or None if value else None
