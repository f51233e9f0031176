"""The transitions between the statuses of a session. # S3.1 S3.7 S3.6"""

from __future__ import annotations

import itertools

import pytest

from imi_monitor.model import session_status
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, PLANNING, RESTING, RUNNING, STATES, WAITING

PAIRS = list(itertools.product(session_status.STATUSES, repeat=2))


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_all_steps_between_two_statuses_are_allowed(before: str, after: str) -> None:
    way = session_status.steps(before, after)
    assert len(way) <= 2 and (way[-1:] == (after,) or before == after)
    for left, right in itertools.pairwise((before, *way)):
        assert session_status.is_allowed(left, right) or session_status.is_correction(left, right)


def test_the_transitions_of_a_turn() -> None:
    assert session_status.steps(PLANNING, RUNNING) == (RUNNING,)
    assert session_status.steps(RUNNING, WAITING) == (WAITING,)
    assert session_status.steps(WAITING, RUNNING) == (RUNNING,)
    assert session_status.steps(RUNNING, COMPLETED) == (COMPLETED,)
    # missed transitions are added: neither a plan nor a question alone completes a turn
    assert session_status.steps(PLANNING, COMPLETED) == (RUNNING, COMPLETED)
    assert session_status.steps(WAITING, COMPLETED) == (RUNNING, COMPLETED)
    assert session_status.steps(PLANNING, CANCELLED) == (CANCELLED,)


def test_an_end_is_final_for_its_turn_and_the_next_begins_from_the_start() -> None:
    for end in RESTING:
        assert {after for after in session_status.STATUSES if session_status.is_allowed(end, after)} == {
            PLANNING,
            RUNNING,
        }
        assert session_status.steps(end, WAITING) == (RUNNING, WAITING)
        assert all(session_status.steps(end, other) == (other,) for other in RESTING - {end}), (
            "told right by a better witness"
        )


def test_every_state_of_an_agent_has_an_entry_status() -> None:
    for state in STATES:
        assert state in session_status.STATUSES or session_status.lost_state(state) is not None
    for status, lost in itertools.product(session_status.STATUSES, (None, session_status.INTERRUPTED, "unknown")):
        assert session_status.agent_entry_status(status, lost) in ("active", "paused", "completed", "error")
        assert session_status.displayed_status(status, lost) in session_status.SHOWN
    assert session_status.agent_entry_status(WAITING, None) == "paused"
    assert (
        session_status.agent_entry_status(FAILED, None)
        == "error"
        == session_status.agent_entry_status(RUNNING, session_status.INTERRUPTED)
    )


def test_each_status_counts_as_working_waiting_or_idle() -> None:
    assert [session_status.time_category(status) for status in session_status.STATUSES] == [
        "working",
        "working",
        "waiting",
        "idle",
        "idle",
        "idle",
    ]
