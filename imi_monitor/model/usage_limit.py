"""The usage limit of an agent program, read from the reason for which its turn failed: that it is reached, and until when.

The reason stays what the program wrote. Where the program gives the time as a number, the readers of its output write the
reason in the form of `sentence`, which this module reads, too.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.agent import FAILED

_REACHED: Final = re.compile(
    r"usage.?limit|hit (your|a) (\w+ )?(rate )?limit|(hour|session|weekly|daily|rate|opus|sonnet) limits?\b"
    r"|out of extra usage|exhausted your (capacity|\w+ quota)|exceeded your (current quota|\w+ token usage|premium request)"
    r"|quota.?exceeded|you have no quota|rate.?limited",
    re.IGNORECASE,
)
_TOKENS: Final = re.compile(r"(context|output|token) (window )?limit", re.IGNORECASE)  # of one answer, not of the user
_EPOCH: Final = re.compile(r"\|(\d{10})\b")
_MOMENT: Final = re.compile(r"resets? (?:at )?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(?::\d\d)?(?:\.\d+)?(?:Z| UTC|\+00:00)")
_SPAN: Final = re.compile(r"(?:\bin|\bafter)\s+((?:\d+\s*[a-z]+[\s,]*(?:and\s+)?)+)", re.IGNORECASE)
_PART: Final = re.compile(r"(\d+)\s*(d|h|m|s)[a-z]*", re.IGNORECASE)
_CLOCK: Final = re.compile(
    r"(?:resets?|again|until)\s+(?:at\s+|on\s+)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:,?\s+(?P<year>\d{4}))?(?:,|\s+at)?\s+)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>am|pm)?(?:\s*\((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SECONDS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LONGEST: Final = timedelta(days=40)


@dataclass(frozen=True, slots=True)
class UsageLimit:
    """`until`: the moment from which the program can be used again; None: it did not say."""

    until: datetime | None = None


def sentence(until: datetime | None) -> str:
    """The reason of a turn that failed for a limit whose end the program gives as a number."""
    if until is None:
        return "usage limit"
    return f"usage limit, resets {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def of_seconds(value: object) -> datetime | None:
    """The moment of seconds since 1970, as programs give it; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e9 < value < 1e10:
        return None
    return datetime.fromtimestamp(value, UTC)


def limit_of(state: str | None, detail: str | None, since: str | None) -> UsageLimit | None:
    """The limit that ended the turn of an agent in this state; `since`: when it ended."""
    if state != FAILED or not detail:
        return None
    return said_in(detail, since)


@lru_cache(256)
def said_in(text: str, at: str | None) -> UsageLimit | None:
    """The limit of which a program wrote at this moment; None if it wrote about something else."""
    if not _REACHED.search(text) or (_TOKENS.search(text) and "usage" not in text.lower()):
        return None
    moment = times.parse(at)
    until = _until(text, moment) if moment is not None else _fixed(text)
    if until is None or (moment is not None and not moment < until < moment + _LONGEST):
        return UsageLimit()
    return UsageLimit(until)


def _fixed(text: str) -> datetime | None:
    epoch, moment = _EPOCH.search(text), _MOMENT.search(text)
    if epoch is not None:
        return of_seconds(int(epoch[1]))
    return times.parse(moment[1]) if moment is not None else None


def _until(text: str, at: datetime) -> datetime | None:
    fixed, span = _fixed(text), _SPAN.search(text)
    if fixed is not None:
        return fixed
    if span is not None:
        seconds = sum(int(number[:6]) * _SECONDS[unit.lower()] for number, unit in _PART.findall(span[1]))
        return at + timedelta(seconds=seconds) if seconds else None
    clock = _CLOCK.search(text)
    return None if clock is None else _next(clock, at)


def _next(clock: re.Match[str], at: datetime) -> datetime | None:
    """The first such time of day after `at`, or the one of the named day."""
    hour, minute, half = int(clock["hour"]), int(clock["minute"] or 0), (clock["half"] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    elif clock["minute"] is None:
        return None  # a bare number is no time of day
    zone = _zone(clock["zone"])
    local = at.astimezone(zone)
    try:
        found = local.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if clock["month"]:
            year = int(clock["year"] or local.year)
            found = found.replace(year=year, month=_MONTHS.index(clock["month"].lower()) + 1, day=int(clock["day"]))
            return found if found > local or clock["year"] else found.replace(year=year + 1)
    except ValueError:
        return None
    return found if found > local else found + timedelta(days=1)


def _zone(name: str | None) -> tzinfo | None:
    """The named time zone; None: that of this machine, in which programs write."""
    if name is None or name.lower() == "local":
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return None


def is_over(limit: UsageLimit, now: datetime | None = None) -> bool:
    """Whether its end has passed; False while that is unknown."""
    return limit.until is not None and (now or times.now()) >= limit.until


def words(limit: UsageLimit, now: datetime | None = None) -> str:
    """`limited until 15:00`, `limited until Nov 21 15:00`, `limit over since 15:00`, `limited` while its end is unknown."""
    if limit.until is None:
        return "limited"
    now = (now or times.now()).astimezone()
    local = limit.until.astimezone()
    shown = f"{local:%H:%M}" if local.date() == now.date() else f"{local:%b} {local.day} {local:%H:%M}"
    return f"limit over since {shown}" if now >= local else f"limited until {shown}"
