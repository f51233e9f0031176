"""What changed on disk: one file, or many at once.

How busy a worktree was, minute by minute, for the last half hour: what sparklines are drawn from.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from imi_monitor.fast.frozen_dataclass import dataclass

Kind = Literal["created", "modified", "deleted", "renamed"]


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the feed. With `count` above 1 it stands for that many files, and `path` is the folder they share.

    `at` is a stored moment (UTC); `size` None is unknown or gone; `by` None means that nobody had claimed the worktree.
    """

    repo: str
    worktree: str
    kind: Kind
    path: str
    at: str
    size: int | None = None
    by: str | None = None
    origin: str | None = None  # where a renamed file came from
    count: int = 1
    guessed: bool = False  # found by looking again, not by an event: the moment is when it was noticed


MINUTES = 30


class Activity:
    """Counts per minute. Quiet minutes take no place, so that a sleeping worktree never changes."""

    __slots__ = ("_minutes",)

    def __init__(self) -> None:
        self._minutes: deque[tuple[int, int]] = deque(maxlen=MINUTES)

    def add(self, minute: int, count: int) -> None:
        if self._minutes and self._minutes[-1][0] >= minute:
            last, before = self._minutes.pop()
            self._minutes.append((last, before + count))
        else:
            self._minutes.append((minute, count))

    def since(self, minute: int) -> tuple[tuple[int, int], ...]:
        """(minute, changes) from `minute` on, oldest first."""
        return tuple(entry for entry in self._minutes if entry[0] >= minute)


def changes_per_minute(activity: tuple[tuple[int, int], ...], now: int, minutes: int = MINUTES) -> list[int]:
    """One number a minute, the running one last; for drawing."""
    counts = dict(activity)
    return [counts.get(minute, 0) for minute in range(now - minutes + 1, now + 1)]
