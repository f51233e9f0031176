"""Evidence of hooks and titles: a question holds until it is answered, and an old title is rejected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from imi_monitor.model import times
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RUNNING, WAITING, Evidence
from imi_monitor.model.truth import decide

NOW = datetime(2027, 1, 1, tzinfo=UTC)
STOPPED = frozenset({CANCELLED, COMPLETED, FAILED})


def ago(seconds: float) -> str:
    return times.stamp(NOW - timedelta(seconds=seconds))


def said(source: str, state: str, seconds: float, *or_else: str) -> Evidence:
    return Evidence(source, state, ago(seconds), "x", or_else=frozenset(or_else))


def title(state: str, since: float, read: float) -> Evidence:
    return Evidence("title", state, ago(since), "x", standing=True, read_at=ago(read))


def asked(seconds: float) -> Evidence:
    return said("permission", WAITING, seconds, RUNNING, *STOPPED)


def state(*evidence: Evidence) -> str:
    return decide(evidence, True, NOW).state


def test_a_permission_hook_refines_an_ambiguous_transcript() -> None:
    call = said("transcript", RUNNING, 5, WAITING)
    assert state(call, asked(4)) == WAITING
    assert state(asked(8), call) == WAITING, "another call was written down since"
    assert state(asked(8), said("transcript", CANCELLED, 5)) == CANCELLED, "Esc is known to the transcript"
    assert state(asked(8), said("transcript", RUNNING, 5)) == RUNNING, "the model answers: nothing is open"


def test_a_title_shows_that_a_question_was_answered() -> None:
    assert state(asked(8), title(RUNNING, 3, 1)) == RUNNING
    assert state(asked(8), said("transcript", RUNNING, 5, WAITING), title(RUNNING, 3, 1)) == RUNNING
    assert state(asked(8), title(WAITING, 7, 1)) == WAITING


def test_a_title_read_before_an_event_is_rejected() -> None:
    prompt = said("hook", RUNNING, 2, *STOPPED)
    assert state(prompt, title(COMPLETED, 60, 2.5)) == RUNNING
    assert state(prompt, title(COMPLETED, 60, 1.9)) == RUNNING, "titles follow a moment later"
    assert state(prompt, title(COMPLETED, 60, 1.0)) == COMPLETED, "a tool was cancelled, and no hook said so"
    assert state(asked(2), title(RUNNING, 60, 2.5)) == WAITING


def test_two_sources_about_one_end_of_a_turn() -> None:
    over = said("hook", COMPLETED, 1, CANCELLED, FAILED)  # Gemini tells its end after a cancel too
    assert state(over, said("transcript", CANCELLED, 1.2)) == CANCELLED
    assert state(over, said("transcript", FAILED, 1.2)) == FAILED
    assert state(over, said("transcript", CANCELLED, 30)) == COMPLETED, "that was another turn"
    assert state(said("hook", RUNNING, 1, *STOPPED), said("transcript", CANCELLED, 1.2)) == RUNNING, "a new prompt"


def test_of_events_at_one_moment_the_better_source_counts() -> None:
    """Two programs write down the same thing, one a little later than the other."""
    for apart, expected in ((0.0, RUNNING), (0.05, RUNNING), (0.051, COMPLETED)):
        better, later = said("transcript", RUNNING, 1 + apart), said("hook", COMPLETED, 1)
        assert state(better, later) == expected, apart


def test_process_evidence_refines_nothing() -> None:
    guess = Evidence("process", RUNNING, ago(60), "busy", standing=True)
    assert state(asked(3), guess) == WAITING


def test_background_work_after_a_turn_does_not_cancel_it() -> None:
    rests = Evidence("registry", COMPLETED, ago(5), "idle", standing=True)
    assert state(rests, said("hook", RUNNING, 8, COMPLETED)) == COMPLETED
    assert state(rests, said("hook", RUNNING, 8, *STOPPED)) == CANCELLED, "Esc fires no hook"


def test_the_reading_time_of_a_title_does_not_change_evidence() -> None:
    assert title(RUNNING, 5, 3) == title(RUNNING, 5, 1)
