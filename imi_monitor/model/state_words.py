"""The word for each state of an agent, a session or a run: the same on all screens, in the command line and in the help.

JSON and the registry keep the statuses of `model/agent.py`; `OF_STATUS` has the word for each.
"""

from __future__ import annotations

from imi_monitor.model.styled_text import ERROR, MUTED, SUCCESS, WARNING, styled
from imi_monitor.model.styled_text import WORKS as WORKS_STYLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ASKS: Final = "asks"
INTRUDES: Final = "intrudes"
FAILED: Final = "failed"
LIMITED: Final = "limited"
DEAD: Final = "dead"
STALLED: Final = "stalled"
SUSPENDED: Final = "suspended"
WORKS: Final = "works"
UNKNOWN: Final = "unknown"
QUEUED: Final = "queued"
READY: Final = "ready"
IDLE: Final = "idle"
DONE: Final = "done"

MEANINGS: Final = {
    ASKS: "an agent waits for your answer",
    INTRUDES: "an agent is where another one holds the claim",
    FAILED: "an agent's turn ended in an error",
    LIMITED: "an agent's program has reached its usage limit",
    DEAD: "an agent's process ended during a turn",
    STALLED: "an agent works without a sign of progress",
    SUSPENDED: "an agent's process is stopped until it is continued",
    WORKS: "an agent works",
    UNKNOWN: "there is no evidence of what an agent does",
    QUEUED: "a run waits for its start",
    READY: "an agent never had a prompt",
    IDLE: "an agent's turn is over and it still runs",
    DONE: "an agent's session has ended",
}
"""All words, the state that needs a person most first."""

OF_STATUS: Final = {
    "waiting_for_input": ASKS,
    "failed": FAILED,
    "dead": DEAD,
    "interrupted": DEAD,  # a stored session whose process died
    "planning": WORKS,
    "running": WORKS,
    "unknown": UNKNOWN,
    "completed": IDLE,
    "cancelled": IDLE,
    "queued": QUEUED,
    "stalled": STALLED,
}

SYNONYMS: Final = {
    "asking": ASKS,
    "waiting": ASKS,
    "waits": ASKS,
    "working": WORKS,
    "intruder": INTRUDES,
    "intruded": INTRUDES,
    "ended": DONE,
}
"""Words of filters that earlier versions had."""

_PLURALS: Final = {ASKS: "ask", WORKS: "work", INTRUDES: "intrude"}


UNCLAIMED: Final = "unclaimed"  # in place of the owner of a worktree without a claim


def of_status(status: str) -> str:
    """Return the word for a status; a status of a newer version is its own word."""
    return OF_STATUS.get(status, status)


def counted(number: int, word: str) -> str:
    """Return `1 asks`, `2 ask`, `3 failed`."""
    return f"{number} {word if number == 1 else _PLURALS.get(word, word)}"


_STYLES: Final = {
    ASKS: WARNING,
    INTRUDES: ERROR,
    FAILED: ERROR,
    LIMITED: WARNING,
    DEAD: ERROR,
    STALLED: WARNING,
    SUSPENDED: WARNING,
    WORKS: WORKS_STYLE,
    QUEUED: WARNING,
    IDLE: SUCCESS,
    # of claims, runs, tasks and homes
    "held": WORKS_STYLE,
    "stale": WARNING,
    "open": WORKS_STYLE,
    "starting": WORKS_STYLE,
    "completed": SUCCESS,
    "crashed": ERROR,
    "here": SUCCESS,
}


def style_of(word: str) -> str:
    """The style of a state's word on a terminal."""
    return _STYLES.get(word, MUTED)


def in_style(word: str) -> str:
    """A state's word in its style."""
    return styled(word, style_of(word))
