"""What came of a task: told by the turn that counts, and unknown where none does. # S4.4-S4.8"""

from __future__ import annotations

import pytest

from imi_monitor.model import tasks
from imi_monitor.model.tasks import Span

RUN, DONE, FAIL, STOP, ASK = ("running", "completed", "failed", "cancelled", "waiting_for_input")


def told(*marks: str) -> list[tuple[str, str]]:
    """`30 running` -> ("30", "running"): moments of two digits sort as text, as ours do."""
    return [(at, status) for at, _, status in (mark.partition(" ") for mark in marks)]


@pytest.mark.parametrize(
    ("span", "sessions", "outcome"),
    [
        (Span("20"), [], "open"),
        (Span("20"), [told("10 running", "25 completed")], "open"),  # its claim stands: the agent may go on with it
        (Span("20", holder_dead=True), [], "unknown"),
        (Span("20", holder_dead=True), [told("21 running", "25 interrupted")], "failed"),
        (Span("20", "30", "released"), [], "unknown"),
        (Span("20", "30", "released"), [told("21 running", "29 completed")], "completed"),
        (Span("20", "30", "released"), [told("21 running", "29 failed")], "failed"),
        (Span("20", "30", "released"), [told("21 running", "29 cancelled")], "cancelled"),
        # an agent that gives back from within its turn: the end of that turn comes a moment later
        (Span("20", "30", "released"), [told("19 running", "33 completed", "40 running", "50 failed")], "completed"),
        (
            Span("20", "30", "released"),
            [told("19 running", "31 waiting_for_input", "33 running", "35 failed")],
            "failed",
        ),
        (Span("20", "30", "released"), [told("21 running")], "unknown"),
        (Span("20", "30", "released"), [told("21 running", "33 unknown")], "unknown"),
        (Span("20", "30", "released"), [told("10 running", "15 completed")], "unknown"),  # it did nothing in this time
        (Span("20", "30", "released"), [told("35 running", "40 completed")], "unknown"),
        (
            Span("20", "30", "released"),
            [told("21 running", "22 failed"), told("23 running", "24 completed")],
            "completed",
        ),
        (Span("20", "30", "released"), [told("21 running", "22 completed"), told("25 running")], "unknown"),
        (Span("20", "30", "died"), [told("21 running", "25 interrupted")], "failed"),
        (Span("20", "30", "died"), [told("21 running", "25 completed", "26 running", "27 interrupted")], "failed"),
        (Span("20", "30", "forced"), [], "unknown"),
        (Span("20", "30", "forced"), [told("21 running", "33 completed")], "cancelled"),  # it went on without the claim
        (Span("20", "30", "taken_over"), [told("21 waiting_for_input")], "cancelled"),
        (Span("20", "30", "worktree_removed"), [told("21 running", "29 completed")], "completed"),
        (Span("20", "30", "worktree_removed"), [told("21 running")], "cancelled"),
        (
            Span("20", "30", tasks.NEXT_TASK),
            [told("21 running", "25 completed", "29 running", "40 failed")],
            "completed",
        ),
        (Span("20", "30", tasks.NEXT_TASK), [told("10 completed", "21 running", "40 completed")], "unknown"),
    ],
)
def test_what_came_of_it(span: Span, sessions: list[list[tuple[str, str]]], outcome: str) -> None:
    assert tasks.outcome(span, sessions) == outcome
    assert outcome in tasks.OUTCOMES
