"""Kimi Code's sessions: the states that its records name, and what is known of a session. Version 2.1.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.agent import COMPLETED, FAILED, NOTHING_ASKED, RUNNING, UNKNOWN, WAITING, Agent, Truth
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, Sighting
from imi_monitor.sources.agents.folder_trust import ASKS_FOR_TRUST, MAYBE_ASKS_FOR_TRUST
from imi_monitor.sources.agents.kimi.reader import KimiReader
from imi_monitor.sources.agents.kimi.reducer import KimiReducer
from tests.sources.agents import reader_kit, recording_kit
from tests.sources.agents.recording_kit import Replay

NOW = 1_795_115_400.0


def reduce(*records: dict[str, Any]) -> KimiReducer:
    reducer = KimiReducer("session_1")
    for number, record in enumerate(records):
        reducer.add(json.dumps({"agentId": "main", "time": (NOW + number) * 1000, **record}).encode(), "")
    return reducer


PROMPT: dict[str, Any] = {"type": "turn.prompt", "promptId": "p", "input": [{"type": "text", "text": "mend it"}]}


def step(**event: object) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": event}


def test_each_step_of_a_recording_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay, told = Replay("kimi", tmp_path), dict[str, Agent]()
    replay.install(monkeypatch)
    monitor, name = replay.monitor(), ""
    for event in recording_kit.events_of("kimi"):
        if "leaves" in event:
            replay.now = event["at"]
            mine = replay.terminals[event["leaves"]]
            told[name] = next(one for terminal, one in replay.judged(replay.agents(monitor)) if terminal is mine)
        replay.apply(event)
        name = event.get("step", name)
    states = {name: (one.state, one.truth.confidence) for name, one in told.items()}
    assert states["never asked"] == ("completed", "likely") and told["never asked"].never_asked
    assert states["streams an answer"] == ("running", "exact")
    assert states["stopped by Esc"] == ("cancelled", "exact")
    assert states["asks for a permission"] == ("waiting_for_input", "exact")
    assert str(told["asks for a permission"].truth.tool) == "Bash touch asked.txt"
    assert states["done after the permission"] == ("completed", "exact")
    assert states["runs a command"] == ("running", "exact")
    assert states["killed while a command ran"] == ("dead", "exact")
    assert states["done after it was resumed"] == ("completed", "exact")
    assert states["closed"] == ("completed", "exact")


def test_a_folder_that_is_not_trusted_is_asked_about(tmp_path: Path) -> None:
    home, tree = tmp_path / "home", tmp_path / "app"
    (home / ".kimi-code").mkdir(parents=True)
    tree.mkdir()
    opened = {"root": str(tree), "last_opened_at": fields.at(NOW)}
    (home / ".kimi-code" / "workspaces.json").write_text(json.dumps({"workspaces": {"wd": opened}}))
    one, other = (reader_kit.process("kimi", tree, NOW + began, pid=100 + began) for began in (0, 1))

    def states(*processes: AgentProcess) -> list[tuple[str, str | None]]:
        at = reader_kit.world(home, tree, now=NOW + 60, processes=processes)
        return [(truth.state, truth.detail) for truth in (told(seen) for seen in KimiReader().read(at, None))]

    def told(seen: Sighting) -> Truth:
        truth = reader_kit.truth(seen, NOW + 60)
        assert truth.confidence == "likely"
        return truth

    assert states(one) == [(WAITING, ASKS_FOR_TRUST)]
    (home / ".kimi-code" / "workspace-trust").mkdir()
    (home / ".kimi-code" / "workspace-trust" / "wd").write_text(
        json.dumps({"root": str(tree), "trustedAt": (NOW + 30) * 1000})
    )
    assert states(one) == [(COMPLETED, NOTHING_ASKED)], "only this one can have answered"
    assert states(one, other) == [(UNKNOWN, MAYBE_ASKS_FOR_TRUST)] * 2, "the dialog of one of them may be open"


def test_a_question_waits_until_it_is_answered() -> None:
    asks = {
        "type": "interaction.request",
        "id": "q",
        "kind": "question",
        "request": {"questions": [{"question": "Which one?"}]},
    }
    evidence = reduce(PROMPT, asks).evidence()
    assert evidence is not None and (evidence.state, evidence.detail) == (WAITING, "Which one?")
    answered = reduce(PROMPT, asks, {"type": "interaction.resolved", "id": "q"}).evidence()
    assert answered is not None and answered.state == RUNNING


def test_a_failed_turn_names_why() -> None:
    ended = {"type": "turn.ended", "turnId": 0, "reason": "failed", "error": {"message": "400 refused"}}
    evidence = reduce(PROMPT, ended).evidence()
    assert evidence is not None and (evidence.state, evidence.detail) == (FAILED, "400 refused")
    again = reduce(PROMPT, ended, PROMPT, {"type": "turn.ended", "turnId": 1, "reason": "completed"}).evidence()
    assert again is not None and (again.state, again.detail) == (COMPLETED, None)


def test_facts_and_events() -> None:
    reducer = reduce(
        PROMPT,
        {"type": "llm.request", "model": "stub-model"},
        {"type": "usage.record", "usage": {"inputOther": 100, "output": 9, "inputCacheRead": 40}},
        step(type="content.part", uuid="c", part={"type": "text", "text": "I write it. "}),
        step(type="tool.call", toolCallId="t", name="Write", args={"path": "/w/a.py"}),
        step(type="tool.result", toolCallId="t", result={"output": "done"}),
        {"type": "turn.ended", "turnId": 0, "reason": "completed"},
    )
    facts = reducer.facts("A title")
    assert (facts.prompt, facts.last_message, facts.title, facts.model) == (
        "mend it",
        "I write it.",
        "A title",
        "stub-model",
    )
    assert (facts.tokens_in, facts.tokens_out, facts.tokens_cached, facts.context_used) == (100, 9, 40, 149)
    assert facts.files == ("/w/a.py",)
    kinds = [event.kind for event in reducer.take_events()]
    assert kinds == ["prompt", "message", "tool_started", "tool_finished", "completed"]


def test_lines_that_are_no_records_are_told() -> None:
    reducer = reduce(PROMPT)
    for _ in range(3):
        reducer.add(b"not a record", "")
    assert "unknown (format) kimi" in (reducer.facts(None).format_note or "")
    assert reduce(PROMPT, {"type": "of.tomorrow"}).facts(None).format_note is None


def test_a_workspace_outside_of_the_worktrees_is_not_read(tmp_path: Path) -> None:
    home, tree = tmp_path / "home", tmp_path / "app"
    folder = home / ".kimi-code" / "sessions" / "wd" / "session_1" / "agents" / "main"
    folder.mkdir(parents=True)
    tree.mkdir()
    (folder / "wire.jsonl").write_text(json.dumps({**PROMPT, "time": NOW * 1000}) + "\n")
    listed = home / ".kimi-code" / "workspaces.json"
    now = folder.joinpath("wire.jsonl").stat().st_mtime
    for root, found in (("/elsewhere", 0), (str(tree), 1)):
        listed.write_text(json.dumps({"workspaces": {"wd": {"root": root}}}))
        assert len(reader_kit.read_twice(KimiReader(), reader_kit.world(home, tree, now=now))) == found
