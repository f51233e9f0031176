"""Which evidence decides the state of an agent. Each case was observed with a real program."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model import times
from imi_monitor.model.agent import SOURCES, STATES, Evidence, ToolCall
from imi_monitor.model.truth import decide

NOW = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)
BASH = ToolCall("Bash", "pytest -q", "t1")
MAYBE_WAITS = frozenset({"waiting_for_input"})


def told(source: str, state: str, ago: float = 0, **more: object) -> Evidence:
    at = times.stamp(NOW - timedelta(seconds=ago))
    return Evidence(source, state, at, f"{source} says {state}", **more)  # type: ignore[arg-type]


def live(state: str, ago: float = 0, **more: object) -> Evidence:
    return told("registry", state, ago, standing=True, **more)


CASES = {
    "no evidence": ([], None, "unknown"),
    "a tool runs": ([live("running", 5), told("transcript", "running", 4, tool=BASH)], True, "running"),
    "it only plans": ([live("running", 5), told("transcript", "planning", 4)], True, "planning"),
    "asked, although the transcript cannot tell": (
        [live("waiting_for_input", 1), told("transcript", "running", 1.1, tool=BASH, or_else=MAYBE_WAITS)],
        True,
        "waiting_for_input",
    ),
    "busy with a background agent behind the end of the turn": (
        [live("running", 9), told("transcript", "completed", 3), told("hook", "completed", 3)],
        True,
        "running",
    ),
    "done": ([live("completed", 3), told("transcript", "completed", 3.1)], True, "completed"),
    "done, and its record comes in a moment": (
        [live("completed", 0.2), told("transcript", "running", 4)],
        True,
        "running",
    ),
    "Esc while the API was retried leaves no record": (
        [live("completed", 5), told("transcript", "running", 20)],
        True,
        "cancelled",
    ),
    "the API failed": (
        [live("completed", 2), told("transcript", "failed", 2.1, detail="API Error: 400")],
        True,
        "failed",
    ),
    "Esc": ([live("completed", 2), told("transcript", "cancelled", 2.1)], True, "cancelled"),
    "killed in its work": ([told("transcript", "running", 60, tool=BASH)], False, "dead"),
    "killed, its registry stays": ([live("running", 60), told("transcript", "running", 60)], False, "dead"),
    "killed while it asked": ([told("permission", "waiting_for_input", 60)], False, "dead"),
    "gone after its turn was over": ([told("transcript", "completed", 60)], False, "completed"),
    "gone before it did anything": ([], False, "dead"),
    "a hook asked, and the tool's result came later": (
        [told("permission", "waiting_for_input", 9), told("transcript", "running", 2)],
        True,
        "running",
    ),
    "a hook asked behind the record of the tool": (
        [told("permission", "waiting_for_input", 8.98), told("transcript", "running", 9, or_else=MAYBE_WAITS)],
        True,
        "waiting_for_input",
    ),
    "a title tells what a transcript cannot": (
        [told("transcript", "running", 9, or_else=MAYBE_WAITS), told("title", "waiting_for_input", 0, standing=True)],
        True,
        "waiting_for_input",
    ),
    "a title does not overrule a transcript that knows": (
        [told("transcript", "completed", 9), told("title", "running", 0, standing=True)],
        True,
        "completed",
    ),
    "work without new evidence and without a known process": ([told("transcript", "running", 3600)], None, "unknown"),
    "long work of a living process": ([told("transcript", "running", 3600)], True, "running"),
    "an answer given long ago stays given": ([told("transcript", "completed", 3600)], None, "completed"),
    "a process and nothing else": ([told("process", "unknown", 1, standing=True)], True, "unknown"),
    "the daemon knows better than the rollout": (
        [told("socket", "waiting_for_input", 3, standing=True), told("transcript", "running", 1, or_else=MAYBE_WAITS)],
        True,
        "waiting_for_input",
    ),
    "Claude's own list comes before a daemon": (
        [told("socket", "running", 0, standing=True), live("completed", 5), told("transcript", "completed", 5)],
        True,
        "completed",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_state_decided_from_evidence(name: str) -> None:
    evidence, alive, expected = CASES[name]
    assert decide(evidence, alive, NOW).state == expected
    assert decide(list(reversed(evidence)), alive, NOW).state == expected, (
        "the order in which it is told must not matter"
    )


def test_what_a_process_was_seen_to_do_decides_where_its_records_do_not() -> None:
    """The records end with words of the model: its turn was over, or a tool was running."""
    unclear = [told("transcript", "completed", 60, or_else=frozenset({"running"}))]
    working = decide([*unclear, told("title", "running", 0, standing=True)], True, NOW)
    assert working.state == "running"
    dead = decide(unclear, False, NOW, former=working)
    assert (dead.state, dead.confidence, dead.ended) == ("dead", "likely", True)
    resting = decide(unclear, True, NOW)
    assert decide(unclear, False, NOW, former=resting).state == "completed"
    assert decide(unclear, False, NOW).state == "completed"
    before = decide([told("transcript", "running", 61)], True, NOW)
    assert decide(unclear, False, NOW, former=before).state == "completed", "it was at work before its last words"
    certain = [told("transcript", "completed", 1)]
    assert decide(certain, False, NOW, former=working).state == "completed", "a record of the end is newer than a title"


BEGAN = times.stamp(NOW - timedelta(seconds=30))


@pytest.mark.parametrize("state", ["running", "planning", "waiting_for_input"])
def test_an_open_turn_from_before_its_process_was_cut_off(state: str) -> None:
    truth = decide([told("transcript", state, 60, tool=BASH)], True, NOW, process_began=BEGAN)
    assert (truth.state, truth.confidence) == ("cancelled", "likely"), "the clock may have been set"
    assert decide([told("transcript", state, 20)], True, NOW, process_began=BEGAN).state == state
    assert decide([told("transcript", state, 60)], True, NOW).state == state
    working = decide(
        [told("transcript", state, 60), told("title", "running", 0, standing=True)], True, NOW, process_began=BEGAN
    )
    assert working.state == ("running" if state == "running" else "cancelled")


def test_what_was_unclear_before_its_process_began_is_over() -> None:
    unclear = told("transcript", "unknown", 60, or_else=frozenset({"running", "waiting_for_input", "completed"}))
    assert decide([unclear], True, NOW, process_began=BEGAN).state == "completed"
    done = told("transcript", "completed", 60)
    assert decide([done], True, NOW, process_began=BEGAN).confidence == "exact"


def test_what_an_authority_left_behind_says_whether_a_turn_was_open() -> None:
    """A killed Claude leaves its entry: busy while it compacted, idle at its prompt."""
    stopped = told("transcript", "cancelled", 60)
    assert decide([live("running", 30), stopped], False, NOW).state == "dead"
    assert decide([live("running", 60), told("transcript", "completed", 30)], False, NOW).state == "completed"
    idle = decide([live("completed", 30)], False, NOW)
    assert (idle.state, idle.ended) == ("completed", True), "never asked, and killed at its prompt"
    assert decide([live("completed", 30), told("transcript", "running", 60)], False, NOW).state == "cancelled"


def test_a_child_decides_between_running_and_waiting() -> None:
    tool = told("transcript", "running", 9, or_else=MAYBE_WAITS, in_child=True)
    now = times.stamp(NOW)
    waits = decide([tool, told("process", "waiting_for_input", 9, standing=True, read_at=now)], True, NOW)
    assert (waits.state, waits.source, waits.confidence) == ("waiting_for_input", "process", "likely")
    guess = told("process", "waiting_for_input", 9, standing=True)
    assert decide([tool, guess], True, NOW).state == "running", "a guess of another kind refines nothing"


def test_a_live_reading_is_never_cut_off() -> None:
    assert decide([live("running", 60)], True, NOW, process_began=BEGAN).state == "running"


@pytest.mark.parametrize("alive", [True, False])
def test_nothing_about_a_tied_session_is_exact(alive: bool) -> None:
    evidence = [told("transcript", "running", 5)]
    assert decide(evidence, alive, NOW).confidence == "exact"
    assert decide(evidence, alive, NOW, tied=True).confidence == "likely"


def test_an_open_turn_without_a_known_process_is_only_likely() -> None:
    assert decide([told("transcript", "running", 5)], None, NOW).confidence == "likely"
    assert decide([told("transcript", "completed", 5)], None, NOW).confidence == "exact"


def test_the_tool_comes_from_the_newest_event() -> None:
    truth = decide(
        [
            live("waiting_for_input", 1, detail="permission prompt"),
            told("transcript", "running", 1.1, tool=BASH, or_else=MAYBE_WAITS),
        ],
        True,
        NOW,
    )
    assert (truth.detail, str(truth.tool), truth.source, truth.confidence) == (
        "permission prompt",
        "Bash pytest -q",
        "registry",
        "exact",
    )
    assert [one.source for one in truth.used] == ["registry", "transcript"]


def test_an_answered_tool_is_not_that_of_a_later_question() -> None:
    older = told("transcript", "completed", 20, tool=None)
    truth = decide([live("waiting_for_input", 1, detail="input needed"), older], True, NOW)
    assert truth.tool is None


def test_rejected_evidence_has_its_reason() -> None:
    truth = decide([live("running", 9), told("transcript", "completed", 3)], True, NOW)
    assert [(one.evidence.source, one.why) for one in truth.rejected] == [("transcript", "the registry ranks above it")]


def test_a_guess_has_low_confidence() -> None:
    assert decide([told("process", "waiting_for_input", 1, standing=True)], True, NOW).confidence == "guess"
    assert decide([told("title", "running", 1, standing=True)], True, NOW).confidence == "likely"
    assert decide([told("transcript", "running", 1, or_else=MAYBE_WAITS)], True, NOW).confidence == "likely"


def test_a_dead_process_is_ended() -> None:
    assert decide([told("transcript", "completed", 9)], False, NOW).ended
    assert decide([told("transcript", "running", 9)], False, NOW, last_alive="then").since == "then"


evidences = st.builds(
    Evidence,
    st.sampled_from((*SOURCES, "new")),
    st.sampled_from(STATES),
    st.one_of(
        st.just("no moment"),
        st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(
            lambda moment: times.stamp(moment.replace(tzinfo=UTC))
        ),
    ),
    st.just("says"),
    st.none(),
    st.none(),
    st.booleans(),
    st.frozensets(st.sampled_from(STATES)),
)


@given(st.lists(evidences, max_size=6), st.sampled_from([True, False, None]))
def test_any_evidence_gives_a_state_and_is_used_or_rejected(told: list[Evidence], alive: bool | None) -> None:
    truth = decide(told, alive, NOW)
    assert truth.state in STATES
    assert truth.ended == (alive is False)
    assert len(truth.used) + len(truth.rejected) >= len({id(one) for one in told})
