"""opencode's log: runs and their processes, open dialogs, and what a person stopped. The lines are those of version 1.18.33."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model import times
from imi_monitor.model.agent import CANCELLED, COMPLETED, NOTHING_ASKED, RUNNING, WAITING
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, Sighting
from imi_monitor.sources.agents.opencode import reader as opencode
from imi_monitor.sources.agents.opencode.run_log import RunLog
from tests.sources.agents.fakes.opencode import open_book, put
from tests.sources.agents.reader_kit import process, truth, world

BEGAN = fields.seconds("2026-11-19T12:00:00.000Z") or 0.0


class Logged:
    """A home with opencode's database and log, and a worktree. Times are seconds since BEGAN."""

    def __init__(self, tmp: Path) -> None:
        self.home, self.wt = tmp / "home", tmp / "wt"
        self.wt.mkdir()
        self.folder = self.home / ".local/share/opencode"
        self.book = open_book(self.folder / "opencode.db")
        (self.folder / "log").mkdir()
        self.log = self.folder / "log" / "opencode.log"
        self.reader = opencode.make()
        self.processes: list[AgentProcess] = []

    def start(self, pid: int, at: float, *argv: str) -> str:
        """A process and its first line."""
        self.processes.append(process("opencode", self.wt, BEGAN + at, "opencode", *argv, pid=pid))
        run = f"{pid:08x}"
        self.line(at + 3, run, '"creating instance"', f"directory={self.wt}")
        return run

    def kill(self, pid: int) -> None:
        self.processes = [one for one in self.processes if one.pid != pid]

    def line(self, at: float, run: str, message: str, rest: str = "") -> None:
        with open(self.log, "a") as file:
            file.write(f"timestamp={fields.at(BEGAN + at)} level=INFO run={run} message={message} {rest}\n")

    def prompt(self, at: float, run: str, session: str, new: bool = True) -> None:
        moment = int((BEGAN + at) * 1000)
        self.put(
            "session",
            id=session,
            directory=str(self.wt),
            title="x",
            version="1.18.33",
            time_created=moment,
            time_updated=moment,
        )
        self.message(at, session, f"msg_{session}_{at:09.2f}", role="user")
        if new:
            self.line(at, run, "created", f"id={session} slug=calm-comet parentID=undefined")
        self.line(at, run, "loop", f"session.id={session} step=0")

    def message(self, at: float, session: str, ident: str, **data: Any) -> None:
        moment = int((BEGAN + at) * 1000)
        told = {"time": {"created": moment}, **data}
        self.put("message", id=ident, session_id=session, time_created=moment, time_updated=moment, data=told)

    def tool(self, at: float, run: str, session: str, name: str = "bash") -> None:
        """A step with a running tool."""
        moment, ident = int((BEGAN + at) * 1000), f"msg_{session}_{at:09.2f}"
        self.message(at, session, ident, role="assistant", mode="build")
        self.line(at, run, "process", f"session.id={session} messageID={ident}")
        state = {"status": "running", "input": {"command": "touch x"}, "time": {"start": moment}}
        data = {"type": "tool", "tool": name, "callID": "c1", "state": state}
        self.put(
            "part",
            id=f"prt_{at}",
            message_id=ident,
            session_id=session,
            time_created=moment,
            time_updated=moment,
            data=data,
        )

    def put(self, table: str, **row: Any) -> None:
        put(self.book, table, row)

    def seen(self, at: float, afresh: bool = False) -> dict[str | None, Sighting]:
        reader = opencode.make() if afresh else self.reader
        found = reader.read(world(self.home, self.wt, now=BEGAN + at, processes=self.processes), None)
        return {one.session: one for one in found}

    def told(self, session: str, at: float, afresh: bool = False) -> tuple[str, str, int | None]:
        one = self.seen(at, afresh)[session]
        found = truth(one, BEGAN + at)
        return found.state, found.confidence, one.pid


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    made = Logged(tmp_path)
    yield made
    made.book.close()


ASKING = 'id=per_1f3 permission=bash patterns="[\\"touch x\\"]"'


def test_a_permission_is_open_from_its_line_to_the_next_step(logged: Logged) -> None:
    run = logged.start(7, 0)
    logged.prompt(20, run, "ses_a")
    logged.tool(25, run, "ses_a")
    assert logged.told("ses_a", 25.1)[:2] == (RUNNING, "likely"), "the line may still come"
    assert logged.told("ses_a", 27)[:2] == (RUNNING, "likely"), "no permission is asked for, and no child is seen"
    logged.line(27, run, "evaluated", "permission=bash action.action=ask")
    logged.line(27, run, "asking", ASKING)
    one = logged.seen(28)["ses_a"]
    assert truth(one, BEGAN + 28).state == WAITING and one.evidence[0].detail == "permission for bash"
    logged.line(29, run, "tracking", "hash=1")
    assert logged.told("ses_a", 30)[0] == WAITING, "a snapshot of before, which took long"
    logged.line(31, run, "loop", "session.id=ses_a step=1")
    assert logged.told("ses_a", 32)[0] == RUNNING


CHILDREN = [(True, RUNNING, "likely"), (False, WAITING, "exact"), (None, WAITING, "likely")]


@pytest.mark.parametrize(("child", "state", "confidence"), CHILDREN)
def test_an_allowed_command_has_a_child(
    logged: Logged, monkeypatch: pytest.MonkeyPatch, child: bool | None, state: str, confidence: str
) -> None:
    run = logged.start(7, 0)
    logged.prompt(20, run, "ses_a")
    logged.tool(25, run, "ses_a")
    logged.line(25, run, "asking", ASKING)
    monkeypatch.setattr(opencode, "has_child_since", lambda process, since: child)
    assert logged.told("ses_a", 27)[:2] == (state, confidence)


def test_a_question_is_open_until_it_is_answered(logged: Logged) -> None:
    run = logged.start(7, 0)
    logged.prompt(20, run, "ses_a")
    logged.tool(25, run, "ses_a", "task")
    logged.line(25, run, "created", "id=ses_sub parentID=ses_a")
    logged.line(25, run, "process", "session.id=ses_sub messageID=m")
    logged.line(26, run, "asking", 'id=que_1 questions="[]"')
    assert logged.told("ses_a", 28)[0] == WAITING, "its subagent asks"
    logged.line(29, run, "replied", "requestID=que_1")
    assert logged.told("ses_a", 31)[0] == RUNNING


@pytest.mark.parametrize("afresh", [False, True])
def test_two_in_one_folder_keep_their_sessions(logged: Logged, afresh: bool) -> None:
    first, second = logged.start(7, 0), logged.start(8, 100)
    logged.prompt(120, second, "ses_b")
    logged.prompt(130, first, "ses_a")
    assert (logged.told("ses_a", 131, afresh)[2], logged.told("ses_b", 131, afresh)[2]) == (7, 8)
    logged.prompt(200, second, "ses_b", new=False)
    assert (logged.told("ses_a", 201, afresh)[2], logged.told("ses_b", 201, afresh)[2]) == (7, 8)
    logged.kill(8)
    assert logged.told("ses_b", 210, afresh)[:2] == ("dead", "exact"), "the other one lives on"
    assert logged.told("ses_a", 210, afresh) == (RUNNING, "exact", 7)


def test_after_two_began_together_the_killed_one_is_likely_dead(logged: Logged) -> None:
    first, second = logged.start(7, 0), logged.start(8, 5)
    logged.prompt(30, first, "ses_a")
    logged.prompt(40, second, "ses_b")
    logged.kill(8)
    assert logged.told("ses_a", 50, afresh=True) == (RUNNING, "likely", 7)
    assert logged.told("ses_b", 50, afresh=True)[:2] == ("dead", "likely")


def test_escape_drops_the_queued_prompt(logged: Logged) -> None:
    run = logged.start(7, 0)
    logged.prompt(20, run, "ses_a")
    ended = int((BEGAN + 30) * 1000)
    aborted = {"role": "assistant", "error": {"name": "MessageAbortedError", "data": {}}}
    moment = int((BEGAN + 21) * 1000)
    logged.message(25, "ses_a", "msg_queued", role="user")
    assert logged.told("ses_a", 26)[0] == RUNNING
    logged.message(21, "ses_a", "msg_answer", time={"created": moment, "completed": ended}, **aborted)
    assert logged.told("ses_a", 31)[0] == CANCELLED
    logged.message(40, "ses_a", "msg_next", role="user")
    assert logged.told("ses_a", 41)[0] == RUNNING, "a prompt of later is answered"


def test_an_opencode_that_was_never_asked_is_ready(logged: Logged) -> None:
    run = logged.start(7, 0)
    one = logged.seen(10)[None]
    found = truth(one, BEGAN + 10)
    assert (one.pid, found.state, found.detail) == (7, COMPLETED, NOTHING_ASKED)
    logged.prompt(20, run, "ses_a")
    assert list(logged.seen(21)) == ["ses_a"]


def test_continue_takes_the_newest_session_of_the_folder(logged: Logged) -> None:
    run = logged.start(7, 0)
    logged.prompt(20, run, "ses_a")
    logged.prompt(60, run, "ses_b")
    logged.kill(7)
    assert logged.told("ses_b", 70)[0] == "dead"
    logged.start(9, 100, "--continue")
    assert logged.told("ses_b", 110) == (CANCELLED, "likely", 9), "its turn was cut off"
    assert logged.told("ses_a", 110)[0] == "dead" and None not in logged.seen(110)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"asking", b"loop", b"created", b'"creating instance"', b"cancel"]))
def test_any_line_raises_nothing(tmp_path_factory: pytest.TempPathFactory, noise: bytes, message: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "opencode.log"
    head = f"timestamp={times.stamp()} level=INFO run=1a2b3c4d message=".encode()
    path.write_bytes(noise + b"\n" + head + message + b" " + noise + b"\n")
    log = RunLog(str(path))
    log.read((), 0.0)
    log.read((), 1.0)
    assert len(log.runs) <= 1 or b"run=" in noise
