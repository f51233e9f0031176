"""Reads fields of foreign JSON records: a value of an unexpected type is None, never an exception."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from imi_monitor.model import times
from imi_monitor.model.redact import redact

MOST_TEXT = 2000  # characters of a prompt or a message that are kept
MOST_PATH = 4096
_AROUND = 600  # characters before and behind a cut in which a secret may lie
_CLOCK_SLACK = 2.0  # seconds by which the clocks of a file and of a record may differ
_MOST_SECONDS = 4_102_444_800.0  # the year 2100; a larger number is one of milliseconds


def record(line: bytes | str) -> dict[str, Any] | None:
    """One JSON object; None for anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text(value: object, most: int = MOST_TEXT) -> str | None:
    """A string, stripped and cut; None if nothing is left."""
    if not isinstance(value, str):
        return None
    value = value.strip()
    return (value if len(value) <= most else _cut(value, most)) or None


def _cut(value: str, most: int) -> str:
    """The beginning of a text, without the beginning of a secret: what is cut through would not be recognised later."""
    if len(value) <= most:
        return value
    around = value[max(0, most - _AROUND) : most + _AROUND]
    return value[:most] if redact(around) == around else redact(value[: most + _AROUND])[:most]


def path(value: object) -> str | None:
    """A path as it was written: its name may begin or end with a blank."""
    return value[:MOST_PATH] if isinstance(value, str) and value.strip() else None


def number(value: object) -> int | None:
    """A count: not negative, not a boolean, cut to an integer."""
    if type(value) is int:
        return value if 0 <= value < 1 << 53 else None
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
    """A timestamp in imi's form, from RFC 3339 or from seconds or milliseconds since 1970."""
    try:
        if isinstance(value, str):
            return _moment_of(value)
        count = number(value)
        if not count:
            return None
        return times.stamp(datetime.fromtimestamp(count if count < _MOST_SECONDS else count / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(maxsize=64)
def _moment_of(value: str) -> str | None:
    """Several parts of a program's reader ask for the time of one record."""
    parsed = times.parse(value)
    return times.stamp(parsed) if parsed else None


def quiet(now: float, then: float) -> float:
    """Seconds since then, infinite for a time in the future: the clock was set back, so it is not known to be recent."""
    return now - then if then <= now + _CLOCK_SLACK else math.inf


def seconds(stamp: str | None) -> float | None:
    """A timestamp as seconds since 1970."""
    parsed = times.parse(stamp)
    return parsed.timestamp() if parsed else None


def at(wall: float) -> str:
    """Seconds since 1970 as a timestamp."""
    return times.stamp(datetime.fromtimestamp(wall, UTC))


def one_line(value: str | None, most: int = 200) -> str | None:
    """A command or question on one line, as it is shown beside a tool."""
    return _cut(" ".join(value.split()), most) or None if value else None
