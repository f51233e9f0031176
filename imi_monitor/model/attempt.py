"""What came of a task, as far as anybody can tell: from how its claim ended and from what its sessions said.

Whoever gives a claim back may tell it; then that counts. Else the turn decides that was under way when the claim ended, or
the last one before: an agent that releases from within its turn has its end a moment later. Nothing else is read into it: a
claim that was given back without a session that says how it went is unknown, never completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RESTING, UNKNOWN, WAITING, WORKING
from imi_monitor.model.session import INTERRUPTED

OPEN: Final = "open"
OUTCOMES: Final = (OPEN, COMPLETED, FAILED, CANCELLED, UNKNOWN)

NEXT_TASK: Final = "next_task"  # how a task ended whose claim went on to another
# ends of a claim that were not its agent's doing: who was at work then was stopped in it
_TAKEN_AWAY: Final = frozenset({"forced", "taken_over", "reserved", "worktree_removed", "worktree_missing"})
_UNDER_WAY: Final = WORKING | {WAITING}
_FROM_SESSION: Final = {COMPLETED: COMPLETED, FAILED: FAILED, CANCELLED: CANCELLED, INTERRUPTED: FAILED}

StatusMarks = Sequence[tuple[str, str]]
"""(moment, status) of one session, in their order; `interrupted` and `unknown` are told like statuses."""


@dataclass(frozen=True, slots=True)
class AttemptSpan:
    """From when to when a task was somebody's, and how that ended; `ended_at` None: its claim stands."""

    started_at: str
    ended_at: str | None = None
    ended: str | None = None
    holder_dead: bool = False  # the claim stands, but its process is proven gone


def outcome(span: AttemptSpan, sessions: Iterable[StatusMarks]) -> str:
    """One of OUTCOMES, by the session of these that spoke last."""
    if span.ended_at is None and not span.holder_dead:
        return OPEN
    words = [word for marks in sessions if (word := _last_word(span, marks)) is not None]
    return _FROM_SESSION.get(max(words)[1], UNKNOWN) if words else UNKNOWN


def _last_word(span: AttemptSpan, marks: StatusMarks) -> tuple[str, str] | None:
    """What one session says of how it went, and when; None when it says nothing about this time."""
    before = [mark for mark in marks if span.ended_at is None or mark[0] <= span.ended_at]
    if not before:
        return None
    at, status = before[-1]
    if status not in _UNDER_WAY:
        return (at, status) if at >= span.started_at else None
    if span.ended == NEXT_TASK:  # the turn that goes on is the next one's
        return next(((at, word) for at, word in reversed(before) if word in RESTING and at >= span.started_at), None)
    if span.ended in _TAKEN_AWAY:
        return at, CANCELLED
    return next((mark for mark in marks[len(before) :] if mark[1] not in _UNDER_WAY), (at, UNKNOWN))
