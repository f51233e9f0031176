"""Items of the board: their statuses, the allowed moves between them, priorities and order. Lean."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PENDING: Final = "pending"
IN_PROGRESS: Final = "in_progress"
BLOCKED: Final = "blocked"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

STATUSES: Final = (PENDING, IN_PROGRESS, BLOCKED, COMPLETED, FAILED, CANCELLED)
OVER: Final = (COMPLETED, FAILED, CANCELLED)

COLUMNS: Final = (
    ("pending", (PENDING,)),
    ("in progress", (IN_PROGRESS,)),
    ("blocked", (BLOCKED,)),
    ("completed", (COMPLETED,)),
    ("failed, cancelled", (FAILED, CANCELLED)),
)
"""The columns of the board: title and statuses. An item that is moved into a column gets the first of them."""

HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"
PRIORITIES: Final = (HIGH, MEDIUM, LOW)
_SYNONYMS: Final = {"critical": HIGH, "urgent": HIGH, "p0": HIGH, "p1": HIGH, "normal": MEDIUM, "p2": MEDIUM, "p3": LOW}

_MOVES: Final = {
    PENDING: (IN_PROGRESS, BLOCKED, COMPLETED, FAILED, CANCELLED),
    IN_PROGRESS: (PENDING, BLOCKED, COMPLETED, FAILED, CANCELLED),
    BLOCKED: (PENDING, IN_PROGRESS, COMPLETED, FAILED, CANCELLED),
    COMPLETED: (PENDING, IN_PROGRESS),
    FAILED: (PENDING, IN_PROGRESS, COMPLETED, CANCELLED),
    CANCELLED: (PENDING, IN_PROGRESS),
}

MOST_TITLE: Final = 200
MOST_TEXT: Final = 2048
"""Bytes of an item's text in its row. Longer texts stay in the item's source file."""


def may_move(before: str, after: str) -> bool:
    """Return whether an item may go from one status to another; from an unknown one only back to pending."""
    return after in _MOVES.get(before, (PENDING,))


def after_attempt(outcome: str) -> str:
    """Return the status of an item whose attempt ended: what was cancelled or is unknown waits for the next attempt."""
    return outcome if outcome in (COMPLETED, FAILED) else PENDING


def column_of(status: str) -> int:
    """Return the number of the column with this status; an unknown status is pending."""
    return next((number for number, (_, held) in enumerate(COLUMNS) if status in held), 0)


def priority_of(word: str) -> str | None:
    """Return the priority that a word stands for; None if it is none."""
    plain = word.strip().lower()
    return plain if plain in PRIORITIES else _SYNONYMS.get(plain)


def slug(title: str, most: int = 40) -> str:
    """Return a title as the name of a worktree: lower case letters, digits and dashes; empty if nothing of it fits."""
    from unicodedata import normalize

    plain = normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = "".join(char if char.isalnum() else " " for char in plain).split()
    made = ""
    for word in words:
        longer = f"{made}-{word}" if made else word[:most]
        if len(longer) > most:
            break
        made = longer
    return made
