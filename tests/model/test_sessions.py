"""The one place that says which step of a session may follow which. # S3.1 S3.7 S3.6"""

from __future__ import annotations

import itertools

import pytest

from imi_monitor.model import sessions
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, PLANNING, RESTING, RUNNING, STATES, WAITING

PAIRS = list(itertools.product(sessions.STATUSES, repeat=2))


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_every_way_is_made_of_allowed_steps(before: str, after: str) -> None:
    way = sessions.steps(before, after)
    assert len(way) <= 2 and (way[-1:] == (after,) or before == after)
    for left, right in itertools.pairwise((before, *way)):
        assert sessions.allowed(left, right) or sessions.corrects(left, right)


def test_the_life_of_a_turn() -> None:
    assert sessions.steps(PLANNING, RUNNING) == (RUNNING,)
    assert sessions.steps(RUNNING, WAITING) == (WAITING,)
    assert sessions.steps(WAITING, RUNNING) == (RUNNING,)
    assert sessions.steps(RUNNING, COMPLETED) == (COMPLETED,)
    # what nobody saw is filled in: a plan or a question alone completes nothing
    assert sessions.steps(PLANNING, COMPLETED) == (RUNNING, COMPLETED)
    assert sessions.steps(WAITING, COMPLETED) == (RUNNING, COMPLETED)
    assert sessions.steps(PLANNING, CANCELLED) == (CANCELLED,)


def test_an_end_is_final_for_its_turn_and_the_next_begins_from_the_start() -> None:
    for end in RESTING:
        assert {after for after in sessions.STATUSES if sessions.allowed(end, after)} == {PLANNING, RUNNING}
        assert sessions.steps(end, WAITING) == (RUNNING, WAITING)
        assert all(sessions.steps(end, other) == (other,) for other in RESTING - {end}), (
            "told right by a better witness"
        )


def test_every_state_of_an_agent_has_a_place() -> None:
    for state in STATES:
        assert state in sessions.STATUSES or sessions.lost(state) is not None
    for status, lost in itertools.product(sessions.STATUSES, (None, sessions.INTERRUPTED, "unknown")):
        assert sessions.entry_status(status, lost) in ("active", "paused", "completed", "error")
        assert sessions.shown(status, lost) in sessions.SHOWN
    assert sessions.entry_status(WAITING, None) == "paused"
    assert sessions.entry_status(FAILED, None) == "error" == sessions.entry_status(RUNNING, sessions.INTERRUPTED)


def test_whose_time_it_is() -> None:
    assert [sessions.part_of_day(status) for status in sessions.STATUSES] == [
        "working", "working", "waiting", "idle", "idle", "idle",
    ]  # fmt: skip
