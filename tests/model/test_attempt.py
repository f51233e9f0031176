"""The outcome of an attempt: from the deciding turn, and unknown without one. # S4.4-S4.8"""

from __future__ import annotations

import pytest

from imi_monitor.model import attempt
from imi_monitor.model.attempt import AttemptSpan

RUN, DONE, FAIL, STOP, ASK = ("running", "completed", "failed", "cancelled", "waiting_for_input")


def told(*marks: str) -> list[tuple[str, str]]:
    """`30 running` -> ("30", "running"): moments of two digits sort as text, as ours do."""
    return [(at, status) for at, _, status in (mark.partition(" ") for mark in marks)]


@pytest.mark.parametrize(
    ("span", "sessions", "outcome"),
    [
        (AttemptSpan("20"), [], "open"),
        (
            AttemptSpan("20"),
            [told("10 running", "25 completed")],
            "open",
        ),  # its claim stands: the agent may go on with it
        (AttemptSpan("20", holder_dead=True), [], "unknown"),
        (AttemptSpan("20", holder_dead=True), [told("21 running", "25 interrupted")], "failed"),
        (AttemptSpan("20", "30", "released"), [], "unknown"),
        (AttemptSpan("20", "30", "released"), [told("21 running", "29 completed")], "completed"),
        (AttemptSpan("20", "30", "released"), [told("21 running", "29 failed")], "failed"),
        (AttemptSpan("20", "30", "released"), [told("21 running", "29 cancelled")], "cancelled"),
        # an agent that gives back from within its turn: the end of that turn comes a moment later
        (
            AttemptSpan("20", "30", "released"),
            [told("19 running", "33 completed", "40 running", "50 failed")],
            "completed",
        ),
        (
            AttemptSpan("20", "30", "released"),
            [told("19 running", "31 waiting_for_input", "33 running", "35 failed")],
            "failed",
        ),
        (AttemptSpan("20", "30", "released"), [told("21 running")], "unknown"),
        (AttemptSpan("20", "30", "released"), [told("21 running", "33 unknown")], "unknown"),
        (
            AttemptSpan("20", "30", "released"),
            [told("10 running", "15 completed")],
            "unknown",
        ),  # it did nothing in this time
        (AttemptSpan("20", "30", "released"), [told("35 running", "40 completed")], "unknown"),
        (
            AttemptSpan("20", "30", "released"),
            [told("21 running", "22 failed"), told("23 running", "24 completed")],
            "completed",
        ),
        (AttemptSpan("20", "30", "released"), [told("21 running", "22 completed"), told("25 running")], "unknown"),
        (AttemptSpan("20", "30", "died"), [told("21 running", "25 interrupted")], "failed"),
        (
            AttemptSpan("20", "30", "died"),
            [told("21 running", "25 completed", "26 running", "27 interrupted")],
            "failed",
        ),
        (AttemptSpan("20", "30"), [told("21 ready")], "unknown"),  # its agent was never asked anything
        (AttemptSpan("20", "30", "forced"), [], "unknown"),
        (
            AttemptSpan("20", "30", "forced"),
            [told("21 running", "33 completed")],
            "cancelled",
        ),  # it went on without the claim
        (AttemptSpan("20", "30", "taken_over"), [told("21 waiting_for_input")], "cancelled"),
        (AttemptSpan("20", "30", "worktree_removed"), [told("21 running", "29 completed")], "completed"),
        (AttemptSpan("20", "30", "worktree_removed"), [told("21 running")], "cancelled"),
        (
            AttemptSpan("20", "30", attempt.NEXT_TASK),
            [told("21 running", "25 completed", "29 running", "40 failed")],
            "completed",
        ),
        (AttemptSpan("20", "30", attempt.NEXT_TASK), [told("10 completed", "21 running", "40 completed")], "unknown"),
    ],
)
def test_the_outcome_of_an_attempt(span: AttemptSpan, sessions: list[list[tuple[str, str]]], outcome: str) -> None:
    assert attempt.outcome(span, sessions) == outcome
    assert outcome in attempt.OUTCOMES
