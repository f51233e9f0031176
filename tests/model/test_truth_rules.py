"""The rules by which evidence decides, at their borders: which of two counts, which detail and tool it has, how sure it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from imi_monitor.model import times
from imi_monitor.model.agent import Evidence, ToolCall, Truth
from imi_monitor.model.truth import CUT_OFF, decide, reports_rest
from tests.model.test_truth import BASH, BEGAN, MAYBE_WAITS, NOW, live, told

READ = ToolCall("Read", "a.py", "t2")
MAYBE_OVER = frozenset({"completed", "cancelled"})


def title(state: str, ago: float = 0, *, read: float | None = None, **more: object) -> Evidence:
    read_at = None if read is None else times.stamp(NOW - timedelta(seconds=read))
    return told("title", state, ago, standing=True, read_at=read_at, **more)


def moment(ago: float) -> str:
    return times.stamp(NOW - timedelta(seconds=ago))


# -- which evidence counts ------------------------------------------------------------------------------------------------

BORDERS = {
    "an event of a daemon is no reading of the present": (
        [told("socket", "running", 5), told("transcript", "completed", 3)],
        "completed",
    ),
    "a source of tomorrow counts": ([told("of tomorrow", "running", 1)], "running"),
    "it is said by its registry to be in no known state": (
        [live("unknown", 1), told("transcript", "completed", 0.5)],
        "unknown",
    ),
    "at rest, and no event says what it did": ([live("completed", 5), told("transcript", "unknown", 20)], "completed"),
    "at rest after a question that was not answered": (
        [live("completed", 5), told("hook", "waiting_for_input", 20)],
        "cancelled",
    ),
    "at rest after a record that may be the last": (
        [live("completed", 5), told("transcript", "running", 20, or_else=MAYBE_OVER)],
        "completed",
    ),
    "at rest after a hook: the end has a hook of its own": (
        [live("completed", 5), told("hook", "running", 20, or_else=MAYBE_OVER)],
        "cancelled",
    ),
    "at rest after a hook that does not doubt it": (
        [live("completed", 5), told("hook", "running", 20, or_else=frozenset({"completed"}))],
        "completed",
    ),
    "a better source at the same moment": (
        [told("hook", "running", 9), told("transcript", "completed", 9.05)],
        "completed",
    ),
    "a better source at another moment": (
        [told("hook", "running", 9), told("transcript", "completed", 9.06)],
        "running",
    ),
    "a dialog that opened before the record is still open": (
        [told("permission", "waiting_for_input", 12), told("transcript", "running", 9, or_else=MAYBE_WAITS)],
        "waiting_for_input",
    ),
    "what distinguishes it is itself in doubt": (
        [
            told("transcript", "running", 9, or_else=MAYBE_WAITS),
            told("hook", "waiting_for_input", 9, or_else=frozenset({"failed"})),
            title("failed"),
        ],
        "failed",
    ),
    "no moment that can be read": ([Evidence("transcript", "running", "no moment", "says")], "running"),
    "a moment that can be read is later": (
        [Evidence("transcript", "running", "no moment", "says"), told("hook", "completed", 1e9)],
        "completed",
    ),
    "at rest for a second without a record of it": (
        [live("completed", 1), told("transcript", "running", 20)],
        "cancelled",
    ),
    "at rest for less than a second": ([live("completed", 0.99), told("transcript", "running", 20)], "running"),
    "a title that was read 300 ms after the record": (
        [told("transcript", "running", 9, or_else=MAYBE_WAITS), title("waiting_for_input", 20, read=8.7)],
        "running",
    ),
    "a title that was read later": (
        [told("transcript", "running", 9, or_else=MAYBE_WAITS), title("waiting_for_input", 20, read=8.69)],
        "waiting_for_input",
    ),
    "a hook at the same moment": (
        [told("transcript", "running", 9, or_else=MAYBE_WAITS), told("hook", "waiting_for_input", 9.05)],
        "waiting_for_input",
    ),
    "a hook at another moment": (
        [told("transcript", "running", 9, or_else=MAYBE_WAITS), told("hook", "waiting_for_input", 9.06)],
        "running",
    ),
    "how it ended, a second before": (
        [told("transcript", "completed", 8, or_else=frozenset({"failed"})), told("hook", "failed", 9)],
        "completed",
    ),
    "how it ended, less than a second before": (
        [told("transcript", "completed", 8, or_else=frozenset({"failed"})), told("hook", "failed", 8.9)],
        "failed",
    ),
    "two that doubt each other: the lesser source was asked": (
        [
            told("transcript", "running", 9, or_else=MAYBE_WAITS),
            told("hook", "waiting_for_input", 9, or_else=frozenset({"running"})),
        ],
        "waiting_for_input",
    ),
    "a record that names its own state among the possible ones": (
        [told("transcript", "running", 9, or_else=MAYBE_WAITS | {"running"}), title("waiting_for_input")],
        "waiting_for_input",
    ),
}


@pytest.mark.parametrize("name", BORDERS)
def test_the_evidence_that_counts_at_the_borders_of_a_rule(name: str) -> None:
    evidence, expected = BORDERS[name]
    assert decide(evidence, True, NOW).state == expected
    assert decide(evidence[::-1], True, NOW).state == expected


@pytest.mark.parametrize(
    ("ago", "state"), [(28, "running"), (29, "running"), (30, "running"), (32, "running"), (32.1, "cancelled")]
)
def test_a_record_belongs_to_the_process_that_began_at_most_two_seconds_later(ago: float, state: str) -> None:
    truth = decide([told("transcript", "running", ago)], True, NOW, process_began=BEGAN)
    assert (truth.state, truth.detail) == (state, CUT_OFF if state == "cancelled" else None)


@pytest.mark.parametrize("state", ["running", "planning", "waiting_for_input"])
@pytest.mark.parametrize(("ago", "silent"), [(600, False), (600.1, True)])
def test_an_open_turn_without_a_known_process_is_believed_for_ten_minutes(state: str, ago: float, silent: bool) -> None:
    truth = decide([told("transcript", state, ago)], None, NOW)
    assert (truth.state, truth.confidence, truth.detail) == (
        ("unknown", "guess", "silent") if silent else (state, "likely", None)
    )
    assert (truth.since, truth.source) == (moment(ago), "transcript")
    assert [one.why for one in truth.rejected] == (
        ["no newer evidence for 10 minutes, and no process is known"] if silent else []
    )


def test_an_open_turn_of_the_future_is_believed_for_ten_minutes_too() -> None:
    truth = decide([told("transcript", "running", -601)], None, NOW)
    why = "its newest evidence is from the future, so the clock was set back, and no process is known"
    assert (truth.state, [one.why for one in truth.rejected]) == ("unknown", [why])
    assert decide([told("transcript", "running", -600)], None, NOW).state == "running"


@pytest.mark.parametrize(
    ("evidence", "rests"),
    [
        ([], False),
        ([live("completed")], True),
        ([title("cancelled")], True),
        ([live("running"), title("failed")], True),
        ([live("running")], False),
        ([told("transcript", "completed")], False),
    ],
)
def test_standing_evidence_reports_rest(evidence: list[Evidence], rests: bool) -> None:
    assert reports_rest(evidence) is rests


# -- what is told beside the state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "tool"),
    [
        (
            [told("hook", "waiting_for_input", 1.1), told("transcript", "running", 2, tool=BASH, or_else=MAYBE_WAITS)],
            BASH,
        ),
        (
            [
                told("hook", "waiting_for_input", 1.1, tool=READ),
                told("transcript", "running", 2, tool=BASH, or_else=MAYBE_WAITS),
            ],
            READ,
        ),
        ([told("transcript", "running", 1.1, tool=READ), told("hook", "waiting_for_input", 2, tool=BASH)], BASH),
        ([told("transcript", "running", 1.1, tool=READ)], None),
    ],
)
def test_a_question_is_about_the_newest_tool_that_may_wait(events: list[Evidence], tool: ToolCall | None) -> None:
    assert decide([live("waiting_for_input", 1), *events], True, NOW).tool == tool


def test_an_authority_keeps_its_own_tool_and_detail() -> None:
    own = live("waiting_for_input", 1, tool=READ, detail="input needed")
    other = told("hook", "waiting_for_input", 1.1, tool=BASH, detail="permission prompt")
    assert (decide([own, other], True, NOW).tool, decide([own, other], True, NOW).detail) == (READ, "input needed")
    bare = decide([replace(own, tool=None, detail=None), other], True, NOW)
    assert (bare.tool, bare.detail) == (BASH, "permission prompt")


@pytest.mark.parametrize(("state", "detail"), [("running", "retrying 3/10"), ("planning", None)])
def test_an_event_adds_its_detail_to_the_same_state_only(state: str, detail: str | None) -> None:
    truth = decide([live("running", 5), told("transcript", state, 4, detail="retrying 3/10")], True, NOW)
    assert (truth.state, truth.detail, truth.since) == (state, detail, moment(4))


def test_each_piece_of_evidence_is_rejected_for_its_own_reason() -> None:
    used = told("transcript", "running", 3)
    truth = decide([used, told("hook", "running", 9), told("hook", "completed", 20)], True, NOW)
    assert truth.used == (used,)
    assert [(one.evidence.state, one.why) for one in truth.rejected] == [
        ("running", "it says the same"),
        ("completed", "newer evidence, or a better source, contradicts it"),
    ]


def test_a_guess_about_a_tied_session_stays_a_guess() -> None:
    assert decide([], True, NOW, tied=True).confidence == "guess"
    assert decide([title("running")], True, NOW, tied=True).confidence == "likely"


# -- when the process has ended -------------------------------------------------------------------------------------------

ENDS = {
    "a finished turn": ([told("transcript", "completed", 60)], "completed", "exact"),
    "a turn that was probably finished": (
        [told("transcript", "completed", 60, or_else=frozenset({"running"}))],
        "completed",
        "likely",
    ),
    "an event of its registry is no reading": ([told("registry", "completed", 60)], "completed", "exact"),
    "only its title was at rest": ([title("completed", 30)], "dead", "exact"),
    "its title was at work, its records were not": (
        [title("running", 30), told("transcript", "completed", 60)],
        "completed",
        "exact",
    ),
    "its registry was at rest for a moment": (
        [live("completed", 0.2), told("transcript", "running", 4)],
        "dead",
        "exact",
    ),
    "its registry was at work, and there is no record": ([live("running", 5)], "dead", "exact"),
    "its registry was at work after its records": (
        [live("running", 30), told("transcript", "cancelled", 60)],
        "dead",
        "exact",
    ),
    "its registry and its records are of one moment": (
        [live("running", 30), told("transcript", "completed", 30)],
        "completed",
        "exact",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_state_of_an_ended_process(name: str) -> None:
    evidence, state, confidence = ENDS[name]
    truth = decide(evidence, False, NOW)
    assert (truth.state, truth.confidence, truth.ended) == (state, confidence, True)
    if state == "completed":
        (used,) = (one for one in evidence if one.source != "title" and not one.standing)
        assert truth.used == (used,)
    else:
        assert (truth.source, truth.detail, truth.used) == ("process", "its process is gone", ())
        assert {one.why for one in truth.rejected} == {"the process is gone, so its last activity is over"}
        assert len(truth.rejected) == len(evidence)


@pytest.mark.parametrize(
    ("evidence", "since", "tool"),
    [
        ([], None, None),
        ([told("transcript", "running", 60, tool=BASH), title("running", 1)], moment(60), BASH),
        ([title("running", 5, tool=READ)], moment(5), READ),
        ([title("running", 5), live("running", 3, tool=READ)], moment(3), READ),
    ],
)
def test_a_dead_agent_has_the_time_and_the_tool_of_its_last_record(
    evidence: list[Evidence], since: str | None, tool: ToolCall | None
) -> None:
    truth = decide(evidence, False, NOW)
    assert (truth.state, truth.since, truth.tool) == ("dead", since, tool)
    assert decide(evidence, False, NOW, last_alive=moment(2)).since == moment(2)


def seen(state: str, read: float) -> Truth:
    """What was decided of its title, which has stood there for long, when it was read for the last time."""
    one = title(state, 300, read=read)
    return Truth(state, one.at, "title", "likely", used=(one,))


@pytest.mark.parametrize(
    ("last", "former", "state", "confidence"),
    [
        ("completed", seen("running", 59), "dead", "likely"),
        ("completed", seen("running", 60), "completed", "likely"),
        ("completed", seen("running", 61), "completed", "likely"),
        ("completed", seen("waiting_for_input", 59), "completed", "likely"),
        ("completed", seen("failed", 59), "completed", "likely"),
        ("waiting_for_input", seen("running", 59), "dead", "exact"),
    ],
)
def test_an_ended_process_was_seen_at_work_after_its_last_record(
    last: str, former: Truth, state: str, confidence: str
) -> None:
    unclear = told("transcript", last, 60, or_else=frozenset({"running", "failed"}))
    truth = decide([unclear], False, NOW, former=former)
    assert (truth.state, truth.confidence) == (state, confidence)


def test_what_was_seen_of_a_process_without_a_record_changes_nothing() -> None:
    assert decide([live("running", 5)], False, NOW, former=seen("running", 1)).state == "dead"
    assert decide([live("completed", 5)], False, NOW, former=seen("running", 1)).state == "completed"
