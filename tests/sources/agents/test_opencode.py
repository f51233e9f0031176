"""opencode: every step of recorded sessions, rows of any shape, and a fake that is stopped, killed and taken up again."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, FAILED, RUNNING, UNKNOWN, WAITING
from imi_monitor.sources.agents import foreign_db
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.opencode import reader as opencode
from imi_monitor.sources.agents.opencode import reader as opencode_http
from imi_monitor.sources.agents.process_scan import ProcessScan
from tests.audit_events import recorded
from tests.json_values import json_values
from tests.limits import LIMIT
from tests.sources.agents.fake_processes import named, soon
from tests.sources.agents.fakes.opencode import open_book, put
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

SCENARIOS = sorted(path.stem for path in (FIXTURES / "opencode").glob("*.jsonl"))


class Place:
    """A home with opencode's database, and a worktree."""

    def __init__(self, tmp: Path) -> None:
        self.home, self.wt = tmp / "home", tmp / "wt"
        self.wt.mkdir()
        self.path = self.home / ".local/share/opencode/opencode.db"
        self.book = open_book(self.path)
        self.reader = opencode.make()
        self.at = 0

    def put(self, step: dict[str, Any]) -> None:
        row = json.loads(json.dumps(step["row"]).replace("@WT@", str(self.wt)))
        self.at = max(self.at, row["time_updated"])
        put(self.book, step["table"], row)

    def put_all(self, name: str) -> None:
        for step in steps("opencode", name):
            self.put(step)

    def seen(self, later: float = 4.0, alive: bool = True) -> list[Sighting]:
        now = self.at / 1000 + later
        there = [process("opencode", self.wt, self.at / 1000 - 600)] if alive else []
        return list(read_twice(self.reader, world(self.home, self.wt, now=now, processes=there)))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.book.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_step_of_a_session_is_the_right_state(place: Place, name: str) -> None:
    for number, step in enumerate(steps("opencode", name)):
        place.put(step)
        (one,) = place.seen()
        told = one.evidence[-1] if one.evidence else None
        where = (name, number, step["row"])
        assert (told.state if told else None) == step["state"], where
        if told is not None:
            assert told.or_else == frozenset(step["or_else"]), where
            assert truth(one, place.at / 1000 + 4).state == step["state"], where
        if told is not None and step.get("detail"):
            assert told.detail == step["detail"], where
        if told is not None and step.get("tool"):
            assert told.tool is not None and told.tool.name == step["tool"], where


@pytest.mark.parametrize("name", SCENARIOS)
def test_read_from_the_middle_it_is_the_same(place: Place, name: str) -> None:
    """A monitor that starts late finds the same as one that read every step."""
    for step in steps("opencode", name):
        place.put(step)
        (followed,) = place.seen()
        place.reader, kept = opencode.make(), place.reader
        (fresh,) = place.seen()
        place.reader = kept
        assert (fresh.evidence, fresh.facts) == (followed.evidence, followed.facts)


def test_facts_of_a_session(place: Place) -> None:
    place.put_all("terminal_session")
    (one,) = place.seen()
    facts = one.facts
    assert (one.cwd, one.cli) == (str(place.wt), "opencode")
    assert (facts.version, facts.model, facts.title) == ("1.18.33", "model-1", "Tidy up")
    assert facts.prompt == "and now?"
    assert facts.last_message is not None and facts.last_message.startswith("word0")
    assert facts.context_used == 4252
    assert facts.tokens_in is not None and facts.cost_usd == 0.0
    assert facts.format_note is None


def test_files_and_subagents(place: Place) -> None:
    place.put_all("failed")
    (one,) = place.seen()
    assert one.facts.files == (f"{place.wt}/a.py", f"{place.wt}/b.py")
    assert one.facts.subagents == 0


def test_events_come_once_and_in_order(place: Place) -> None:
    news: list[Any] = []
    for step in steps("opencode", "terminal_session"):
        place.put(step)
        news += [each for one in place.seen() for each in one.events]
    kinds = [each.kind for each in news]
    assert len({each.id for each in news}) == len(news)
    assert kinds[:4] == ["started", "prompt", "tool_started", "message"]
    assert (kinds.count("prompt"), kinds.count("completed"), kinds.count("cancelled")) == (3, 1, 1)
    (started,) = [each for each in news if each.kind == "tool_started"]
    (finished,) = [each for each in news if each.kind == "tool_finished"]
    assert started.tool == finished.tool and str(started.tool) == "bash make clean && make"
    assert finished.ok is True
    place.reader = opencode.make()
    assert {each.id for one in place.seen() for each in one.events} <= {each.id for each in news}


def test_opencode_sessions_outside_of_the_worktrees_are_ignored(place: Place) -> None:
    place.put_all("killed")
    place.book.execute("update session set directory = ?", [str(place.home)])
    assert place.seen() == []


def test_subagents_and_archived_sessions_are_not_agents(place: Place) -> None:
    place.put_all("killed")
    place.book.execute("update session set parent_id = 'ses_x'")
    assert place.seen() == []
    place.book.execute("update session set parent_id = null, time_archived = 5")
    assert place.seen() == []


def test_old_opencode_sessions_need_a_process(place: Place) -> None:
    place.put_all("killed")
    assert place.seen(later=100_000.0, alive=False) == []
    assert len(place.seen(later=100_000.0)) == 1


def test_an_opencode_process_that_ended(place: Place) -> None:
    place.put_all("killed")
    (one,) = place.seen()
    assert (one.pid, one.alive) == (4242, True)
    (one,) = place.seen(later=5.5, alive=False)
    assert truth(one, place.at / 1000 + 6).state == DEAD
    place.reader = opencode.make()
    (one,) = place.seen(later=60, alive=False)
    assert (one.alive, truth(one, place.at / 1000 + 60).state) == (False, DEAD)


def test_an_opencode_session_that_finished_before_its_end_is_done(place: Place) -> None:
    place.put_all("question")
    place.seen()
    (one,) = place.seen(later=6.0, alive=False)
    decided = truth(one, place.at / 1000 + 6)
    assert (decided.state, decided.ended) == (COMPLETED, True)


def test_unknown_opencode_schemas_give_a_format_note(place: Place, tmp_path: Path) -> None:
    place.book.execute("alter table session rename to sessions")
    (one,) = place.seen()
    assert (one.session, one.pid) == (None, 4242)
    assert one.facts.format_note is not None and "opencode.db has no table of sessions" in one.facts.format_note


def test_json_storage_of_old_versions_gives_a_format_note(tmp_path: Path) -> None:
    (tmp_path / "home/.local/share/opencode/storage/message").mkdir(parents=True)
    (tmp_path / "wt").mkdir()
    at = world(tmp_path / "home", tmp_path / "wt", now=9e8, processes=[process("opencode", tmp_path / "wt")])
    (one,) = read_twice(opencode.make(), at)
    assert one.facts.format_note is not None and "before version 1.2" in one.facts.format_note
    assert one.evidence == ()


def test_without_opencode_there_is_nothing(tmp_path: Path) -> None:
    at = world(tmp_path, tmp_path, now=9e8)
    reader = opencode.make()
    assert (read_twice(reader, at), reader.watch_folders(at)) == ([], [])


def test_where_the_database_is(place: Place, tmp_path: Path) -> None:
    place.put_all("killed")
    now = place.at / 1000 + 1
    elsewhere = world(tmp_path / "other", place.wt, now=now, XDG_DATA_HOME=str(place.home / ".local/share"))
    assert len(read_twice(opencode.make(), elsewhere)) == 1
    relative = world(place.home, place.wt, now=now, XDG_DATA_HOME="nonsense")
    assert len(read_twice(opencode.make(), relative)) == 1
    told = world(tmp_path / "other", place.wt, now=now, OPENCODE_DB=str(place.path))
    assert len(read_twice(opencode.make(), told)) == 1
    os.rename(place.path.parent, place.path.parent.parent / "moved")
    assert read_twice(opencode.make(), relative) == []
    os.rename(place.path.parent.parent / "moved", place.path.parent)
    assert opencode.make().watch_folders(relative) == [str(place.path.parent)]


def test_a_tick_opens_nothing(place: Place) -> None:
    place.put_all("terminal_session")
    now = place.at / 1000
    at = world(place.home, place.wt, now=now)
    place.reader.read(at, None)
    soon(lambda: foreign_db.stamp(str(place.path)) == foreign_db.stamp(str(place.path)))
    place.reader.read(at, frozenset())
    with recorded("sqlite3.connect") as opened:
        for _ in range(5):
            place.reader.read(at, frozenset())
            place.reader.read(at, frozenset({str(place.path.parent / "log/x.log")}))
    assert opened == []
    place.put(steps("opencode", "terminal_session")[-1])
    with recorded("sqlite3.connect") as opened:
        place.reader.read(at, frozenset({f"{place.path}-wal"}))
    assert len(opened) == 1


def test_reading_costs_what_changed(place: Place, monkeypatch: Any) -> None:
    place.put_all("terminal_session")
    place.seen()
    asked: list[tuple[str, Any]] = []
    rows = foreign_db.ForeignDatabase.rows
    monkeypatch.setattr(
        foreign_db.ForeignDatabase, "rows", lambda self, q, *v: asked.append((q, v)) or rows(self, q, *v)
    )
    step = steps("opencode", "terminal_session")[-1]
    step["row"]["time_updated"] += 1
    place.put(step)
    place.reader.read(world(place.home, place.wt, now=place.at / 1000), frozenset({f"{place.path}-wal"}))
    contents = [values for question, values in asked if ", data from" in question]
    assert contents == [(step["row"]["id"],)], "the one message that changed, and nothing else"


def test_a_database_written_just_now_is_read_again(place: Place) -> None:
    """Two commits within one tick of the clock carry the same time."""
    place.put_all("killed")
    path = str(place.path)
    assert foreign_db.stamp(path) != foreign_db.stamp(path)
    for name in (path, f"{path}-wal"):
        os.utime(name, (time.time() - 5, time.time() - 5))
    assert foreign_db.stamp(path) == foreign_db.stamp(path)
    assert foreign_db.stamp(f"{path}.none") is None


def test_a_refused_tool_may_be_followed_by_another_step(place: Place) -> None:
    for step in steps("opencode", "refused"):
        place.put(step)
        if step["state"] == "cancelled":
            break
    assert truth(place.seen(later=1.0)[0], place.at / 1000 + 1).state == RUNNING
    assert truth(place.seen(later=4.0)[0], place.at / 1000 + 4).state == CANCELLED


def test_the_prompt_of_a_long_turn(place: Place) -> None:
    for step in steps("opencode", "killed"):
        place.put(step)
    *_, first = [step["row"] for step in steps("opencode", "killed") if step["table"] == "message"]
    for number in range(30):
        row = {**first, "id": f"msg_9{number:03d}", "time_created": first["time_created"] + 100 + number}
        place.put({"table": "message", "row": row})
        assert place.seen()[0].facts.prompt == "a long walk"
    place.reader = opencode.make()
    (one,) = place.seen()
    assert one.facts.prompt == "a long walk"
    assert [each.kind for each in one.events] == ["started", "prompt"]


def test_a_silent_port_is_not_asked_again_for_a_while(monkeypatch: Any) -> None:
    asked: list[int] = []

    def silent(number: int, path: str) -> None:
        asked.append(number)
        raise OSError("nobody")

    monkeypatch.setattr(opencode_http, "_get", silent)
    asker = opencode_http.PortClient()
    assert [asker.ask(4096, now) for now in (0.0, 1.0, 29.0, 31.0)] == [None] * 4
    assert asked == [4096, 4096]


@pytest.mark.parametrize(
    ("argv", "number"),
    [
        ("opencode --port 4096", 4096),
        ("opencode --port=80 x", 80),
        ("opencode", None),
        ("opencode --port", None),
        ("opencode --port 0", None),
        ("opencode --port ²", None),
        ("opencode --port 99999", None),
    ],
)
def test_the_port_of_a_command_line(argv: str, number: int | None) -> None:
    assert opencode_http.port(argv.split()) == number


def tree(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.suffix != ".db-shm"
    }


def test_reading_creates_no_file_beside_the_database(place: Place) -> None:
    """Not beside a live database, not beside one at rest, not beside one whose program was killed."""
    place.put_all("killed")
    live = tree(place.path.parent)
    assert len(place.seen()) == 1
    assert tree(place.path.parent) == live
    assert sorted(live) == ["opencode.db", "opencode.db-wal"]
    place.book.close()
    resting = tree(place.path.parent)
    assert sorted(resting) == ["opencode.db"]
    place.reader = opencode.make()
    assert len(place.seen()) == 1
    assert sorted(each.name for each in place.path.parent.iterdir()) == ["opencode.db"]


def test_a_log_without_its_index_is_not_touched(place: Place) -> None:
    place.put_all("killed")
    copy = place.home / "copy/.local/share/opencode"
    copy.mkdir(parents=True)
    for name in ("opencode.db", "opencode.db-wal"):
        (copy / name).write_bytes((place.path.parent / name).read_bytes())
    before = tree(copy)
    there = [process("opencode", place.wt)]
    (one,) = opencode.make().read(world(place.home / "copy", place.wt, now=place.at / 1000, processes=there), None)
    assert one.facts.format_note is not None and "log without an index" in one.facts.format_note
    assert (tree(copy), sorted(each.name for each in copy.iterdir())) == (before, sorted(before))


def test_a_locked_or_broken_database_changes_nothing(place: Place) -> None:
    place.put_all("killed")
    (before,) = place.seen()
    place.book.execute("pragma wal_checkpoint(truncate)")
    place.path.write_bytes(b"not a database at all" * 100)
    (after,) = place.seen()
    assert after.evidence == before.evidence
    place.reader = opencode.make()
    (one,) = place.seen()
    assert (one.session, bool(one.facts.format_note)) == (None, True)


FIELDS = [
    "role",
    "time",
    "completed",
    "error",
    "name",
    "data",
    "finish",
    "type",
    "state",
    "status",
    "tool",
    "input",
    "files",
]
JSON = json_values(*FIELDS, most_leaves=12)


@settings(max_examples=60)
@given(JSON, JSON, st.sampled_from(["", "{", "[]", "null", '"x"', "{}"]) | st.none())
def test_fields_of_any_type_raise_nothing(place: Place, message: Any, part: Any, raw: str | None) -> None:
    place.book.execute("delete from session")
    place.book.execute("delete from message")
    place.book.execute("delete from part")
    place.put_all("killed")
    data = {"role": "assistant", **message} if isinstance(message, dict) else message
    texts = [raw if raw is not None else json.dumps(data), raw if raw is not None else json.dumps(part)]
    place.book.execute("update message set data = ? where id like 'msg%' and data like '%assistant%'", texts[:1])
    place.book.execute("update part set data = ?", texts[1:])
    place.reader = opencode.make()
    (one,) = place.seen()
    truth(one, place.at / 1000)
    for each in one.evidence:
        assert isinstance(each.says, str) and each.at


@pytest.mark.parametrize("column", ["directory", "title", "version", "model", "cost", "tokens_input", "time_created"])
@pytest.mark.parametrize("value", [b"\xff\xfe", "", -1, 2**62, 1.5, "x" * 5000])
def test_columns_of_any_type_raise_nothing(place: Place, column: str, value: Any) -> None:
    place.put_all("killed")
    place.book.execute(f"update session set {column} = ?", [value])
    for one in place.seen():
        truth(one, place.at / 1000)


class Lived(Place):
    """The same with a running fake opencode."""

    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp.resolve())
        self.scan = ProcessScan(iter(range(10**6)).__next__)
        self.program = named(tmp / "bin", "opencode", python())
        self.argv = [self.program, str(FAKES / "opencode.py"), str(self.path)]

    def all(self) -> list[Sighting]:
        at = world(self.home, self.wt, now=time.time(), processes=self.scan())
        return [one for one in self.reader.read(at, frozenset()) if one.session]

    def state(self) -> str:
        return self.decided()[0]

    def decided(self) -> tuple[str, Any, Sighting | None]:
        found, now = self.all(), time.time()
        if not found:
            return UNKNOWN, None, None
        newest = max(found, key=lambda one: one.facts.started_at or "")
        told = truth(newest, now)
        return told.state, told, newest


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[Lived]:
    made = Lived(tmp_path)
    yield made
    made.book.close()


def play(lived: Lived, agent: Driven, *lines: tuple[str, str]) -> None:
    for command, state in lines:
        agent(command)
        assert lived.state() == state, command


def test_a_real_process_from_the_first_prompt_to_the_end(lived: Lived) -> None:
    with driven(lived.argv, lived.wt) as agent:
        assert lived.state() == UNKNOWN
        play(
            lived,
            agent,
            ("prompt tidy up", RUNNING),
            ("step", RUNNING),
            ("say first", RUNNING),
            ("tool bash make", RUNNING),
            ("answer", RUNNING),
            ("finish tool-calls", RUNNING),
            ("step", RUNNING),
            ("finish stop", COMPLETED),
            ("prompt again", RUNNING),
            ("step", RUNNING),
            ("ask bash rm", RUNNING),
            ("esc", CANCELLED),
            ("prompt more", RUNNING),
            ("step", RUNNING),
            ("fail Insufficient Balance", FAILED),
            ("prompt more", RUNNING),
            ("step", RUNNING),
            ("cut", CANCELLED),
            ("prompt more", RUNNING),
            ("step", RUNNING),
            ("tool bash sleep", RUNNING),
        )
        _, told, one = lived.decided()
        assert one is not None and one.pid == agent.process.pid
        assert str(told.tool) == "bash sleep"
        os.kill(agent.process.pid, signal.SIGSTOP)
        assert lived.state() == RUNNING
        os.kill(agent.process.pid, signal.SIGCONT)
        agent.process.kill()
        agent.process.wait(LIMIT)
        assert lived.state() == DEAD
    time.sleep(0.1)  # the system gives start times in hundredths of a second
    with driven(lived.argv, lived.wt) as agent:
        assert lived.state() == DEAD, "another process, which has written nothing yet"
        play(lived, agent, ("prompt anew", RUNNING), ("step", RUNNING), ("finish stop", COMPLETED))


def test_a_port_gives_exact_states(lived: Lived) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    with driven([*lived.argv, "--port", str(number)], lived.wt) as agent:
        play(lived, agent, ("prompt tidy up", RUNNING), ("step", RUNNING), ("ask bash rm -rf x", WAITING))
        _, told, _ = lived.decided()
        assert (told.source, told.detail, str(told.tool)) == ("socket", "permission for bash", "bash rm -rf x")
        play(lived, agent, ("answer", RUNNING), ("finish tool-calls", RUNNING), ("step", RUNNING))
        play(lived, agent, ("finish stop", COMPLETED))
        os.kill(agent.process.pid, signal.SIGSTOP)
        assert lived.state() == COMPLETED, "one that does not answer is not asked again for a while"
        os.kill(agent.process.pid, signal.SIGCONT)


def test_two_in_one_folder_have_a_session_each_and_the_end_of_one_proves_nothing(lived: Lived) -> None:
    """No record says which process has which session."""
    with driven(lived.argv, lived.wt) as first, driven(lived.argv, lived.wt) as second:
        first("prompt one")
        lived.state()
        second("prompt two")
        assert {one.pid for one in lived.all()} == {first.process.pid, second.process.pid}
        first.process.kill()
        first.process.wait(LIMIT)
        assert {truth(one, time.time()).state for one in lived.all()} == {RUNNING}, "neither is said to be dead"
        second.process.kill()
        second.process.wait(LIMIT)
        assert {truth(one, time.time()).state for one in lived.all()} == {DEAD}
