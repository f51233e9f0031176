"""Recorded conversations, record by record: `<name>.states` has the state after each line of `<name>.jsonl`.

The fake wrote the records, in the order and with the fields of the real ones; the states were checked by hand, line by line,
against what the fake did when it wrote each of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.model.agent import COMPLETED, PLANNING, RUNNING, WAITING
from imi_monitor.sources.agents.claude.transcript import Transcript
from tests.sources.agents import claude_state_table

FIXTURES = Path(__file__).parent / "fixtures" / "claude"
NAMES = ("interactive", "print")
CWD = "/home/dev/my.repo_wt X"


def recorded(name: str) -> tuple[list[bytes], list[list[str]]]:
    lines = (FIXTURES / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    states = [line.split("\t") for line in (FIXTURES / f"{name}.states").read_text().splitlines()]
    assert len(lines) == len(states)
    return lines, states


def told(transcript: Transcript) -> list[str]:
    evidence = transcript.reducer.evidence()
    if evidence is None:
        return ["none", "", ""]
    return [evidence.state, str(evidence.tool or ""), evidence.detail or ""]


@pytest.mark.parametrize("name", NAMES)
def test_after_every_record_the_state_is_right(name: str, tmp_path: Path) -> None:
    lines, states = recorded(name)
    path = tmp_path / "s.jsonl"
    transcript = Transcript(str(path))
    for number, (line, state) in enumerate(zip(lines, states, strict=True)):
        with path.open("ab") as file:
            file.write(line)
        transcript.read()
        assert told(transcript) == state, number
    assert transcript.reducer.format_problem is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("window", [1, 700, 5000, 1 << 20])
def test_the_state_does_not_depend_on_where_reading_begins(name: str, window: int, tmp_path: Path) -> None:
    """A mode or an open call before the window may be missing at first; it is there once the beginning is read."""
    lines, states = recorded(name)
    path = tmp_path / "s.jsonl"
    for number in range(len(lines)):
        path.write_bytes(b"".join(lines[: number + 1]))
        transcript = Transcript(str(path), window=window)
        transcript.read()
        first, right = told(transcript)[0], states[number][0]
        assert first == right or (first, right) == (RUNNING, PLANNING), (number, first)
        transcript.take_events()
        while transcript.has_older:
            transcript.read_older()
        assert told(transcript) == states[number], number
    assert transcript.tokens == _all(path).tokens
    assert set(transcript.files) == set(_all(path).files) != set()


def _all(path: Path) -> Transcript:
    transcript = Transcript(str(path), window=1 << 30)
    transcript.read()
    return transcript


def test_tokens_files_and_cost_of_the_recorded_conversations(tmp_path: Path) -> None:
    lines, _ = recorded("print")
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(lines))
    transcript = Transcript(str(path))
    transcript.read()
    news = transcript.take_events()
    assert transcript.tokens == (1010 + 1020 + 1030 + 600, 126, 9000)
    assert transcript.files == (f"{CWD}/hello.txt",)
    assert transcript.reducer.cost == 0.25
    assert [one.kind for one in news] == [
        "prompt",
        "message",
        "tool_started",
        "tool_finished",
        "tool_started",
        "tool_finished",
        "message",
        "completed",
    ]


def test_a_subagents_transcript_is_read_as_its_own_conversation(tmp_path: Path) -> None:
    path = str(FIXTURES / "subagent.jsonl")
    own, as_main = Transcript(path, subagent=True), Transcript(path)
    own.read()
    kinds = {one.kind for one in own.take_events()}
    assert kinds == {"prompt", "tool_started", "tool_finished", "message", "completed"}
    assert told(own)[0] == COMPLETED
    as_main.read()
    assert as_main.take_events() == ()
    assert told(as_main)[0] == "none"


@pytest.mark.parametrize("name", claude_state_table.LIVES)
def test_every_recorded_life_has_the_right_states(name: str) -> None:
    assert claude_state_table.lived(name) == {"right": 1}


def test_the_fixtures_hold_every_state() -> None:
    states = {state for name in NAMES for state, _, _ in recorded(name)[1]}
    assert states == {"none", RUNNING, PLANNING, WAITING, COMPLETED, "failed", "cancelled"}
