"""Moves the items whose work ended without a reported outcome: by what the attempt's sessions show."""

from __future__ import annotations

from datetime import timedelta

from imi_monitor.model import attempt, board, times
from imi_monitor.model.agent import UNKNOWN
from imi_monitor.store import attempts, item_moves
from imi_monitor.store.attempts import AttemptFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_LATE = timedelta(seconds=60)  # a turn may end a moment after its claim


def settle(connection: sqlite3.Connection) -> int:
    """Move each item whose last attempt is over; returns their number. One transaction."""
    moved = 0
    for item, external, started in item_moves.list_idle(connection):
        found = [
            one for task in (item, external) if task for one in attempts.find(connection, AttemptFilter(task=task))
        ]
        last = max(found, key=lambda one: one.started_at)
        over = times.parse(last.ended_at)
        if over is None or last.ended_at is None or (started is not None and last.ended_at < started):
            continue
        if last.outcome == attempt.OPEN or (last.outcome == UNKNOWN and times.now() - over < _LATE):
            continue
        reason = last.reason if last.outcome == board.FAILED else None
        moved += item_moves.move(connection, item, board.after_attempt(last.outcome), by=last.agent_id, reason=reason)
    return moved
