"""A running fake Codex: killed, suspended and resumed, as a terminal and as the daemon with its socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.agent import Truth
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.codex.daemon import CodexDaemon
from imi_monitor.sources.agents.codex.reader import CodexReader
from imi_monitor.sources.agents.codex.thread_owners import ThreadLocks
from tests.limits import LIMIT, read_line
from tests.sources.agents.fakes import codex as fake
from tests.sources.agents.fakes.codex import Rollout, Server

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc/locks")
ID = "0a1b2c3d-0000-7000-8000-00000000000a"


class Program:
    """A running fake Codex."""

    def __init__(self, process: subprocess.Popen[str], cwd: Path) -> None:
        self.process, self.cwd = process, cwd
        assert process.stdout and read_line(process.stdout) == "ready\n"

    def do(self, *commands: str) -> str:
        assert self.process.stdin and self.process.stdout
        answer = ""
        for command in commands:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            answer = read_line(self.process.stdout).strip()
        return answer

    def as_seen(self, **other: object) -> AgentProcess:
        pid = self.process.pid
        return AgentProcess("codex", pid, host.start_time(pid) or "", str(self.cwd), ("codex",), time.time(), **other)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> None:
        self.process.wait(seconds)


class Place:
    """A home, a worktree and a reader."""

    def __init__(self, path: Path) -> None:
        self.home, self.tree = path / "codex", path / "tree"
        self.tree.mkdir()
        self.reader = CodexReader()
        self.processes: tuple[AgentProcess, ...] = ()

    @contextmanager
    def program(self, *words: str) -> Iterator[Program]:
        process = subprocess.Popen(
            ["codex", fake.__file__, *words],
            executable=sys.executable,
            cwd=self.tree,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "CODEX_HOME": str(self.home)},
        )
        try:
            yield Program(process, self.tree)
        finally:
            process.kill()
            process.wait(LIMIT)
            socket = self.home / "app-server-control" / "app-server-control.sock"
            if words and socket.is_symlink():
                shutil.rmtree(socket.readlink().parent, ignore_errors=True)
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()

    def read(self, touched: frozenset[str] | None = None) -> list[Sighting]:
        world = ReadContext(time.time(), "/nowhere", {"CODEX_HOME": str(self.home)}, (str(self.tree),), self.processes)
        return list(self.reader.read(world, touched))

    def tick(self) -> Truth:
        (one,) = self.read(frozenset())
        return _truth(one)

    def truth(self) -> Truth:
        (one,) = self.read()
        return _truth(one)


def _truth(one: Sighting) -> Truth:
    return decide(one.evidence, one.alive, times.now(), last_alive=one.last_alive)


def soon(ask: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not ask():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.reader.close()


# -- as a terminal ------------------------------------------------------------------------------------------------------


@linux
def test_the_life_of_a_terminal(place: Place) -> None:
    with place.program() as codex:
        codex.do(f"new {place.tree} {ID}", "prompt Do it")
        place.processes = (codex.as_seen(),)
        (one,) = place.read()
        assert (one.pid, one.alive, one.pid_started) == (codex.process.pid, True, host.start_time(codex.process.pid))
        assert one.facts.title == "a fake task"
        for command, state, tool in (
            ("tool make", "running", "Bash make"),
            ("answer", "running", None),
            ("ask npm install", "running", "Bash npm install"),
            ("answer", "running", None),
            ("finish Done", "completed", None),
            ("plan Think", "planning", None),
            ("question Which?", "waiting_for_input", "Question Which?"),
            ("answer This", "planning", None),
            ("esc", "cancelled", None),
            ("prompt Again", "running", None),
            ("fail No money", "failed", None),
        ):
            codex.do(command)
            truth = place.truth()
            assert (truth.state, str(truth.tool) if truth.tool else None) == (state, tool), command
        assert truth.detail == "No money"


@linux
def test_a_codex_killed_in_a_turn_is_dead_at_the_next_tick(place: Place) -> None:
    with place.program() as codex:
        codex.do(f"new {place.tree} {ID}", "prompt Do it", "tool make")
        place.processes = (codex.as_seen(),)
        assert place.truth().state == "running"
        os.kill(codex.process.pid, signal.SIGSTOP)
        assert place.tick().state == "running", "a suspended one lives"
        os.kill(codex.process.pid, signal.SIGCONT)
        assert place.tick().state == "running"
        codex.process.kill()
        codex.wait(LIMIT)
        truth = place.tick()
        assert (truth.state, truth.ended, str(truth.tool)) == ("dead", True, "Bash make")
        assert (place.home / "thread-writer-locks" / f"{ID}.lock").exists(), "the lock file proves nothing by itself"


@linux
def test_a_free_lock_shows_the_end_before_the_process_list(place: Place) -> None:
    """The process list may be a second older than the locks, and another process may be in the same folder."""
    with place.program() as codex:
        codex.do(f"new {place.tree} {ID}", "prompt Do it")
        place.processes = (codex.as_seen(),)
        place.read()
        codex.process.kill()
        codex.wait(LIMIT)
        assert place.tick().state == "dead"


@linux
def test_a_codex_killed_after_its_turn_is_done(place: Place) -> None:
    with place.program() as codex:
        codex.do(f"new {place.tree} {ID}", "prompt Do it", "finish Done")
        codex.process.kill()
        codex.wait(LIMIT)
        truth = place.truth()
        assert (truth.state, truth.ended) == ("completed", True)


@linux
def test_the_last_records_of_a_codex_are_read_at_its_end(place: Place) -> None:
    """A tick sees the end before the file event: the state is the one of the last records, not dead."""
    with place.program() as codex:
        codex.do(f"new {place.tree} {ID}", "prompt Do it")
        place.processes = (codex.as_seen(),)
        assert place.truth().state == "running"
        codex.do("finish Done", "quit")
        codex.wait(LIMIT)
        place.processes = ()
        assert (place.tick().state, place.tick().ended) == ("completed", True)


@linux
def test_a_codex_thread_resumed_by_another_process(place: Place) -> None:
    with place.program() as first:
        first.do(f"new {place.tree} {ID}", "prompt Do it", "esc")
        place.read()
        first.do("quit")
        first.wait(LIMIT)
        assert (place.tick().state, place.tick().ended) == ("cancelled", True)
    with place.program() as second:
        second.do(f"resume {ID}", "prompt Go on")
        place.processes = (second.as_seen(),)
        (one,) = place.read()
        assert (one.session, one.pid, _truth(one).state) == (ID, second.process.pid, "running")
        second.do("crash")
        second.wait(LIMIT)
        assert place.tick().state == "dead"


@linux
def test_a_thread_of_long_ago_is_found_by_its_lock(place: Place) -> None:
    with place.program() as codex:
        codex.do(f"new {place.tree} {ID}")
        old = place.home / "sessions" / "2020" / "01" / "02"
        old.mkdir(parents=True)
        (rollout,) = place.home.glob("sessions/*/*/*/*.jsonl")
        moved = rollout.rename(old / rollout.name)
        codex.do("quit")
        codex.wait(LIMIT)
    assert place.read() == []
    fake_index(place.home, moved)
    with place.program() as codex:
        codex.do(f"resume {ID}", "prompt Again after years")
        place.processes = (codex.as_seen(),)
        locks = str(place.home / "thread-writer-locks" / f"{ID}.lock")
        (one,) = place.read(frozenset({locks}))
        assert _truth(one).state == "running"
        world = ReadContext(time.time(), "/", {"CODEX_HOME": str(place.home)}, (str(place.tree),))
        assert str(old) in place.reader.watch_folders(world)


def fake_index(home: Path, moved: Path) -> None:
    import sqlite3

    database = sqlite3.connect(home / "state_5.sqlite")
    database.execute("UPDATE threads SET rollout_path = ?, updated_at = 1577923200", (str(moved),))
    database.commit()
    database.close()


@linux
def test_codex_locks_are_never_tried(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lock is tried, and no file of Codex is created or opened for writing."""
    flags: list[str] = []
    sys.addaudithook(lambda event, args: flags.append(str(args)) if _writes(event, args, str(place.home)) else None)
    with place.program() as codex:
        codex.do(f"new {place.tree} {ID}", "prompt Do it")
        place.processes = (codex.as_seen(),)
        before = sorted(str(path) for path in place.home.rglob("*"))
        place.read()
        place.tick()
        assert flags == []
        assert sorted(str(path) for path in place.home.rglob("*")) == before


def _writes(event: str, args: tuple[object, ...], home: str) -> bool:
    if event.startswith("fcntl."):
        return True
    if event != "open" or not str(args[0]).startswith(home):
        return False
    return bool(int(args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))  # type: ignore[call-overload]


def test_locks_are_read_from_the_kernels_list(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    held, free = folder / "a.lock", folder / "b.lock"
    for path in (held, free):
        path.touch()
    stat = held.stat()
    place = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    kernel = tmp_path / "kernel"
    kernel.write_text(
        f"1: FLOCK  ADVISORY  WRITE 42 {place} 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 43 {place} 0 EOF\n"
        f"2: POSIX  ADVISORY  READ 44 00:01:{free.stat().st_ino + 7} 0 EOF\nnonsense\n3: FLOCK ADVISORY WRITE x y z 0\n"
    )
    locks = ThreadLocks(str(folder), str(kernel))
    locks.read(anew=True)
    assert {name: one.pid for name, one in locks.threads.items()} == {"a": 42, "b": None} and locks.readable
    kernel.unlink()
    locks.read(anew=False)
    assert not locks.readable


@linux
def test_open_files_decide_where_device_numbers_differ(tmp_path: Path) -> None:
    """btrfs and overlays have another device in /proc/locks than in `stat`."""
    path = tmp_path / "a.lock"
    kernel = tmp_path / "kernel"
    with path.open("w") as file:
        inode = os.fstat(file.fileno()).st_ino
        kernel.write_text(f"1: FLOCK  ADVISORY  WRITE {os.getpid()} ff:fe:{inode} 0 EOF\n")
        locks = ThreadLocks(str(tmp_path), str(kernel))
        locks.read(anew=True)
        assert locks.threads["a"].pid == os.getpid()
    locks.read(anew=True)
    assert locks.threads["a"].pid is None


# -- as the daemon ------------------------------------------------------------------------------------------------------


@linux
def test_the_daemon_shows_an_approval_that_no_file_shows(place: Place) -> None:
    with place.program("app-server", "--listen", "unix://") as daemon, place.program() as terminal:
        place.processes = (terminal.as_seen(),)
        daemon.do(f"new {place.tree} {ID}", "prompt Do it")
        assert (place.truth().state, place.truth().source) == ("running", "socket")
        daemon.do("ask npm install")
        truth = place.truth()
        assert (truth.state, truth.confidence, truth.detail) == (
            "waiting_for_input",
            "exact",
            "permission: It writes outside.",
        )
        assert str(truth.tool) == "Bash npm install"
        daemon.do("answer")
        assert place.truth().state == "running"
        daemon.do("question Which?")
        truth = place.truth()
        assert (truth.state, truth.detail) == ("waiting_for_input", "Which?")
        daemon.do("answer That", "finish Done")
        truth = place.truth()
        assert (truth.state, truth.ended) == ("completed", False)
        (one,) = place.read()
        assert one.pid == terminal.process.pid, "the terminal is the agent, not the daemon"


@linux
def test_the_question_that_imi_can_answer_is_named_for_the_users_own_daemon(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.program("app-server", "--listen", "unix://") as daemon, place.program() as terminal:
        place.processes = (terminal.as_seen(),)
        daemon.do(f"new {place.tree} {ID}", "prompt Do it", "ask npm install")
        assert place.read()[0].facts.ask is None, "found_questions asks another daemon"
        monkeypatch.setenv("CODEX_HOME", str(place.home))
        assert place.read()[0].facts.ask == f"codex.{ID}"
        daemon.do("answer")
        assert place.read()[0].facts.ask is None


def test_notifications_of_the_daemon_are_read_at_a_tick(place: Place) -> None:
    with place.program("app-server", "--listen", "unix://") as daemon, place.program() as terminal:
        place.processes = (terminal.as_seen(),)
        daemon.do(f"new {place.tree} {ID}", "prompt Do it")
        place.read()
        daemon.do("ask npm install")
        soon(lambda: place.tick().state == "waiting_for_input")


@linux
def test_a_daemon_may_be_behind_its_file_for_a_moment(place: Place) -> None:
    with place.program("app-server", "--listen", "unix://") as daemon, place.program() as terminal:
        place.processes = (terminal.as_seen(),)
        thread = daemon.do(f"new {place.tree} {ID}")
        place.read()
        (rollout,) = place.home.glob("sessions/*/*/*/*.jsonl")

        def append(line: str) -> None:
            with rollout.open("a") as file:
                file.write(line)

        Rollout(append, thread, str(place.tree)).prompt("Do it")  # the daemon still says idle
        (one,) = place.read()
        assert [each.source for each in one.evidence] == ["transcript"] and _truth(one).state == "running"


@linux
def test_an_abandoned_daemon_thread_has_ended(place: Place) -> None:
    with place.program("app-server", "--listen", "unix://") as daemon:
        with place.program() as terminal:
            place.processes = (terminal.as_seen(),)
            daemon.do(f"new {place.tree} {ID}", "prompt Do it", "finish Done")
            assert not place.truth().ended
        place.processes = ()
        assert place.tick().ended, "the daemon still has it loaded, but no terminal is attached"
        daemon.do("prompt From a telephone")
        truth = place.truth()
        assert (truth.state, truth.ended) == ("running", False), "it works without a terminal"


@linux
def test_a_killed_daemon_takes_its_threads_with_it(place: Place) -> None:
    with place.program("app-server", "--listen", "unix://") as daemon, place.program() as terminal:
        place.processes = (terminal.as_seen(),)
        daemon.do(f"new {place.tree} {ID}", "prompt Do it", "ask npm install")
        assert place.truth().state == "waiting_for_input"
        daemon.process.kill()
        daemon.wait(LIMIT)
        truth = place.tick()
        assert (truth.state, truth.source) == ("dead", "process")


# -- the daemon's wire --------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    made: list[Server] = []

    def make(behave: str) -> Server:
        threads = {
            ID: {"id": ID, "status": {"type": "active", "activeFlags": ["waitingOnApproval"]}, "name": "x" * 70_000}
        }
        made.append(Server(str(tmp_path / "socket" / "s.sock"), threads, behave))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("behave", ["", "pieces"])
def test_daemon_statuses_are_read(server: Callable[[str], Server], tmp_path: Path, behave: str) -> None:
    theirs = server(behave)
    daemon = CodexDaemon(str(tmp_path / "socket" / "s.sock"))
    daemon.poll(100.0, True, ())
    first = daemon.statuses[ID]
    assert (first.state, first.waits_for, first.since) == ("waiting_for_input", "approval", None)
    theirs.threads[ID]["status"] = {"type": "idle"}
    daemon.poll(101.0, False, [ID])
    assert (daemon.statuses[ID].state, daemon.statuses[ID].since) == ("completed", 101.0)
    del theirs.threads[ID]
    daemon.poll(102.0, True, ())
    assert daemon.statuses == {}
    assert {"thread/resume", "thread/start", "turn/start"}.isdisjoint(theirs.asked)
    daemon.close()


def test_questions_of_the_daemon_are_not_answered(server: Callable[[str], Server], tmp_path: Path) -> None:
    theirs = server("")
    daemon = CodexDaemon(str(tmp_path / "socket" / "s.sock"))
    daemon.poll(1.0, True, ())
    asked = len(theirs.asked)
    theirs.tell_all({"id": 77, "method": "item/commandExecution/requestApproval", "params": {"threadId": ID}})
    theirs.tell_all({"method": "thread/status/changed", "params": {"threadId": ID, "status": {"type": "systemError"}}})

    def heard() -> bool:
        daemon.poll(2.0, False, ())
        return daemon.statuses[ID].state == "failed"

    soon(heard)
    assert len(theirs.asked) == asked, "nothing was answered or asked"
    daemon.close()


@pytest.mark.parametrize(
    "status", [None, 3, [], "idle", {}, {"type": "dancing"}, {"type": ["idle"]}, {"type": "notLoaded"}]
)
def test_an_unknown_daemon_status_gives_no_evidence(
    server: Callable[[str], Server], tmp_path: Path, status: object
) -> None:
    theirs = server("")
    theirs.threads[ID]["status"] = status
    daemon = CodexDaemon(str(tmp_path / "socket" / "s.sock"))
    daemon.poll(1.0, True, ())
    assert daemon.statuses == {} and daemon.connected
    theirs.threads[ID]["status"] = {"type": "active", "activeFlags": [1, "waitingOnTheMoon"]}
    daemon.poll(1.0, True, ())
    assert daemon.statuses[ID].state == "running"
    daemon.close()


@pytest.mark.parametrize("behave", ["no websocket", "silent", "other names", "no objects"])
def test_an_unexpected_answer_gives_a_note_and_a_pause(
    server: Callable[[str], Server], tmp_path: Path, behave: str
) -> None:
    theirs = server(behave)
    daemon = CodexDaemon(str(tmp_path / "socket" / "s.sock"))
    daemon.poll(1.0, True, ())
    assert daemon.statuses == {} and not daemon.connected
    asked = len(theirs.asked)
    daemon.poll(1.0, True, ())
    assert len(theirs.asked) == asked, "not again at once"
    if behave in ("other names", "no objects", "silent"):
        assert daemon.note and daemon.note.startswith("its daemon cannot be asked: ")


def test_a_socket_without_a_daemon(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    daemon = CodexDaemon(str(path))
    daemon.poll(1.0, True, ())
    assert daemon.note is None and not daemon.connected
    path.touch()
    daemon.poll(1.0, True, ())
    assert not daemon.connected and daemon.statuses == {}
