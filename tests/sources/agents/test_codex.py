"""Codex: replays of its rollouts, record by record, and the reader on real files."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.agent import Truth
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.codex.reader import CodexReader
from imi_monitor.sources.agents.codex.reducer import CodexReducer
from tests.audit_events import recorded
from tests.json_values import json_values, replace_a_field
from tests.sources.agents.fakes.codex import Rollout

FIXTURES = Path(__file__).parent / "fixtures" / "codex"
ID = "0a1b2c3d-0000-7000-8000-000000000001"

# Where the state changes: the number of the record, and what is so from it on. `?` marks what the file cannot tell apart.
REPLAYS: dict[str, list[tuple[int, str, str | None, str | None]]] = {
    "terminal.jsonl": [
        (0, "unknown", "no evidence of what it does", None),
        (1, "running", None, None),
        (10, "running?", "may wait for approval: The tests need the network.", "Bash npm test"),
        (12, "running", None, None),
        (19, "completed", None, None),
        (20, "running", None, None),
        (29, "cancelled", None, None),  # Esc while it talks
        (30, "running", None, None),
        (37, "failed", "the model is overloaded", None),
        (38, "running", None, None),
        (45, "running?", None, "Bash sleep 20"),
        (47, "running", None, None),
        (50, "cancelled", None, None),  # Esc while a command runs
        (51, "planning", None, None),
        (58, "waiting_for_input", "SQLite or PostgreSQL?", "Question SQLite or PostgreSQL?"),
        # 60: the interrupted command ends by itself, which changes nothing
        (62, "planning", None, None),
        (69, "completed", "the plan is ready", None),
    ],
    "exec.jsonl": [
        (0, "unknown", "no evidence of what it does", None),
        (1, "running", None, None),
        (10, "running", None, "Edit src/hello.py"),
        (12, "running", None, None),
        (15, "running", None, "Bash python src/hello.py"),
        (17, "running", None, None),
        (20, "running", None, "Edit src/hello.py"),
        (22, "running", None, None),
        (25, "running", None, "Bash python src/hello.py"),
        (27, "running", None, None),
        (34, "completed", None, None),
    ],
    "events_0.46.jsonl": [
        (0, "unknown", "no evidence of what it does", None),
        (4, "running", None, None),
        (8, "running?", "may wait for approval: isort writes outside", "Bash isort src"),
        (10, "running", None, None),
        (11, "running?", None, None),  # this version never says that a turn is complete
        (15, "running", None, None),
        (16, "cancelled", None, None),
    ],
    "turns_0.98.jsonl": [
        (0, "unknown", "no evidence of what it does", None),
        (1, "running", None, None),
        (4, "running?", None, "Bash pytest -q"),
        (5, "running", None, None),
        (7, "completed", None, None),
        (10, "running", None, None),
        (12, "running?", None, "tracker.find"),
        (13, "running", None, None),
        (14, "running", "retrying: Reconnecting... 2/5", None),
        (15, "failed", "usage_limit_exceeded: You have hit your usage limit.", None),
    ],
    "bare_2025.jsonl": [
        (0, "unknown", "no evidence of what it does", None),
        (3, "running", None, None),
        (5, "running?", None, "Bash ls -1"),
        (6, "running", None, None),
        (7, "running?", None, None),
    ],
}


def lines(name: str) -> list[bytes]:
    return (FIXTURES / name).read_bytes().splitlines()


def told(truth: Truth) -> tuple[str, str | None, str | None]:
    state = truth.state + ("?" if truth.confidence == "likely" else "")
    return state, truth.detail, str(truth.tool) if truth.tool else None


def changes(states: list[tuple[str, str | None, str | None]]) -> list[tuple[int, str, str | None, str | None]]:
    return [(number, *one) for number, one in enumerate(states) if number == 0 or one != states[number - 1]]


@pytest.mark.parametrize("name", REPLAYS)
def test_every_record_of_a_replay_gives_the_right_state(name: str) -> None:
    reducer = CodexReducer(name, next(iter(_head(name))))
    states = []
    for line in lines(name):
        reducer.add(line, "2026-11-18T11:06:40.000000+00:00")
        evidence = reducer.evidence(0.0)
        states.append(told(decide([evidence] if evidence else [], True, times.now())))
    assert changes(states) == REPLAYS[name]


def _head(name: str) -> Iterator[Any]:
    from imi_monitor.sources.agents.codex.record_types import ThreadContext
    from imi_monitor.sources.agents.codex.records import parse

    yield next(one for one in parse(lines(name)[0], "") if isinstance(one, ThreadContext))


def test_a_command_that_ends_after_its_turn_was_interrupted_changes_nothing() -> None:
    reducer = CodexReducer("x")
    for line in lines("terminal.jsonl")[:51]:  # Esc while a command runs
        reducer.add(line, "")
    before = reducer.evidence(0.0)
    reducer.add(lines("terminal.jsonl")[60], "")  # it ends by itself
    assert before and before.state == "cancelled" and reducer.evidence(0.0) == before


def test_an_old_codex_is_probably_done_after_a_message() -> None:
    reducer = CodexReducer("x")
    for line in lines("bare_2025.jsonl"):
        reducer.add(line, times.stamp())
    evidence = reducer.evidence(60.0)
    assert evidence and evidence.state == "completed" and evidence.or_else == {"running", "waiting_for_input"}


def test_events_and_facts_of_a_session() -> None:
    reducer = CodexReducer("terminal.jsonl")
    for line in lines("terminal.jsonl"):
        reducer.add(line, "")
    kinds = [(one.kind, str(one.tool) if one.tool else None, one.ok) for one in reducer.take_events()]
    assert kinds == [
        ("started", None, None),
        ("prompt", None, None),
        ("message", None, None),
        ("tool_started", "Bash npm test", None),
        ("tool_finished", "Bash npm test", True),
        ("message", None, None),
        ("completed", None, None),
        ("prompt", None, None),
        ("cancelled", None, None),
        ("prompt", None, None),
        ("failed", None, None),
        ("prompt", None, None),
        ("tool_started", "Bash sleep 20", None),
        ("tool_finished", "Bash sleep 20", None),
        ("cancelled", None, None),
        ("prompt", None, None),
        ("waits", "Question SQLite or PostgreSQL?", None),
        ("answered", "Question SQLite or PostgreSQL?", None),
        ("plan", None, None),
        ("message", None, None),
        ("completed", None, None),
    ]
    facts = reducer.facts("a title")
    assert (facts.version, facts.model, facts.branch) == ("0.169.0", "fake-1", "feat/fake")
    assert (facts.tokens_in, facts.tokens_cached, facts.tokens_out) == (2000, 3000, 250), "five requests, each once"
    assert (facts.context_used, facts.context_size) == (1050, 200000)
    assert (facts.prompt, facts.last_message) == ("Which database do we take?", "We take SQLite.")
    assert facts.format_note is None


def test_codex_tool_results_and_files() -> None:
    reducer = CodexReducer("exec.jsonl")
    for line in lines("exec.jsonl"):
        reducer.add(line, "")
    finished = [(one.text, one.ok, one.files) for one in reducer.take_events() if one.kind == "tool_finished"]
    assert finished[:2] == [
        ("M src/hello.py", True, ("/home/dev/app/src/hello.py",)),
        ("Traceback: no such name", False, ()),
    ]
    assert reducer.facts(None).files == ("/home/dev/app/src/hello.py",)


def test_ids_are_the_same_on_every_reading() -> None:
    for name in REPLAYS:
        seen = []
        for _ in range(2):
            reducer = CodexReducer(name)
            for line in lines(name):
                reducer.add(line, times.stamp())
            seen.append([one.id for one in reducer.take_events()])
        assert seen[0] == seen[1]
        assert len(set(seen[0])) == len(seen[0]), name


# -- the reader over real files -----------------------------------------------------------------------------------------


class Home:
    """A CODEX_HOME with rollouts in it, and a process of this folder if one is wanted."""

    def __init__(self, path: Path) -> None:
        self.path = path / "codex-home"
        self.tree = path / "tree"
        self.day = self.path / "sessions" / datetime.now().strftime("%Y/%m/%d")
        self.day.mkdir(parents=True)
        self.tree.mkdir()
        self.processes: tuple[AgentProcess, ...] = (self.process(),)
        self.reader = CodexReader()

    def process(self, **other: Any) -> AgentProcess:
        values: dict[str, Any] = {
            "cli": "codex",
            "pid": os.getpid(),
            "started": host.start_time(os.getpid()),
            "cwd": str(self.tree),
            "argv": ("codex",),
            "began_at": time.time() - 100,
            **other,
        }
        return AgentProcess(**values)

    def rollout(self, ident: str = ID) -> Path:
        return self.day / f"rollout-2026-11-18T11-06-10-{ident}.jsonl"

    def write(self, data: bytes, ident: str = ID) -> str:
        with open(self.rollout(ident), "ab") as file:
            file.write(data.replace(b"/home/dev/app", str(self.tree).encode()))
        return str(self.rollout(ident))

    def writer(self, ident: str = ID) -> Rollout:
        return Rollout(lambda line: (self.write(line.encode(), ident), None)[1], ident, str(self.tree))

    def world(self) -> ReadContext:
        env = {"CODEX_HOME": str(self.path)}
        return ReadContext(time.time(), str(self.path.parent), env, (str(self.tree),), self.processes)

    def read(self, *touched: str | Path) -> list[Sighting]:
        return list(self.reader.read(self.world(), frozenset(map(str, touched))))

    def look_at_all(self) -> list[Sighting]:
        return list(self.reader.read(self.world(), None))

    def state(self, *touched: str | Path) -> tuple[str, str | None, str | None]:
        (one,) = self.read(*touched)
        return told(decide(one.evidence, one.alive, times.now()))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("name", ["terminal.jsonl", "exec.jsonl", "turns_0.98.jsonl"])
def test_the_reader_follows_a_rollout_as_it_grows(home: Home, name: str) -> None:
    assert home.look_at_all() == []
    states = []
    for line in lines(name):
        path = home.write(line + b"\n")
        states.append(home.state(path))
    assert changes(states) == REPLAYS[name]


def test_a_torn_line_waits_at_every_byte(home: Home) -> None:
    whole = lines("terminal.jsonl")
    home.write(b"\n".join(whole[:10]) + b"\n")
    home.look_at_all()
    before = home.state()
    assert before == ("running", None, None)
    line = whole[10]
    for byte in range(len(line)):
        path = home.write(line[byte : byte + 1])
        assert home.state(path) == before
    path = home.write(b"\n")
    assert home.state(path) == ("running?", "may wait for approval: The tests need the network.", "Bash npm test")


def test_the_first_line_may_be_torn_too(home: Home) -> None:
    first, second = lines("terminal.jsonl")[:2]
    path = home.write(first[:100])
    assert home.look_at_all() == [] == home.read(path)
    path = home.write(first[100:] + b"\n" + second + b"\n")
    assert home.state(path) == ("running", None, None)


def test_codex_events_come_once_and_evidence_at_each_read(home: Home) -> None:
    home.write(b"\n".join(lines("exec.jsonl")) + b"\n")
    (first,), (second,) = home.look_at_all(), home.look_at_all()
    assert len(first.events) == 13 and second.events == ()
    assert first.evidence == second.evidence != ()


def test_codex_threads_outside_of_the_worktrees_are_ignored(home: Home) -> None:
    home.write(b"\n".join(lines("exec.jsonl")).replace(b"/home/dev/app", b"/home/dev/other") + b"\n")
    assert home.look_at_all() == []


def test_a_codex_thread_without_a_process_is_dead_in_a_turn_and_done_after_it(home: Home) -> None:
    whole = lines("exec.jsonl")
    home.write(b"\n".join(whole[:16]) + b"\n")
    home.look_at_all()
    home.processes = ()
    assert home.state() == ("dead", "its process is gone", "Bash python src/hello.py")
    path = home.write(b"\n".join(whole[16:]) + b"\n")
    assert home.state(path)[0] == "completed"


def test_one_in_which_nothing_ever_happened_is_not_called_dead(home: Home) -> None:
    home.writer().meta()
    (one,) = home.look_at_all()
    assert decide(one.evidence, one.alive, times.now()).state == "unknown"
    home.processes = ()
    assert home.read() == []


def test_the_newest_of_a_folder_belongs_to_its_process(home: Home) -> None:
    other = ID[:-1] + "2"
    old = home.write(b"\n".join(lines("terminal.jsonl")) + b"\n")
    home.write(b"\n".join(lines("exec.jsonl")[:12]) + b"\n", other)
    os.utime(old, (time.time() - 50, time.time() - 50))
    found = {one.session: one for one in home.look_at_all()}
    assert found[other].pid == os.getpid() and found[other].alive is True
    assert found[ID].pid is None and found[ID].alive is False


def test_a_process_does_not_take_a_thread_of_before_its_time(home: Home) -> None:
    path = home.write(b"\n".join(lines("exec.jsonl")[:12]) + b"\n")
    os.utime(path, (time.time() - 500, time.time() - 500))
    (one,) = home.look_at_all()
    assert one.alive is False
    home.processes = (home.process(argv=("codex", "resume", ID)),)
    (one,) = home.read()
    assert one.alive is True, "but it may have been told to go on with it"


def test_a_folder_given_as_argument_counts(home: Home, tmp_path: Path) -> None:
    home.write(b"\n".join(lines("exec.jsonl")[:12]) + b"\n")
    home.processes = (home.process(cwd=str(tmp_path), argv=("codex", "-C", "tree")),)
    assert home.look_at_all()[0].alive is True


def test_codexs_own_thread_for_a_title_is_no_agent(home: Home) -> None:
    writer = home.writer()
    writer.meta()
    writer.prompt("Generate a concise, single-line task title of at most 36 characters.")
    assert home.look_at_all() == []


def test_a_codex_subagent_is_shown_with_its_parent(home: Home) -> None:
    parent, child = home.writer(), home.writer(ID[:-1] + "9")
    parent.meta()
    parent.prompt("Split the work")
    child.meta(source={"subagent": {"thread_spawn": {"parent_thread_id": ID, "depth": 1}}})
    child.prompt("The first half")
    home.processes = (home.process(), home.process(pid=1))
    (one,) = home.look_at_all()
    assert one.session == ID and one.facts.subagents == 1
    child.finish("Done")
    (one,) = home.read(home.rollout(child.id))
    assert one.facts.subagents == 0


def test_a_fork_keeps_its_own_name(home: Home) -> None:
    writer = home.writer()
    writer.meta()
    other = Rollout(writer.write, "ffffffff-0000-7000-8000-000000000001", "/elsewhere")
    other.meta()
    writer.prompt("Go on from there")
    (one,) = home.look_at_all()
    assert one.session == ID and one.cwd == str(home.tree)


def test_a_session_follows_its_records_to_another_folder(home: Home) -> None:
    writer = home.writer()
    writer.meta()
    home.look_at_all()
    inner = home.tree / "inner"
    inner.mkdir()
    writer.cwd = str(inner)
    writer.prompt("Work in there")
    (one,) = home.read(home.rollout())
    assert one.cwd == str(inner)
    writer.cwd = "/elsewhere"
    writer.prompt("Leave")
    assert home.read(home.rollout()) == []


def test_a_replaced_and_a_deleted_rollout(home: Home) -> None:
    path = home.write(b"\n".join(lines("terminal.jsonl")) + b"\n")
    home.look_at_all()
    os.unlink(path)
    assert home.state(path)[0] == "completed"
    home.write(b"\n".join(lines("terminal.jsonl")[:46]) + b"\n")
    assert home.state(path) == ("running?", None, "Bash sleep 20")


def test_a_long_session_is_read_from_its_end_and_then_from_its_beginning(home: Home) -> None:
    writer = home.writer()
    writer.meta()
    writer.policy = "never"
    writer.prompt("Work for hours", "plan")
    for number in range(200):
        writer.patch(f"src/file{number}.py")
        writer.answer()
        writer.tool(f"cat src/file{number}.py")
        writer.answer("x" * 20_000)
    writer.tool("make")
    (one,) = home.look_at_all()
    truth = decide(one.evidence, one.alive, times.now())
    assert truth.state in ("running", "planning") and str(truth.tool) == "Bash make", "the state at once"
    assert home.reader.has_more
    news, looks = list(one.events), 0
    while home.reader.has_more:
        (one,) = home.read()
        news += one.events
        looks += 1
    assert looks < 20, "a bounded slice each, but not one line"
    assert home.state() == ("planning", None, "Bash make"), "how it works was written long before"
    assert len(one.facts.files) == 200 and one.facts.prompt == "Work for hours"
    assert sum(each.kind == "tool_finished" for each in news) == 400
    assert len({each.id for each in news}) == len(news)


def test_a_read_without_changes_opens_no_rollout(home: Home) -> None:
    for number in range(20):
        home.write(b"\n".join(lines("exec.jsonl")) + b"\n", ID[:-2] + f"{number:02}")
    home.look_at_all()
    with recorded("open", "os.scandir", below=home.path) as opened:
        home.read()
        assert opened == []
        home.read(home.rollout(ID[:-2] + "03"))
        assert opened == [str(home.rollout(ID[:-2] + "03"))]


def test_folders_of_a_home_that_comes_later(tmp_path: Path) -> None:
    reader = CodexReader()
    world = ReadContext(time.time(), str(tmp_path), {}, (str(tmp_path),))
    assert reader.read(world, None) == [] and reader.watch_folders(world) == []
    (tmp_path / ".codex").mkdir()
    reader.read(world, frozenset())
    assert reader.watch_folders(world) == [str(tmp_path / ".codex")]
    day = tmp_path / ".codex" / "sessions" / datetime.now().strftime("%Y/%m/%d")
    day.mkdir(parents=True)
    assert str(day) in reader.watch_folders(world) and str(tmp_path / ".codex") not in reader.watch_folders(world)


# -- what we do not know ------------------------------------------------------------------------------------------------


def test_unknown_records_give_a_format_note_and_change_nothing(home: Home) -> None:
    writer = home.writer()
    writer.meta(cli_version="9.9.9")
    writer.prompt("Hello")
    home.write(b'{"timestamp": "2026-11-18T11:06:50Z", "type": "hologram", "payload": {}}\nnot json\n')
    (one,) = home.look_at_all()
    assert decide(one.evidence, one.alive, times.now()).state == "running"
    assert one.facts.format_note == "unknown (format) codex 9.9.9: hologram, a line that is no record"


def database(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as made:
        for statement in statements:
            made.execute(statement)
        made.commit()


def test_the_index_gives_the_end_of_an_unreadable_turn(home: Home) -> None:
    writer = home.writer()
    writer.meta(cli_version="9.9.9")
    home.write(b'{"timestamp": "2026-11-18T11:06:50Z", "type": "hologram", "payload": {}}\n')
    table = (
        "CREATE TABLE thread_turns (thread_id, turn_id, rollout_ordinal, status, error_json, started_at, completed_at)"
    )
    turn = "INSERT INTO thread_turns VALUES ('{0}', '{1}', {1}, '{2}', '{3}', 179500000{1}, {4})"
    database(home.path / "thread_history_1.sqlite", table, turn.format(ID, 1, "completed", "", "1795000005"))
    database(
        home.path / "thread_history_2.sqlite",
        table,
        turn.format(ID, 1, "completed", "", "1795000005"),
        turn.format(ID, 2, "failed", '{"message": "no money", "codexErrorInfo": "other"}', "1795000006"),
    )
    (one,) = home.look_at_all()
    truth = decide(one.evidence, one.alive, times.now())
    assert (truth.state, truth.detail) == ("failed", "no money")
    assert one.facts.format_note == "unknown (format) codex 9.9.9: hologram"


@pytest.mark.parametrize("shape", ["CREATE TABLE threads (id, updated_at)", "CREATE TABLE other (id)", None])
def test_an_index_of_another_shape_is_no_index(home: Home, shape: str | None) -> None:
    home.write(b"\n".join(lines("exec.jsonl")) + b"\n")
    if shape:
        database(home.path / "state_7.sqlite", shape)
    else:
        (home.path / "state_7.sqlite").write_bytes(b"no database at all" * 100)
    (one,) = home.look_at_all()
    assert one.session == ID and one.facts.title is None


def test_the_newest_index_is_asked_and_nothing_is_laid_beside_it(home: Home) -> None:
    home.write(b"\n".join(lines("exec.jsonl")) + b"\n")
    table = "CREATE TABLE threads (id, rollout_path, cwd, updated_at, title, name, archived)"
    row = "INSERT INTO threads VALUES ('{}', '{}', '{}', {}, 'old', {}, {})"
    for number, name, archived in ((4, "'four'", 1), (10, "'ten'", 0)):
        database(
            home.path / f"state_{number}.sqlite",
            "PRAGMA journal_mode = WAL",
            table,
            row.format(ID, home.rollout(), home.tree, int(time.time()), name, archived),
        )
    before = sorted(os.listdir(home.path))
    (one,) = home.look_at_all()
    assert one.facts.title == "ten"
    assert sorted(os.listdir(home.path)) == before
    database(home.path / "state_10.sqlite", "UPDATE threads SET archived = 1")
    assert home.look_at_all() == []


SHAPES = json_values("type", "id", "cmd", "text", "message")


@settings(max_examples=300)
@given(data=st.data())
def test_any_value_in_any_field_raises_nothing(data: st.DataObject) -> None:
    reducer = CodexReducer("fuzz")
    for name in ("terminal.jsonl", "turns_0.98.jsonl", "events_0.46.jsonl", "bare_2025.jsonl"):
        for line in data.draw(st.lists(st.sampled_from(lines(name)), max_size=6)):
            record = json.loads(line)
            inside = record.get("payload", record)
            for target in (record, inside, inside.get("item") if isinstance(inside, dict) else None):
                replace_a_field(data, target, SHAPES)
            reducer.add(json.dumps(record).encode(), times.stamp())
            evidence = reducer.evidence(0.0)
            decide([evidence] if evidence else [], True, times.now())
            reducer.facts(None)
    reducer.take_events()


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_in_a_rollout_raise_nothing(data: bytes) -> None:
    reducer = CodexReducer("fuzz")
    reducer.add(data, times.stamp())
    assert reducer.evidence(0.0) is None or data
