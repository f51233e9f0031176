"""Which process has which session: pairs are made once from hard evidence, stay, and are never swapped."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.sources.agents.agent_reader import AgentProcess
from imi_monitor.sources.agents.session_owners import SessionPairs, SessionProcess, SessionTrace


def process(pid: int, began: float, *argv: str, cwd: str = "/w") -> AgentProcess:
    return AgentProcess("gemini", pid, str(began), cwd, ("gemini", *argv), began)


def trace(name: str, began: float | None, updated: float, **more: object) -> SessionTrace:
    return SessionTrace(name, "/w", updated, began, frozenset({name}), **more)  # type: ignore[arg-type]


def pid_of(found: dict[str, SessionProcess], name: str) -> int | None:
    one = found[name].process
    return one.pid if one is not None and found[name].alive else None


A, B, C = process(1, 0), process(2, 100), process(3, 200)


def test_a_prompt_to_the_older_of_two_does_not_swap_them() -> None:
    pairs = SessionPairs()
    pairs.find([trace("a", 2, 10), trace("b", 102, 110)], [A, B], 111)
    found = pairs.find([trace("a", 2, 150), trace("b", 102, 110)], [A, B], 151)
    assert (pid_of(found, "a"), pid_of(found, "b")) == (1, 2)
    found = pairs.find([trace("a", 2, 150), trace("b", 102, 110), trace("c", 203, 203)], [A, B, C], 210)
    assert [pid_of(found, each) for each in "abc"] == [1, 2, 3]
    assert not any(one.tied for one in found.values())
    afresh = SessionPairs().find([trace("a", 2, 150), trace("b", 102, 110), trace("c", 203, 203)], [A, B, C], 210)
    assert [pid_of(afresh, each) for each in "abc"] == [1, 2, 3]


def test_the_session_of_a_killed_process_is_not_given_to_the_one_beside_it() -> None:
    pairs = SessionPairs()
    both = [trace("a", 2, 150), trace("b", 102, 160)]
    pairs.find(both, [A, B], 161)
    found = pairs.find(both, [A], 170)
    assert pid_of(found, "a") == 1 and found["b"].alive is False
    afresh = SessionPairs().find([trace("a", 2, 170), both[1]], [A], 171)
    assert pid_of(afresh, "a") == 1 and afresh["b"].alive is False, "a was written to after b began"
    kept = SessionPairs().find([trace("a", 2, 50, left=False), both[1]], [A], 171)
    assert pid_of(kept, "a") == 1 and kept["b"].alive is False, "a's process is recorded to stay with it"


def test_two_that_began_in_the_same_seconds_are_tied_and_stay() -> None:
    pairs, near = SessionPairs(), process(2, 1)
    found = pairs.find([trace("a", 3, 3), trace("b", 4, 4)], [A, near], 5)
    assert (pid_of(found, "a"), pid_of(found, "b")) == (1, 2) and found["a"].tied and found["b"].tied
    found = pairs.find([trace("a", 3, 50), trace("b", 4, 4)], [A, near], 51)
    assert (pid_of(found, "a"), pid_of(found, "b")) == (1, 2), "recency does not swap them"
    found = pairs.find([trace("a", 3, 50), trace("b", 4, 4)], [near], 60)
    assert found["a"].alive is None, "the end of one of a tie proves nothing"


@pytest.mark.parametrize(
    ("moment", "ran", "began_after"), [(99.5, False, True), (99.995, True, True), (100.5, True, False)]
)
def test_the_clocks_do_not_tell_which_came_first_within_an_instant(moment: float, ran: bool, began_after: bool) -> None:
    """The start of a process is known to 10 ms, so a record of that instant may be of it, and of the time before it."""
    assert (B.ran_at(moment), B.began_after(moment)) == (ran, began_after)


def test_a_record_of_the_program_replaces_a_tie() -> None:
    pairs, near = SessionPairs(), process(2, 1)
    pairs.find([trace("a", 3, 3), trace("b", 4, 4)], [A, near], 5)
    found = pairs.find([trace("a", 3, 3, pid=2), trace("b", 4, 4, pid=1)], [A, near], 6)
    assert (pid_of(found, "a"), pid_of(found, "b")) == (2, 1)
    assert not found["a"].tied and not found["b"].tied


def test_a_resumed_session_belongs_to_the_process_that_resumes() -> None:
    pairs = SessionPairs(resumes=lambda argv: "-r" in argv)
    again = process(9, 500, "-r", "latest")
    found = pairs.find([trace("old", 2, 300), trace("resumed", 3, 505)], [again], 506)
    assert pid_of(found, "resumed") == 9 and found["old"].alive is False
    named = process(9, 500, "-r", "old")
    assert (
        pid_of(pairs.find([trace("old", 2, 300), trace("resumed", 3, 505)], [replace(named, pid=8)], 507), "old") == 8
    )


@pytest.mark.parametrize("beside", [False, True])
def test_a_process_that_goes_on_to_a_new_session(beside: bool) -> None:
    pairs = SessionPairs()
    running = [A, process(2, 50)] if beside else [A]
    others = [trace("b", 52, 60)] if beside else []
    pairs.find([trace("a", 2, 10), *others], running, 70)
    found = pairs.find([trace("a", 2, 10), *others, trace("new", 400, 400)], running, 401)
    if beside:  # either of them may have done so
        assert found["new"].alive is None and pid_of(found, "a") == 1 and pid_of(found, "b") == 2
    else:
        assert pid_of(found, "new") == 1 and not found["new"].tied and found["a"].alive is False


def test_a_session_without_any_process_that_is_written_to_is_not_called_dead() -> None:
    pairs = SessionPairs()
    assert pairs.find([trace("a", 2, 10)], [], 100)["a"].alive is False
    assert pairs.find([trace("a", 2, 101)], [], 102)["a"].alive is None


# -- any order ----------------------------------------------------------------------------------------------------------


@dataclass
class Life:
    """A process with its session, which it begins a few seconds after it starts."""

    process: AgentProcess
    session: str
    began: float
    updated: float
    alive: bool = True


ACTS = st.lists(
    st.tuples(st.sampled_from(["start", "write", "kill", "look", "afresh"]), st.integers(0, 5), st.integers(1, 40)),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(ACTS)
def test_whatever_is_started_written_and_killed_no_certain_pair_is_wrong(acts: list[tuple[str, int, int]]) -> None:
    pairs, now, lives = SessionPairs(), 1000.0, list[Life]()
    for act, which, pause in acts:
        now += pause
        if act == "start":
            began, now = now, now + 1 + pause / 20
            lives.append(Life(process(len(lives) + 1, began), f"s{len(lives)}", now, now))
        elif act == "afresh":
            pairs = SessionPairs()
        elif act in ("write", "kill") and which < len(lives) and lives[which].alive:
            lives[which].updated = now if act == "write" else lives[which].updated
            lives[which].alive = act == "write"
        traces = [trace(one.session, one.began, one.updated, left=False) for one in lives]
        found = pairs.find(traces, [one.process for one in lives if one.alive], now)
        for one in lives:
            told = found[one.session]
            if told.tied or told.alive is None:
                continue
            assert told.alive is one.alive
            if told.alive:
                assert told.process == one.process
