"""Agents in words: sanitised, and unknown values shown as unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from imi_monitor.model import agent_text, attention, snapshot_json, times
from imi_monitor.model.agent import Agent, Evidence, RejectedEvidence, SessionFacts, ToolCall, Truth
from imi_monitor.model.snapshot import Key

NOW = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)


def agent(state: str, name: str = "claude", *, ago: float = 5, ended: bool = False, **more: object) -> Agent:
    since = times.stamp(NOW - timedelta(seconds=ago))
    truth = Truth(state, since, "registry", "exact", ended=ended, **more)  # type: ignore[arg-type]
    return Agent(f"{name}:1", name, name, Key("h", "app", "feat-a"), "/a", "1", 7, "9", truth, claim="none")


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (agent("running", tool=ToolCall("Bash", "pytest -q")), "Bash pytest -q"),
        (agent("running"), "works"),
        (agent("running", detail="retrying 3/10"), "works: retrying 3/10"),
        (agent("planning", tool=ToolCall("Read", "a.py")), "plans: Read a.py"),
        (
            agent("waiting_for_input", detail="permission prompt", tool=ToolCall("Bash", "rm x")),
            "asks: permission prompt (Bash rm x)",
        ),
        (
            agent("waiting_for_input", detail="permission for Bash rm x: it is outside", tool=ToolCall("Bash", "rm x")),
            "asks: permission for Bash rm x: it is outside",
        ),
        (agent("waiting_for_input", tool=ToolCall("Bash", "rm x")), "asks: Bash rm x"),
        (agent("waiting_for_input"), "asks"),
        (agent("failed", detail="API Error: 400"), "failed: API Error: 400"),
        (agent("completed"), "done"),
        (agent("unknown", detail="silent"), "unknown: silent"),
        (agent("a state of tomorrow"), "a state of tomorrow"),
    ],
)
def test_activity_in_words(one: Agent, words: str) -> None:
    assert agent_text.describe_activity(one) == words


def test_agents_that_need_a_person_are_listed_first() -> None:
    agents = [
        agent("completed", "done"), agent("running", "works"), agent("waiting_for_input", "asks lately", ago=5),
        agent("dead", "dead"), agent("completed", "gone", ended=True), agent("waiting_for_input", "asks long", ago=500),
        replace(agent("running", "intruder"), claim="other"), agent("failed", "failed"),
    ]  # fmt: skip
    assert [one.name for one in attention.by_attention(agents)] == [
        "asks long", "asks lately", "intruder", "failed", "dead", "works", "done", "gone",
    ]  # fmt: skip


def test_token_counts_are_short() -> None:
    assert [agent_text.format_tokens(n) for n in (None, 0, 999, 1000, 9949, 9950, 61_234, 1_240_000)] == [
        "?", "0", "999", "1.0k", "9.9k", "10k", "61k", "1.2M",
    ]  # fmt: skip


def test_an_explanation_has_used_and_rejected_evidence() -> None:
    at = times.stamp(NOW)
    used = Evidence("registry", "running", at, "sessions/7.json says busy", standing=True)
    not_used = Evidence(
        "transcript", "completed", at, "its last record ends a turn", or_else=frozenset({"waiting_for_input"})
    )
    one = agent("running", used=(used,), rejected=(RejectedEvidence(not_used, "the registry ranks above it"),))
    told = "\n".join(
        agent_text.explain(replace(one, facts=SessionFacts(model="m", context_used=1000, context_size=2000)), NOW)
    )
    for words in ("sessions/7.json says busy", "done (or asks)", "because the registry ranks above it", "context: 1.0k of 2.0k",
                  "claim: none"):  # fmt: skip
        assert words in told
    assert "tokens:" not in told, "unknown is not zero"


def test_hostile_text_is_harmless_and_data_is_json() -> None:
    bad = "\x1b]52;c;eA==\x07[red]\u202e\n"
    one = agent("waiting_for_input", bad, detail=bad, tool=ToolCall(bad, bad))
    one = replace(
        one,
        cwd=bad,
        claimed_by=bad,
        facts=SessionFacts(prompt=bad, title=bad, files=(bad,), last_message=bad, model=bad),
    )
    for line in [*agent_text.table([one], NOW), *agent_text.explain(one, NOW)]:
        assert line.isprintable() or not line
    assert json.loads(json.dumps(snapshot_json.agent_data(one)))["state"] == "waiting_for_input"
