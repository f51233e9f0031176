"""The status of a stored session: its allowed transitions, and how much time it spent in each.

A session is one conversation with an agent program, under that program's own id. It has turns: each goes planning ->
running <-> waiting_for_input -> completed, failed or cancelled, and such an end is final for the turn. The session's status is
that of its newest turn. A new turn may follow in the same session until the session has ended (`ended_at`); a resumed session
(`--resume`) continues.

`interrupted` (the process died during a turn) and `unknown` (no evidence any more) are stored beside the status, not in its
place; the status is then the last known one.

Only time with a known status is counted. Unknown is None, never zero.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Final

STATUSES: Final = (PLANNING, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED)
INTERRUPTED: Final = "interrupted"
READY: Final = "ready"  # among the changes of the status: at its prompt, and no turn is over
SHOWN: Final = (*STATUSES, INTERRUPTED, UNKNOWN)

# Transitions within a turn. Plan mode may be entered again during a turn, which leads back to planning.
_NEXT: Final = {
    PLANNING: frozenset({RUNNING, WAITING, FAILED, CANCELLED}),
    RUNNING: frozenset({PLANNING, WAITING, COMPLETED, FAILED, CANCELLED}),
    WAITING: frozenset({PLANNING, RUNNING, FAILED, CANCELLED}),
    COMPLETED: frozenset[str](),
    FAILED: frozenset[str](),
    CANCELLED: frozenset[str](),
}
_FIRST: Final = frozenset({PLANNING, RUNNING})  # the first status of a turn

# The status of the registry's agent entry for each status of its newest session.
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

# The status that follows from an event of a session; other events do not change it.
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
    """Return whether `after` may directly follow `before`, within a turn or as the start of the next one."""
    return after in _NEXT[before] or (before in RESTING and after in _FIRST)


def is_correction(before: str, after: str) -> bool:
    """Return whether `after` corrects the end of the same turn: better evidence came later."""
    return before in RESTING and after in RESTING and before != after


def steps(before: str, after: str) -> tuple[str, ...]:
    """Return the statuses from `before` to `after`, each an allowed transition, the last one `after`; none if both are equal.

    Polling once a second misses some: a session that waited and is completed must have been running in between.
    """
    if before == after:
        return ()
    if is_allowed(before, after) or is_correction(before, after):
        return (after,)
    between = next(each for each in (RUNNING, PLANNING) if is_allowed(before, each) and is_allowed(each, after))
    return (between, after)


def displayed_status(status: str, lost: str | None) -> str:
    """Return the status to show."""
    return lost or status


def lost_state(state: str) -> str | None:
    """Return INTERRUPTED or UNKNOWN if the agent's state is one of those, else None."""
    return INTERRUPTED if state == DEAD else UNKNOWN if state == UNKNOWN else None


def agent_entry_status(status: str, lost: str | None) -> str:
    """Return the status of the registry's agent entry: active, paused, completed or error."""
    return _ENTRY[displayed_status(status, lost)]


def implied_status(kind: str) -> str | None:
    return _IMPLIED.get(kind)


def time_category(status: str) -> str:
    """Return how the time in this status counts: working, waiting (for a person) or idle."""
    return "working" if status in WORKING else "waiting" if status == WAITING else "idle"


@dataclass(frozen=True, slots=True)
class SessionTime:
    """Seconds of one or more sessions by category, and how their turns ended."""

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
    """Return the sum; an unknown part counts as nothing, and two unknown parts are unknown."""
    return right if left is None else left if right is None else left + right


def measure_session_time(statuses: Iterable[tuple[str, str]], begin: datetime, end: datetime) -> SessionTime:
    """Return the session's time between two moments, from (moment, status) in order; the last status holds to `end`."""
    marks = [(at, status) for text, status in statuses if (at := times.parse(text)) is not None]
    if not marks:
        return SessionTime()
    parts: dict[str, float] = {"working": 0.0, "waiting": 0.0, "idle": 0.0}
    for (at, status), after in zip(marks, [*(at for at, _ in marks[1:]), end], strict=True):
        if status not in (UNKNOWN, INTERRUPTED):
            parts[time_category(status)] += max(0.0, (min(after, end) - max(at, begin)).total_seconds())
    return SessionTime(parts["working"], parts["waiting"], parts["idle"], *_ends(marks, begin, end))


def _ends(marks: list[tuple[datetime, str]], begin: datetime, end: datetime) -> tuple[int, int, int]:
    """Return how many turns completed, failed and were cancelled. Two sources often report the same end."""
    found = dict.fromkeys((COMPLETED, FAILED, CANCELLED), 0)
    before = None
    for at, status in marks:
        if status in found and status != before and begin <= at <= end:
            if before in found:  # a correction of the same end
                found[before] -= 1
            found[status] += 1
        before = status
    return max(0, found[COMPLETED]), max(0, found[FAILED]), max(0, found[CANCELLED])
