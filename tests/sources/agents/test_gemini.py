"""Gemini: replays of its chats, line by line, the reader on real files, and a running fake."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, RUNNING, WAITING, Evidence, Truth
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.folder_trust import ASKS_FOR_TRUST, MAYBE_ASKS_FOR_TRUST
from imi_monitor.sources.agents.gemini.reader import GeminiReader
from imi_monitor.sources.agents.gemini.reducer import GeminiReducer, StartOptions
from tests.audit_events import recorded
from tests.helpers import use_temporary_folder
from tests.json_values import json_values, replace_a_field
from tests.limits import LIMIT, read_line
from tests.sources.agents.fakes import gemini as fake
from tests.sources.agents.reader_kit import truth

FIXTURES = Path(__file__).parent / "fixtures" / "gemini"
ID = "7c6b5a49-0000-4000-8000-000000000001"
NOTHING = "no evidence of what it does"
OPEN = "answered, or a tool is running or asked for"

# Where the state changes: the number of the line, and what is so from it on. `?` marks what the file cannot tell apart.
REPLAYS: dict[str, list[tuple[int, str, str | None]]] = {
    "interactive.jsonl": [
        (0, "unknown", NOTHING),
        (2, "running?", None),
        (4, "unknown?", OPEN),  # it asks whether it may run the command: no file says so
        (6, "running?", None),
        (9, "unknown?", OPEN),  # it is done: no file says so
        (11, "running?", None),
        (13, "cancelled", None),  # 15: the history is written anew, without what was cancelled
        (16, "running?", None),
        (19, "failed", "quota is used up"),
        (23, "running?", None),
        (27, "cancelled", None),  # Esc while a tool runs
    ],
    "headless.jsonl": [
        (0, "unknown", NOTHING),
        (2, "running?", None),
        (4, "unknown?", OPEN),
        (6, "running?", None),
        (14, "unknown?", OPEN),
    ],
}


def lines(name: str) -> list[bytes]:
    return (FIXTURES / name).read_bytes().splitlines()


def told(truth: Truth) -> tuple[str, str | None]:
    return truth.state + ("?" if truth.confidence == "likely" else ""), truth.detail


def changes(states: list[tuple[str, str | None]]) -> list[tuple[int, str, str | None]]:
    return [(number, *one) for number, one in enumerate(states) if number == 0 or one != states[number - 1]]


INTERACTIVE = StartOptions()


def truth_of(
    reducer: GeminiReducer, manner: StartOptions = INTERACTIVE, alive: bool | None = True, later: float = 0.0
) -> Truth:
    now = time.time()
    evidence = reducer.evidence(manner, alive, now + later)
    return decide([evidence] if evidence else [], alive, times.now())


def whole(name: str) -> GeminiReducer:
    reducer = GeminiReducer(name)
    for line in lines(name):
        reducer.add(line, "")
    return reducer


@pytest.mark.parametrize("name", REPLAYS)
def test_every_line_of_a_replay_gives_the_right_state(name: str) -> None:
    reducer = GeminiReducer(name)
    states = []
    for line in lines(name):
        reducer.add(line, "")
        states.append(told(truth_of(reducer)))
    assert changes(states) == REPLAYS[name]


def test_the_process_decides_the_state_after_the_models_words() -> None:
    reducer = whole("headless.jsonl")
    assert told(truth_of(reducer)) == ("unknown?", OPEN)
    assert told(truth_of(reducer, StartOptions(headless=True))) == ("running", None), "it ends by itself"
    assert told(truth_of(reducer, StartOptions(unasking=True))) == ("completed?", None), (
        "no tool began, and it never asks"
    )
    gone = truth_of(reducer, alive=False)
    assert (gone.state, gone.ended, gone.confidence) == ("completed", True, "likely"), "or killed: nothing tells"
    assert truth_of(reducer, StartOptions(headless=True), alive=False).state == "dead", (
        "it lived on for long: a tool was running"
    )


def test_an_unasking_gemini_may_run_a_tool_just_after_words() -> None:
    reducer = GeminiReducer("x")
    reducer.add_record({"id": "1", "type": "gemini", "content": "So.", "timestamp": times.stamp()})
    assert told(truth_of(reducer, StartOptions(unasking=True))) == ("running?", None)


def test_a_prompt_or_a_tool_call_without_a_process_is_dead() -> None:
    reducer = GeminiReducer("interactive.jsonl")
    for line in lines("interactive.jsonl")[:3]:
        reducer.add(line, "")
    assert truth_of(reducer, alive=False).state == "dead"


@pytest.mark.parametrize("state", [WAITING, RUNNING, COMPLETED])
def test_a_title_or_a_hook_refines_ambiguous_gemini_evidence(state: str) -> None:
    reducer = GeminiReducer("x")
    at = times.stamp()
    reducer.add_record({"id": "1", "type": "gemini", "content": "I need to run it.", "timestamp": at})
    words = reducer.evidence(StartOptions(), True, time.time())
    assert words is not None
    title = Evidence("title", state, at, "its title", standing=True)
    hook = Evidence("hook", state, at, "a hook of the same moment")
    for other in (title, hook):
        truth = decide([words, other], True, times.now())
        assert (truth.state, truth.source) == (state, other.source)


def test_the_states_of_open_gemini_tools() -> None:
    reducer = GeminiReducer("x")
    call = {"id": "c1", "name": "replace", "args": {"file_path": "src/a.ts"}, "status": "awaiting_approval"}
    reducer.add_record({"id": "1", "type": "gemini", "content": "", "timestamp": times.stamp(), "toolCalls": [call]})
    truth = truth_of(reducer)
    assert (truth.state, truth.detail, str(truth.tool)) == ("waiting_for_input", "permission", "Edit src/a.ts")
    call["status"] = "executing"
    reducer.add_record({"id": "1", "type": "gemini", "content": "", "timestamp": times.stamp(), "toolCalls": [call]})
    assert (truth_of(reducer).state, str(truth_of(reducer).tool)) == ("running", "Edit src/a.ts")


def test_events_and_facts_of_a_session() -> None:
    reducer = whole("interactive.jsonl")
    kinds = [(one.kind, str(one.tool) if one.tool else None, one.ok) for one in reducer.take_events()]
    assert kinds == [
        ("prompt", None, None),
        ("message", None, None),
        ("tool_started", "Bash rm -r build", None),
        ("tool_finished", "Bash rm -r build", True),
        ("message", None, None),
        ("prompt", None, None),
        ("cancelled", None, None),
        ("prompt", None, None),
        ("failed", None, None),
        ("prompt", None, None),
        ("cancelled", None, None),
        ("tool_started", "Bash sleep 20", None),
        ("tool_finished", "Bash sleep 20", None),
    ]
    facts = reducer.facts()
    assert (facts.tokens_in, facts.tokens_cached, facts.tokens_out) == (1200, 1800, 150), "replaced lines count once"
    assert (facts.context_used, facts.model, facts.prompt) == (1050, "fake-flash", "Wait for the build")


def test_files_of_a_gemini_session() -> None:
    reducer = whole("headless.jsonl")
    assert reducer.facts().files == ("/home/dev/app/hello.txt",)


# -- the reader over real files -----------------------------------------------------------------------------------------


class Home:
    def __init__(self, path: Path) -> None:
        self.path = path / "home"
        self.tree = path / "tree"
        self.tree.mkdir()
        self.chats = self.path / ".gemini" / "tmp" / "tree" / "chats"
        self.reader = GeminiReader()
        self.processes: tuple[AgentProcess, ...] = (self.process(),)

    def project(self) -> Home:
        self.chats.mkdir(parents=True)
        self.list({str(self.tree): "tree"})
        self.trust(self.path)
        return self

    def trust(self, *folders: Path) -> None:
        """Trust these folders and what is below them."""
        (self.path / ".gemini" / "trustedFolders.json").write_text(
            json.dumps({str(one.parent if one == self.path else one): "TRUST_FOLDER" for one in folders})
        )

    def list(self, projects: Any) -> None:
        (self.path / ".gemini" / "projects.json").write_text(json.dumps({"projects": projects}))

    def process(self, **other: Any) -> AgentProcess:
        values: dict[str, Any] = {
            "cli": "gemini",
            "pid": os.getpid(),
            "started": host.start_time(os.getpid()),
            "cwd": str(self.tree),
            "argv": ("node", "gemini.js"),
            "began_at": time.time() - 100,
            **other,
        }
        return AgentProcess(**values)

    def write(self, data: bytes, name: str = "session-2026-11-18T11-06-7c6b5a49.jsonl") -> str:
        path = self.chats / name
        with open(path, "ab") as file:
            file.write(data.replace(b"/home/dev/app", str(self.tree).encode()))
        return str(path)

    def world(self) -> ReadContext:
        return ReadContext(
            time.time(), "/nowhere", {"GEMINI_CLI_HOME": str(self.path)}, (str(self.tree),), self.processes
        )

    def read(self, *touched: str | Path) -> list[Sighting]:
        return list(self.reader.read(self.world(), frozenset(map(str, touched))))

    def look_at_all(self) -> list[Sighting]:
        return list(self.reader.read(self.world(), None))

    def state(self, *touched: str | Path) -> tuple[str, str | None]:
        (one,) = self.read(*touched)
        return told(decide(one.evidence, one.alive, times.now()))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_reader_follows_a_chat_as_it_grows(home: Home) -> None:
    home.project()
    assert home.look_at_all() == []
    states = []
    for line in lines("interactive.jsonl"):
        states.append(home.state(home.write(line + b"\n")))
    assert changes(states) == REPLAYS["interactive.jsonl"]


def test_a_torn_line_waits_at_every_byte(home: Home) -> None:
    home.project()
    home.write(b"\n".join(lines("interactive.jsonl")[:13]) + b"\n")
    home.look_at_all()
    line = lines("interactive.jsonl")[13]
    for byte in range(len(line)):
        assert home.state(home.write(line[byte : byte + 1])) == ("running?", None)
    assert home.state(home.write(b"\n")) == ("cancelled", None)


def test_a_folder_that_is_not_trusted_is_asked_about_at_the_start(home: Home) -> None:
    """The title says "Ready" over this dialog, so it does not refine what the files say."""
    home.project()
    path = home.write(lines("interactive.jsonl")[0] + b"\n")
    title = Evidence("title", COMPLETED, times.stamp(), "Ready", standing=True, read_at=times.stamp())

    def state() -> tuple[str, str | None]:
        (one,) = home.read(path)
        return told(decide((*one.evidence, title), one.alive, times.now()))

    assert state()[0] == "completed?", "what is above it is trusted"
    home.trust(home.tree.parent / "tr")
    assert state() == ("waiting_for_input?", ASKS_FOR_TRUST)
    settings_file = home.path / ".gemini" / "settings.json"
    settings_file.write_text('{ // mine\n "security": {"folderTrust": {"enabled": false}}}')
    assert state()[0] == "completed?", "it does not ask at all"
    settings_file.unlink()
    home.processes = (home.process(argv=("node", "gemini.js", "--skip-trust")),)
    assert state()[0] == "completed?"
    home.processes = (home.process(),)
    home.write(lines("interactive.jsonl")[1] + b"\n" + lines("interactive.jsonl")[2] + b"\n")
    home.processes = (home.process(began_at=1.0),)
    assert state()[0] == "running?", "a prompt was taken, so it was answered"


@pytest.mark.parametrize(
    ("before", "state"), [(-0.5, "running?"), (0.009, "running?"), (0.5, "waiting_for_input?")], ids=str
)
def test_a_prompt_of_the_instant_in_which_the_process_began_is_its_own(home: Home, before: float, state: str) -> None:
    """The clocks cannot tell the two apart: Gemini cuts the time to milliseconds, a start is known to 10 ms."""
    home.project()
    home.trust()
    home.write(lines("interactive.jsonl")[0] + b"\n")
    began = 1_790_000_000.0
    home.processes = (home.process(began_at=began),)
    prompt = {"id": "1", "type": "user", "content": [{"text": "Do it"}], "timestamp": fields.at(began - before)}
    assert home.state(home.write(json.dumps(prompt).encode() + b"\n"))[0] == state


def test_a_dialog_that_another_gemini_may_have_answered_is_unknown(home: Home) -> None:
    home.project()
    path = home.write(lines("interactive.jsonl")[0] + b"\n")
    os.utime(home.path / ".gemini" / "trustedFolders.json", (time.time() + 1, time.time() + 1))
    assert home.state(path) == ("unknown", NOTHING), "only this one can have answered it: the title counts"
    home.processes = (*home.processes, home.process(pid=1, began_at=time.time() - 1))
    assert home.state(path) == ("unknown?", MAYBE_ASKS_FOR_TRUST)


def test_gemini_events_come_once(home: Home) -> None:
    home.project()
    path = home.write(b"\n".join(lines("headless.jsonl")) + b"\n")
    (first,), (second,), (third,) = home.look_at_all(), home.look_at_all(), home.read(path)
    assert len(first.events) == 7 and second.events == third.events == ()
    assert first.evidence == second.evidence == third.evidence != ()
    assert len({one.id for one in first.events}) == 7


def test_a_document_of_2025_is_read_as_it_is_rewritten(home: Home) -> None:
    """Its folder is named by a hash of the path, without a list of projects."""
    home.chats = home.path / ".gemini" / "tmp" / hashlib.sha256(str(home.tree).encode()).hexdigest() / "chats"
    home.chats.mkdir(parents=True)
    home.trust(home.path)
    document = json.loads((FIXTURES / "document_2025.json").read_text())
    path = home.chats / "session-2026-11-18T11-06-7c6b5a49.json"
    states = []
    news = []
    for count in range(4):
        path.write_text(json.dumps({**document, "messages": document["messages"][:count]}))
        (one,) = home.look_at_all() if count == 0 else home.read(path)
        states.append(told(decide(one.evidence, one.alive, times.now())))
        news += [each.kind for each in one.events]
    assert states == [("unknown", NOTHING), ("running?", None), ("running?", None), ("unknown?", OPEN)]
    assert news == ["prompt", "tool_started", "tool_finished", "message"]
    assert (one.session, one.facts.tokens_in, one.facts.tokens_out) == (document["sessionId"], 1050, 37)
    path.write_text('{"sessionId": "7c6b')
    assert home.state(path) == ("unknown?", OPEN), "a torn one changes nothing"
    path.with_suffix(".jsonl").write_bytes(b"\n".join(lines("interactive.jsonl")[:3]) + b"\n")
    assert len(home.look_at_all()) == 2, "another session"


def test_one_in_which_nothing_ever_happened_is_not_called_dead(home: Home) -> None:
    home.project()
    home.write(b"\n".join(lines("headless.jsonl")[:2]) + b"\n")
    assert len(home.look_at_all()) == 1
    home.processes = ()
    assert home.read() == []


def test_the_newest_sessions_of_a_folder_belong_to_its_processes(home: Home) -> None:
    home.project()
    for number in range(3):
        data = b"\n".join(lines("interactive.jsonl")[:3]).replace(ID.encode(), f"{ID[:-1]}{number}".encode())
        path = home.write(data + b"\n", f"session-2026-11-18T11-06-7c6b5a4{number}.jsonl")
        os.utime(path, (time.time() - 30 + number, time.time() - 30 + number))
    assert {one.session[-1]: one.alive for one in home.look_at_all() if one.session} == {
        "0": False,
        "1": False,
        "2": True,
    }
    home.processes = (home.process(), home.process(pid=1))
    assert {one.session[-1]: one.alive for one in home.read() if one.session} == {"0": False, "1": True, "2": True}
    home.processes = (home.process(pid=5, argv=("gemini", "-r", ID[:-1] + "0")),)
    found = {one.session[-1]: one for one in home.read() if one.session}
    assert found["0"].alive and not found["1"].alive and not found["2"].alive
    home.processes = (home.process(pid=7, began_at=time.time()),)
    assert not any(one.alive for one in home.read()), "it began after all of them were written"


def test_a_new_process_does_not_revive_an_ended_session(home: Home) -> None:
    home.project()
    path = home.write(b"\n".join(lines("interactive.jsonl")[:3]) + b"\n")
    assert home.look_at_all()[0].alive is True
    first = home.processes
    home.processes = ()
    assert home.read()[0].alive is False
    home.processes = first
    assert home.read()[0].alive is True, "a list of processes that was not whole"
    home.processes = ()
    home.read()
    home.processes = (home.process(pid=1, began_at=time.time() + 1),)
    assert home.read()[0].alive is False
    home.write(lines("interactive.jsonl")[3] + b"\n")
    os.utime(path, (time.time() + 1, time.time() + 1))
    assert home.read(path)[0].alive is True, "it goes on"


def test_a_chat_that_goes_on_without_a_process_is_not_called_dead(home: Home) -> None:
    """Its process is not visible: in a container, or of another user."""
    home.project()
    path = home.write(b"\n".join(lines("interactive.jsonl")[:3]) + b"\n")
    os.utime(path, (time.time() - 30, time.time() - 30))
    home.processes = ()
    assert home.look_at_all()[0].alive is False
    home.write(lines("interactive.jsonl")[3] + b"\n")
    assert home.read(path)[0].alive is None


@pytest.mark.parametrize(("typed", "alive"), [("hello", False), ("/clear", True)])
def test_a_chat_beside_an_idle_process_is_dead_unless_it_may_have_gone_on_to_it(
    home: Home, typed: str, alive: bool | None
) -> None:
    """The process that began the second chat was killed, or the first one began it by /clear."""
    home.project()
    now = time.time()
    home.processes = (home.process(began_at=now - 100),)
    for number, ago in ((1, 98), (2, 50)):
        head = {"sessionId": f"{ID[:-1]}{number}", "startTime": fields.at(now - ago), "kind": "main"}
        prompt = {"id": f"m{number}", "type": "user", "content": "x", "timestamp": fields.at(now - ago + 1)}
        path = home.write(
            b"".join(json.dumps(one).encode() + b"\n" for one in (head, prompt)), f"session-{number}.jsonl"
        )
        os.utime(path, (now - ago + 1, now - ago + 1))
    log = [{"sessionId": f"{ID[:-1]}1", "message": typed, "timestamp": fields.at(now - 51)}]
    (home.chats.parent / "logs.json").write_text(json.dumps(log))
    found = {one.session: one for one in home.look_at_all()}
    if alive is False:
        assert (found[f"{ID[:-1]}1"].alive, found[f"{ID[:-1]}2"].alive) == (True, False)
        return
    assert found[f"{ID[:-1]}2"].alive is True and found[f"{ID[:-1]}2"].tied, "it went on to the newer one"


def test_a_headless_request_that_failed_is_failed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.project()
    folder = home.path / "tmp"
    folder.mkdir()
    use_temporary_folder(monkeypatch, folder)
    prompt = {"id": "1", "type": "user", "content": [{"text": "do it"}], "timestamp": times.stamp()}
    head = {"sessionId": ID, "startTime": times.stamp(), "kind": "main"}
    path = home.write(b"".join(json.dumps(one).encode() + b"\n" for one in (head, prompt)))
    home.processes = ()
    (other, own) = (
        {"error": {"message": "stub refuses"}, "context": [{"role": "user", "parts": [{"text": text}]}]}
        for text in ("something else", "do it")
    )
    name = "gemini-client-error-Turn.run-sendMessageStream-2026.json"
    (folder / name).write_text(json.dumps(other))
    (one,) = home.look_at_all()
    assert truth(one, time.time()).state == "dead", "the file of another prompt"
    (folder / name).write_text(json.dumps(own))
    home.reader = GeminiReader()
    (one,) = home.look_at_all()
    found = truth(one, time.time())
    assert (found.state, found.detail, found.ended) == ("failed", "stub refuses", True), path


def test_gemini_projects_elsewhere_and_malformed_lists(home: Home) -> None:
    home.project()
    home.write(b"\n".join(lines("headless.jsonl")) + b"\n")
    listed = str(home.path / ".gemini" / "projects.json")
    for projects in ({"/elsewhere": "tree"}, [], {str(home.tree): 3}, {str(home.tree): "../tmp/tree"}, "x", None):
        home.list(projects)
        assert home.read(listed) == [] == home.look_at_all(), projects
    home.list({str(home.tree / "src"): "tree"})
    (home.tree / "src").mkdir()
    (one,) = home.read(listed)
    assert one.cwd == str(home.tree / "src"), "a folder inside the worktree"


def test_gemini_subagents_are_no_agents(home: Home) -> None:
    home.project()
    home.write(b"\n".join(lines("headless.jsonl")).replace(b'"kind":"main"', b'"kind":"subagent"') + b"\n")
    assert home.look_at_all() == []


def test_a_long_chat_is_read_from_its_end_and_then_from_its_beginning(home: Home) -> None:
    home.project()
    chat = fake.Chat(lambda line: (home.write(line.encode()), None)[1], ID, str(home.tree))
    chat.start()
    chat.prompt("Work for hours")
    for number in range(150):
        chat.words("Next.")
        chat.write_file(f"file{number}.py")
        chat.done("x" * 20_000)
    (one,) = home.look_at_all()
    assert decide(one.evidence, one.alive, times.now()).state == "running" and home.reader.has_more
    news, looks = list(one.events), 0
    while home.reader.has_more:
        (one,) = home.read()
        news += one.events
        looks += 1
    assert looks < 20, "a bounded slice each, but not one line"
    assert one.session == ID and one.facts.prompt == "Work for hours"
    assert one.facts.tokens_in == 150 * 400 and len(one.facts.files) == 150
    assert sum(each.kind == "tool_finished" for each in news) == 150


def test_a_read_without_changes_opens_no_chat(home: Home) -> None:
    home.project()
    path = home.write(b"\n".join(lines("headless.jsonl")) + b"\n")
    home.look_at_all()
    with recorded("open", "os.scandir", below=home.path) as opened:
        home.read()
        assert opened == []
        home.read(path)
        assert opened == [path]


def test_unknown_records_give_a_format_note_and_change_nothing(home: Home) -> None:
    home.project()
    home.write(b"\n".join(lines("interactive.jsonl")[:3]) + b"\n")
    home.write(b'{"hologram": 1}\nnot json\n{"id": "x", "type": "vision", "content": ""}\n{"$rewindTo": "y"}\n')
    (one,) = home.look_at_all()
    assert decide(one.evidence, one.alive, times.now()).state == "running"
    assert one.facts.format_note == (
        "unknown (format) gemini: hologram, a line that is no record, a message of type vision"
    )


SHAPES = json_values("type", "id", "text", "status", "message")


@settings(max_examples=300)
@given(data=st.data())
def test_any_value_in_any_field_raises_nothing(data: st.DataObject) -> None:
    reducer = GeminiReducer("fuzz")
    for line in data.draw(st.lists(st.sampled_from(lines("interactive.jsonl") + lines("headless.jsonl")), max_size=12)):
        record = json.loads(line)
        calls = record.get("toolCalls") or [{}]
        for target in (record, record.get("tokens"), calls[0]):
            replace_a_field(data, target, SHAPES)
        reducer.add(json.dumps(record).encode(), "")
        truth_of(reducer)
        reducer.facts()
    reducer.take_events()


# -- a fake that runs ---------------------------------------------------------------------------------------------------


@contextmanager
def program(home: Home) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    began_at = time.time()  # no later than the start of the process, as /proc has it
    process = subprocess.Popen(
        ["gemini", fake.__file__],
        executable=sys.executable,
        cwd=home.tree,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "GEMINI_CLI_HOME": str(home.path)},
    )
    assert process.stdin and process.stdout

    def do(*commands: str) -> None:
        assert process.stdin and process.stdout
        for command in commands:
            process.stdin.write(command + "\n")
            process.stdin.flush()
            read_line(process.stdout)

    try:
        assert read_line(process.stdout) == "ready\n"
        started = host.start_time(process.pid)
        home.processes = (home.process(pid=process.pid, started=started, began_at=began_at),)
        yield process, do
    finally:
        process.kill()
        process.wait(LIMIT)
        process.stdin.close()
        process.stdout.close()


def test_the_life_of_a_terminal(home: Home) -> None:
    with program(home) as (process, do):
        do(f"new {home.tree} {ID}")
        for command, state in (
            ("prompt Do it", "running?"),
            ("words I need to run a command.", "unknown?"),
            ("call make", "unknown?"),
            ("done", "running?"),
            ("finish Done.", "unknown?"),
            ("prompt More", "running?"),
            ("esc", "cancelled"),
            ("prompt Again", "running?"),
            ("fail no money", "failed"),
            ("prompt And again", "running?"),
            ("call sleep 20", "running?"),
            ("esc", "cancelled"),
        ):
            do(command)
            (one,) = home.look_at_all()
            assert told(decide(one.evidence, one.alive, times.now()))[0] == state, command
        assert (one.session, one.pid) == (ID, process.pid)


def test_killed_suspended_and_resumed(home: Home) -> None:
    with program(home) as (process, do):
        do(f"new {home.tree} {ID}", "prompt Do it")
        home.look_at_all()
        os.kill(process.pid, signal.SIGSTOP)
        assert home.state() == ("running?", None), "a suspended one lives"
        os.kill(process.pid, signal.SIGCONT)
        process.kill()
        process.wait(LIMIT)
        home.processes = ()
        (one,) = home.read()
        truth = decide(one.evidence, one.alive, times.now())
        assert (truth.state, truth.ended) == ("dead", True)
    with program(home) as (process, do):
        do(f"new {home.tree} {ID}", "prompt Go on")
        (one,) = home.look_at_all()
        assert (one.pid, decide(one.evidence, one.alive, times.now()).state) == (process.pid, "running")
        do("finish Done.", "quit")
        process.wait(LIMIT)
        home.processes = ()
        (one,) = home.read()
        truth = decide(one.evidence, one.alive, times.now())
        assert (truth.state, truth.ended) == ("completed", True), "its last words came with its end"


def test_a_gemini_resumed_after_a_crash_stands_at_its_prompt(home: Home) -> None:
    home.project()
    home.processes = (home.process(pid=7, began_at=time.time() - 20, argv=("gemini", "-r", "latest")),)
    home.write(b"\n".join(lines("interactive.jsonl")[:3]) + b"\n")  # a prompt of long ago, and no answer
    (one,) = home.look_at_all()
    found = truth(one, time.time())
    assert (one.pid, found.state, found.confidence) == (7, "cancelled", "likely")
    prompt = {"id": "again", "type": "user", "content": [{"text": "Again"}], "timestamp": times.stamp()}
    (one,) = home.read(home.write(json.dumps(prompt).encode() + b"\n"))
    assert truth(one, time.time()).state == "running"


def test_new_gemini_folders_are_watched(home: Home) -> None:
    assert home.look_at_all() == [] and home.reader.watch_folders(home.world()) == []
    (home.path / ".gemini" / "tmp").mkdir(parents=True)
    home.read()
    assert home.reader.watch_folders(home.world()) == [str(home.path / ".gemini"), str(home.path / ".gemini" / "tmp")]
    home.project()
    home.write(b"\n".join(lines("headless.jsonl")) + b"\n")
    (one,) = home.read(home.path / ".gemini" / "projects.json")
    assert one.cwd == str(home.tree)
    assert str(home.chats) in home.reader.watch_folders(home.world())
