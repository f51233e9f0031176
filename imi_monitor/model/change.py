"""Changes of files in a worktree, and their number per minute for sparklines."""

from __future__ import annotations

from collections import deque
from typing import Literal

from imi_monitor.fast.frozen_dataclass import dataclass

GIT = "git"  # who made the changes of a checkout
Kind = Literal["created", "modified", "deleted", "renamed"]


@dataclass(frozen=True, slots=True)
class Change:
    """One changed file, or `count` files at once; `path` is then the folder they share.

    `at` is a stored moment (UTC). `size` is None when it is unknown or the file is gone; `by` is None when the worktree
    was not claimed.
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
    guessed: bool = False  # found by a rescan, not by an event: `at` is when the rescan noticed it


MINUTES = 30


class Activity:
    """Counts of changes per minute. Minutes without changes are not stored, so a quiet worktree's data stays equal."""

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
        """Return (minute, changes) from `minute` on, oldest first."""
        return tuple(entry for entry in self._minutes if entry[0] >= minute)


def changes_per_minute(activity: tuple[tuple[int, int], ...], now: int, minutes: int = MINUTES) -> list[int]:
    """Return one number for each of the last `minutes`, the current minute last."""
    counts = dict(activity)
    return [counts.get(minute, 0) for minute in range(now - minutes + 1, now + 1)]
