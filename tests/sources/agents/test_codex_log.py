"""Codex: what its log, its locks and late results show: answered approvals, first prompts, dialogs at the start."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, EXACT, GUESS, LIKELY, NOTHING_ASKED, RUNNING, UNKNOWN, WAITING, Truth
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents import fields
from tests.sources.agents.test_codex import ID, Home

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc/locks")

LOGS = (
    "create table if not exists logs (id integer primary key, ts integer, ts_nanos integer, feedback_log_body text,"
    " thread_id text, process_uuid text)"
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def log(home: Home, *rows: tuple[float, str, str | None]) -> None:
    """Add (moment, text, thread) to the log of this process."""
    with contextlib.closing(sqlite3.connect(home.path / "logs_2.sqlite")) as made:
        made.execute(LOGS)
        for at, text, thread in rows:
            values = (int(at), int(at % 1 * 1e9), text, thread, f"pid:{os.getpid()}:0a1b")
            made.execute("insert into logs values (null, ?, ?, ?, ?, ?)", values)
        made.commit()
    os.utime(home.path / "logs_2.sqlite", (at := time.time() - 5, at))


def index(home: Home, path: str | None = None) -> None:
    with contextlib.closing(sqlite3.connect(home.path / "state_5.sqlite")) as made:
        made.execute("create table threads (id text, rollout_path text, cwd text, updated_at integer)")
        if path is not None:
            made.execute("insert into threads values (?, ?, '/elsewhere', 1)", (ID, path))
        made.commit()


@contextlib.contextmanager
def locked(home: Home) -> Iterator[None]:
    """The lock of the thread, held by this process."""
    folder = home.path / "thread-writer-locks"
    folder.mkdir()
    with open(folder / f"{ID}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def truth(home: Home) -> Truth:
    found = home.look_at_all()
    assert len(found) <= 1
    if not found:
        return Truth(UNKNOWN, None, None, GUESS)
    return decide(found[0].evidence, found[0].alive, times.now(), process_began=found[0].process_began)


def call(home: Home, name: str, ago: float, command: str = "touch x", **more: object) -> None:
    """A turn with a call of a command."""
    at = fields.at(time.time() - ago)
    arguments = json.dumps({"cmd": command, **more})
    for kind, payload in (
        ("event_msg", {"type": "task_started", "turn_id": name}),
        ("turn_context", {"cwd": str(home.tree), "approval_policy": "on-request", "model": "m"}),
        ("response_item", {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": name}),
    ):
        home.write(json.dumps({"timestamp": at, "type": kind, "payload": payload}).encode() + b"\n")


def result(home: Home, name: str, output: str, kind: str = "function_call_output") -> None:
    payload: dict[str, object] = {"type": kind, "call_id": name, "output": output}
    outer = "response_item"
    if kind == "item_completed":
        outer, payload = "event_msg", {"type": kind, "item": {"type": "CommandExecution", "id": name, "exit_code": 0}}
    home.write(json.dumps({"timestamp": times.stamp(), "type": outer, "payload": payload}).encode() + b"\n")


def turn_over(home: Home) -> None:
    payload = {"type": "task_complete", "last_agent_message": "Done."}
    home.write(json.dumps({"timestamp": times.stamp(), "type": "event_msg", "payload": payload}).encode() + b"\n")


def test_an_answered_approval_makes_a_running_command_certain(home: Home) -> None:
    home.writer().meta()
    call(home, "c1", 30, sandbox_permissions="require_escalated", justification="May it?")
    log(home, (time.time() - 60, 'submission operation="exec_approval"', ID))  # of an earlier call
    before = truth(home)
    assert (before.state, before.confidence, before.detail) == (RUNNING, LIKELY, "may wait for approval: May it?")
    log(home, (time.time() - 10, 'submission operation="exec_approval"', "another"))
    assert truth(home).confidence == LIKELY
    log(home, (time.time() - 10, 'submission operation="exec_approval"', ID))
    after = truth(home)
    assert (after.state, after.confidence, after.detail, str(after.tool)) == (RUNNING, EXACT, None, "Bash touch x")


def test_an_answer_does_not_say_which_of_two_commands_it_is_for(home: Home) -> None:
    home.writer().meta()
    call(home, "c1", 30)
    call(home, "c2", 29)
    arguments = json.dumps({"cmd": "make"})
    payload = {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": "c3"}
    line = {"timestamp": times.stamp(), "type": "response_item", "payload": payload}
    home.write(json.dumps(line).encode() + b"\n")
    log(home, (time.time(), 'submission operation="exec_approval"', ID))
    assert truth(home).confidence == LIKELY


def test_a_terminal_that_was_never_asked_is_ready(home: Home) -> None:
    index(home)
    with locked(home):
        (one,) = home.look_at_all()
        found = truth(home)
        assert (one.session, one.pid, found.state, found.detail) == (ID, os.getpid(), COMPLETED, NOTHING_ASKED)
        assert found.confidence == LIKELY, "it may show a dialog"
        home.writer().meta()
        call(home, "c1", 0)
        assert truth(home).state == RUNNING


@pytest.mark.parametrize("known", ["recorded elsewhere", "resumed", "no index"])
def test_a_terminal_whose_thread_is_not_in_the_worktree_is_not_called_ready(
    home: Home, tmp_path: Path, known: str
) -> None:
    (tmp_path / "rollout.jsonl").write_text("")
    if known != "no index":
        index(home, str(tmp_path / "rollout.jsonl") if known == "recorded elsewhere" else None)
    if known == "resumed":
        home.processes = (home.process(argv=("codex", "resume", "--last")),)
    with locked(home):
        assert truth(home).state == UNKNOWN


def test_a_terminal_that_begins_no_thread_may_show_a_dialog(home: Home) -> None:
    assert truth(home).state == UNKNOWN, "a version without a log"
    log(home)
    found = truth(home)
    assert (found.state, found.confidence, found.detail) == (
        WAITING,
        GUESS,
        "a dialog at its start (trust, model, hooks)",
    )
    for other in (
        home.process(began_at=time.time() - 1),  # it is starting
        home.process(argv=("codex", "exec", "fix it")),
    ):
        home.processes = (other,)
        assert truth(home).state == UNKNOWN
    home.processes = (home.process(),)
    log(home, (time.time() - 50, "thread begun", "0a1b2c3d-0000-7000-8000-000000000009"))
    assert truth(home).state == UNKNOWN, "its thread is not in this worktree"


def test_with_a_shared_daemon_a_terminal_without_a_lock_is_unknown(home: Home) -> None:
    log(home)
    control = home.path / "app-server-control"
    control.mkdir()
    (control / "app-server-control.sock").write_text("")
    assert truth(home).state == UNKNOWN


def test_a_command_that_runs_on_after_its_turn_is_shown(home: Home) -> None:
    home.writer().meta()
    call(home, "c1", 20, "make serve")
    result(home, "c1", "Chunk ID: 1\nWall time: 10.0 seconds\nProcess running with session ID 69895\nOutput:\n")
    turn_over(home)
    found = truth(home)
    assert (found.state, found.detail) == (COMPLETED, "a command runs on in the background: Bash make serve")
    result(home, "c1", "", "item_completed")
    assert (truth(home).state, truth(home).detail) == (COMPLETED, None)


def test_a_command_of_a_former_process_runs_on_no_more(home: Home) -> None:
    home.writer().meta()
    call(home, "c1", 20, "make serve")
    result(home, "c1", "Process running with session ID 69895\nOutput:\n")
    turn_over(home)
    home.processes = (home.process(began_at=time.time() - 5, argv=("codex", "resume", ID)),)
    assert (truth(home).state, truth(home).detail) == (COMPLETED, None)
    home.processes = ()
    assert truth(home).detail is None
