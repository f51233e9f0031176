"""How a session's time went: at work, waiting for a person, idle. Added up from what it said and when.

Only time about which something was said counts. What nobody knows is None, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from imi_monitor.model import times
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, UNKNOWN
from imi_monitor.model.sessions import INTERRUPTED, part_of_day


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of one session, or of many together, and how its turns ended."""

    working: float | None = None
    waiting: float | None = None
    idle: float | None = None
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            added(self.working, other.working),
            added(self.waiting, other.waiting),
            added(self.idle, other.idle),
            self.completed + other.completed,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
        )


def added(left: float | None, right: float | None) -> float | None:
    """What is known of both together."""
    return right if left is None else left if right is None else left + right


def spent(told: Iterable[tuple[str, str]], begin: datetime, end: datetime) -> Spent:
    """Between two moments, from (moment, status) in their order; the last status holds to the end."""
    marks = [(at, status) for text, status in told if (at := times.parse(text)) is not None]
    if not marks:
        return Spent()
    parts: dict[str, float] = {"working": 0.0, "waiting": 0.0, "idle": 0.0}
    for (at, status), after in zip(marks, [*(at for at, _ in marks[1:]), end], strict=True):
        if status not in (UNKNOWN, INTERRUPTED):
            parts[part_of_day(status)] += max(0.0, (min(after, end) - max(at, begin)).total_seconds())
    return Spent(parts["working"], parts["waiting"], parts["idle"], *_ends(marks, begin, end))


def _ends(marks: list[tuple[datetime, str]], begin: datetime, end: datetime) -> tuple[int, int, int]:
    """How many turns ended well, badly, by a person's hand. One end is often told twice, by two witnesses."""
    found = dict.fromkeys((COMPLETED, FAILED, CANCELLED), 0)
    before = None
    for at, status in marks:
        if status in found and status != before and begin <= at <= end:
            if before in found:  # the same end, told right
                found[before] -= 1
            found[status] += 1
        before = status
    return max(0, found[COMPLETED]), max(0, found[FAILED]), max(0, found[CANCELLED])
