"""Kills at every moment of a run: no line is lost or recorded twice, the state is right, and nothing runs unnamed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.cli import command_runner
from imi_monitor.model.errors import Refused
from imi_monitor.runs import follower_process, launch_folder, launcher, run_recovery
from imi_monitor.runs.launch_folder import LaunchFolder
from imi_monitor.runs.run_ingest import FollowedRun, RunIngest
from imi_monitor.runs.ways import task_way
from imi_monitor.store import db, runs
from tests.helpers import wait_for
from tests.limits import join, wait_pid
from tests.runs.run_kit import RunWorld, family, kill_followers, registry

PROMPTS = {"idle": "hi", "stream": "[[slow]]", "tool": "[[tool]]", "ask": "[[ask]]"}
STATES = {"idle": "idle", "stream": "works", "tool": "works", "ask": "asks"}


def recorded(run: str) -> list[str]:
    """The messages of the run's session in the registry, in the order in which they were recorded."""
    with sqlite3.connect(f"file:{registry()}?mode=ro", uri=True) as connection:
        rows = connection.execute(
            "SELECT e.text FROM session_events AS e JOIN sessions AS s ON s.seq = e.session"
            " JOIN runs AS r ON s.id = r.program || ':' || r.session WHERE r.id = ? AND e.kind = 'message' ORDER BY e.seq",
            (run,),
        )
        return [str(row[0]) for row in rows]


def said(world: RunWorld, run: str) -> list[str]:
    """The messages in the output, read without imi."""
    found = []
    for line in Path(world.folder(run).file("out")).read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record.get("type") == "assistant":
            found += [block["text"] for block in record["message"]["content"] if block["type"] == "text"]
    return found


@pytest.mark.parametrize("moment", PROMPTS)
def test_killed_one_after_the_other_at(world: RunWorld, moment: str) -> None:
    # S2.21
    run = world.start(PROMPTS[moment])
    world.wait(run, STATES[moment])
    if moment == "tool":
        wait_for(lambda: len(family(run)) == 2)
    born = json.loads(Path(world.folder(run).file("born.json")).read_text())
    kill_followers()
    assert world.wait(run, STATES[moment])["pid"] == born["pid"]  # `imi runs` starts another follower
    os.kill(born["keeper"], signal.SIGKILL)
    assert world.run(run)["shown_state"] == STATES[moment], "the agent goes on without its keeper"
    if moment == "ask":
        assert world.imi("answer", run, "yes").code == 0
        world.wait(run, "idle")
    kill_followers()
    os.kill(born["pid"], signal.SIGKILL)
    ended = "completed" if moment in ("idle", "ask") else "crashed"
    row = world.wait(run, ended)
    assert [name for _, name in row["left_behind"]] == (["sleep"] if moment == "tool" else [])
    assert recorded(run) == said(world, run)
    world.imi("stop", run)
    assert not family(run)


def test_several_readers_record_each_line_once(world: RunWorld) -> None:
    run = world.start("[[flood]] [[flood]]")
    readers = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            _read_until_ready(run)
        readers.append(pid)
    kill_followers()
    assert [wait_pid(pid) for pid in readers] == [0, 0]
    world.wait(run, "idle")
    found = recorded(run)
    assert found == said(world, run) and len(found) == 6001
    assert max(Counter(found).values()) == 2, "each flood says each line"


def test_held_lines_of_one_of_many_streams_are_recorded_with_the_next_change(world: RunWorld) -> None:
    run = world.start("[[tool]]")
    world.wait(run, "works")
    kill_followers()
    wait_for(lambda: b"tool_use" in Path(world.folder(run).file("out")).read_bytes())  # it says nothing more
    connection = db.connect(registry(), create=False)
    one = FollowedRun(db.read(connection, _row_of, run))
    assert one.read_news(hold=True) is not None, "what was not read before is recorded at once"
    _say(one, "a change of what it does")
    first = one.read_news(hold=True)
    assert first is not None and first.whole and first.start > 0
    _say(one, "one", "two")
    assert one.read_news(hold=True) is None
    _say(one, "three")
    assert one.read_news(hold=True) is None
    end = one.position
    _ask(one)
    found = one.read_news(hold=True)
    assert found is not None and [event.text for event in found.events][:3] == ["one", "two", "three"]
    assert (found.start, found.lines) == (first.position, 4) and found.position == one.position > end
    assert [asked.id for asked in found.asked] == ["q1"], "a question does not wait"
    _say(one, "four")
    again = one.read_news()
    assert again is not None and (again.start, again.lines) == (found.position, 1), (
        "of few streams each line is recorded"
    )
    db.close(connection)


def _row_of(connection: sqlite3.Connection, run: str) -> runs.RunRow:
    row = runs.by_id(connection, run)
    assert row is not None
    return row


def _say(one: FollowedRun, *texts: str) -> None:
    for text in texts:
        message = {"id": text, "role": "assistant", "content": [{"type": "text", "text": text}]}
        _write(one, {"type": "assistant", "uuid": text, "session_id": one.reader.session, "message": message})


def _ask(one: FollowedRun) -> None:
    wanted = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "x"}, "tool_use_id": "t1"}
    _write(one, {"type": "control_request", "request_id": "q1", "request": wanted})


def _write(one: FollowedRun, record: dict[str, object]) -> None:
    with open(one.folder.file("out"), "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def _read_until_ready(run: str) -> None:
    """Runs in a child; never returns."""
    status = 1
    try:
        connection = db.connect(registry(), create=False)
        ingest = RunIngest(connection)
        while True:
            ingest.update()
            row = runs.by_id(connection, run)
            if row is None or row.state == "completed":
                break
        status = 0
    finally:
        os._exit(status)


def test_a_reboot_ends_what_ran(world: RunWorld) -> None:
    run = world.start("[[slow]]")
    world.wait(run, "works")
    kill_followers()
    born = Path(world.folder(run).file("born.json"))
    text = json.loads(born.read_text())
    os.kill(text["keeper"], signal.SIGKILL)
    os.kill(text["pid"], signal.SIGKILL)
    born.write_text(json.dumps({**text, "boot": f"another/{text['boot'].partition('/')[2]}"}))
    row = world.wait(run, "crashed")
    assert row["exit_code"] is None and "left no exit status" in row["detail"]


@pytest.fixture
def queued(world: RunWorld, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run in the queue that nothing starts."""
    with monkeypatch.context() as patch:
        patch.setattr(launcher, "start_queued", lambda *_: [])
        patch.setattr(follower_process, "ensure", lambda _: None)
        patch.chdir(world.tree.path)
        assert command_runner.main(["start", "claude", "--prompt", "hi", "--quiet"]) == 0
    with sqlite3.connect(registry()) as connection:
        return str(connection.execute("SELECT id FROM runs").fetchone()[0])


def test_a_start_that_another_process_has_taken_is_waited_for_until_it_has_failed(queued: str, tmp_path: Path) -> None:
    (tmp_path / "bin" / "claude").write_text("#!/nowhere\n")
    slow = threading.Thread(target=_start_slowly)
    with closing(db.connect(registry(), create=False)) as connection:
        launcher.wait_for_start(connection, queued)  # it is still in the queue
        slow.start()
        wait_for(lambda: db.read(connection, runs.list_starting_here))
        launcher.wait_for_start(connection, queued)
        row = db.read(connection, runs.by_id, queued)
    join(slow)
    assert row is not None
    assert (row.status, row.detail) == ("failed", "it could not be started: No such file or directory")


def _start_slowly() -> None:
    """What the follower does with a run of the queue, on a slow machine."""
    with closing(db.connect(registry(), create=False)) as connection:
        row = db.transact(connection, runs.take_next, 5)
        assert row is not None
        time.sleep(0.5)
        launcher.start(connection, row)


def die_after(act: Callable[[sqlite3.Connection, runs.RunRow], object]) -> None:
    """Take the run in a child process that acts and is killed."""
    pid = os.fork()
    if pid == 0:
        connection = db.connect(registry(), create=False)
        row = db.transact(connection, runs.take_next, 4)
        assert row is not None
        act(connection, row)
        os.kill(os.getpid(), signal.SIGKILL)
    assert wait_pid(pid) == signal.SIGKILL


def test_a_starter_killed_before_the_keeper_leaves_an_ended_run_without_a_claim(world: RunWorld, queued: str) -> None:
    die_after(lambda _connection, _row: None)
    connection = db.connect(registry(), create=False)
    run_recovery.recover(connection)
    row = world.run(queued)
    assert (row["status"], row["detail"]) == ("failed", "the process that started it died before the agent ran")
    assert world.imi("claims", "--json").data["claims"] == []
    with pytest.raises(Refused, match=r"its start was given up"):
        task_way.start(world.folder(queued))  # a late keeper finds the gate shut
    assert not family(queued)


def test_a_starter_killed_after_the_keeper_leaves_an_agent_that_is_adopted(world: RunWorld, queued: str) -> None:
    die_after(lambda _connection, row: task_way.start(world.folder(row.id)))
    assert family(queued)
    connection = db.connect(registry(), create=False)
    run_recovery.recover(connection)
    row = world.wait(queued, "idle")
    assert world.messages(queued) == ["Hello."]
    assert world.imi("claims", "--json").data["claims"][0]["pid"] == row["pid"]


def test_a_failed_start_of_the_program_ends_the_run(world: RunWorld, queued: str, tmp_path: Path) -> None:
    (tmp_path / "bin" / "claude").unlink()
    connection = db.connect(registry(), create=False)
    assert [one.id for one in launcher.start_queued(connection, 4)] == [queued]
    row = world.run(queued)
    assert (row["status"], row["detail"]) == ("failed", "it could not be started: No such file or directory")
    assert world.imi("claims", "--json").data["claims"] == []


def test_the_end_is_not_decided_before_the_keeper_has_recorded_it(tmp_path: Path) -> None:
    """Between the end of the agent and the record of its keeper, which is this process here."""
    me = host.identify_process(os.getpid())
    born = {"pid": me.pid, "started": "1", "boot": me.boot, "keeper": me.pid, "keeper_started": me.started}
    for keeper_started, kind in (
        (me.started, launch_folder.RUNS),
        ("1", launch_folder.GONE),
        (None, launch_folder.GONE),
    ):
        (tmp_path / "born.json").write_text(json.dumps({**born, "keeper_started": keeper_started}))
        assert LaunchFolder(str(tmp_path)).process().kind == kind
    (tmp_path / "exit.json").write_text(json.dumps({"code": -9, "left": []}))
    assert LaunchFolder(str(tmp_path)).process().code == -9
