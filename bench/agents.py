"""Agents found by their files: the cost of 40 sessions that write, the delay until a state is known, and the first poll.

Every session is a running process with a transcript of 50 MB, as Claude Code writes them. Another process writes tool
calls, results (some of 200 KB) and changes of the registry.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.common import Row
from imi_monitor import engine, host
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import Key
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agent_poll import AgentPoll

SESSIONS = int(os.environ.get("BENCH_SESSIONS", "40"))
MEGABYTES = int(os.environ.get("BENCH_MEGABYTES", "50"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "30"))
EVERY = 3.0  # seconds between two writes of one session: a result, and the next call
_TOO_LONG = 5.0
_NEVER = 1e9


def run() -> Iterator[Row]:
    with _world(megabytes=1) as world:  # a poll reads what was appended, however long the rest is
        yield from _poll_cost(world)
    with _world(live=1, old=SESSIONS, megabytes=1) as world:
        yield from asyncio.run(_first_look(world))
    with _world() as world:
        yield from asyncio.run(_measure(world))


@contextmanager
def _world(live: int = SESSIONS, old: int = 0, megabytes: int = MEGABYTES) -> Iterator[AgentWorld]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-", dir=os.environ.get("BENCH_DIR")) as base:
        world = AgentWorld(Path(base), live, old, megabytes)
        try:
            yield world
        finally:
            world.end()


def _poll_cost(world: AgentWorld) -> Iterator[Row]:
    """CPU time of one poll of all agents: after one record, and without a change."""
    roots = {
        os.path.realpath(world.base / f"feat-{n}"): Key("h", "app", f"feat-{n}") for n in range(len(world.sessions))
    }
    poll = AgentPoll(agents.all_readers(), agents.process_scanner(), os.environ, tick=_NEVER, scan_every=_NEVER)
    for _ in range(len(roots) // 4):  # so many transcripts are searched per poll of everything
        poll.poll(None, roots)
    while poll.has_more:
        poll.poll(frozenset(), roots)
    session, tree = world.sessions[0], world.base / "feat-0"
    transcript = world.base / "claude" / "projects" / f"slug-{tree.name}" / f"{session}.jsonl"
    after_record, without_change = [], []
    for number in range(100):
        with transcript.open("ab") as file:
            file.write(_call(session, str(tree), f"poll{number}") + b"\n")
        after_record.append(_cpu_of(poll, frozenset({str(transcript)}), roots))
        without_change.append(_cpu_of(poll, frozenset(), roots))
    yield Row(
        f"one poll of {len(roots)} agents after a record", statistics.median(after_record) * 1000, "ms", budget=1.0
    )
    yield Row("one poll of them without a change", statistics.median(without_change) * 1000, "ms", budget=0.5)


def _cpu_of(poll: AgentPoll, touched: frozenset[str], roots: Mapping[str, Key]) -> float:
    started = time.process_time()
    poll.poll(touched, roots)
    return time.process_time() - started


async def _measure(world: AgentWorld) -> list[Row]:
    rows = []
    async with engine.open_engine(str(world.base / "iMi.db"), [world.common_dir]) as live:
        started = time.perf_counter()
        await _until(live, lambda s: sum(one.state == "running" for one in s.agents) >= len(world.sessions))
        rows.append(Row(f"{SESSIONS} live sessions of {MEGABYTES} MB: all states", time.perf_counter() - started, "s"))
        await _quiet(live)
        cpu, at = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        await asyncio.sleep(10)
        rows.append(Row("their cost at rest", _share(cpu, at), "% of a core"))
        writer = subprocess.Popen(
            [sys.executable, "-m", "bench.agents", str(world.base), str(SECONDS)], stdout=subprocess.PIPE
        )
        cpu, at = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        late = await _watch(live, writer)
        rows.append(
            Row(f"{len(world.sessions) / EVERY:.0f} records a second: cost", _share(cpu, at), "% of a core", budget=2.0)
        )
        for kind, budget in (("record", 200.0), ("registry", 100.0)):
            found = sorted(late[kind])
            for name, share in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0)):
                value = found[min(len(found) - 1, int(len(found) * share))] * 1000 if found else float("nan")
                rows.append(
                    Row(f"{kind} written -> state, {name}", value, "ms", budget=budget if name != "p50" else None)
                )
        rows.append(Row("told too late or never", float(late["lost"][0]), "of them", budget=0.0))
        rows.append(Row("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB"))
    return rows


async def _first_look(world: AgentWorld) -> list[Row]:
    async with engine.open_engine(str(world.base / "iMi.db"), [world.common_dir]) as live:
        started = time.perf_counter()
        await _until(live, lambda s: any(one.state == "running" for one in s.agents))
        taken = time.perf_counter() - started
    return [Row(f"first state beside {SESSIONS * MEGABYTES} MB of old transcripts", taken, "s", budget=0.3)]


async def _watch(live: engine.Engine, writer: subprocess.Popen[bytes]) -> dict[str, list[float]]:
    """Seconds from each write to the snapshot that tells it.

    They are compared afterwards: what the benchmark does meanwhile would count as the engine's cost.
    """
    shown: list[tuple[float, tuple[Agent, ...]]] = []
    seen = asyncio.create_task(_each(live, lambda snapshot: shown.append((time.monotonic(), snapshot.agents))))
    while writer.poll() is None:
        await asyncio.sleep(1)
    await asyncio.sleep(1)
    seen.cancel()
    assert writer.stdout is not None
    late: dict[str, list[float]] = {"record": [], "registry": [], "lost": [0]}
    for line in writer.stdout.read().splitlines():
        session, kind, mark, at = line.decode().split()
        found = (
            moment
            for moment, agents_then in shown
            if moment >= float(at)
            for one in agents_then
            if one.session == session and _says(one.state, str(one.truth.tool), f"{kind} {mark}")
        )
        moment = next(found, None)
        if moment is None or moment - float(at) > _TOO_LONG:
            late["lost"][0] += 1
        else:
            late[kind].append(moment - float(at))
    return late


def _says(state: str, tool: str, wanted: str) -> bool:
    kind, mark = wanted.split()
    return mark in tool if kind == "record" else state == mark


async def _each(live: engine.Engine, check: object) -> None:
    async for snapshot in live.snapshots():
        check(snapshot)  # type: ignore[operator]


async def _until(live: engine.Engine, true: object) -> None:
    async with asyncio.timeout(120):
        async for snapshot in live.snapshots():
            if true(snapshot):  # type: ignore[operator]
                return


async def _quiet(live: engine.Engine) -> None:
    """Until what lies further back has been read and recorded, which pauses for up to four seconds."""
    before = -1.0
    while (now := _cpu()) - before > 0.125:
        before = now
        await asyncio.sleep(5)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _share(before: resource.struct_rusage, at: float) -> float:
    return (_cpu() - before.ru_utime - before.ru_stime) / (time.monotonic() - at) * 100


class AgentWorld:
    """A repository with a worktree for each live session, and Claude Code's files for all of them."""

    def __init__(self, base: Path, live: int, old: int, megabytes: int) -> None:
        """`old`: so many transcripts of MEGABYTES that ended a month ago, beside `live` ones of `megabytes`."""
        self.base = base
        self.common_dir = str(base / "app" / ".git")
        self.sleepers: list[subprocess.Popen[bytes]] = []
        self.sessions: list[str] = []
        config = base / "claude"
        os.environ["CLAUDE_CONFIG_DIR"] = str(config)
        os.environ["HOME"] = str(base)  # the agents of the person who runs this are none of its forty
        (config / "sessions").mkdir(parents=True)
        _git(base, "init", "-q", "-b", "main", "app")
        _git(base / "app", "commit", "-q", "--allow-empty", "-m", "first")
        if old:
            self._write_old(config, old)
        any_session, any_tree = "ffffffff-0000-4000-8000-000000000000", str(base / "feat-any")
        template = _transcript(any_session, any_tree, megabytes)
        for number in range(live):
            tree = base / f"feat-{number}"
            _git(base / "app", "worktree", "add", "-q", "-b", f"feat/{number}", str(tree))
            session = f"{number:08x}-0000-4000-8000-000000000000"
            data = template.replace(any_session.encode(), session.encode())
            self._write(config, session, tree, data.replace(any_tree.encode(), str(tree).encode()))
            self._register(config, session, tree)

    def _write_old(self, config: Path, count: int) -> None:
        """One file under many names: it has to be found too old, not to be read."""
        tree = self.base / "app"
        first = self._write(config, "old-0000", tree, _transcript("old", str(tree), MEGABYTES))
        month_ago = time.time() - 30 * 86400
        os.utime(first, (month_ago, month_ago))
        for number in range(1, count):
            os.link(first, first.with_name(f"old-{number:04}.jsonl"))

    def _write(self, config: Path, session: str, tree: Path, data: bytes) -> Path:
        path = config / "projects" / f"slug-{tree.name}" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def _register(self, config: Path, session: str, tree: Path) -> None:
        sleeper = subprocess.Popen(["bash", "-c", "exec -a claude sleep 3600"], cwd=tree)
        self.sleepers.append(sleeper)
        self.sessions.append(session)
        time.sleep(0.02)
        entry = {
            "pid": sleeper.pid,
            "sessionId": session,
            "cwd": str(tree),
            "startedAt": int(time.time() * 1000),
            "procStart": host.start_time(sleeper.pid),
            "version": "2.1.326",
            "kind": "interactive",
            "entrypoint": "cli",
            "status": "busy",
            "updatedAt": int(time.time() * 1000),
            "statusUpdatedAt": int(time.time() * 1000),
        }
        (config / "sessions" / f"{sleeper.pid}.json").write_text(json.dumps(entry))

    def end(self) -> None:
        for sleeper in self.sleepers:
            sleeper.kill()
            sleeper.wait()


def _git(cwd: Path, *words: str) -> None:
    git = shutil.which("git") or "git"
    identity = ["-c", "user.name=b", "-c", "user.email=b@example.invalid"]
    subprocess.run([git, *identity, *words], cwd=cwd, check=True, capture_output=True)


def _transcript(session: str, cwd: str, megabytes: int) -> bytes:
    """Prompt snapshots make most of a real one; at its end it works."""
    lines, size, number = [_prompt(session, cwd)], 0, 0
    while size < megabytes << 20:
        number += 1
        for line in (_call(session, cwd, f"old{number}"), _result(session, cwd, f"old{number}", 20_000)):
            lines.append(line)
            size += len(line)
    lines.append(_call(session, cwd, "first"))
    return b"\n".join(lines) + b"\n"


def _record(session: str, cwd: str, kind: str, message: dict[str, object], **more: object) -> bytes:
    return json.dumps(
        {
            "type": kind,
            "uuid": f"{random.getrandbits(64):x}",
            "parentUuid": None,
            "isSidechain": False,
            "userType": "external",
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            + f".{time.time_ns() // 1_000_000 % 1000:03}Z",
            "cwd": cwd,
            "gitBranch": "main",
            "sessionId": session,
            "version": "2.1.326",
            "entrypoint": "cli",
            "message": message,
            **more,
        }
    ).encode()


def _prompt(session: str, cwd: str) -> bytes:
    return _record(session, cwd, "user", {"role": "user", "content": "make it fast"}, permissionMode="default")


def _call(session: str, cwd: str, mark: str) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0}
    content = [{"type": "tool_use", "id": f"toolu_{mark}", "name": "Bash", "input": {"command": f"echo {mark}"}}]
    return _record(
        session,
        cwd,
        "assistant",
        {
            "id": f"msg_{mark}",
            "role": "assistant",
            "model": "bench",
            "content": content,
            "stop_reason": "tool_use",
            "usage": usage,
        },
    )


def _result(session: str, cwd: str, mark: str, size: int) -> bytes:
    content = [{"type": "tool_result", "tool_use_id": f"toolu_{mark}", "content": "x" * size}]
    return _record(
        session, cwd, "user", {"role": "user", "content": content}, toolUseResult={"stdout": "x", "stderr": ""}
    )


def _write_along(base: Path, seconds: float) -> None:
    """The agents' side, in a process of its own: tells on stdout what it wrote, and when."""
    config, end, dice = base / "claude", time.monotonic() + seconds, random.Random(3)
    registered = {path: json.loads(path.read_text()) for path in sorted((config / "sessions").glob("*.json"))}
    last = {entry["sessionId"]: "first" for entry in registered.values()}
    waits: set[str] = set()
    order = list(registered.items())
    turn = 0
    while time.monotonic() < end:
        path, entry = order[turn % len(order)]
        session, cwd = entry["sessionId"], entry["cwd"]
        transcript = config / "projects" / f"slug-{Path(cwd).name}" / f"{session}.jsonl"
        if turn % 7 == 3:
            state = "busy" if session in waits else "waiting"
            waits ^= {session}
            stamp = int(time.time() * 1000)
            more = {"waitingFor": "permission prompt"} if state == "waiting" else {}
            entry = {**entry, "status": state, "statusUpdatedAt": stamp, "updatedAt": stamp, **more}
            beside = path.with_suffix(".tmp")
            beside.write_text(json.dumps(entry))
            os.replace(beside, path)
            print(
                session,
                "registry",
                "waiting_for_input" if state == "waiting" else "running",
                time.monotonic(),
                flush=True,
            )
        elif session not in waits:
            mark = f"m{turn}"
            size = 200_000 if dice.random() < 0.1 else 2_000
            with transcript.open("ab") as file:
                file.write(_result(session, cwd, last[session], size) + b"\n" + _call(session, cwd, mark) + b"\n")
            last[session] = mark
            print(session, "record", mark, time.monotonic(), flush=True)
        turn += 1
        time.sleep(EVERY / len(order))


if __name__ == "__main__":
    _write_along(Path(sys.argv[1]), float(sys.argv[2]))
