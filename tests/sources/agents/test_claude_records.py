"""Claude's records: facts, events and tokens of a session, and values of any kind in any field."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model import times
from imi_monitor.model.agent import CANCELLED, COMPLETED, PLANNING, RESTING, RUNNING, STATES, WAITING, ToolCall
from imi_monitor.sources.agents.claude.live_registry import entry_of
from imi_monitor.sources.agents.claude.records import choices_of, matters, written_file
from imi_monitor.sources.agents.claude.reducer import ClaudeReducer
from imi_monitor.sources.agents.claude.transcript import Transcript
from tests.json_values import json_values
from tests.sources.agents.claude_kit import Scene
from tests.sources.agents.fakes.claude import Claude
from tests.sources.agents.test_claude_scenarios import SCENARIOS

# -- what is learnt ---------------------------------------------------------------------------------------------------


def test_the_facts_of_a_session(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("make it so")
    scene.wait(2)
    claude.say("First.")
    claude.tool("Edit", file_path=f"{claude.cwd}/src/api.ts")
    claude.result()
    claude.tool("Write", file_path=f"{claude.cwd}/refused.txt")
    claude.result("no", ok=False)
    claude.tool("Read", file_path="/etc/hosts")
    claude.result("127.0.0.1")
    claude.finish("All done.")
    facts = scene.agent().facts
    assert facts.version == "2.1.326"
    assert facts.model == "claude-opus-5-5"
    assert facts.branch == "feat/one"
    assert facts.prompt == "make it so"
    assert facts.last_message == "All done."
    assert facts.files == (f"{claude.cwd}/src/api.ts",), "what was refused or only read was not written"
    assert facts.started_at == "2026-11-18T07:35:15.000000+00:00"
    assert facts.turn_at == "2026-11-18T07:35:15.000000+00:00"
    assert facts.title == "wt-88"
    assert facts.format_note is None


def test_tokens_are_counted_once_a_message(scene: Scene) -> None:
    claude = scene.claude()
    claude.prompt("x")
    claude.say("one message")
    claude.tool("Bash", command="true")  # the same message, the same usage
    claude.result()
    claude.finish("another")
    facts = scene.agent().facts
    assert (facts.tokens_in, facts.tokens_out, facts.tokens_cached) == (1010 + 1020 + 400, 84, 6000)
    assert facts.context_used == 1020 + 200 + 3000 + 42


def test_a_message_number_that_comes_again_in_another_request_is_another_message() -> None:
    reducer = ClaudeReducer("x.jsonl")
    for request in ("a", "b", "b"):
        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {"id": "m", "model": "claude", "content": [], "usage": usage}
        reducer.add(json.dumps({"type": "assistant", "message": message, "requestId": request}).encode(), BEGINNING)
    assert reducer.tokens.counted == (20, 2, 0)


@pytest.mark.parametrize(
    ("words", "error", "shown"),
    [
        ("API Error: 529", "overloaded", "API Error: 529"),
        (None, "overloaded", "overloaded"),
        (None, None, "the model could not be asked"),
    ],
)
def test_an_error_of_the_models_server_is_told_in_the_best_words(
    words: str | None, error: str | None, shown: str
) -> None:
    reducer = ClaudeReducer("x.jsonl")
    content = [] if words is None else [{"type": "text", "text": words}]
    record = {"type": "assistant", "message": {"content": content}, "isApiErrorMessage": True, "error": error}
    reducer.add(json.dumps(record).encode(), BEGINNING)
    assert [(event.kind, event.text) for event in reducer.take_events()] == [("failed", shown)]
    evidence = reducer.evidence()
    assert evidence is not None and (evidence.state, evidence.detail) == ("failed", shown)


def test_a_title_is_the_users_before_the_programs() -> None:
    reducer = ClaudeReducer("x.jsonl")
    titles = []
    for record in ({"summary": "s"}, {"aiTitle": "ai", "summary": "t"}, {"customTitle": "mine", "aiTitle": "ai"}, {}):
        kind = "custom-title" if "customTitle" in record else "ai-title" if "aiTitle" in record else "summary"
        reducer.add(json.dumps({"type": kind, **record}).encode(), BEGINNING)
        titles.append(reducer.title)
    assert titles == ["s", "ai", "mine", "mine"]


def test_the_end_of_a_turn_is_completed_unless_subagents_work() -> None:
    reducer = ClaudeReducer("x.jsonl")
    states = []
    for pending in (2, 1, 0):
        prompt = {"type": "user", "uuid": "u", "timestamp": BEGINNING, "message": {"content": "go"}}
        over = {"type": "system", "subtype": "turn_duration", "pendingBackgroundAgentCount": pending}
        for record in (prompt, {**over, "timestamp": BEGINNING}):
            reducer.add(json.dumps(record).encode(), BEGINNING)
        evidence = reducer.evidence()
        assert evidence is not None
        states.append((evidence.state, evidence.detail, reducer.only_subagents))
    assert states == [
        (RUNNING, "2 subagents work in the background", True),
        (RUNNING, "a subagent works in the background", True),
        (COMPLETED, None, False),
    ]


def test_the_file_that_a_call_wrote_is_found_in_its_result_or_its_arguments() -> None:
    edit, read = ToolCall("Edit", None), ToolCall("Read", None)
    assert written_file(read, {}, {"filePath": "/a", "structuredPatch": []}) == "/a"
    assert written_file(read, {"file_path": "/b"}, {"filePath": "/a"}) is None
    assert written_file(edit, {"file_path": "/b"}, {"filePath": "/a"}) == "/b"
    assert written_file(edit, {}, {"filePath": "/a"}) == "/a"
    assert written_file(edit, {"notebook_path": "/n"}, {}) == "/n"
    assert written_file(None, {"file_path": "/b"}, {}) is None


def test_the_options_are_those_of_the_first_question() -> None:
    questions = [
        {"options": [{"label": "yes"}, {"label": ""}, {"other": "x"}, {"label": "no"}]},
        {"options": [{"label": "z"}]},
    ]
    assert choices_of({"input": {"questions": questions}}) == ("yes", "no")
    assert choices_of({"input": {}}) == choices_of({}) == ()


def test_a_count_that_grows_while_it_streams_is_counted_at_its_end() -> None:
    reducer = ClaudeReducer("x.jsonl")
    for out in (1, 7, 42):
        usage = {"input_tokens": 10, "output_tokens": out}
        reducer.add(
            json.dumps(
                {"type": "assistant", "message": {"id": "m", "model": "c", "content": [], "usage": usage}}
            ).encode(),
            BEGINNING,
        )
    assert reducer.tokens.counted == (10, 42, 0)


def test_a_message_cut_by_the_window_is_counted_once(tmp_path: Path) -> None:
    """The window begins between its first and its second line."""
    claude = Claude(str(tmp_path), "/home/dev/wt", registers=False)
    claude.prompt("x")
    claude.say("one message")
    claude.tool("Bash", command="true")
    last = len(Path(claude.path).read_bytes().splitlines()[-1])
    transcript = Transcript(claude.path, window=last + 20)
    transcript.read()
    assert transcript.has_older
    while transcript.has_older:
        transcript.read_older()
    assert transcript.tokens == (1210, 42, 3000)


def test_what_only_the_older_part_of_a_file_has_is_taken_from_it() -> None:
    names = ("mode", "prompt", "turn_at", "title", "last_message", "model", "version", "branch", "cwd", "at")
    older, newer = ClaudeReducer("x.jsonl"), ClaudeReducer("x.jsonl")
    older.cost, newer.title = 0.25, "newer title"
    prompt = {"type": "user", "uuid": "u", "timestamp": BEGINNING, "message": {"content": "go"}}
    older.add(json.dumps(prompt).encode(), BEGINNING)
    shown = older.evidence()
    for name in names:
        setattr(older, name, f"older {name}")
    newer.inherit(older)
    assert shown is not None and newer.evidence() == shown
    assert {name: getattr(newer, name) for name in names} == {
        name: "newer title" if name == "title" else f"older {name}" for name in names
    }
    assert newer.cost == 0.25


@pytest.mark.parametrize(
    "last",
    [
        {"type": "assistant", "message": {"id": "m", "model": "c", "stop_reason": None, "content": "so far"}},
        {"type": "system", "subtype": "turn_duration", "pendingBackgroundAgentCount": 2},
    ],
    ids=["a message that may be the last", "subagents in the background"],
)
def test_what_the_older_part_leaves_open_stays_open(last: dict[str, Any]) -> None:
    """An old version does not mark the message that ends a turn: without this the state would look certain."""
    older, newer = ClaudeReducer("x.jsonl"), ClaudeReducer("x.jsonl")
    for record in ({"type": "user", "uuid": "u", "message": {"content": "go"}}, last):
        older.add(json.dumps({**record, "timestamp": BEGINNING}).encode(), BEGINNING)
    shown = older.evidence()
    assert shown is not None and (shown.or_else or older.only_subagents)
    newer.inherit(older)
    assert (newer.evidence(), newer.only_subagents) == (shown, older.only_subagents)


def test_copies_of_what_was_sent_are_never_parsed() -> None:
    for kind in (
        "api-request",
        "api-request-shape",
        "api-request-blob",
        "mode",
        "atis-latch",
        "last-prompt",
        "tools-used",
        "file-history-snapshot",
    ):
        assert not matters(json.dumps({"type": kind, "x": 1}, separators=(",", ":")).encode())
    attachment = {"parentUuid": None, "isSidechain": False, "attachment": {"type": "date"}, "type": "attachment"}
    assert not matters(json.dumps(attachment, separators=(",", ":")).encode())
    for kind in ("user", "assistant", "system", "cost-state", "permission-mode", "queue-operation", "of-tomorrow"):
        assert matters(json.dumps({"type": kind, "x": '"type":"api-request"'}, separators=(",", ":")).encode())


def test_a_dialog_after_the_turn_is_not_about_a_call_that_was_lost(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.tool("Bash", command="true")  # its result is lost
    message = {
        "id": claude.message_id,
        "model": "c",
        "content": [{"type": "text", "text": "y"}],
        "stop_reason": "end_turn",
    }
    claude.record("assistant", message=message, requestRef=claude.request_id)
    claude.register("waiting", "dialog open")
    truth = scene.agent().truth
    assert (truth.state, truth.detail, truth.tool) == (WAITING, "dialog open", None)


def test_what_the_program_writes_by_itself_is_no_prompt_and_no_model(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("the person's words")
    claude.background("sleep 9")
    claude.finish("started")
    claude.background_over()
    claude.fail("API Error: 500")
    claude.command("model")
    facts = scene.agent().facts
    assert (facts.prompt, facts.model, facts.last_message) == ("the person's words", "claude-opus-5-5", "started")
    assert [one.text for one in scene.events if one.kind == "prompt"] == ["the person's words"]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("<command-name>/model</command-name>", False),
        ("<local-command-stdout>x</local-command-stdout>", False),
        ("<bash-input>ls</bash-input>", False),
        ("fix <command-name> in x.py", True),
        ("<command-message>review</command-message>", True),
    ],
)
def test_which_user_texts_start_a_turn(scene: Scene, words: str, asked: bool) -> None:
    claude = scene.claude(registers=False, version="2.0.1")
    claude.prompt("x")
    claude.finish("y")
    with_a_mode = {"permissionMode": "default"} if asked else {}
    claude.record("user", message={"role": "user", "content": words}, **with_a_mode)
    assert (scene.state() == RUNNING) is asked


@pytest.mark.parametrize("field", ["isMeta", "isCompactSummary", "isSidechain"])
def test_records_that_are_no_prompt(scene: Scene, field: str) -> None:
    claude = scene.claude()
    claude.prompt("x")
    claude.finish("y")
    claude.record("user", message={"role": "user", "content": "not said by a person"}, **{field: True})
    assert scene.state() == COMPLETED


def test_a_compaction_empties_the_window_until_the_next_answer(scene: Scene) -> None:
    claude = scene.claude()
    claude.prompt("x")
    claude.tool("Bash", command="true")
    claude.result()
    before = scene.agent().facts.context_used
    claude.compact()
    assert before is not None
    assert scene.agent().facts.context_used is None
    claude.finish("y")
    assert scene.agent().facts.context_used is not None
    assert "compacted" in {one.kind for one in scene.events}


def test_a_mode_switched_in_the_middle(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.tool("EnterPlanMode")
    claude.result("ok")
    assert scene.state() == PLANNING
    claude.finish("planned")
    claude.mode = "plan"
    claude.prompt("more")
    assert scene.state() == PLANNING
    claude.finish("y")
    claude.prompt("now do it", mode="acceptEdits")
    assert scene.state() == RUNNING


def test_the_plans_own_file_is_no_work_in_the_worktree(scene: Scene) -> None:
    claude = scene.claude()
    claude.prompt("think", mode="plan")
    claude.plan("1. do it")
    claude.result("approved")
    assert scene.agent().facts.files == ()


def test_of_two_commands_in_the_background_the_one_that_still_runs_is_shown(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.background("make all")
    claude.background("npm run dev")
    claude.finish("both run")
    assert str(scene.agent().truth.tool) == "Bash make all"
    claude.background_over()
    claude.finish("one is over")
    assert (scene.state(), str(scene.agent().truth.tool)) == (RUNNING, "Bash npm run dev")


def test_subagents_are_counted_while_they_work(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    below, other = claude.subagent("look here"), claude.subagent("look there")
    below.tool("Edit", file_path=f"{claude.cwd}/below.txt")
    other.tool("Bash", command="make")
    agent = scene.agent()
    assert agent.facts.subagents == 2
    claude.finish("they look")
    scene.wait(60)
    other.result()
    other.tool("Bash", command="make test")
    agent = scene.agent()
    assert (agent.state, str(agent.truth.tool)) == (RUNNING, "Bash make test"), "the turn is over, the work is not"
    below.result()
    claude.subagent_over(below)
    agent = scene.agent()
    assert (agent.facts.subagents, agent.facts.files) == (1, (f"{claude.cwd}/below.txt",))
    claude.register("waiting", "permission prompt")
    truth = scene.agent().truth
    assert (truth.state, truth.detail, str(truth.tool)) == (WAITING, "permission for Bash make test", "Bash make test")
    other.result()
    claude.subagent_over(other)
    claude.finish("all back")
    agent = scene.agent()
    assert (agent.state, agent.facts.subagents) == (COMPLETED, 0)
    assert {one.subagent for one in scene.events if one.kind == "tool_started"} == {None, "look here", "look there"}


def test_a_subagent_broken_off_with_its_session_does_not_work_on(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.subagent().tool("Bash", command="make")
    assert scene.agent().facts.subagents == 1
    claude.subagents.clear()
    claude.esc()
    agent = scene.agent()
    assert (agent.state, agent.facts.subagents) == (CANCELLED, 0)


# -- events for the session record --------------------------------------------------------------------------------------


def test_claude_events_come_in_order_and_once(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("touch it")
    claude.tool("Bash", command="touch x")
    scene.read()
    scene.wait(1)
    claude.ask()
    scene.read()
    scene.wait(9)
    claude.result("touched")
    claude.question("Which?")
    claude.result("Blue")
    claude.finish("Done.")
    scene.read()
    scene.read(whole=True)
    kinds = [one.kind for one in scene.events]
    assert sorted(kinds) == sorted(
        [
            "started",
            "prompt",
            "tool_started",
            "waits",
            "tool_finished",
            "answered",
            "tool_started",
            "waits",
            "tool_finished",
            "answered",
            "message",
            "completed",
        ]
    )
    assert len({one.id for one in scene.events}) == len(scene.events)
    first = next(one for one in scene.events if one.kind == "waits")
    assert first.text == "permission for Bash touch x"
    answered = next(one for one in scene.events if one.kind == "answered")
    assert (times.parse(answered.at) - times.parse(first.at)).total_seconds() == 9  # type: ignore[operator]


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_reader_gives_events_the_same_ids(scene: Scene, name: str, tmp_path: Path) -> None:
    claude = scene.claude()
    claude.start()
    for step in SCENARIOS[name]:
        scene.wait(1.5)
        step.act(claude)
        scene.read()
    again = Transcript(claude.transcript)
    again.read()
    ids = {one.id for one in again.take_events()}
    assert ids <= {one.id for one in scene.events}
    assert len(ids) == len({(one.id) for one in scene.events if one.subagent is None} & ids)


# -- nothing in the files can hurt ------------------------------------------------------------------------------------


class Watching(Claude):
    """Calls back after every single write."""

    def __init__(self, *rest: Any, **more: Any) -> None:
        super().__init__(*rest, **more)
        self.wrote = lambda: None

    def raw(self, data: bytes) -> None:
        super().raw(data)
        self.wrote()

    def register(self, status: str | None = None, waiting_for: str | None = None) -> None:
        super().register(status, waiting_for)
        self.wrote()


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_wrong_state_appears_between_two_states(scene: Scene, name: str) -> None:
    """After every single write the state is the former one, the next one, or working."""
    claude = Watching(str(scene.config), str(scene.worktree), pid=os.getpid(), clock=lambda: scene.time)
    claude.start()
    before = scene.state()
    seen: list[str] = []
    claude.wrote = lambda: seen.append(scene.state())  # type: ignore[assignment,return-value]
    for number, step in enumerate(SCENARIOS[name]):
        scene.wait(1.5)
        step.act(claude)
        allowed = {before, step.state, RUNNING} | ({PLANNING} if claude.mode == "plan" or before == PLANNING else set())
        assert step.quiet or set(seen) <= allowed, (name, number, seen)
        before = step.state
        seen.clear()


def records(scene: Scene) -> Iterator[tuple[Claude, bytes]]:
    """A conversation up to each kind of record that changes the state."""
    for name in ("a permission", "a question", "a plan", "esc in a tool", "an error of the server", "retries"):
        claude = scene.claude(f"torn-{name}", registers=False, version="2.0.50")
        for step in SCENARIOS[name]:
            step.act(claude)
        yield claude, Path(claude.path).read_bytes()
        os.unlink(claude.path)


def test_a_torn_last_claude_line_changes_nothing(scene: Scene) -> None:
    for claude, data in records(scene):
        lines = data.splitlines(keepends=True)
        reducer, states = ClaudeReducer("x"), []
        for line in lines:
            reducer.add(line, "")
            told = reducer.evidence()
            states.append(told.state if told else None)
        for number in {0, len(lines) // 2, len(lines) - 1}:
            _torn_at_every_byte(claude, lines, states, number)


def _torn_at_every_byte(claude: Claude, lines: list[bytes], states: list[str | None], number: int) -> None:
    before = b"".join(lines[:number])
    for cut in range(len(lines[number])):
        Path(claude.path).write_bytes(before + lines[number][:cut])
        transcript = Transcript(claude.path)
        transcript.read()
        told = transcript.reducer.evidence()
        assert (told.state if told else None) == (states[number - 1] if number else None), (number, cut)
        with open(claude.path, "ab") as file:
            file.write(lines[number][cut:])
        transcript.read()
        told = transcript.reducer.evidence()
        assert (told.state if told else None) == states[number], (number, cut)
        assert transcript.reducer.format_problem is None


def test_a_record_after_a_torn_line_is_recovered(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.raw(b'{"parentUuid":"1","isSidechain":false,"type":"assis')  # killed here, then resumed
    claude.record("user", message={"role": "user", "content": "go on"}, permissionMode="plan")
    assert (scene.state(), scene.agent().facts.prompt) == (PLANNING, "go on")


def test_a_replaced_or_cut_transcript_is_read_again(scene: Scene) -> None:
    claude = scene.claude(registers=False, version="2.0.50")
    claude.prompt("x")
    claude.finish("y")
    assert scene.state() == COMPLETED
    other = scene.claude(registers=False, version="2.0.50")
    os.rename(claude.path, claude.path + ".bak")
    other.session = claude.session
    other.prompt("anew")
    agent = scene.agent()
    assert (agent.state, agent.facts.prompt, agent.facts.last_message) == (RUNNING, "anew", None)
    os.truncate(claude.path, 0)
    scene.read()
    claude.finish("z")
    assert scene.state() == COMPLETED


def test_many_unreadable_lines_give_a_format_note(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    for _ in range(3):
        claude.raw(b"<xml/>\n")
    assert scene.agent().facts.format_note == "unknown (format) claude 2.1.326: 3 lines that cannot be read"


def test_an_unknown_kind_of_message_gives_a_format_note(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.record("oracle", message={"role": "oracle", "content": "…"})
    assert "'oracle'" in (scene.agent().facts.format_note or "")


JSON = json_values()


def conversation(folder: Path) -> list[dict[str, Any]]:
    claude = Claude(
        str(folder), "/home/dev/wt", pid=os.getpid(), clock=lambda: 1_794_987_315.0, numbers=True, registers=False
    )
    for name in SCENARIOS:
        if name not in ("a subagent in the background", "unknown records"):
            for step in SCENARIOS[name]:
                step.act(claude)
    claude.leave()
    return [json.loads(line) for line in Path(claude.path).read_text().splitlines()]


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a record."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from spots(one, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    made = copy.copy(value)
    made[path[0]] = replaced(value[path[0]], path[1:], other)
    return made


@settings(max_examples=300)
@given(data=st.data())
def test_any_field_of_a_claude_record_may_have_any_value(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    if not _CONVERSATION:
        _CONVERSATION.extend(conversation(tmp_path_factory.mktemp("fuzz")))
    reducer = ClaudeReducer("x.jsonl")
    number = data.draw(st.integers(0, len(_CONVERSATION) - 1))
    for one in _CONVERSATION[max(0, number - 6) : number]:
        reducer.add(json.dumps(one).encode(), BEGINNING)
    record = _CONVERSATION[number]
    spot = data.draw(st.sampled_from(list(spots(record))))
    line = json.dumps(replaced(record, spot, data.draw(JSON))).encode()
    reducer.take_events()
    reducer.add(line, BEGINNING)
    for event in reducer.take_events():
        assert times.parse(event.at) is not None and event.id
    told = reducer.evidence(data.draw(st.booleans()))
    assert told is None or (told.state in STATES and times.parse(told.at) is not None)
    reducer.add(
        json.dumps({"type": "user", "message": {"content": "go on"}, "timestamp": "2027-01-01T00:00:00Z"}).encode(),
        BEGINNING,
    )
    assert reducer.working, "it recovers with the next whole record"
    end = {"id": "m", "model": "c", "content": [{"type": "text", "text": "y"}], "stop_reason": "end_turn"}
    reducer.add(
        json.dumps({"type": "assistant", "message": end, "timestamp": "2027-01-01T00:00:01Z"}).encode(), BEGINNING
    )
    after = reducer.evidence()
    assert after is not None and after.state in RESTING


_CONVERSATION: list[dict[str, Any]] = []
BEGINNING = "2026-11-18T08:00:00.000000+00:00"


@settings(max_examples=200)
@given(
    fields=st.dictionaries(
        st.sampled_from(
            [
                "pid",
                "sessionId",
                "cwd",
                "procStart",
                "startedAt",
                "status",
                "waitingFor",
                "updatedAt",
                "statusUpdatedAt",
                "version",
                "tmux",
                "name",
                "kind",
                "pidDomain",
                "jobId",
            ]
        ),
        JSON,
    ),
    other=JSON,
)
def test_a_registry_entry_may_have_any_values(fields: dict[str, Any], other: Any) -> None:
    entry_of("1.json", other)
    entry = entry_of("1.json", {"pid": 1, "sessionId": "s", "cwd": "/x", **fields})
    assert entry is None or (entry.pid >= 0 and entry.session and entry.cwd)
    assert entry is None or entry.at is None or times.parse(entry.at) is not None


@settings(max_examples=60)
@given(
    job=JSON,
    meta=JSON,
    entry=JSON,
    fields=st.dictionaries(st.sampled_from(["state", "needs", "cwd", "updatedAt"]), JSON),
)
def test_claude_files_may_contain_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, job: Any, meta: Any, entry: Any, fields: Any
) -> None:
    scene = Scene(tmp_path_factory.mktemp("odd"))
    claude = scene.claude()
    claude.start("waiting")
    claude.prompt("x")
    below = claude.subagent()
    for path, value in {
        scene.config / "jobs/a/state.json": job,
        scene.config / "jobs/b/state.json": {"sessionId": claude.session} | fields,
        Path(below.path.removesuffix(".jsonl") + ".meta.json"): meta,
        scene.config / "sessions/77.json": entry,
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    agent = scene.agent(claude.session, whole=True)
    assert agent.state == RUNNING


@pytest.mark.parametrize("odd", ["\0", "\ud800", "", "relative", "/" + "x" * 5000])
@pytest.mark.parametrize("field", ["cwd", "sessionId"])
def test_claude_folders_with_impossible_names_are_ignored(scene: Scene, field: str, odd: str) -> None:
    claude, strange = scene.claude(), scene.claude()
    claude.start("busy")
    entry = json.loads(Path(claude.entry).read_text())
    (scene.config / "sessions/1.json").write_text(json.dumps(entry | {"sessionId": "other", "pid": 1, field: odd}))
    strange.registers = False
    strange.session, strange.cwd = "strange", str(scene.worktree)
    strange.prompt("x")
    record = {"type": "user", "message": {"content": "y"}, field: odd, "version": "2.0.1"}
    strange.raw(json.dumps(record).encode() + b"\n")
    for whole in (True, False, True):
        assert scene.agent(claude.session, whole=whole).state == RUNNING


def test_a_session_id_that_leads_to_another_folder_is_refused(scene: Scene, tmp_path: Path) -> None:
    claude = scene.claude("../../secret")
    (tmp_path / "claude-home/.claude/secret.jsonl").write_text("{}")
    claude.start("busy")
    assert scene.agents(whole=True) == []


def test_absurd_numbers_in_a_session_are_ignored(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    usage = {"input_tokens": -5, "output_tokens": 1e300, "cache_read_input_tokens": "many"}
    claude.record("assistant", message={"id": "m", "content": "just text", "usage": usage, "stop_reason": "end_turn"})
    agent = scene.agent()
    assert agent.state == WAITING or agent.state == RUNNING
    assert agent.facts.tokens_out == 0
