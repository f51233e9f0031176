"""The life of a session as it is kept, and the one place that says which step may follow which.

A session is one conversation with an agent program, under that program's own id. It has turns: each goes planning ->
running <-> waiting_for_input -> completed, failed or cancelled, and such an end is final for its turn. The session's
status is that of its newest turn; what begins after an end is a new turn, in the same session, for as long as the session
itself has not ended (`ended_at`). One that is taken up again (`--resume`) lives on.

Two things are said beside the status and never put in its place: `interrupted` (its process died in the middle of a
turn) and `unknown` (nothing tells what it does any more). The status then is what was so last.

How a session's time went: at work, waiting for a person, idle. Added up from what it said and when.

Only time about which something was said counts. What nobody knows is None, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from imi_monitor.model import times
from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    DEAD,
    FAILED,
    PLANNING,
    RESTING,
    RUNNING,
    UNKNOWN,
    WAITING,
    WORKING,
)

STATUSES: Final = (PLANNING, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED)
INTERRUPTED: Final = "interrupted"
SHOWN: Final = (*STATUSES, INTERRUPTED, UNKNOWN)

# Within a turn. Plan mode may be entered again in the middle of one: that leads back to planning.
_NEXT: Final = {
    PLANNING: frozenset({RUNNING, WAITING, FAILED, CANCELLED}),
    RUNNING: frozenset({PLANNING, WAITING, COMPLETED, FAILED, CANCELLED}),
    WAITING: frozenset({PLANNING, RUNNING, FAILED, CANCELLED}),
    COMPLETED: frozenset[str](),
    FAILED: frozenset[str](),
    CANCELLED: frozenset[str](),
}
_FIRST: Final = frozenset({PLANNING, RUNNING})  # how a turn begins

# How the registry's entry of an agent mirrors its newest session.
_ENTRY: Final = {
    PLANNING: "active",
    RUNNING: "active",
    WAITING: "paused",
    COMPLETED: "completed",
    CANCELLED: "completed",
    FAILED: "error",
    INTERRUPTED: "error",
    UNKNOWN: "active",
}

# What a recorded act says about the status from then on; acts that are not here say nothing about it.
_IMPLIED: Final = {
    "prompt": RUNNING,
    "tool_started": RUNNING,
    "tool_finished": RUNNING,
    "answered": RUNNING,
    "waits": WAITING,
    "completed": COMPLETED,
    "failed": FAILED,
    "cancelled": CANCELLED,
}


def is_allowed(before: str, after: str) -> bool:
    """Whether `after` may follow `before` directly: within a turn, or as the beginning of the next one."""
    return after in _NEXT[before] or (before in RESTING and after in _FIRST)


def is_correction(before: str, after: str) -> bool:
    """Another end of the same turn: a better witness came later. No step, but the same step told right."""
    return before in RESTING and after in RESTING and before != after


def steps(before: str, after: str) -> tuple[str, ...]:
    """What a session goes through from `before` to `after`, each an allowed step; the last is `after`.

    Who looks once a second misses some: one that waited and is done must have gone on working in between. Nothing when
    nothing changed.
    """
    if before == after:
        return ()
    if is_allowed(before, after) or is_correction(before, after):
        return (after,)
    between = next(each for each in (RUNNING, PLANNING) if is_allowed(before, each) and is_allowed(each, after))
    return (between, after)


def displayed_status(status: str, lost: str | None) -> str:
    """The one word for a person."""
    return lost or status


def lost_state(state: str) -> str | None:
    """What an agent's state says beside the status."""
    return INTERRUPTED if state == DEAD else UNKNOWN if state == UNKNOWN else None


def agent_entry_status(status: str, lost: str | None) -> str:
    """active, paused, completed or error, as the registry's list of agents has it."""
    return _ENTRY[displayed_status(status, lost)]


def implied_status(kind: str) -> str | None:
    return _IMPLIED.get(kind)


def time_category(status: str) -> str:
    """Whose time passes in this status: the agent's (working), a person's who is asked (waiting), nobody's (idle)."""
    return "working" if status in WORKING else "waiting" if status == WAITING else "idle"


@dataclass(frozen=True, slots=True)
class SessionTime:
    """Seconds of one session, or of many together, and how its turns ended."""

    working: float | None = None
    waiting: float | None = None
    idle: float | None = None
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    def __add__(self, other: SessionTime) -> SessionTime:
        return SessionTime(
            add_known(self.working, other.working),
            add_known(self.waiting, other.waiting),
            add_known(self.idle, other.idle),
            self.completed + other.completed,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
        )


def add_known(left: float | None, right: float | None) -> float | None:
    """What is known of both together."""
    return right if left is None else left if right is None else left + right


def measure_session_time(told: Iterable[tuple[str, str]], begin: datetime, end: datetime) -> SessionTime:
    """Between two moments, from (moment, status) in their order; the last status holds to the end."""
    marks = [(at, status) for text, status in told if (at := times.parse(text)) is not None]
    if not marks:
        return SessionTime()
    parts: dict[str, float] = {"working": 0.0, "waiting": 0.0, "idle": 0.0}
    for (at, status), after in zip(marks, [*(at for at, _ in marks[1:]), end], strict=True):
        if status not in (UNKNOWN, INTERRUPTED):
            parts[time_category(status)] += max(0.0, (min(after, end) - max(at, begin)).total_seconds())
    return SessionTime(parts["working"], parts["waiting"], parts["idle"], *_ends(marks, begin, end))


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
