"""The format of Claude's transcripts, field by field: lines, tools and their targets, calls, tokens."""

from __future__ import annotations

from typing import Any

import pytest

from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.sources.agents.claude import records
from imi_monitor.sources.agents.claude.records import TokenCounter, TokenLedger, ToolCalls
from imi_monitor.sources.agents.foreign_files import WrittenFiles

AT = "2026-11-18T08:00:00.000000+00:00"


# -- lines ----------------------------------------------------------------------------------------------------------------


def test_an_attachment_is_recognised_by_the_first_bytes_of_its_line() -> None:
    for before in (0, 100, 186):
        line = b"x" * before + b'"attachment":{"type":"date"}'
        assert not records.matters(line), before
    assert records.matters(b"x" * 187 + b'"attachment":{"type":"date"}')
    assert records.matters(b'{"type":"user","attachment":null}')


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"type":"user"}', {"type": "user"}),
        (b'{"type":"us{"type":"user"}\n', {"type": "user"}),
        (b'{"type":"us{"parentUuid":null}', {"parentUuid": None}),
        (b'x{"type":"user"}', {"type": "user"}),
        (b'{"type":"us', None),
        (b'["{"type":"user"}"]', None),
        (b"[1]", None),
        (b"", None),
    ],
)
def test_a_record_is_found_behind_a_torn_one(line: bytes, record: dict[str, Any] | None) -> None:
    assert records.parse(line) == record


@pytest.mark.parametrize(
    ("value", "valid"),
    [("a-b_1", True), ("x" * 100, True), ("x" * 101, False), ("", False), ("a/b", False), ("a\n", False), (7, False)],
)
def test_a_session_id_is_a_file_name(value: object, valid: bool) -> None:
    assert records.session_id(value) == (value if valid else None)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (" words ", "words"),
        ([{"text": "a"}, {"type": "image"}, {"text": 7}, "b", {"text": "c"}], "a\nc"),
        ([{"text": "x" * 3000}, {"text": "y"}], "x" * 2000),
        ([], None),
        ({"text": "a"}, None),
        (None, None),
    ],
)
def test_the_text_of_a_message(content: object, text: str | None) -> None:
    assert records.text_of(content) == text


# -- tools ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "target"),
    [
        ("Edit", {"file_path": "/w/src/a.py"}, "src/a.py"),
        ("Edit", {"file_path": "/w2/a.py"}, "/w2/a.py"),
        ("Edit", {"file_path": "/w"}, "/w"),
        ("NotebookEdit", {"notebook_path": "/w/n.ipynb"}, "n.ipynb"),
        ("LS", {"path": "/w/src", "pattern": "*.py"}, "src"),
        ("Bash", {"command": "/w/run\nmake", "description": "builds"}, "/w/run"),
        ("Grep", {"pattern": "needle", "query": "x"}, "needle"),
        ("WebSearch", {"query": "words", "url": "u"}, "words"),
        ("WebFetch", {"url": "https://x", "prompt": "read it"}, "https://x"),
        ("Task", {"description": "look", "prompt": "look here"}, "look"),
        ("Skill", {"skill": "pdf", "subject": "s"}, "pdf"),
        ("TaskCreate", {"subject": "s", "task_id": "7"}, "s"),
        ("TaskStop", {"task_id": "7", "prompt": "p"}, "7"),
        ("Task", {"prompt": "look here"}, "look here"),
        ("Bash", {"command": "x" * 200}, "x" * 160),
        ("Bash", {"command": " ", "description": "builds"}, "builds"),
        ("Bash", {}, None),
        ("AskUserQuestion", {"questions": [{"question": "Which?"}]}, "Which?"),
        ("Bash", {"questions": [{"question": "Which?"}]}, None),
    ],
)
def test_the_target_of_a_call(name: str, arguments: dict[str, Any], target: str | None) -> None:
    for cwd in ("/w", "/w/"):
        tool = records.tool_of({"id": "t1", "name": name, "input": arguments}, cwd)
        assert tool == ToolCall(name, target, "t1")


def test_a_path_is_whole_while_the_folder_is_unknown() -> None:
    block = {"id": "t1", "name": "Edit", "input": {"file_path": "/w/a.py"}}
    assert records.tool_of(block, None).target == "/w/a.py"


def test_a_call_without_name_or_arguments() -> None:
    assert records.tool_of({}, None) == ToolCall("?", None, None)
    assert records.tool_of({"name": "x" * 90, "id": "t", "input": "words"}, None) == ToolCall("x" * 80, None, "t")


@pytest.mark.parametrize(
    ("questions", "text"),
    [
        ([{"question": "a"}, {"other": "x"}, "b", {"question": "c"}], "a; c"),
        ([{"question": "x" * 400}], "x" * 300),
        ([{"question": ""}], None),
        ([], None),
        (None, None),
    ],
)
def test_the_text_of_a_question(questions: object, text: str | None) -> None:
    assert records.question_of({"input": {"questions": questions}}) == text


@pytest.mark.parametrize("name", ["Write", "Edit", "MultiEdit", "NotebookEdit"])
@pytest.mark.parametrize("key", ["file_path", "notebook_path", "path"])
def test_the_tools_that_write_name_their_file(name: str, key: str) -> None:
    tool = ToolCall(name, None, "t")
    assert records.written_file(tool, {key: "/b"}, {}) == "/b"
    assert records.written_file(tool, {key: "/b"}, {"structuredPatch": []}) == "/b"
    assert records.written_file(tool, {key: "/b"}, {"structuredPatch": [], "filePath": "/a"}) == "/a"


# -- calls ----------------------------------------------------------------------------------------------------------------


def block(tool: str | None, name: str = "Bash", **arguments: object) -> dict[str, Any]:
    return {"id": tool, "name": name, "input": arguments}


def ended(tool: str | None, **more: object) -> dict[str, Any]:
    return {"tool_use_id": tool, "content": "out", **more}


def test_a_call_that_writes_a_file_is_told_with_the_file() -> None:
    files = WrittenFiles()
    calls = ToolCalls(files)
    calls.start(block("t1", "Edit", file_path="/w/a.py"), AT, "/w")
    tool = ToolCall("Edit", "a.py", "t1")
    assert calls.finish(ended("t1"), AT, None) == [
        AgentEvent("tool_finished", "t1:finished", AT, "out", tool, True, ("/w/a.py",))
    ]
    calls.start(block("t2", "Edit", file_path="/w/b.py"), AT, "/w")
    (failed,) = calls.finish(ended("t2", is_error=True), AT, {"filePath": "/w/b.py", "structuredPatch": []})
    assert (failed.ok, failed.files, tuple(files)) == (False, (), ("/w/a.py",)), "it wrote nothing"
    (unknown,) = calls.finish(ended("t3"), AT, {"filePath": "/w/c.py", "structuredPatch": []})
    assert (unknown.tool, unknown.files) == (ToolCall("?", None, "t3"), ("/w/c.py",))
    assert (tuple(files), calls.open) == (("/w/a.py", "/w/c.py"), {})


def test_calls_and_results_without_a_number_are_none() -> None:
    calls = ToolCalls(WrittenFiles())
    assert calls.start(block(None), AT, None) == calls.start(block(""), AT, None) == []
    assert calls.finish(ended(None), AT, {"backgroundTaskId": "b"}) == []
    assert (calls.open, calls.background) == ({}, {})


def test_no_more_than_two_hundred_calls_are_kept() -> None:
    calls = ToolCalls(WrittenFiles())
    for number in range(200):
        calls.start(block(f"t{number}"), AT, None)
        calls.finish(ended(f"r{number}"), AT, {"backgroundTaskId": f"b{number}"})
    assert (len(calls.open), len(calls.background)) == (200, 200)
    calls.start(block("new"), AT, None)
    calls.finish(ended("r"), AT, {"backgroundTaskId": "new"})
    assert [*calls.open] == [*(f"t{number}" for number in range(1, 200)), "new"]
    assert [*calls.background] == [*(f"b{number}" for number in range(1, 200)), "new"]


def test_an_interrupt_ends_all_open_calls() -> None:
    calls = ToolCalls(WrittenFiles())
    for tool in ("t1", "t2"):
        calls.start(block(tool, command="make"), AT, None)
    dropped = [("tool_finished", f"{tool}:finished", ToolCall("Bash", "make", tool), None) for tool in ("t1", "t2")]
    assert [(event.kind, event.id, event.tool, event.ok) for event in calls.drop("later")] == dropped
    assert (calls.open, calls.drop("later")) == ({}, [])


def test_a_background_task_is_the_call_that_started_it() -> None:
    calls = ToolCalls(WrittenFiles())
    calls.start(block("t1", command="npm run dev"), AT, None)
    calls.finish(ended("t1"), AT, {"backgroundTaskId": "b1"})
    calls.finish(ended("t2"), AT, {"backgroundTaskId": "b2"})
    calls.finish(ended("t3"), AT, {"other": "b3"})
    assert calls.background == {"b1": ToolCall("Bash", "npm run dev", "t1"), "b2": ToolCall("Bash", None, "t2")}
    older = ToolCalls(WrittenFiles())
    for task in ("b0", "b1"):
        older.finish(ended("t0"), AT, {"backgroundTaskId": task})
    calls.inherit(older)
    assert {task: tool.id for task, tool in calls.background.items()} == {"b0": "t0", "b1": "t1", "b2": "t2"}
    for words in ("<task-id>b1</task-id>", "<task-id>\nb2\n</task-id><task-id>b0</task-id>", "b0", ""):
        calls.end_background(words)
    assert [*calls.background] == ["b0"]


@pytest.mark.parametrize(
    ("name", "arguments", "kinds", "question"),
    [
        ("Bash", {}, ["tool_started"], None),
        ("AskUserQuestion", {"questions": [{"question": "Which?"}]}, ["tool_started", "waits"], "question: Which?"),
        ("AskUserQuestion", {}, ["tool_started", "waits"], "question"),
        ("ExitPlanMode", {"plan": "1. do it"}, ["tool_started", "plan", "waits"], "plan approval"),
    ],
)
def test_the_events_of_a_call(name: str, arguments: dict[str, Any], kinds: list[str], question: str | None) -> None:
    calls = ToolCalls(WrittenFiles())
    events = calls.start(block("t1", name, **arguments), AT, None)
    assert [event.kind for event in events] == kinds
    assert [event.id for event in events] == [f"t1:{kind.removeprefix('tool_')}" for kind in kinds]
    texts = {"tool_started": None, "plan": "1. do it", "waits": question}
    assert [event.text for event in events] == [texts[kind] for kind in kinds]
    assert calls.open["t1"].question == question
    after = [event.kind for event in calls.finish(ended("t1"), AT, None)]
    assert after == ["tool_finished", *(["answered"] if question else [])]


# -- tokens ---------------------------------------------------------------------------------------------------------------


def usage(fresh: object = 0, out: object = 0, cached: object = 0, created: object = 0) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "output_tokens": out,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": created,
    }


def test_the_tokens_of_a_message_and_of_the_context_window() -> None:
    counter = TokenCounter()
    counter.count(("m1", ""), usage(10, 5, 100, 1000))
    assert (counter.counted, counter.context) == ((1010, 5, 100), 1115)
    counter.count(("m2", ""), {"output_tokens": 7})
    assert (counter.counted, counter.context) == ((1010, 12, 100), 7)
    for nothing in ({}, usage(), usage(-1, True, "9", None)):
        counter.count(("m3", ""), nothing)
    assert (counter.counted, counter.context) == ((1010, 12, 100), 7), "no model wrote it"
    counter.count(("below", ""), usage(1, 1, 1), own_window=False)
    assert (counter.counted, counter.context) == ((1011, 13, 101), 7)


@pytest.mark.parametrize("one", [usage(1), usage(0, 1), usage(0, 0, 1), usage(0, 0, 0, 1)])
def test_one_token_of_any_kind_counts(one: dict[str, Any]) -> None:
    counter = TokenCounter()
    counter.count(("m", ""), one)
    assert sum(counter.counted) == 1 == counter.context


def test_a_message_counts_with_the_largest_of_each_of_its_counts() -> None:
    ledger = TokenLedger()
    counter = TokenCounter(ledger)
    for fresh, out, cached in ((10, 1, 100), (4, 9, 50), (12, 3, 101), (1, 1, 1)):
        counter.count(("m", "r"), usage(fresh, out, cached))
    assert counter.counted == ledger.counted == (12, 9, 101)


def test_a_message_counts_in_the_part_of_a_file_that_has_it_first() -> None:
    ledger = TokenLedger()
    first, second = TokenCounter(ledger), TokenCounter(ledger)
    first.count(("m", ""), usage(1))
    second.count(("m", ""), usage(5))
    second.count(("n", ""), usage(0, 2, 3))
    assert (first.counted, second.counted, ledger.counted) == ((1, 0, 0), (0, 2, 3), (1, 2, 3))
    assert second.context == 5, "its window has it in any case"
    first.count(("m", ""), usage(4))
    assert (first.counted, ledger.counted) == ((4, 0, 0), (4, 2, 3))
    ledger.remove(second)
    assert ledger.counted == (4, 0, 0)
    again = TokenCounter(ledger)
    again.count(("m", ""), usage(9, 9, 9))
    again.count(("n", ""), usage(0, 2, 3))
    assert (again.counted, ledger.counted) == ((0, 2, 3), (4, 2, 3)), "only what was taken out is counted anew"


def test_a_message_grows_as_long_as_it_is_one_of_the_last_512() -> None:
    counter = TokenCounter()
    for number in range(512):
        counter.count((f"m{number}", ""), usage(1))
    counter.count(("m0", ""), usage(2))
    assert counter.counted == (513, 0, 0)
    counter.count(("m512", ""), usage(1))
    counter.count(("m1", ""), usage(3))
    assert counter.counted == (516, 0, 0)
    counter.count(("m0", ""), usage(3))
    assert counter.counted == (516, 0, 0), "the oldest is forgotten, and stays as it was"


def test_rows_and_plans_of_other_types_are_none() -> None:
    assert records.rows([{"a": 1}, "b", [1], {}]) == [{"a": 1}, {}]
    assert records.rows("text") == records.rows(None) == []
    assert records.plan_of({"input": {"plan": " 1. do it "}}) == "1. do it"
    assert records.plan_of({"input": "plan"}) is None
