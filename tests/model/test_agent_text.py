"""Agents in words: sanitised, and unknown values shown as unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from imi_monitor.model import agent_text, attention, snapshot_json, times
from imi_monitor.model.agent import NOTHING_ASKED, Agent, Evidence, RejectedEvidence, SessionFacts, ToolCall, Truth
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
        (agent("planning", tool=ToolCall("Read", "a.py")), "works: planning · Read a.py"),
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
        (agent("completed"), "idle"),
        (agent("completed", detail=NOTHING_ASKED), "ready"),
        (agent("completed", detail=NOTHING_ASKED, ended=True), f"done: {NOTHING_ASKED}"),
        (agent("unknown", detail="silent"), "unknown: silent"),
        (agent("a state of tomorrow"), "unknown"),
        (agent("planning"), "works: planning"),
        (agent("failed", tool=ToolCall("Bash", "rm x")), "failed"),
        (agent("running", tool=ToolCall("Bash", "rm x"), ended=True), "done"),
        (agent("failed", detail="usage limit"), "limited"),
    ],
)
def test_activity_in_words(one: Agent, words: str) -> None:
    assert agent_text.describe_activity(one) == words


def test_the_age_of_a_state_is_unknown_while_its_process_is_suspended() -> None:
    assert agent_text.state_age(agent("running", ago=90), NOW) == "1m"
    assert agent_text.state_age(replace(agent("running", ago=90), suspended=True), NOW) == ""


@pytest.mark.parametrize(
    ("key", "source", "label"),
    [
        (None, "registry", "?"),
        (Key("h", "app", "feat-a"), "registry", "feat-a"),
        (Key("h", "app", "feat-a"), "home", "h:feat-a"),
    ],
)
def test_a_worktree_of_another_home_is_named_with_its_host(key: Key | None, source: str, label: str) -> None:
    one = agent("running")
    assert agent_text.worktree_label(replace(one, key=key, truth=replace(one.truth, source=source))) == label


@pytest.mark.parametrize(
    ("source", "confidence", "words"),
    [
        ("registry", "exact", "registry"),
        ("transcript", "likely", "transcript (likely)"),
        ("process", "guess", "process (a guess)"),
        (None, "guess", "no source"),
        (None, "exact", "no source"),
    ],
)
def test_the_source_of_a_state_and_how_sure_it_is(source: str | None, confidence: str, words: str) -> None:
    one = agent("running")
    assert (
        agent_text.describe_source(replace(one, truth=replace(one.truth, source=source, confidence=confidence)))
        == words
    )


@pytest.mark.parametrize(
    ("cli", "why"),
    [
        ("claude", "no hook of it waits for an answer (`imi hooks install claude`)"),
        ("opencode", "no hook of it waits for an answer (`imi hooks install opencode`)"),
        ("codex", "it has no daemon of Codex"),
        ("aider", "its program takes no answers from outside"),
    ],
)
def test_why_a_question_of_an_agent_is_answered_on_its_own_screen(cli: str, why: str) -> None:
    asked = agent_text.not_started("one", cli, asked=True)
    assert asked == f"enter goes to its own screen: imi did not start one, and {why}"
    assert agent_text.not_started("one", cli) == "one was not started by imi: enter goes to its own screen"


def test_an_agent_of_which_only_a_title_is_known_is_ready_until_a_turn_is_known() -> None:
    one = agent("completed")
    titled = replace(one, truth=replace(one.truth, source="title"))
    assert (titled.ready, attention.own_state(titled)) == (True, "ready")
    for facts in (SessionFacts(prompt="go"), SessionFacts(last_message="Done."), SessionFacts(turn_at="2026-11-18")):
        assert attention.own_state(replace(titled, facts=facts)) == "idle"


def test_evidence_of_an_agent_that_was_never_asked_says_ready() -> None:
    never = Evidence("registry", "completed", times.stamp(NOW), "the registry says idle", NOTHING_ASKED, standing=True)
    one = agent("completed", detail=NOTHING_ASKED, used=(never,))
    assert "  registry, now: ready: the registry says idle" in agent_text.explain(one, NOW)
    assert agent_text.evidence_word(never) == "ready"
    assert agent_text.evidence_word(replace(never, state="running")) == "works"
    assert agent_text.evidence_word(replace(never, detail="its turn is over")) == "idle"


@pytest.mark.parametrize(
    ("tool", "detail", "long", "short"),
    [
        ("Bash rm x", "permission prompt", "permission prompt (Bash rm x)", "Bash rm x · permission prompt"),
        ("Bash rm x", "permission for Bash rm x", "permission for Bash rm x", "Bash rm x · permission"),
        ("Bash rm x", None, "Bash rm x", "Bash rm x"),
        (None, "a question", "a question", "a question"),
        (None, None, "", ""),
    ],
)
def test_what_an_agent_waits_for(tool: str | None, detail: str | None, long: str, short: str) -> None:
    name, _, target = (tool or "").partition(" ")
    truth = agent("waiting_for_input", detail=detail, tool=ToolCall(name, target) if tool else None).truth
    assert agent_text.waits_for(truth) == long
    assert agent_text.waits_for(truth, tool_first=True) == short


def test_agents_that_need_a_person_are_listed_first() -> None:
    agents = [
        agent("completed", "done"),
        agent("running", "works"),
        agent("waiting_for_input", "asks lately", ago=5),
        agent("dead", "dead"),
        agent("completed", "gone", ended=True),
        agent("waiting_for_input", "asks long", ago=500),
        replace(agent("running", "intruder"), claim="other"),
        agent("failed", "failed"),
    ]
    assert [one.name for one in attention.by_attention(agents)] == [
        "asks long",
        "asks lately",
        "intruder",
        "failed",
        "dead",
        "works",
        "done",
        "gone",
    ]


def test_token_counts_are_short() -> None:
    assert [agent_text.format_tokens(n) for n in (None, 0, 999, 1000, 9949, 9950, 61_234, 1_000_000, 1_240_000)] == [
        "?",
        "0",
        "999",
        "1.0k",
        "9.9k",
        "10k",
        "61k",
        "1.0M",
        "1.2M",
    ]


def test_tokens_that_were_not_counted_yet_are_no_fact() -> None:
    one = replace(agent("running"), facts=SessionFacts(tokens_in=0, tokens_out=0, tokens_cached=0))
    assert "tokens" not in dict(agent_text.list_facts(one, NOW))


def test_every_known_fact_is_listed_and_no_other() -> None:
    then = times.stamp(NOW - timedelta(minutes=5))
    known = SessionFacts(
        version="2.1",
        model="opus",
        title="a title",
        branch="feat/a",
        started_at=then,
        turn_at=then,
        ended_at=then,
        prompt="do it",
        last_message="done",
        tokens_in=1000,
        tokens_out=200,
        tokens_cached=30,
        context_used=50_000,
        context_size=200_000,
        cost_usd=1.5,
        subagents=2,
        parent="claude-1",
        files=("a.py", "b.py"),
        tmux="%3",
        format_note="an odd line",
    )
    one = replace(agent("running"), facts=known, seen_at=then, claimed_by="claude-1", suspended=True)
    assert dict(agent_text.list_facts(one, NOW)) == {
        "session": "1",
        "process": "7, suspended",
        "folder": "/a",
        "program": "claude 2.1",
        "model": "opus",
        "title": "a title",
        "branch": "feat/a",
        "started": "5m ago",
        "turn since": "5m ago",
        "ended": "5m ago",
        "last seen": "5m ago",
        "prompt": "do it",
        "last reply": "done",
        "tokens": "1.0k read, 200 written, 30 from cache",
        "context": "50k of 200k",
        "cost": "$1.50",
        "subagents": "2",
        "works for": "claude-1",
        "files": "2 files: a.py, b.py",
        "terminal": "%3",
        "claim": "held by claude-1",
        "note": "an odd line",
    }
    in_zellij = SessionFacts(context_used=50_000, zellij="main:4")
    facts = dict(agent_text.list_facts(replace(agent("running"), facts=in_zellij), NOW))
    assert (facts["context"], facts["terminal"]) == ("50k", "main:4")
    bare = replace(agent("running"), session=None, pid=None, seen_at=None)
    assert [name for name, _ in agent_text.list_facts(bare, NOW)] == ["folder", "program", "claim"]


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
    for words in (
        "sessions/7.json says busy",
        "idle (or asks)",
        "because the registry ranks above it",
        "context: 1.0k of 2.0k",
        "claim: none",
    ):
        assert words in told
    assert "tokens:" not in told, "unknown is not zero"


def test_an_explanation_line_by_line() -> None:
    bare = agent("unknown", ago=90)
    lines = agent_text.explain(bare, NOW)
    assert lines[:4] == ["claude in feat-a: unknown, since 1m", "source: registry", "", "no evidence of what it does"]
    assert lines[4:6] == ["", "facts:"], "nothing was rejected"
    suspended = agent_text.explain(replace(bare, suspended=True), NOW)
    assert suspended[0] == "claude in feat-a: suspended: unknown, since 1m"
    assert suspended[1] == "its process is suspended (ctrl-z, SIGSTOP): it does nothing until it is continued"
    assert suspended[2:5] == lines[1:4]
    at = times.stamp(NOW - timedelta(seconds=30))
    standing = Evidence("registry", "running", at, "says busy", standing=True, tool=ToolCall("Bash", "pytest"))
    past = Evidence("transcript", "completed", at, "ends a turn", or_else=frozenset({"waiting_for_input", "running"}))
    told = agent("running", used=(standing,), rejected=(RejectedEvidence(past, "it is older"),))
    assert agent_text.explain(told, NOW)[3:] == [
        "evidence that decided:",
        "  registry, now: works, Bash pytest: says busy",
        "",
        "rejected evidence:",
        "  transcript, 30s ago: idle (or works, asks): ends a turn",
        "      because it is older",
        "",
        "facts:",
        "  session: 1",
        "  process: 7",
        "  folder: /a",
        "  program: claude",
        "  claim: none",
    ]


def test_a_table_has_a_text_beside_each_name() -> None:
    lines = agent_text.table([agent("running", "one"), agent("running", "two")], NOW, {"two": "[claims it]"})
    assert sorted(line.split("  ")[0] for line in lines) == ["one", "two [claims it]"]
    assert not any("[" in line for line in agent_text.table([agent("running", "one")], NOW))


def test_a_table_line_by_line() -> None:
    """Ages and tokens are right-aligned; what is not so of any agent takes no column."""
    plain = agent("running", "one", tool=ToolCall("Edit", "a.py"))
    assert agent_text.table([plain], NOW) == ["one  feat-a  Edit a.py  5s  registry"]
    walled = replace(plain, wall="strict", facts=SessionFacts(tokens_in=61_000, tokens_out=300))
    intruder = replace(agent("running", "two", ago=90 * 60), claim="other", claimed_by="one", wall="off")
    assert agent_text.table([walled, intruder], NOW) == [
        "two  feat-a  works      1h                        registry  works where one holds the claim!",
        "one  feat-a  Edit a.py  5s  wall strict  61k tok  registry",
    ]


def test_a_narrow_table_leaves_out_the_wall_then_the_tokens_then_the_source() -> None:
    one = replace(
        agent("running", "claude-1", tool=ToolCall("Edit", "src/api.ts")),
        wall="write",
        facts=SessionFacts(tokens_in=61_000),
    )
    shown = ["claude-1", "feat-a", "Edit src/api.ts", "5s", "wall write", "61k tok", "registry"]
    for width, left_out in ((None, ()), (60, (4,)), (55, (4, 5)), (45, (4, 5, 6))):
        expected = [text for place, text in enumerate(shown) if place not in left_out]
        assert agent_text.table([one], NOW, width=width) == ["  ".join(expected)], width


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
