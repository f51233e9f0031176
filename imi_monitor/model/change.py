"""What changed on disk: one file, or many at once."""

from __future__ import annotations

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
