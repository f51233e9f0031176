"""One conversation of Claude Code, record by record: the state, its evidence, the events and the facts after each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PLANNING,
    RUNNING,
    WAITING,
    AgentEvent,
    Evidence,
    SessionFacts,
    ToolCall,
)
from imi_monitor.sources.agents.claude.reducer import ClaudeReducer

Record = dict[str, Any]
BASH = ToolCall("Bash", "make", "t1")
READ = ToolCall("Read", "a.py", "t2")


def at(second: int) -> str:
    return f"2026-11-18T08:00:{second:02d}.000000+00:00"


def user(content: Any, second: int = 0, **more: Any) -> Record:
    return {"type": "user", "uuid": f"u{second}", "timestamp": at(second), "message": {"content": content}, **more}


def result(tool: str, second: int, content: Any = "out", **more: Any) -> Record:
    block = {"type": "tool_result", "tool_use_id": tool, "content": content}
    return user([{**block, **{name: more.pop(name) for name in ("is_error",) if name in more}}], second, **more)


def answer(content: Any, second: int, stop: Any = None, message: str = "m", **more: Any) -> Record:
    inner = {"id": message, "model": "opus", "content": content, "stop_reason": stop}
    return {"type": "assistant", "uuid": f"a{second}", "timestamp": at(second), "message": inner, **more}


def call(tool: str, name: str, **arguments: Any) -> Record:
    return {"type": "tool_use", "id": tool, "name": name, "input": arguments}


def system(subtype: str, second: int, **more: Any) -> Record:
    return {"type": "system", "subtype": subtype, "uuid": f"s{second}", "timestamp": at(second), **more}


def fed(*records: Record, into: ClaudeReducer | None = None) -> ClaudeReducer:
    reducer = into or ClaudeReducer("x.jsonl")
    for record in records:
        reducer.add(json.dumps(record).encode(), "")
    return reducer


def state(reducer: ClaudeReducer) -> str | None:
    evidence = reducer.evidence()
    return evidence.state if evidence else None


def kinds(reducer: ClaudeReducer) -> list[tuple[str, str, str | None]]:
    return [(event.kind, event.id, event.text) for event in reducer.take_events()]


# -- before the first record, and lines that say nothing ----------------------------------------------------------------


def test_without_a_record_nothing_is_known() -> None:
    reducer = ClaudeReducer("x.jsonl")
    assert (reducer.evidence(), reducer.asking(), reducer.format_problem, reducer.take_events()) == (
        None,
        None,
        None,
        (),
    )
    assert (reducer.has_state, reducer.working, reducer.only_subagents) == (False, False, False)
    assert reducer.known_facts(None) == SessionFacts()
    reducer.inherit(ClaudeReducer("x.jsonl"))
    assert (reducer.evidence(), reducer.mode, reducer.cwd, reducer.at) == (None, None, None, None)


def test_a_record_without_a_time_has_that_of_its_line_or_of_the_line_before() -> None:
    title = json.dumps({"type": "summary", "summary": "s"}).encode()
    prompt = json.dumps({"type": "user", "message": {"content": "go"}}).encode()
    reducer = ClaudeReducer("x.jsonl")
    reducer.add(prompt, at(7))
    assert (reducer.at, kinds(reducer)) == (at(7), [("prompt", f"{at(7)}:prompt", "go")])
    reducer = ClaudeReducer("x.jsonl")
    reducer.add(title, at(5))
    reducer.add(prompt, "")
    assert (reducer.at, reducer.turn_at) == (at(5), at(5))
    reducer = ClaudeReducer("x.jsonl")
    reducer.add_record({"type": "user", "message": {"content": "go"}})
    assert (reducer.at, reducer.prompt) == ("", "go")


def test_a_record_without_a_time_is_as_late_as_the_one_before() -> None:
    reducer = fed(user("go", 3))
    reducer.add(
        json.dumps({"type": "assistant", "message": {"content": "y", "stop_reason": "end_turn"}}).encode(), at(9)
    )
    evidence = reducer.evidence()
    assert evidence is not None and (evidence.state, evidence.at) == (COMPLETED, at(3))


def test_torn_lines_are_told_from_the_third_on() -> None:
    reducer = ClaudeReducer("x.jsonl")
    for _ in range(5):
        reducer.add(b'{"type":"mode","torn', at(0))
    assert reducer.format_problem is None, "no line of this kind matters"
    for number in (1, 2, 3):
        reducer.add(b"{torn", at(0))
        assert reducer.format_problem == (None if number < 3 else "3 lines that cannot be read")


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"type": "oracle", "uuid": "u", "message": {}}, "a record of the kind 'oracle'"),
        ({"type": "o" * 50, "uuid": "u", "message": {}}, f"a record of the kind '{'o' * 40}'"),
        ({"type": ["user"], "uuid": "u", "message": {}}, "a record of the kind \"['user']\""),
        ({"uuid": "u", "message": {}}, "a record of the kind 'None'"),
        ({"type": "progress", "uuid": "u", "message": {}}, None),
        ({"type": "oracle", "message": {}}, None),
        ({"type": "oracle", "uuid": "u"}, None),
        ({"type": "user", "uuid": "u"}, "a user record without a message"),
        ({"type": "assistant", "uuid": "u", "message": "text"}, "an assistant record without a message"),
    ],
)
def test_what_is_unknown_in_the_conversation_is_told(record: Record, problem: str | None) -> None:
    reducer = fed(user("go"), {"filler": 1, **record})
    assert (reducer.format_problem, state(reducer)) == (problem, RUNNING)


def test_records_of_a_subagent_in_the_sessions_file_only_count_their_tokens() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    below = answer("said below", 9, "end_turn", message="below", isSidechain=True)
    below["message"]["usage"] = usage
    own = answer("said here", 3, "tool_use", message="own")
    own["message"]["usage"] = {"input_tokens": 100, "output_tokens": 1}
    reducer = fed(user("go", 1), own, below)
    assert (reducer.tokens.counted, reducer.tokens.context) == ((110, 6, 0), 101)
    assert (reducer.last_message, reducer.at, state(reducer)) == ("said here", at(3), RUNNING)
    subagent = fed(below, into=ClaudeReducer("x.jsonl", subagent=True))
    assert (subagent.last_message, state(subagent)) == ("said below", COMPLETED)
    assert state(fed(own, into=ClaudeReducer("x.jsonl", subagent=True))) is None
    assert state(fed({**below, "isSidechain": "true"})) == COMPLETED, "only True marks a subagent"


def test_version_folder_and_branch_are_those_of_the_last_record_that_names_them() -> None:
    reducer = fed(user("go", 1, version="2.1", cwd="/a", gitBranch="main"))
    assert (reducer.version, reducer.cwd, reducer.branch) == ("2.1", "/a", "main")
    fed(user("go", 2, version="2.2"), user("go", 3, cwd="/b"), user("go", 4, gitBranch="feat/x"), into=reducer)
    assert (reducer.version, reducer.cwd, reducer.branch) == ("2.2", "/b", "feat/x")
    fed(user("go", 5, version=7, cwd=" ", gitBranch=""), into=reducer)
    assert (reducer.version, reducer.cwd, reducer.branch) == ("2.2", "/b", "feat/x")


# -- prompts --------------------------------------------------------------------------------------------------------------


def test_a_prompt_begins_a_turn_that_may_have_been_cancelled() -> None:
    reducer = fed(user("go", 2, permissionMode="default"))
    assert reducer.evidence() == Evidence(
        "transcript", RUNNING, at(2), "x.jsonl ends with a prompt: the model has it now", or_else=frozenset({CANCELLED})
    )
    assert reducer.take_events() == (AgentEvent("prompt", "u2:prompt", at(2), "go"),)
    assert (reducer.prompt, reducer.turn_at, reducer.mode) == ("go", at(2), "default")
    assert (reducer.has_state, reducer.working) == (True, True)


@pytest.mark.parametrize(
    ("content", "more", "prompt"),
    [
        ("go", {}, ["go"]),
        ("go", {"isMeta": True}, []),
        ("go", {"isCompactSummary": True}, []),
        ("go", {"isMeta": "true", "isCompactSummary": 1}, ["go"]),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], {}, ["one\ntwo"]),
        ([{"type": "image"}], {}, [None]),
        ([], {}, []),
        (None, {}, []),
        ("<command-name>/model</command-name>", {}, []),
        ("<local-command-stdout>x</local-command-stdout>", {}, []),
        ("<bash-input>ls</bash-input>", {}, []),
        ("<system-reminder>x</system-reminder>", {}, []),
        ("see <bash-input>", {}, ["see <bash-input>"]),
        ("<command-message>review", {}, []),
        ("<command-message>review", {"permissionMode": "default"}, ["<command-message>review"]),
        ("<command-message>review", {"promptSource": "typed"}, ["<command-message>review"]),
    ],
)
def test_which_records_of_the_user_are_prompts(content: Any, more: Record, prompt: list[str | None]) -> None:
    reducer = fed(user(content, 1, **more))
    assert [event.text for event in reducer.take_events()] == prompt
    assert (state(reducer), reducer.turn_at) == ((RUNNING, at(1)) if prompt else (None, None))


def test_a_prompt_drops_a_call_whose_result_was_lost_and_keeps_the_mode() -> None:
    reducer = fed(
        user("go", 1, permissionMode="plan"),
        answer([call("t1", "Bash", command="make")], 2, "tool_use"),
        user("go on", 3),
    )
    evidence = reducer.evidence()
    assert evidence is not None
    assert (evidence.state, evidence.tool, reducer.mode, reducer.asking()) == (PLANNING, None, "plan", None)


def test_the_end_of_a_background_task_begins_a_turn_without_a_prompt() -> None:
    words = "<task-notification>\n<task-id> b1 </task-id>\n<status>completed</status></task-notification>"
    reducer = fed(
        user("serve", 1),
        answer([call("t1", "Bash", command="npm run dev")], 2, "tool_use"),
        result("t1", 3, toolUseResult={"backgroundTaskId": "b1"}),
        answer("It runs.", 4, "end_turn", message="m2"),
    )
    evidence = reducer.evidence()
    assert evidence is not None and (evidence.state, evidence.or_else) == (COMPLETED, frozenset({RUNNING}))
    reducer.take_events()
    fed(user(words, 5, permissionMode="plan"), into=reducer)
    evidence = reducer.evidence()
    assert evidence is not None
    assert (evidence.state, evidence.at, evidence.or_else) == (PLANNING, at(5), frozenset({CANCELLED}))
    assert evidence.says == "x.jsonl ends with the end of a background task: the model has it now"
    assert (reducer.prompt, reducer.turn_at, reducer.take_events()) == ("serve", at(5), ())
    evidence = fed(answer("Over.", 6, "end_turn", message="m3"), into=reducer).evidence()
    assert evidence is not None and (evidence.state, evidence.or_else) == (COMPLETED, frozenset())


def test_a_cancelled_turn_is_over_although_a_background_task_runs() -> None:
    reducer = fed(
        user("serve", 1),
        answer([call("t1", "Bash", command="npm run dev")], 2, "tool_use"),
        result("t1", 3, toolUseResult={"backgroundTaskId": "b1"}),
        user("[Request interrupted by user]", 4),
    )
    evidence = reducer.evidence()
    assert evidence is not None and (evidence.state, evidence.or_else) == (CANCELLED, frozenset())
    assert [*reducer.calls.background] == ["b1"]


@pytest.mark.parametrize(
    ("content", "ended"),
    [
        ("<task-notification><task-id>b1</task-id></task-notification>", True),
        ("<task-notification><task-id>b2</task-id></task-notification>", False),
        ("text <task-notification><task-id>b1</task-id>", False),
        (["<task-notification>"], False),
        (None, False),
    ],
)
def test_a_notification_in_the_queue_ends_its_background_task(content: Any, ended: bool) -> None:
    reducer = fed(
        user("serve", 1),
        answer([call("t1", "Bash", command="npm run dev")], 2, "tool_use"),
        result("t1", 3, toolUseResult={"backgroundTaskId": "b1"}),
        answer("It runs.", 4, "end_turn", message="m2"),
        {"type": "queue-operation", "timestamp": at(5), "content": content},
    )
    evidence = reducer.evidence()
    assert evidence is not None
    assert (evidence.state, evidence.at) == (COMPLETED, at(4)), "the queue is not the conversation"
    assert (reducer.calls.background == {}, evidence.or_else == frozenset()) == (ended, ended)


def test_an_interrupt_ends_the_turn_and_its_calls() -> None:
    reducer = fed(user("go", 1), answer([call("t1", "Bash", command="make")], 2, "tool_use"))
    reducer.take_events()
    fed(user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], 3), into=reducer)
    assert reducer.evidence() == Evidence(
        "transcript", CANCELLED, at(3), "x.jsonl ends with an interrupt by the person", "interrupted by the person"
    )
    assert reducer.take_events() == (
        AgentEvent("tool_finished", "t1:finished", at(3), None, BASH, None),
        AgentEvent("cancelled", "u3:cancelled", at(3)),
    )
    assert (reducer.working, reducer.asking(), reducer.prompt) == (False, None, "go")


# -- calls ----------------------------------------------------------------------------------------------------------------


def test_an_open_call_runs_or_waits_for_permission() -> None:
    reducer = fed(
        user("go", 1, cwd="/w"),
        answer([call("t1", "Bash", command="make"), call("t2", "Read", file_path="/w/a.py")], 2, "tool_use"),
    )
    says = "x.jsonl ends with a call of {}, without a result yet"
    newest = Evidence("transcript", RUNNING, at(2), says.format("Read a.py"), None, READ, or_else=frozenset({WAITING}))
    assert reducer.evidence() == newest
    asked = reducer.evidence(asked=True)
    assert asked is not None and (asked.tool, asked.says) == (BASH, says.format("Bash make")), "the first one asks"
    open_call = reducer.asking()
    assert open_call is not None and open_call.tool == BASH
    plans = fed({"type": "permission-mode", "permissionMode": "plan"}, into=reducer).evidence()
    assert plans is not None and (plans.state, plans.tool, plans.or_else) == (PLANNING, READ, frozenset({WAITING}))


def test_the_result_of_a_call_gives_the_turn_back_to_the_model() -> None:
    reducer = fed(user("go", 1), answer([call("t1", "Bash", command="make")], 2, "tool_use"))
    assert kinds(reducer) == [("prompt", "u1:prompt", "go"), ("tool_started", "t1:started", None)]
    fed(result("t1", 3, [{"type": "text", "text": "built"}]), into=reducer)
    assert reducer.evidence() == Evidence(
        "transcript", RUNNING, at(3), "x.jsonl ends with the result of a tool: the model has it now"
    )
    assert reducer.take_events() == (AgentEvent("tool_finished", "t1:finished", at(3), "built", BASH, True),)
    fed(result("t9", 4, is_error=True), result("t8", 5), into=reducer)
    assert reducer.take_events() == tuple(
        AgentEvent("tool_finished", f"{tool}:finished", at(second), "out", ToolCall("?", None, tool), ok)
        for tool, second, ok in (("t9", 4, False), ("t8", 5, True))
    ), "results of calls that were not read"


def test_of_several_results_in_a_record_each_ends_its_call() -> None:
    reducer = fed(
        user("go", 1), answer([call("t1", "Bash", command="make"), call("t2", "Read", path="a.py")], 2, "tool_use")
    )
    reducer.take_events()
    blocks = [{"type": "tool_result", "tool_use_id": tool, "content": tool} for tool in ("t1", "t2")]
    fed(user([{"type": "text", "text": "beside"}, *blocks], 3), into=reducer)
    assert kinds(reducer) == [("tool_finished", "t1:finished", "t1"), ("tool_finished", "t2:finished", "t2")]
    assert reducer.asking() is None


@pytest.mark.parametrize(
    ("tool", "more", "mode"),
    [
        ("EnterPlanMode", {}, "plan"),
        ("EnterPlanMode", {"is_error": True}, "start"),
        ("EnterPlanMode", {"is_error": "true"}, "plan"),
        ("ExitPlanMode", {}, "default"),
        ("ExitPlanMode", {"is_error": True}, "start"),
        ("Bash", {}, "start"),
        ("Bash", {"toolUseResult": {"plan": "1. do it"}}, "default"),
        ("Bash", {"toolUseResult": {"plan": "1. do it"}, "is_error": True}, "start"),
        ("Bash", {"toolUseResult": "plan"}, "start"),
    ],
)
def test_the_mode_after_the_result_of_a_tool(tool: str, more: Record, mode: str) -> None:
    reducer = fed(
        user("go", 1, permissionMode="start"), answer([call("t1", tool)], 2, "tool_use"), result("t1", 3, **more)
    )
    assert reducer.mode == mode


def test_a_question_and_a_plan_wait_for_the_person() -> None:
    asks = call("t1", "AskUserQuestion", questions=[{"question": "Which?"}, {"question": "When?"}])
    reducer = fed(user("go", 1), answer([asks], 2, "tool_use"))
    tool = ToolCall("AskUserQuestion", "Which?; When?", "t1")
    words = "question: Which?; When?"
    assert reducer.evidence() == Evidence(
        "transcript", WAITING, at(2), "x.jsonl ends with AskUserQuestion, not answered yet", words, tool
    )
    assert reducer.take_events()[1:] == (
        AgentEvent("tool_started", "t1:started", at(2), None, tool),
        AgentEvent("waits", "t1:waits", at(2), words, tool),
    )
    fed(result("t1", 3, "this"), into=reducer)
    assert reducer.take_events() == (
        AgentEvent("tool_finished", "t1:finished", at(3), "this", tool, True),
        AgentEvent("answered", "t1:answered", at(3), "this", tool, True),
    )
    fed(answer([call("t3", "ExitPlanMode", plan="1. do it")], 4, "tool_use", message="m2"), into=reducer)
    evidence = reducer.evidence()
    assert evidence is not None and (evidence.state, evidence.detail) == (WAITING, "plan approval")
    assert kinds(reducer) == [
        ("tool_started", "t3:started", None),
        ("plan", "t3:plan", "1. do it"),
        ("waits", "t3:waits", "plan approval"),
    ]


def test_a_call_that_ends_its_turn_is_not_waited_for() -> None:
    reducer = fed(user("go", 1), answer([call("t1", "Bash", command="make")], 2, "end_turn"))
    evidence = reducer.evidence()
    assert evidence is not None and (evidence.state, evidence.tool, reducer.asking()) == (COMPLETED, None, None)


# -- answers of the model -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "expected", "detail", "or_else"),
    [
        ("end_turn", COMPLETED, None, ()),
        ("stop_sequence", COMPLETED, None, ()),
        ("max_tokens", COMPLETED, "its answer was cut at the limit of tokens", ()),
        ("refusal", FAILED, "the model refused to answer", ()),
        ("model_context_window_exceeded", FAILED, "the context window is full", ()),
        ("tool_use", RUNNING, None, ()),
        ("a reason of tomorrow", RUNNING, None, ()),
        (["end_turn"], RUNNING, None, ()),
        (None, RUNNING, None, (COMPLETED, CANCELLED)),
    ],
)
def test_the_reason_for_which_a_message_stops(stop: Any, expected: str, detail: str | None, or_else: Any) -> None:
    reducer = fed(user("go", 1))
    reducer.take_events()
    fed(answer("words", 2, stop, requestId="r"), into=reducer)
    ended = expected != RUNNING
    says = f"a message that ends its turn ({stop})" if ended else "a message that is not the last of its turn"
    assert reducer.evidence() == Evidence(
        "transcript", expected, at(2), f"x.jsonl ends with {says}", detail, or_else=frozenset(or_else)
    )
    message = AgentEvent("message", "a2:message", at(2), "words")
    end = (AgentEvent(expected, f"m:r:{expected}", at(2), detail),) if ended else ()
    assert reducer.take_events() == (message, *end)
    assert (reducer.last_message, reducer.model) == ("words", "opus")


def test_only_the_programs_own_tools_are_calls() -> None:
    other = {**call("t1", "web_search"), "type": "server_tool_use"}
    reducer = fed(user("go", 1), answer([other, call("t2", "Bash", command="make")], 2, "tool_use"))
    assert [*reducer.calls.open] == ["t2"]
    assert [event.kind for event in reducer.take_events()] == ["prompt", "tool_started"]


def test_a_message_with_open_calls_is_not_the_last() -> None:
    reducer = fed(user("go", 1), answer([call("t1", "Bash", command="make")], 2), result("t1", 3))
    fed(answer("and", 4, message="m2"), into=reducer)
    evidence = reducer.evidence()
    assert evidence is not None and evidence.or_else == {COMPLETED, CANCELLED}
    reducer = fed(user("go", 1), answer([call("t1", "Bash", command="make")], 2), answer("beside", 3))
    reducer.calls.open.clear()
    evidence = reducer.evidence()
    assert evidence is not None and evidence.or_else == frozenset()


def test_calls_of_one_message_stay_open_together_and_the_next_message_drops_them() -> None:
    first = [answer([call(f"t{number}", "Bash", command="make")], number, "tool_use") for number in (1, 2)]
    reducer = fed(user("go"), *first)
    assert [*reducer.calls.open] == ["t1", "t2"]
    fed(answer([call("t3", "Bash")], 3, "tool_use", requestId="another"), into=reducer)
    assert [*reducer.calls.open] == ["t3"]
    fed(answer([], 4, "tool_use", message="m2"), into=reducer)
    assert reducer.calls.open == {}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"requestId": "r"}, {"requestId": "r"}, True),
        ({"requestId": "r"}, {"requestId": "s"}, False),
        ({"requestRef": "r"}, {"requestRef": "s"}, False),
        ({"requestId": "r", "requestRef": "x"}, {"requestId": "r", "requestRef": "y"}, True),
        ({}, {}, True),
        ({"requestId": 7}, {"requestId": 8}, True),
    ],
)
def test_a_message_is_known_by_its_number_and_its_request(first: Record, second: Record, same: bool) -> None:
    messages = [answer([], number, "tool_use", **more) for number, more in enumerate((first, second))]
    for one in messages:
        one["message"]["usage"] = {"input_tokens": 10}
    assert fed(*messages).tokens.counted == (10 if same else 20, 0, 0)


def test_a_message_without_a_number_is_known_by_its_record() -> None:
    messages = [answer([], number, "tool_use", message="") for number in (1, 2)]
    for one in messages:
        one["message"]["usage"] = {"input_tokens": 10}
    assert fed(*messages, messages[1]).tokens.counted == (20, 0, 0)


def test_a_placeholder_of_the_program_is_no_answer() -> None:
    placeholder = answer("No response requested.", 2, "end_turn")
    placeholder["message"]["model"] = "<synthetic>"
    reducer = fed(user("go", 1), placeholder)
    assert (state(reducer), reducer.model, reducer.last_message) == (RUNNING, None, None)
    reducer = fed(answer("a", 1), placeholder)
    assert (reducer.model, reducer.last_message) == ("opus", "a")
    without = answer("b", 3)
    del without["message"]["model"]
    assert fed(without, into=reducer).model == "opus", "the model is still the one that was named last"


def test_an_error_of_the_server_fails_the_turn_and_drops_its_calls() -> None:
    reducer = fed(user("go", 1), answer([call("t1", "Bash", command="make")], 2, "tool_use"))
    reducer.take_events()
    words = "API Error: " + "x" * 400
    fed(answer([{"type": "text", "text": words}], 3, isApiErrorMessage=True), into=reducer)
    assert reducer.evidence() == Evidence(
        "transcript", FAILED, at(3), "x.jsonl ends with an error of the model's server", words[:300]
    )
    assert reducer.take_events() == (AgentEvent("failed", "a3:failed", at(3), words),)
    assert (reducer.last_message, reducer.working, reducer.calls.open) == (None, False, {})
    assert state(fed(answer("y", 4, "end_turn", isApiErrorMessage="true"), into=reducer)) == COMPLETED


# -- records of the program -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({}, "retrying"),
        ({"retryAttempt": 1, "maxRetries": 10}, "retrying 1/10"),
        ({"retryAttempt": 0, "maxRetries": 0}, "retrying 0/0"),
        ({"retryAttempt": 1}, "retrying"),
        ({"maxRetries": 10}, "retrying"),
        ({"error": {"message": "down"}}, "retrying: down"),
        ({"retryAttempt": 2, "maxRetries": 3, "error": {"formatted": "529", "message": "x"}}, "retrying 2/3: 529"),
    ],
)
def test_the_model_is_asked_again_after_an_error(error: Record, words: str) -> None:
    says = "x.jsonl ends with an error of the model's server, which is asked again"
    assert fed(user("go", 1), system("api_error", 2, **error)).evidence() == Evidence(
        "transcript", RUNNING, at(2), says, words, or_else=frozenset({CANCELLED})
    )


def test_the_program_says_that_a_turn_is_over() -> None:
    over = system("turn_duration", 3)
    reducer = fed(user("go", 1), answer([call("t1", "Bash", command="make")], 2), over)
    assert reducer.evidence() == Evidence("transcript", COMPLETED, at(3), "x.jsonl says that its turn is over")
    assert reducer.calls.open == {}
    failed = fed(user("go", 1), answer("no", 2, isApiErrorMessage=True), over)
    assert state(failed) == FAILED, "a turn that failed is over already"
    assert state(fed(over)) is None
    other = fed(user("go", 1), system("a subtype of tomorrow", 3))
    assert (state(other), [event.kind for event in other.take_events()]) == (RUNNING, ["prompt"])


@pytest.mark.parametrize(
    ("pending", "words"),
    [(1, "a subagent works in the background"), (3, "3 subagents work in the background"), (0, None), ("2", None)],
)
def test_a_turn_is_not_over_while_subagents_work(pending: Any, words: str | None) -> None:
    reducer = fed(user("go", 1), system("turn_duration", 2, pendingBackgroundAgentCount=pending))
    evidence = reducer.evidence()
    assert evidence is not None
    assert (evidence.detail, reducer.only_subagents, evidence.or_else) == (words, words is not None, frozenset())
    assert evidence.state == (RUNNING if words else COMPLETED)
    if words:
        assert evidence.says == "x.jsonl says that its turn is over while subagents work"
    assert not fed(user("more", 3), into=reducer).only_subagents


def test_a_compaction_is_told_and_empties_the_context_window() -> None:
    said = answer("y", 2, "end_turn")
    said["message"]["usage"] = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100}
    reducer = fed(user("go", 1), said)
    assert reducer.known_facts(None).context_used == 115
    reducer.take_events()
    fed(system("compact_boundary", 3), into=reducer)
    assert reducer.take_events() == (AgentEvent("compacted", "s3:compacted", at(3)),)
    assert (reducer.known_facts((1, 2, 3)).context_used, state(reducer)) == (None, COMPLETED)


@pytest.mark.parametrize(
    ("cost", "expected"), [(0.25, 0.25), (2, 2.0), (0, 0.0), (True, None), ("1", None), (None, None)]
)
def test_the_cost_is_a_number(cost: Any, expected: float | None) -> None:
    reducer = fed({"type": "cost-state", "totalCostUSD": cost})
    assert reducer.cost == expected and isinstance(reducer.cost, float | None)
    reducer.cost = 7.0
    assert fed({"type": "cost-state", "totalCostUSD": cost}, into=reducer).cost == (
        7.0 if expected is None else expected
    )


@pytest.mark.parametrize(
    ("times", "ended"),
    [
        ({"startTime": 1_794_988_800_000, "totalDuration": 20_000}, "2026-11-18T08:00:20.000000+00:00"),
        ({"startTime": 1_794_988_800_000, "totalDuration": 0}, at(0)),
        ({"startTime": 1_794_988_800_000}, at(4)),
        ({"totalDuration": 20_000}, at(4)),
        ({}, at(4)),
    ],
)
def test_a_closed_session_has_ended_until_it_goes_on(times: Record, ended: str) -> None:
    reducer = fed(user("go", 4), {"type": "cost-state", "timestamp": at(50), **times})
    assert (reducer.ended_at, reducer.at) == (ended, at(4)), "the totals are not part of the conversation"
    assert fed({"type": "custom-title", "customTitle": "t", "timestamp": at(51)}, into=reducer).ended_at == ended
    assert fed(user("more", 52), into=reducer).ended_at is None


def test_the_title_is_kept_when_a_record_has_none() -> None:
    reducer = fed({"type": "ai-title", "aiTitle": "ai"})
    assert reducer.title == "ai"
    assert fed({"type": "ai-title", "aiTitle": ""}, {"type": "summary"}, into=reducer).title == "ai"
    assert fed({"type": "custom-title", "customTitle": "mine", "summary": "s"}, into=reducer).title == "mine"


@pytest.mark.parametrize("mode", ["", None, 7])
def test_a_mode_that_cannot_be_read_changes_nothing(mode: Any) -> None:
    reducer = fed(user("go", 1, permissionMode="plan"), {"type": "permission-mode", "permissionMode": mode})
    assert (reducer.mode, state(reducer)) == ("plan", PLANNING)
    assert fed(user("go", 2, permissionMode=mode), into=reducer).mode == "plan"


# -- the older part of a file ---------------------------------------------------------------------------------------------


def test_what_the_newer_part_says_stands_before_the_older() -> None:
    older = fed(
        user("old", 1, cwd="/old", permissionMode="plan"), answer([call("t1", "Bash", command="make")], 2, "tool_use")
    )
    newer = fed(user("new", 5, cwd="/new", permissionMode="default"), answer("y", 6, "end_turn"))
    shown = newer.evidence()
    newer.inherit(older)
    assert (newer.mode, newer.cwd, newer.at, newer.prompt) == ("default", "/new", at(6), "new")
    assert (newer.evidence(), newer.calls.open, newer.working) == (shown, {}, False)
    assert newer.older_tokens is older.tokens


def test_the_older_part_has_the_state_if_the_newer_has_none() -> None:
    older = fed(user("old", 1, cwd="/old", permissionMode="plan"), answer([call("t1", "Bash", command="make")], 2))
    older.add(b"{torn", "")
    newer = fed({"type": "summary", "summary": "s"})
    for _ in range(2):
        newer.add(b"{torn", "")
    newer.inherit(older)
    assert newer.evidence() == older.evidence() is not None
    assert (newer.mode, newer.cwd, newer.at) == ("plan", "/old", at(2))
    assert newer.asking() == older.asking() is not None
    assert newer.format_problem == "3 lines that cannot be read", "those of both parts"


def test_a_retry_in_the_older_part_may_have_been_cancelled() -> None:
    older = fed(user("old", 1), system("api_error", 2, retryAttempt=1, maxRetries=10))
    newer = fed({"type": "summary", "summary": "s"})
    newer.inherit(older)
    evidence = newer.evidence()
    assert evidence == older.evidence() and evidence is not None and evidence.or_else == {CANCELLED}


def test_a_background_task_of_the_older_part_may_still_run() -> None:
    started = [
        answer([call("t1", "Bash", command="npm run dev")], 2, "tool_use"),
        result("t1", 3, toolUseResult={"backgroundTaskId": "b1"}),
    ]
    older, newer = fed(user("serve", 1), *started), fed(answer("It runs.", 4, "end_turn", message="m2"))
    newer.inherit(older)
    evidence = newer.evidence()
    assert evidence is not None and (evidence.state, evidence.or_else) == (COMPLETED, frozenset({RUNNING}))
