"""Recordings of real programs, replayed: imi is right or says that it is not certain, whatever it has read so far.

`make agents ARGS=--record` made them, with the programs and versions of docs/agents-matrix.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model.agent import EXACT, UNKNOWN, Agent
from tests.sources.agents import recording_kit
from tests.sources.agents.recording_kit import RecordedTerminal, Replay


def is_wrong(one: RecordedTerminal, agent: Agent) -> bool:
    truth = agent.truth
    return truth.confidence == EXACT and truth.state != UNKNOWN and truth.state not in one.allowed


def wrong(replay: Replay, found: list[Agent]) -> list[tuple[str, str, str | None, list[str]]]:
    """What imi is certain of and what is not so."""
    return [
        (agent.state, agent.truth.source or "", agent.truth.detail, sorted(one.allowed))
        for one, agent in replay.judged(found)
        if is_wrong(one, agent)
    ]


def test_there_are_recordings_of_seven_programs() -> None:
    assert recording_kit.NAMES == ("claude", "codex", "copilot", "gemini", "kimi", "opencode", "qwen")


@pytest.mark.parametrize("name", recording_kit.NAMES)
def test_every_step_of_a_recording(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a monitor that runs all the time: never a wrong certainty, and each state is known or said to be uncertain."""
    replay = Replay(name, tmp_path)
    replay.install(monkeypatch)
    monitor, told, before = replay.monitor(), {}, ""
    for number, event in enumerate(recording_kit.events_of(name)):
        if "leaves" in event:  # some seconds have passed in the step, in which the monitor read
            replay.now = event["at"]
            found = replay.agents(monitor)
            ended = replay.terminals[event["leaves"]]
            ended.allowed = ended.expected
            told[before] = {one.state for terminal, one in replay.judged(found) if terminal is ended}
            assert wrong(replay, found) == [], (number, before)
        replay.apply(event)
        before = event.get("step", before)
        if "step" not in event and "leaves" not in event:
            assert wrong(replay, replay.agents(monitor)) == [], (number, event)
    assert len(told) >= 12, "the recording has its steps"


def sessions_of(name: str, folder: Path, patch: pytest.MonkeyPatch) -> list[dict[int, str | None]]:
    """The session of each terminal after each event, as a monitor sees it that runs all the time."""
    replay, found = Replay(name, folder), []
    replay.install(patch)
    monitor = replay.monitor()
    for event in recording_kit.events_of(name):
        replay.apply(event)
        list(replay.judged(replay.agents(monitor)))
        found.append({number: one.session for number, one in replay.terminals.items()})
    return found


@pytest.mark.parametrize("name", recording_kit.NAMES)
def test_no_prefix_of_a_recording_gives_a_wrong_certainty(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a monitor that starts at any moment, while the last line may be half written."""
    events, known = recording_kit.events_of(name), sessions_of(name, tmp_path / "whole", monkeypatch)

    @given(st.integers(1, len(events)), st.floats(0, 1))
    @settings(max_examples=15, deadline=None, database=None)
    def prefix(number: int, share: float) -> None:
        replay, last = Replay(name, tmp_path / "replay"), events[number - 1]
        replay.install(monkeypatch)
        replay.forward(events[: number - 1])
        replay.apply(last, int(len(last["append"]) * share) if "append" in last else None)
        for terminal, session in known[number - 1].items():
            replay.terminals[terminal].session = session
        assert wrong(replay, replay.agents(replay.monitor())) == []

    prefix()


def test_a_summary_that_another_process_writes_does_not_pair_it_with_that_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed Gemini writes the summary of an older session last; a monitor may read it only then."""
    replay = Replay("gemini", tmp_path)
    replay.install(monkeypatch)
    monitor, resumed = replay.monitor(), False
    for event in recording_kit.events_of("gemini"):
        if "leaves" in event:
            replay.now = event["at"]
            found = [one for one in replay.agents(monitor) if not one.truth.ended]
            if resumed:
                assert [(one.session or "")[:8] for one in found] == ["6ab4ee5e"]
        replay.apply(event)
        resumed = resumed or event.get("step") == "resumed after the kill"
        if event.get("step") == "closed":
            return
    pytest.fail("the recording has no such step")
