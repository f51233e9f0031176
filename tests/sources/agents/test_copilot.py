"""Copilot: every event of recorded sessions, files of any shape, and a fake that is stopped, killed and taken up again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model import times
from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, FAILED, NOTHING_ASKED, RUNNING, UNKNOWN, WAITING
from imi_monitor.model.truth import CUT_OFF
from imi_monitor.sources.agents.agent_reader import AgentProcess, Sighting
from imi_monitor.sources.agents.copilot import reader as copilot
from imi_monitor.sources.agents.folder_trust import ASKS_FOR_TRUST, MAYBE_ASKS_FOR_TRUST
from imi_monitor.sources.agents.process_scan import ProcessScan
from tests.audit_events import recorded
from tests.json_values import json_values
from tests.limits import LIMIT
from tests.sources.agents.fake_processes import SHELL, named, script, soon
from tests.sources.agents.reader_kit import (
    FAKES,
    FIXTURES,
    Driven,
    driven,
    process,
    python,
    read_twice,
    steps,
    truth,
    world,
)

SCENARIOS = sorted(path.stem for path in (FIXTURES / "copilot").glob("*.jsonl"))
SESSION = "20c1825b-1a19-4e40-b339-6b0d3bc410fd"


class Place:
    def __init__(self, tmp: Path) -> None:
        self.home, self.wt = tmp / "home", tmp / "wt"
        self.wt.mkdir()
        self.folder = self.home / ".copilot/session-state" / SESSION
        self.folder.mkdir(parents=True)
        (self.folder / "workspace.yaml").write_text(f"cwd: {self.wt}\nbranch: main\nname: Tidy up\n")
        self.events = self.folder / "events.jsonl"
        self.reader = copilot.make()
        self.at = time.time()
        self.began = 0.0  # of its process: before the recorded events

    def trust(self, folder: Path) -> None:
        (self.home / ".copilot/config.json").write_text(f'// managed\n{{"trustedFolders": ["{folder}"]}}')

    def line(self, step: dict[str, Any]) -> bytes:
        moment = times.parse(step["event"]["timestamp"])
        self.at = moment.timestamp() if moment else self.at
        return json.dumps(step["event"]).replace("@WT@", str(self.wt)).encode() + b"\n"

    def put(self, step: dict[str, Any]) -> None:
        self.append(self.line(step))

    def append(self, data: bytes) -> None:
        with self.events.open("ab") as file:
            file.write(data)
        os.utime(self.events, ns=(time.time_ns(), time.time_ns()))

    def put_all(self, name: str) -> None:
        for step in steps("copilot", name):
            self.put(step)

    def seen(self) -> list[Sighting]:
        """Read with this test's own process as the agent."""
        lock = self.folder / f"inuse.{os.getpid()}.lock"
        if not lock.exists():
            lock.write_text("")
        there = [process("copilot", self.wt, self.began, pid=os.getpid())]
        return list(read_twice(self.reader, world(self.home, self.wt, now=time.time(), processes=there)))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_event_gives_the_right_state(place: Place, name: str) -> None:
    for number, step in enumerate(steps("copilot", name)):
        place.put(step)
        (one,) = place.seen()
        where = (name, number, step["event"])
        (told,) = one.evidence
        assert (told.state, told.or_else) == (step["state"], frozenset()), where
        assert truth(one, place.at + 1).state == step["state"], where
        if "detail" in step:
            assert told.detail == step["detail"], where
        if "tool" in step:
            assert told.tool is not None and told.tool.name == step["tool"], where


@pytest.mark.parametrize("name", ["terminal", "parallel"])
def test_a_torn_last_line_waits(place: Place, name: str) -> None:
    """At every byte of some lines: nothing changes until the line is complete."""
    known = steps("copilot", name)
    for number, step in enumerate(known):
        line = place.line(step)
        if number in (3, 7, 8):
            before = place.seen()[0].evidence
            place.reader = copilot.make()
            for at in range(0, len(line) - 1, max(1, len(line) // 40)):
                place.events.write_bytes(b"".join(map(place.line, known[:number])) + line[: at + 1])
                assert place.seen()[0].evidence == before
            place.append(line[at + 1 :])
            assert place.seen()[0].evidence[0].state == step["state"]
        else:
            place.append(line)


def test_facts_of_a_session(place: Place) -> None:
    place.put_all("terminal")
    (one,) = place.seen()
    facts = one.facts
    assert (one.session, one.cwd, one.pid) == (SESSION, str(place.wt), os.getpid())
    assert (facts.version, facts.model, facts.title, facts.branch) == ("1.0.102", "model-1", "Tidy up", "main")
    assert (facts.tokens_in, facts.tokens_out, facts.tokens_cached) == (2420, 84, 6000)
    assert (facts.context_used, facts.context_size) == (4252, 128000)
    assert (facts.prompt, facts.last_message) == ("tell me more", "It is clean.")
    assert facts.cost_usd is None and facts.format_note is None


def test_files_of_a_copilot_session(place: Place) -> None:
    place.put_all("resumed")
    assert place.seen()[0].facts.files == (f"{place.wt}/new.py",)


def test_events_come_once_and_in_order(place: Place) -> None:
    news: list[Any] = []
    for step in steps("copilot", "terminal"):
        place.put(step)
        news += [each for one in place.seen() for each in one.events]
    assert [each.kind for each in news] == [
        "started",
        "prompt",
        "message",
        "tool_started",
        "waits",
        "answered",
        "tool_finished",
        "message",
        "completed",
        "prompt",
    ]
    place.reader = copilot.make()
    again = [each for one in place.seen() for each in one.events]
    assert [each.id for each in again] == [each.id for each in news]
    assert str(news[3].tool) == "bash make clean && make"
    assert (news[4].text, news[5].text, news[6].ok) == ("Build anew", "approved", True)


def test_the_rest_of_a_long_file_is_read_in_slices(place: Place) -> None:
    """The state comes from the end at once; the tokens when everything is read."""
    usage = next(step for step in steps("copilot", "terminal") if "usage_record" in step["event"]["type"])
    filler = json.dumps({"type": "hook.end", "data": {"output": "x" * 200_000}}).encode() + b"\n"
    place.append(place.line(steps("copilot", "terminal")[0]))
    for _ in range(20):
        place.append(place.line(usage) + filler)
    for step in steps("copilot", "terminal")[1:]:
        place.put(step)
    there = [process("copilot", place.wt, 0.0, pid=os.getpid())]
    (place.folder / f"inuse.{os.getpid()}.lock").write_text("")
    at = world(place.home, place.wt, now=time.time(), processes=there)
    (one,) = place.reader.read(at, None)
    assert one.evidence[0].state == RUNNING
    assert (one.facts.tokens_in, place.reader.has_more) == (None, True)  # type: ignore[attr-defined]
    looks = 0
    while place.reader.has_more:  # type: ignore[attr-defined]
        (one,) = place.reader.read(at, frozenset())
        looks += 1
    assert looks > 2
    assert (one.facts.tokens_in, one.facts.version) == (22 * 1210, "1.0.102")


def test_a_tick_opens_nothing(place: Place) -> None:
    place.put_all("terminal")
    place.seen()
    there = [process("copilot", place.wt, 0.0, pid=os.getpid())]
    at = world(place.home, place.wt, now=time.time(), processes=there)
    with recorded("open", below=place.home) as opened, recorded("os.scandir") as listed:
        for _ in range(5):
            assert len(place.reader.read(at, frozenset())) == 1
    assert opened == listed == []


def test_copilot_sessions_elsewhere_are_checked_once(place: Place) -> None:
    place.put_all("terminal")
    place.began = time.time() - 3600
    for number in range(30):
        other = place.folder.parent / f"other-{number}"
        other.mkdir()
        (other / "workspace.yaml").write_text(f"cwd: {place.home}\n")
        (other / "events.jsonl").write_bytes(place.events.read_bytes())
        if number < 20:
            for each in (other / "events.jsonl", other):
                os.utime(each, (1, 1))
    assert len(place.seen()) == 1
    with recorded("open", below=place.folder.parent / "other-") as opened:
        place.reader = copilot.make()
        assert len(place.seen()) == 1
        assert 0 < len(opened) <= 10, "only what moved, and there only where it is"
        opened.clear()
        assert len(place.seen()) == 1
        assert opened == []


def test_a_new_copilot_session_appears_with_its_first_event(place: Place) -> None:
    (place.folder / "workspace.yaml").unlink()
    assert place.seen() == []
    assert str(place.folder) in place.reader.watch_folders(world(place.home, place.wt, now=time.time()))
    place.put(steps("copilot", "terminal")[0])
    (one,) = place.seen()
    assert one.evidence[0].state == COMPLETED


def test_a_replaced_copilot_file_is_read_again(place: Place) -> None:
    place.put_all("terminal")
    assert place.seen()[0].evidence[0].state == RUNNING
    old = place.events
    place.events = old.with_name("new")
    place.put_all("headless")
    os.replace(place.events, old)
    assert place.seen()[0].evidence[0].state == COMPLETED
    old.write_bytes(b"".join(map(place.line, steps("copilot", "terminal")[:3])))
    assert place.seen()[0].evidence[0].state == RUNNING


def test_a_session_that_moves_follows_its_events(place: Place, tmp_path: Path) -> None:
    place.put_all("terminal")
    assert len(place.seen()) == 1
    place.append(
        json.dumps(
            {
                "type": "session.context_changed",
                "data": {"cwd": str(tmp_path)},
                "id": "m",
                "timestamp": "2026-11-18T08:14:00Z",
            }
        ).encode()
        + b"\n"
    )
    assert place.seen() == []


def test_copilot_home_of_the_environment(place: Place, tmp_path: Path) -> None:
    place.put_all("terminal")
    at = world(tmp_path / "nobody", place.wt, now=time.time(), COPILOT_HOME=str(place.home / ".copilot"))
    assert len(copilot.make().read(at, None)) == 1
    assert copilot.make().read(world(tmp_path / "nobody", place.wt, now=time.time()), None) == []


def test_unknown_copilot_formats_give_a_format_note(place: Place) -> None:
    place.append(
        b'{"type":"new.thing","data":{},"id":"1","timestamp":"2026-11-18T08:14:00Z"}\nnot json\n[]\n{"type":5}\n'
    )
    (one,) = place.seen()
    assert one.evidence == ()
    assert one.facts.format_note == "unknown (format) copilot ?: no event that is known"
    start = steps("copilot", "terminal")[0]
    start["event"]["data"] |= {"version": 9, "copilotVersion": "9.9.9"}
    place.put(start)
    assert place.seen()[0].facts.format_note == "unknown (format) copilot 9.9.9: events of version 9"


JSON = json_values()
LINES = [json.loads(json.dumps(step["event"])) for name in SCENARIOS for step in steps("copilot", name)]
FIELDS = sorted({key for line in LINES for key in (*line, *line["data"])})


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(FIELDS), JSON), max_size=12), st.binary(max_size=20))
def test_fields_of_any_type_raise_nothing(
    place: Place, changed: list[tuple[dict[str, Any], str, Any]], noise: bytes
) -> None:
    place.events.unlink(missing_ok=True)
    for line, field, value in changed:
        data = {**line["data"], field: value} if field in line["data"] else line["data"]
        place.append(
            json.dumps({**line, "data": data, **({field: value} if field in line else {})}).encode() + b"\n" + noise
        )
    place.reader = copilot.make()
    for one in place.seen():
        truth(one, time.time())


class Lived(Place):
    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp.resolve())
        (self.folder / "workspace.yaml").unlink()
        self.folder.rmdir()
        self.scan = ProcessScan(iter(range(10**6)).__next__)
        self.program = named(tmp / "bin", "copilot", python())
        self.argv = [self.program, str(FAKES / "copilot.py"), str(self.home), SESSION]

    def decided(self) -> tuple[str, Any, Sighting | None]:
        now = time.time()
        at = world(self.home, self.wt, now=now, processes=self.scan())
        found = self.reader.read(at, frozenset())
        if not found:
            return UNKNOWN, None, None
        (one,) = found
        told = truth(one, now)
        return told.state, told, one

    def state(self) -> str:
        return self.decided()[0]


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Lived]:
    yield Lived(tmp_path)


def play(lived: Lived, agent: Driven, *lines: tuple[str, str]) -> None:
    for command, state in lines:
        agent(command)
        assert lived.state() == state, command


def test_a_real_process_from_the_first_prompt_to_the_end(lived: Lived) -> None:
    with driven(lived.argv, lived.wt) as agent:
        play(
            lived,
            agent,
            ("prompt tidy up", RUNNING),
            ("ask bash rm -rf x", WAITING),
            ("answer", RUNNING),
            ("done", RUNNING),
            ("turn", RUNNING),
            ("end It is done", COMPLETED),
            ("prompt again", RUNNING),
            ("ask bash make", WAITING),
            ("deny", RUNNING),
            ("turn", RUNNING),
            ("esc", CANCELLED),
            ("prompt more", RUNNING),
            ("fail No requests are left", FAILED),
            ("prompt more", RUNNING),
            ("ask bash sleep", WAITING),
        )
        _, told, one = lived.decided()
        assert (told.detail, str(told.tool), told.confidence) == ("permission for shell", "bash sleep", "exact")
        assert one is not None and (one.pid, one.facts.title) == (agent.process.pid, "It's tidy")
        os.kill(agent.process.pid, signal.SIGSTOP)
        assert lived.state() == WAITING
        os.kill(agent.process.pid, signal.SIGCONT)
        agent.process.kill()
        agent.process.wait(LIMIT)
        assert lived.state() == DEAD, "its lock is still there"
    with driven([*lived.argv, "--resume"], lived.wt) as agent:
        assert lived.state() == CANCELLED
        play(lived, agent, ("prompt on", RUNNING), ("end Well", COMPLETED))
        assert agent.process.stdin is not None
        agent.process.stdin.close()
        agent.process.wait(LIMIT)
        state, told, _ = lived.decided()
        assert (state, told.ended) == (COMPLETED, True)


def test_the_lock_of_a_wrapper_is_that_of_its_program(lived: Lived) -> None:
    node = named(lived.home / "n", "node", SHELL)
    argv = " ".join([*lived.argv, "--lock-of-parent"])
    wrapper = script(lived.home / "node_modules/@github/copilot/npm-loader.js", f"{argv}\nexit $?\n")
    with driven([node, wrapper], lived.wt) as agent:
        agent("prompt tidy up")
        soon(lambda: lived.decided()[0] == RUNNING)
        _, _, one = lived.decided()
        assert one is not None and one.alive is True and one.pid != agent.process.pid


def test_a_copilot_younger_than_the_lock_is_not_its_owner(place: Place) -> None:
    """The lock was left behind, and its pid now belongs to another Copilot."""
    place.put_all("terminal")
    assert place.seen()[0].alive is True
    lock = place.folder / f"inuse.{os.getpid()}.lock"
    os.utime(lock, (time.time() - 7200, time.time() - 7200))
    place.reader = copilot.make()
    old = time.time() - 7200
    os.utime(place.events, (old, old))
    there = [process("copilot", place.wt, time.time() - 3600, pid=os.getpid())]
    (one,) = place.reader.read(world(place.home, place.wt, now=time.time(), processes=there), None)
    assert (one.alive, truth(one, time.time()).state) == (False, DEAD)


def look(place: Place, *there: AgentProcess) -> list[Sighting]:
    return list(copilot.make().read(world(place.home, place.wt, now=time.time(), processes=there), None))


def test_a_session_without_a_lock_is_open_nowhere(place: Place) -> None:
    for step in steps("copilot", "terminal")[:3]:
        place.put(step)  # a prompt that is not answered, written just now
    (one,) = look(place, process("copilot", place.wt, time.time() - 1, pid=os.getpid()))
    assert (one.alive, truth(one, time.time()).state) == (False, DEAD)
    (place.folder / "inuse.999999.lock").write_text("")
    (one,) = look(place)
    assert (one.alive, truth(one, time.time()).state) == (False, DEAD), "the holder of the lock is gone"


def test_a_killed_copilot_that_is_written_to_runs_where_it_is_not_visible(place: Place) -> None:
    (place.folder / "inuse.999999.lock").write_text("")
    events = steps("copilot", "terminal")
    place.put(events[0])
    at = world(place.home, place.wt, now=time.time())
    assert [one.alive for one in place.reader.read(at, None)] == [False]
    place.put(events[1])
    os.utime(place.events, (time.time() + 1, time.time() + 1))
    assert [one.alive for one in place.reader.read(at, None)] == [None]


def test_a_copilot_asks_whether_its_folder_is_trusted(place: Place) -> None:
    """It is trusted for good in its settings, for one session by what its log has next."""
    (place.folder / f"inuse.{os.getpid()}.lock").write_text("")
    log = place.home / ".copilot/logs" / f"process-1795122661726-{os.getpid()}.log"

    def state() -> tuple[str, str, str | None]:
        place.reader = copilot.make()
        (one,) = look(place, process("copilot", place.wt, time.time() - 60, pid=os.getpid()))
        found = truth(one, time.time())
        return found.state, found.confidence, found.detail

    assert state() == (UNKNOWN, "likely", MAYBE_ASKS_FOR_TRUST), "without a log nothing tells it"
    log.parent.mkdir()
    log.write_text("2026-11-19T21:11:02.885Z [INFO] Logged out\n")
    assert state() == (WAITING, "likely", ASKS_FOR_TRUST)
    with log.open("a") as file:
        file.write("2026-11-19T21:11:25.783Z [INFO] [rust:lsp::session_service] Resolved LSP telemetry consent {}\n")
    assert state() == (COMPLETED, "exact", NOTHING_ASKED)
    log.unlink()
    place.trust(place.wt.parent)
    assert state() == (COMPLETED, "exact", NOTHING_ASKED)


def test_a_copilot_that_was_never_asked_is_ready_and_leaves_nothing(place: Place) -> None:
    place.trust(place.wt)
    lock = place.folder / f"inuse.{os.getpid()}.lock"
    lock.write_text("")
    (one,) = look(place, process("copilot", place.wt, pid=os.getpid()))
    found = truth(one, time.time())
    assert (one.pid, found.state, found.detail) == (os.getpid(), COMPLETED, NOTHING_ASKED)
    lock.unlink()
    assert look(place) == []


RESUMED = [("copilot", "--continue"), ("copilot", "--resume", SESSION), ("copilot", f"--resume={SESSION}")]


@pytest.mark.parametrize("argv", RESUMED)
def test_a_resumed_copilot_has_its_session_before_its_lock(place: Place, argv: tuple[str, ...]) -> None:
    for step in steps("copilot", "terminal")[:3]:
        place.put(step)
    os.utime(place.events, (time.time() - 60, time.time() - 60))
    (one,) = look(place, process("copilot", place.wt, time.time() - 1, *argv, pid=os.getpid()))
    found = truth(one, time.time())
    assert (one.pid, found.state, found.detail) == (os.getpid(), CANCELLED, CUT_OFF)


def test_a_copilot_resumed_within_the_instant_of_the_last_record_has_its_session(place: Place) -> None:
    place.put(steps("copilot", "terminal")[0])
    os.utime(place.events, (time.time() - 10, time.time() - 10))
    began = os.stat(place.events).st_mtime - 0.009  # the start of a process is cut to 10 ms
    (one,) = look(place, process("copilot", place.wt, began, "copilot", "--continue", pid=os.getpid()))
    assert one.pid == os.getpid()


def test_a_lock_with_the_pid_of_another_program_is_free(lived: Lived) -> None:
    with driven(lived.argv, lived.wt) as agent:
        agent("prompt tidy up")
        assert lived.state() == RUNNING
        agent.process.kill()
        agent.process.wait(LIMIT)
    (lived.folder / f"inuse.{os.getpid()}.lock").write_text("")
    assert lived.state() == DEAD
    lived.reader = copilot.make()
    os.utime(lived.events, (time.time() - 60, time.time() - 60))
    assert lived.state() == DEAD
