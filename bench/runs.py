"""Runs: what starting an agent costs over the bare program, the keeper's memory, and the follower of many streams.

The agent is a script in place of Claude Code. It says one word for each prompt at once, or lines at a steady pace.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.common import IMI, Row, interleaved, process
from imi_monitor import host
from imi_monitor.runs import providers
from imi_monitor.runs.run_checkpoint import CheckpointClock
from imi_monitor.runs.run_ingest import FollowedRun, RunIngest
from imi_monitor.store import checkpoints, db, runs

STREAMS = int(os.environ.get("BENCH_SESSIONS", "40"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "10"))
_LINES = 20_000
_PER_SECOND = 10
_AGENT = """#!{python} -IS
import json, os, sys, time
words = sys.argv
session = words[words.index("--session-id") + 1] if "--session-id" in words else "bench"
number = 0
def say(text):
    global number
    number += 1
    message = dict(id="m%d" % number, role="assistant", content=[dict(type="text", text=text)])
    print(json.dumps(dict(type="assistant", message=message, session_id=session, uuid="%s-%d" % (session, number))), flush=True)
prompt = json.loads(sys.stdin.readline())["message"]["content"][0]["text"]
if prompt.startswith("pace"):
    while True:
        say("a line of some words that an agent writes while it works on a task")
        time.sleep(1 / {pace})
number = 0
while prompt.startswith("ask"):
    number += 1
    wanted = dict(subtype="can_use_tool", tool_name="Bash", input=dict(command="x"), tool_use_id="t%d" % number)
    print(json.dumps(dict(type="control_request", request_id="q%d" % number, request=wanted)), flush=True)
    sys.stdin.readline()
    with open(os.path.join(os.environ["IMI_RUN_DIR"], "answered"), "a") as file:
        file.write("%d\\n" % time.time_ns())
say("Hello.")
print(json.dumps(dict(type="result", subtype="success", is_error=False, session_id=session, uuid="r")), flush=True)
sys.stdin.readline()
"""


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as base:
        world = RunWorld(Path(base))
        try:
            yield from _start_cost(world)
            yield from _line_cost(world)
            yield from _checkpoint_cost(world)
            yield from _answer_cost(world)
            yield from _streams(world)
        finally:
            world.end()


class RunWorld:
    """A home of its own, and the script in PATH."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.program = base / "bin" / "claude"
        self.program.parent.mkdir()
        self.program.write_text(_AGENT.format(python=sys.executable, pace=_PER_SECOND))
        self.program.chmod(0o755)
        os.environ["HOME"] = str(base)
        os.environ["PATH"] = f"{self.program.parent}:{os.environ['PATH']}"
        for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "IMI_DATABASE_PATH", "IMI_CONFIG"):
            os.environ.pop(name, None)
        config = base / ".config" / "iMi" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f"[runs]\nat_once = {STREAMS + 1000}\n")
        self.database = str(base / ".config" / "iMi" / "iMi.db")

    def start(self, prompt: str) -> None:
        process([IMI, "start", "claude", "--prompt", prompt, "--quiet"], cwd=str(self.base))

    def rows(self) -> list[runs.RunRow]:
        connection = db.connect(self.database, create=False)
        try:
            return runs.list_runs(connection)
        finally:
            db.close(connection)

    def end(self) -> None:
        """Kill what this benchmark started, which is known by the environment."""
        for pid in self.processes():
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)

    def processes(self, word: bytes = b"") -> list[int]:
        """The processes with this home, whose command line holds the word."""
        wanted, found = f"HOME={self.base}".encode(), []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if word in Path(f"/proc/{name}/cmdline").read_bytes() and wanted in Path(
                    f"/proc/{name}/environ"
                ).read_bytes().split(b"\0"):
                    found.append(int(name))
            except OSError:
                continue
        return [pid for pid in found if pid != os.getpid()]


def _start_cost(world: RunWorld) -> Iterator[Row]:
    line = json.dumps({"message": {"content": [{"text": "hi"}]}}).encode() + b"\n"

    def bare() -> None:
        with subprocess.Popen([world.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
            assert agent.stdin is not None and agent.stdout is not None
            agent.stdin.write(line)
            agent.stdin.flush()
            agent.stdout.readline()
            agent.kill()

    world.start("hi")  # makes the registry
    started, floor = interleaved(7, partial(world.start, "hi"), bare)
    yield Row("imi start over the bare program", started - floor, "ms", budget=150)
    keepers = world.processes(b"keeper.py")
    size = max(_memory(pid) for pid in keepers)
    yield Row("memory of a keeper", size, "MB", budget=12)
    for pid in world.processes():
        os.kill(pid, signal.SIGKILL)


def _memory(pid: int, field: str = "VmRSS:") -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


def _line_cost(world: RunWorld) -> Iterator[Row]:
    """Recording a long output from its beginning, against parsing its lines."""
    connection = db.connect(world.database, create=False)
    row = next(one for one in runs.list_runs(connection))
    one = FollowedRun(row)
    lines = [
        {
            "type": "assistant",
            "session_id": "long",
            "uuid": f"u{number}",
            "message": {
                "id": f"m{number}",
                "role": "assistant",
                "content": [{"type": "text", "text": f"line {number}"}],
            },
        }
        for number in range(_LINES)
    ]
    data = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    Path(one.folder.file("out")).write_bytes(data)
    connection.execute("UPDATE run_offsets SET position = 0 WHERE run = ?", (row.seq,))
    me = host.identify_process(os.getpid())
    Path(one.folder.file("exit.json")).unlink(missing_ok=True)
    born = {"pid": me.pid, "started": me.started, "boot": me.boot, "keeper": me.pid}
    Path(one.folder.file("born.json")).write_text(json.dumps(born))
    connection.execute("UPDATE runs SET status = 'alive', session = NULL WHERE seq = ?", (row.seq,))
    connection.execute("UPDATE runs SET status = 'failed' WHERE seq <> ?", (row.seq,))
    ingest = RunIngest(connection)
    floor = _seconds(lambda: [json.loads(each) for each in data.splitlines()])
    took = _seconds(lambda: _until_idle(ingest))
    yield Row("recording a line of output", took / _LINES * 1e6, "µs", floor / _LINES * 1e6, budget=50)
    connection.execute("UPDATE runs SET status = 'failed'")
    db.close(connection)


def _checkpoint_cost(world: RunWorld) -> Iterator[Row]:
    """A checkpoint of a run that has written fifty files of 100 KB, against the row alone."""
    connection = db.connect(world.database, create=False)
    row = next(one for one in runs.list_runs(connection))
    clock, reader = CheckpointClock(20), providers.by_name("claude").reader("task")
    calls = [_write_call(world.base / f"written-{number}") for number in range(50)]
    for number, record in enumerate(each for call in calls for each in call):
        reader.add(json.dumps(record).encode(), number, row.created_at)
    state = clock.make(row, reader)
    assert isinstance(state["files"], list) and len(state["files"]) == 50

    def whole() -> None:
        made = clock.make(row, reader)
        db.transact_unsynced(connection, checkpoints.add, row, "messages", 0, made)

    took, floor = interleaved(
        21, whole, lambda: db.transact_unsynced(connection, checkpoints.add, row, "messages", 0, state)
    )
    yield Row("a checkpoint with fifty files", took, "ms", floor, budget=10)
    db.close(connection)


def _write_call(path: Path) -> tuple[dict[str, object], dict[str, object]]:
    path.write_bytes(b"x" * 100_000)
    call = {"type": "tool_use", "id": path.name, "name": "Write", "input": {"file_path": str(path), "content": "x"}}
    done = {"type": "tool_result", "tool_use_id": path.name, "content": "ok", "is_error": False}
    message = {"id": f"m-{path.name}", "role": "assistant", "content": [call]}
    return (
        {"type": "assistant", "session_id": "bench", "uuid": f"a-{path.name}", "message": message},
        {
            "type": "user",
            "session_id": "bench",
            "uuid": f"u-{path.name}",
            "message": {"role": "user", "content": [done]},
        },
    )


def _answer_cost(world: RunWorld) -> Iterator[Row]:
    """From the start of `imi answer` to the agent that reads it, against the start of a Python."""
    world.start("ask")
    row = world.rows()[0]
    answered, times = Path(row.folder) / "answered", []
    for number in range(1, 10):
        _wait_for_question(world, row.seq, f"q{number}")
        began = time.time_ns()
        process([IMI, "answer", row.id, "yes", "--quiet"], cwd=str(world.base))
        while not answered.exists() or len(lines := answered.read_text().splitlines()) < number:
            time.sleep(0.005)
        times.append((int(lines[-1]) - began) / 1e6)
    floors = [_seconds(lambda: process([sys.executable, "-I", "-c", "pass"])) * 1000 for _ in times]
    yield Row(
        "imi answer until its agent reads it", statistics.median(times), "ms", statistics.median(floors), budget=100
    )
    for pid in world.processes():
        os.kill(pid, signal.SIGKILL)


def _wait_for_question(world: RunWorld, run: int, ident: str) -> None:
    connection = db.connect(world.database, create=False)
    while not any(one.id == ident for one in runs.list_asks(connection, run)):
        time.sleep(0.02)
    db.close(connection)


def _until_idle(ingest: RunIngest) -> None:
    while ingest.update():
        pass


def _seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _streams(world: RunWorld) -> Iterator[Row]:
    """The follower of many agents that write steadily: its share of a core and its memory."""
    for _ in range(STREAMS):
        world.start("pace")
    time.sleep(3)  # the follower has found all of them
    follower = world.processes(b"imi_monitor.runs.follower")[0]
    before = _cpu(follower)
    time.sleep(SECONDS)
    used = (_cpu(follower) - before) / SECONDS * 100
    name = f"following {STREAMS} streams of {_PER_SECOND} lines a second"
    yield Row(name, used, "% core", budget=2)
    yield Row(f"memory of the follower of {STREAMS} streams", _memory(follower), "MB", budget=30)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
