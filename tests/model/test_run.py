"""The words for what a run does, and the verdict at its end."""

from __future__ import annotations

import pytest

from imi_monitor.model import run
from imi_monitor.model.run import RunVerdict


@pytest.mark.parametrize(
    ("status", "state", "silent", "word"),
    [
        ("queued", None, None, "queued"),
        ("alive", None, 1.0, "works"),
        ("alive", "running", 119.0, "works"),
        ("alive", "running", 120.0, "stalled"),
        ("alive", "waiting_for_input", 900.0, "asks"),
        ("alive", "completed", 900.0, "idle"),
        ("alive", "cancelled", 1.0, "idle"),
        ("alive", "failed", 1.0, "failed"),
        ("crashed", "running", 900.0, "crashed"),
    ],
)
def test_the_word_for_what_a_run_does(status: str, state: str | None, silent: float | None, word: str) -> None:
    assert run.shown_state(status, state, silent) == word


@pytest.mark.parametrize(
    ("turn", "code", "stopped_by", "status", "detail"),
    [
        ("completed", 1, None, "completed", "said"),
        ("completed", -9, "me", "completed", "said"),
        ("failed", 0, None, "failed", "said"),
        ("running", -9, "me", "cancelled", "stopped by me"),
        ("running", 0, None, "crashed", "its process ended with exit status 0 in the middle of its work"),
        ("waiting_for_input", -15, None, "crashed", "its process ended by signal 15 in the middle of its work"),
        (None, None, None, "crashed", "its process is gone and left no exit status"),
    ],
)
def test_the_last_turn_decides_then_the_intent_then_the_exit(
    turn: str | None, code: int | None, stopped_by: str | None, status: str, detail: str
) -> None:
    assert run.verdict(turn, "said", code, stopped_by) == RunVerdict(status, detail)
