"""The state after each hook event of every agent program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, PLANNING, RUNNING, WAITING
from imi_monitor.sources.agents.hooks.records import HookRecord, parse
from imi_monitor.sources.agents.hooks.reducer import HookReducer, evidence_of
from tests.json_values import json_values
from tests.sources.agents.hooks_kit import Feed, bash, claude


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "home", tmp_path / "tree")


def gemini(event: str, **more: Any) -> dict[str, Any]:
    return {"session_id": "s1", "cwd": None, "hook_event_name": event, "timestamp": "2027-01-01T00:00:00Z", **more}


SHELL = {"tool_name": "run_shell_command", "tool_input": {"command": "make", "description": "build"}}
AGENT = {"agent_id": "a1", "agent_type": "general-purpose"}
NOTE = "<task-notification>\n<task-id>a1</task-id>"
TASK = [{"id": "a1", "type": "subagent", "status": "running"}]
ASKING = {"tool_name": "AskUserQuestion", "permission_mode": "plan"}
QUESTION = {"questions": [{"question": "Which colour?", "options": []}]}

Step = tuple[dict[str, Any], str]
SCENARIOS: dict[str, tuple[str, list[Step]]] = {
    "claude: allowed": (
        "claude",
        [
            (claude("SessionStart", source="startup"), COMPLETED),
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (bash("PreToolUse", "make", "t1"), RUNNING),
            (bash("PermissionRequest", "make", None), WAITING),
            (claude("Notification", notification_type="permission_prompt", message="Claude needs you"), WAITING),
            (bash("PostToolUse", "make", "t1"), RUNNING),
            (claude("Stop", last_assistant_message="done", background_tasks=[]), COMPLETED),
            (claude("Notification", notification_type="idle_prompt"), COMPLETED),
            (claude("SessionEnd", reason="other"), COMPLETED),
        ],
    ),
    "claude: another call goes on while one waits": (
        "claude",
        [
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (bash("PreToolUse", "one", "t1"), RUNNING),
            (bash("PermissionRequest", "one", None), WAITING),
            (bash("PreToolUse", "two", "t2"), WAITING),
            (bash("PostToolUse", "two", "t2"), WAITING),
            (bash("PreToolUse", "three", "t3"), WAITING),
            (bash("PostToolUse", "one", "t1"), RUNNING),
        ],
    ),
    "claude: two ask, one is answered": (
        "claude",
        [
            (bash("PreToolUse", "one", "t1"), RUNNING),
            (bash("PreToolUse", "two", "t2"), RUNNING),
            (bash("PermissionRequest", "one", None), WAITING),
            (bash("PermissionRequest", "two", None), WAITING),
            (bash("PostToolUse", "two", "t2"), WAITING),
            (bash("PostToolUseFailure", "one", "t1", error="no", is_interrupt=False), RUNNING),
        ],
    ),
    "claude: only the late word about a dialog": (
        "claude",
        [
            (bash("PreToolUse", "make", "t1"), RUNNING),
            (claude("Notification", notification_type="permission_prompt", message="Claude needs you"), WAITING),
            (bash("PostToolUse", "make", "t1"), RUNNING),
        ],
    ),
    "claude: a question, then a plan": (
        "claude",
        [
            (claude("UserPromptSubmit", prompt="go", permission_mode="plan"), PLANNING),
            (claude("PreToolUse", **ASKING, tool_input=QUESTION, tool_use_id="q"), PLANNING),
            (claude("PermissionRequest", **ASKING, tool_input=QUESTION), WAITING),
            (claude("PostToolUse", **ASKING, tool_input=QUESTION, tool_use_id="q"), PLANNING),
            (
                claude("PreToolUse", tool_name="ExitPlanMode", tool_input={}, tool_use_id="p", permission_mode="plan"),
                PLANNING,
            ),
            (claude("PermissionRequest", tool_name="ExitPlanMode", tool_input={}, permission_mode="plan"), WAITING),
            (claude("PostToolUse", tool_name="ExitPlanMode", tool_input={"plan": "1."}, tool_use_id="p"), RUNNING),
        ],
    ),
    "claude: a subagent's end is not the parent's": (
        "claude",
        [
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (claude("PreToolUse", tool_name="Agent", tool_input={"prompt": "x"}, tool_use_id="t1"), RUNNING),
            (claude("SubagentStart", **AGENT), RUNNING),
            (bash("PreToolUse", "inside", "t2", **AGENT), RUNNING),
            (bash("PostToolUse", "inside", "t2", **AGENT), RUNNING),
            (claude("SubagentStop", last_assistant_message="sub", background_tasks=TASK, **AGENT), RUNNING),
            (claude("PostToolUse", tool_name="Agent", tool_input={"prompt": "x"}, tool_use_id="t1"), RUNNING),
            (claude("Stop", last_assistant_message="all", background_tasks=[]), COMPLETED),
        ],
    ),
    "claude: Stop with work in the background": (
        "claude",
        [
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (claude("SubagentStart", **AGENT), RUNNING),
            (claude("Stop", last_assistant_message="launched", background_tasks=TASK), RUNNING),
            (bash("PreToolUse", "inside", "t2", **AGENT), RUNNING),
            (bash("PermissionRequest", "inside", None, **AGENT), WAITING),
            (bash("PostToolUse", "inside", "t2", **AGENT), RUNNING),
            (claude("SubagentStop", background_tasks=TASK, **AGENT), RUNNING),
            (claude("UserPromptSubmit", prompt=NOTE), RUNNING),
            (claude("Stop", last_assistant_message="back", background_tasks=[]), COMPLETED),
        ],
    ),
    "claude: a machine's turn does not answer for a subagent": (
        "claude",
        [
            (claude("SubagentStart", **AGENT), None),
            (bash("PermissionRequest", "inside", None, **AGENT), WAITING),
            (claude("UserPromptSubmit", prompt=NOTE), WAITING),
            (claude("Stop", background_tasks=TASK), WAITING),
            (claude("SubagentStop", **AGENT), RUNNING),
        ],
    ),
    "claude: the API fails": (
        "claude",
        [
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (claude("StopFailure", error="rate_limit", last_assistant_message="API Error: 429"), FAILED),
            (claude("Notification", notification_type="idle_prompt"), FAILED),
            (claude("SessionEnd", reason="logout"), FAILED),
        ],
    ),
    "claude: Esc fires nothing, a minute later it is idle": (
        "claude",
        [
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (bash("PreToolUse", "sleep", "t1"), RUNNING),
            (claude("Notification", notification_type="idle_prompt"), COMPLETED),
            (claude("UserPromptSubmit", prompt="again"), RUNNING),
        ],
    ),
    "claude: an interrupted tool": (
        "claude",
        [
            (bash("PreToolUse", "sleep", "t1"), RUNNING),
            (bash("PostToolUseFailure", "sleep", "t1", error="x", is_interrupt=True), CANCELLED),
        ],
    ),
    "claude: a prompt after a dialog that was left": (
        "claude",
        [
            (bash("PreToolUse", "rm", "t1"), RUNNING),
            (bash("PermissionRequest", "rm", None), WAITING),
            (claude("UserPromptSubmit", prompt="no, otherwise"), RUNNING),
        ],
    ),
    "claude: compaction in a turn and between turns": (
        "claude",
        [
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (claude("PreCompact", trigger="auto"), RUNNING),
            (claude("SubagentStop", agent_id="compact"), RUNNING),
            (claude("PostCompact", trigger="auto"), RUNNING),
            (claude("SessionStart", source="compact"), RUNNING),
            (claude("Stop", background_tasks=[]), COMPLETED),
            (claude("PreCompact", trigger="manual"), RUNNING),
            (claude("PostCompact", trigger="manual"), COMPLETED),
            (claude("SessionStart", source="compact"), COMPLETED),
        ],
    ),
    "claude: closed in a turn, resumed": (
        "claude",
        [
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (claude("SessionEnd", reason="prompt_input_exit"), CANCELLED),
            (claude("SessionStart", source="resume"), COMPLETED),
            (claude("UserPromptSubmit", prompt="on"), RUNNING),
        ],
    ),
    "codex: approval": (
        "codex",
        [
            (claude("SessionStart", source="startup"), None),
            (claude("UserPromptSubmit", prompt="go", turn_id="u"), RUNNING),
            (claude("PreToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="c1"), RUNNING),
            (
                claude("PermissionRequest", tool_name="Bash", tool_input={"command": "make", "description": "may I?"}),
                WAITING,
            ),
            (claude("PostToolUse", tool_name="Bash", tool_input={"command": "make"}, tool_use_id="c1"), RUNNING),
            (claude("Stop", last_assistant_message="done"), COMPLETED),
        ],
    ),
    "codex: a question of its own": (
        "codex",
        [
            (claude("UserPromptSubmit", prompt="go"), RUNNING),
            (claude("PreToolUse", tool_name="request_user_input", tool_input=QUESTION, tool_use_id="c2"), WAITING),
            (claude("PostToolUse", tool_name="request_user_input", tool_input=QUESTION, tool_use_id="c2"), RUNNING),
            (claude("Stop", last_assistant_message="done"), COMPLETED),
        ],
    ),
    "gemini: approval": (
        "gemini",
        [
            (gemini("SessionStart", source="startup"), COMPLETED),
            (gemini("BeforeAgent", prompt="go"), RUNNING),
            (gemini("PreCompress", trigger="auto"), RUNNING),
            (gemini("BeforeTool", **SHELL), RUNNING),
            (
                gemini("Notification", notification_type="ToolPermission", message="m", details={"title": "Run?"}),
                WAITING,
            ),
            (gemini("AfterTool", **SHELL, tool_response={"llmContent": "Output: ok"}), RUNNING),
            (gemini("AfterAgent", prompt="go", prompt_response="done"), COMPLETED),
            (gemini("SessionEnd", reason="exit"), COMPLETED),
            (gemini("SessionEnd", reason="exit"), COMPLETED),
        ],
    ),
    "gemini: a cancelled tool ends the turn without a word": (
        "gemini",
        [
            (gemini("BeforeAgent", prompt="go"), RUNNING),
            (gemini("BeforeTool", **SHELL), RUNNING),
            (gemini("AfterTool", **SHELL, tool_response={"llmContent": "Command was cancelled by user"}), CANCELLED),
        ],
    ),
    "gemini: no answer, and words that only look like an end": (
        "gemini",
        [
            (gemini("BeforeAgent", prompt="go"), RUNNING),
            (gemini("BeforeTool", **SHELL), RUNNING),
            (gemini("AfterTool", **SHELL, tool_response={"llmContent": "Output: the job was cancelled"}), RUNNING),
            (gemini("AfterAgent", prompt="go", prompt_response="[no response text]"), FAILED),
        ],
    ),
    "opencode: asked, answered, stopped, failed": (
        "opencode",
        [
            (gemini("session.created", title="T"), COMPLETED),
            (gemini("busy"), RUNNING),
            (gemini("tool.before", tool_name="bash", tool_input={"command": "make"}, tool_use_id="c1"), RUNNING),
            (
                gemini(
                    "permission.asked", ask="per_1", tool_name="bash", tool_input={"command": "make"}, tool_use_id="c1"
                ),
                WAITING,
            ),
            (gemini("busy"), WAITING),
            (gemini("permission.replied", ask="per_1", text="once"), RUNNING),
            (gemini("tool.after", tool_name="bash", tool_input={"command": "make"}, tool_use_id="c1"), RUNNING),
            (gemini("idle"), COMPLETED),
            (gemini("busy"), RUNNING),
            (gemini("session.error", error="MessageAbortedError"), CANCELLED),
            (gemini("idle"), CANCELLED),
            (gemini("busy"), RUNNING),
            (gemini("retry", text="retry 1: overloaded"), RUNNING),
            (gemini("session.error", error="APIError", text="boom"), FAILED),
            (gemini("idle"), FAILED),
        ],
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_hook_event_has_the_right_state(feed: Feed, name: str) -> None:
    feed.cli, steps = SCENARIOS[name]
    for number, (payload, expected) in enumerate(steps):
        feed.put(dict(payload))
        touched = frozenset({str(feed.spool / f"e.1.{feed.number:06}")})
        feed.read(touched)
        if expected is None:
            continue
        assert feed.truth().state == expected, (number, payload["hook_event_name"])
        fresh = Feed(feed.home, feed.tree, feed.cli, now=feed.now)
        fresh.read()
        assert fresh.truth() == feed.truth(), "who starts later comes to the same"


def test_the_detail_of_a_question_is_shown(feed: Feed) -> None:
    asked = feed.see(bash("PreToolUse", "make all", "t1"), bash("PermissionRequest", "make all", None))
    assert (asked.source, asked.detail, str(asked.tool)) == (
        "permission",
        "permission for Bash make all",
        "Bash make all",
    )
    question = feed.see(
        claude("UserPromptSubmit", prompt="x"),
        claude("PreToolUse", tool_name="AskUserQuestion", tool_input=QUESTION, tool_use_id="q"),
        claude("PermissionRequest", tool_name="AskUserQuestion", tool_input=QUESTION),
    )
    assert question.detail == "question: Which colour?"


def test_the_older_of_two_questions_is_shown(feed: Feed) -> None:
    feed.see(bash("PreToolUse", "one", "t1"), bash("PreToolUse", "two", "t2"))
    both = feed.see(bash("PermissionRequest", "one", None), bash("PermissionRequest", "two", None))
    assert both.detail == "permission for Bash one"


def test_a_session_that_is_resumed_is_not_over(feed: Feed) -> None:
    feed.see(claude("UserPromptSubmit", prompt="x"), claude("SessionEnd", reason="other"))
    assert feed.one().alive is False and feed.one().facts.ended_at
    feed.see(claude("SessionStart", source="resume"))
    assert feed.one().alive is None and feed.one().facts.ended_at is None


def test_hook_evidence_names_its_alternatives(feed: Feed) -> None:
    feed.see(claude("UserPromptSubmit", prompt="x"), bash("PreToolUse", "make", "t1"))
    (running,) = feed.one().evidence
    assert CANCELLED in running.or_else, "Esc fires no hook"
    feed.see(bash("PermissionRequest", "make", None))
    (asked,) = feed.one().evidence
    assert {RUNNING, CANCELLED} <= asked.or_else, "neither does the answer"
    feed.see(claude("Stop", background_tasks=[]))
    (over,) = feed.one().evidence
    assert not over.or_else


def test_facts_and_events_of_hooks(feed: Feed) -> None:
    feed.see(claude("SessionStart", source="startup", model="m-1", session_title="my task"))
    feed.put(claude("UserPromptSubmit", prompt="do it"), env="TMUX_PANE=%7\nZELLIJ_SESSION_NAME=z\nZELLIJ_PANE_ID=3\n")
    feed.put(claude("PreToolUse", tool_name="Edit", tool_input={"file_path": f"{feed.tree}/src/a.py"}, tool_use_id="e"))
    feed.put(
        claude("PostToolUse", tool_name="Edit", tool_input={"file_path": f"{feed.tree}/src/a.py"}, tool_use_id="e")
    )
    feed.put(bash("PreToolUse", "make", "t1"))
    feed.put(bash("PermissionRequest", "make", None))
    feed.put(claude("Stop", last_assistant_message="all done", background_tasks=[]))
    feed.put(claude("SessionEnd", reason="clear"))
    (seen,) = feed.read()
    facts = seen.facts
    assert (facts.model, facts.title, facts.prompt, facts.last_message) == ("m-1", "my task", "do it", "all done")
    assert (facts.tmux, facts.zellij, facts.files) == ("%7", "z:3", (f"{feed.tree}/src/a.py",))
    assert facts.started_at and facts.turn_at and facts.ended_at and seen.alive is False and seen.pid is None
    assert [one.kind for one in seen.events] == ["waits", "ended"], "what the transcript tells is not told twice"
    assert seen.events[0].id == "t1:waits", "the name that the transcript has for it, too"
    assert not feed.one().events, "news is told once"
    fresh = Feed(feed.home, feed.tree, now=feed.now)
    again = fresh.read()[0].events
    assert {one.id for one in seen.events} < {one.id for one in again}, "and another reader gives the same ids"


_EVENTS: list[Callable[[str], dict[str, Any]]] = [
    lambda n: claude("SessionStart", source="startup"),
    lambda n: claude("SessionStart", source="compact"),
    lambda n: claude("UserPromptSubmit", prompt=f"p{n}"),
    lambda n: claude("UserPromptSubmit", prompt=NOTE),
    lambda n: bash("PreToolUse", f"c{n}", f"t{n}"),
    lambda n: bash("PostToolUse", f"c{n}", f"t{n}"),
    lambda n: bash("PermissionRequest", f"c{n}", None),
    lambda n: bash("PreToolUse", f"c{n}", None),
    lambda n: bash("PostToolUse", f"c{n}", None),
    lambda n: bash("PreToolUse", f"c{n}", f"t{n}", agent_id="a"),
    lambda n: bash("PermissionRequest", f"c{n}", None, agent_id="a"),
    lambda n: claude("SubagentStart", agent_id="a"),
    lambda n: bash("PostToolUse", f"c{n}", f"t{n}", agent_id="a"),
    lambda n: claude("SubagentStop", agent_id="a"),
    lambda n: claude("Stop", last_assistant_message=f"m{n}", background_tasks=[]),
    lambda n: claude("Stop", background_tasks=TASK),
    lambda n: claude("StopFailure", error="e"),
    lambda n: claude("Notification", notification_type="idle_prompt"),
    lambda n: claude("Notification", notification_type="permission_prompt", message="?"),
    lambda n: claude("PreCompact", trigger="auto"),
    lambda n: claude("PostCompact", trigger="auto"),
    lambda n: claude("SessionEnd", reason="other"),
    lambda n: claude("Whatever"),
]


def _record(number: int, payload: dict[str, Any]) -> HookRecord:
    import json

    found = parse(f"e.{number:06}", number, b"imi-hook 1 claude 7\n\n" + json.dumps(payload).encode() + b"\nimi-end\n")
    assert found is not None
    return found


def _after(records: list[HookRecord]) -> HookReducer:
    reducer = HookReducer()
    for record in records:
        reducer.add(record)
    return reducer


@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(_EVENTS), st.sampled_from("12")), max_size=30))
@example([(_EVENTS[7], "1"), (_EVENTS[7], "2"), (_EVENTS[8], "1"), (_EVENTS[19], "1")])  # compacts behind a closed call
def test_needed_records_keep_the_result(events: list[tuple[Callable[[str], dict[str, Any]], str]]) -> None:
    """The needed records alone give the same state, now and after further records."""
    records = [_record(number, make(name)) for number, (make, name) in enumerate(events)]
    for end in range(len(records) + 1):
        whole = _after(records[:end])
        kept = [record for record in records[:end] if record.name in whole.needed()]
        assert evidence_of(_after(kept)) == evidence_of(whole)
        assert set(_after(kept).helpers) == set(whole.helpers)
        assert evidence_of(_after(kept + records[end:])) == evidence_of(_after(records))


_ANY = json_values()
_FIELDS = (
    "hook_event_name",
    "cwd",
    "tool_name",
    "tool_input",
    "tool_response",
    "prompt",
    "background_tasks",
    "agent_id",
    "notification_type",
    "message",
    "model",
    "source",
    "ask",
    "details",
    "is_interrupt",
    "error",
)


@settings(max_examples=300)
@given(
    st.sampled_from(["claude", "codex", "gemini", "opencode", "other"]),
    st.sampled_from(
        ["PreToolUse", "Stop", "Notification", "PermissionRequest", "AfterTool", "permission.asked", "SessionStart"]
    ),
    st.dictionaries(st.sampled_from(_FIELDS), _ANY, max_size=8),
)
def test_hook_fields_of_any_type_raise_nothing(cli: str, event: str, fields: dict[str, Any]) -> None:
    import json

    payload = json.dumps({"session_id": "s", "hook_event_name": event, **fields}).encode()
    record = parse("e.1", 5, f"imi-hook 1 {cli} 7\nhost=h\n\n".encode() + payload + b"\nimi-end\n")
    if record is not None:
        evidence_of(_after([record]))
