"""The outcome of an attempt (one claim that works on an item), from how its claim ended and from its sessions.

An outcome given with the release counts. Otherwise the turn decides that was under way when the claim ended, or the last one
before: an agent that releases inside its turn ends that turn a moment later. A claim that was released without a session that
shows an outcome is unknown, never completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RESTING, UNKNOWN, WAITING, WORKING
from imi_monitor.model.session_status import INTERRUPTED

OPEN: Final = "open"
OUTCOMES: Final = (OPEN, COMPLETED, FAILED, CANCELLED, UNKNOWN)

NEXT_TASK: Final = "next_task"  # how an attempt ended whose claim continued with another item
# Ends of a claim that its owner did not cause: a turn under way was stopped.
_TAKEN_AWAY: Final = frozenset({"forced", "taken_over", "reserved", "worktree_removed", "worktree_missing"})
_UNDER_WAY: Final = WORKING | {WAITING}
_FROM_SESSION: Final = {COMPLETED: COMPLETED, FAILED: FAILED, CANCELLED: CANCELLED, INTERRUPTED: FAILED}

StatusMarks = Sequence[tuple[str, str]]
"""(moment, status) of one session, in order; `interrupted` and `unknown` count as statuses."""


@dataclass(frozen=True, slots=True)
class AttemptSpan:
    """The time of an attempt and how it ended; `ended_at` is None while its claim holds."""

    started_at: str
    ended_at: str | None = None
    ended: str | None = None
    holder_dead: bool = False  # the claim holds, but its process is proven dead


def outcome(span: AttemptSpan, sessions: Iterable[StatusMarks]) -> str:
    """Return one of OUTCOMES, decided by the session with the newest statement."""
    if span.ended_at is None and not span.holder_dead:
        return OPEN
    marks = [mark for session in sessions if (mark := _deciding_mark(span, session)) is not None]
    return _FROM_SESSION.get(max(marks)[1], UNKNOWN) if marks else UNKNOWN


def _deciding_mark(span: AttemptSpan, marks: StatusMarks) -> tuple[str, str] | None:
    """Return the (moment, status) of one session that decides the outcome; None when it shows nothing about it."""
    before = [mark for mark in marks if span.ended_at is None or mark[0] <= span.ended_at]
    if not before:
        return None
    at, status = before[-1]
    if status not in _UNDER_WAY:
        return (at, status) if at >= span.started_at else None
    if span.ended == NEXT_TASK:  # the turn under way belongs to the next attempt
        return next((mark for mark in reversed(before) if mark[1] in RESTING and mark[0] >= span.started_at), None)
    if span.ended in _TAKEN_AWAY:
        return at, CANCELLED
    return next((mark for mark in marks[len(before) :] if mark[1] not in _UNDER_WAY), (at, UNKNOWN))
