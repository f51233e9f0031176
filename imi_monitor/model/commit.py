"""A commit, apart from the snapshot, so that commands that list commits do not import all of it."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit."""

    sha: str
    subject: str
    author: str
    at: str
    by: str | None = None  # the owner of the claim when it was made
