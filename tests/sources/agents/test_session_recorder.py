"""The session recorder: writes what is new and nothing else, never blocks or raises, and loses nothing it can hold."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.agent import COMPLETED, RUNNING, WAITING, AgentEvent
from imi_monitor.model.errors import RegistryError
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.agents_source import AgentsSource
from imi_monitor.sources.agents.session_recorder import RecorderLimits, SessionRecorder
from imi_monitor.sources.agents.sighting_merge import SeenAgent
from imi_monitor.sources.source import RosterEntry
from imi_monitor.store import async_registry, db
from tests.helpers import ROOT
from tests.limits import LIMIT, read_line
from tests.sources.source_kit import FakeWatcher, RecordingReceiver, running
from tests.store import session_kit
from tests.store.session_kit import act, agent, event_stream, session_row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "iMi.db"
    session_kit.registry(made).close()
    return made


class Counting:
    """A registry that counts writes and fails on demand."""

    def __init__(self, inner: async_registry.AsyncRegistry) -> None:
        self._inner = inner
        self.writes = 0
        self.broken = False

    async def write(self, work: Any, *args: Any) -> Any:
        if self.broken:
            raise RegistryError("the registry is held by another program")
        self.writes += 1
        return await self._inner.write(work, *args)

    write_unsynced = write

    async def read(self, work: Any, *args: Any) -> Any:
        return await self._inner.read(work, *args)


class Clock:
    """The monotonic clock, moved forward at will."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@asynccontextmanager
async def recording(
    path: Path, *, keep_days: int = 30, clock: Clock | None = None, **limits: Any
) -> AsyncIterator[tuple[SessionRecorder, Counting]]:
    async with async_registry.open_registry(str(path)) as registry:
        counting = Counting(registry)
        limited = RecorderLimits(**{"pause": 0.02, **limits})
        async with SessionRecorder(counting, keep_days, limited, clock or Clock()) as recorder:  # type: ignore[arg-type]
            yield recorder, counting


async def idle(recorder: SessionRecorder) -> None:
    while recorder.writing:
        await asyncio.sleep(0.005)


def seen(*news: AgentEvent, state: str = RUNNING, since: float = 0, **more: Any) -> Sequence[SeenAgent]:
    return [SeenAgent(agent(state, since, **more), news)]


def test_only_changes_are_written(path: Path) -> None:
    async def play() -> None:
        async with recording(path) as (recorder, registry):
            for _ in range(50):
                assert await recorder.record(seen()) is None
            await idle(recorder)
            assert registry.writes == 1
            for number in range(50):  # tools come and go: that it works is all that the state says
                await recorder.record(seen(since=number))
            await idle(recorder)
            assert registry.writes == 1
            await recorder.record(seen(act("prompt", "p", 1, "hello"), since=51))
            await idle(recorder)
            assert registry.writes == 2
            await recorder.record(seen(act("prompt", "p", 1, "hello"), since=52))  # read a second time
            await idle(recorder)
            assert registry.writes == 2
            await recorder.record(seen(state=WAITING, since=60))
            await idle(recorder)
            assert registry.writes == 3

    asyncio.run(play())
    with closing(db.connect(str(path))) as connection:
        assert session_row(connection)["status"] == WAITING
        assert [kind for kind, _, _ in event_stream(connection)] == ["status", "prompt", "status"]


def test_heartbeats_of_several_agents_are_one_transaction(path: Path) -> None:
    clock = Clock()

    async def play() -> None:
        async with recording(path, clock=clock) as (recorder, registry):
            everyone = [SeenAgent(agent(COMPLETED, session="over", ended=True), ())]
            for number in range(5):  # first seen 5 seconds after each other
                everyone.append(SeenAgent(agent(session=f"s{number}"), ()))
                await recorder.record(everyone)
                await idle(recorder)
                clock.ahead += 5
            before = registry.writes
            clock.ahead += 36
            for _ in range(10):
                await recorder.record(everyone)
                await idle(recorder)
            assert registry.writes == before + 1

    asyncio.run(play())
    with closing(db.connect(str(path))) as connection:
        seen = dict(connection.execute("SELECT id, seen_at FROM sessions").fetchall())
    assert len({seen[f"claude:s{number}"] for number in range(5)}) == 1 and seen["claude:over"] < seen["claude:s1"]


def test_many_polls_are_one_transaction_and_closing_writes_the_rest(path: Path) -> None:
    async def play() -> int:
        async with recording(path, pause=3600.0) as (recorder, registry):
            await recorder.record(seen(act("message", "m0", 0, "step 0")))
            await idle(recorder)
            for number in range(1, 300):
                await recorder.record(seen(act("message", f"m{number}", number, f"step {number}")))
            assert registry.writes == 1
        return registry.writes

    assert asyncio.run(play()) == 2
    with closing(db.connect(str(path))) as connection:
        assert len(event_stream(connection)) == 301  # and the step from planning to running


def test_a_failing_registry_is_reported_and_nothing_is_lost(path: Path) -> None:
    async def play() -> None:
        async with recording(path) as (recorder, registry):
            registry.broken = True
            await recorder.record(seen(act("prompt", "p1", 1, "one")))
            while recorder.failure is None:
                await asyncio.sleep(0.005)
            assert (
                await recorder.record(seen(act("prompt", "p2", 2, "two"))) == "the registry is held by another program"
            )
            registry.broken = False
            await idle(recorder)
            assert await recorder.record(seen()) is None

    asyncio.run(play())
    with closing(db.connect(str(path))) as connection:
        assert [kind for kind, _, _ in event_stream(connection)].count("prompt") == 2


def test_waiting_events_are_bounded_and_dropped_ones_reported(path: Path) -> None:
    async def play() -> str | None:
        async with recording(path, waiting=100) as (recorder, registry):
            registry.broken = True
            told = await recorder.record(seen(*(act("message", f"m{n}", n, "x") for n in range(150))))
            registry.broken = False
            return told

    assert asyncio.run(play()) == "50 events of agents could not be recorded"
    with closing(db.connect(str(path))) as connection:
        kept = [ident for (ident,) in event_stream(connection, "id") if str(ident).startswith("m")]
        assert sorted(kept, key=lambda ident: int(ident[1:])) == [f"m{n}" for n in range(50, 150)], "the oldest go"


def test_many_waiting_events_slow_polling_down(path: Path) -> None:
    async def play() -> None:
        async with recording(path, crowded=50, per_transaction=40) as (recorder, _):
            for first in range(0, 400, 80):
                await recorder.record(seen(*(act("message", f"m{n}", n, "x") for n in range(first, first + 80))))
                assert recorder.waiting <= 160
            await idle(recorder)

    asyncio.run(play())
    with closing(db.connect(str(path))) as connection:
        assert len(event_stream(connection)) == 401


def test_an_unwritable_record_does_not_stop_the_others(path: Path) -> None:
    async def play() -> None:
        async with recording(path) as (recorder, _):
            await recorder.record(
                [*seen(act("message", "bad", 1, 5)), *seen(act("message", "good", 1, "x"), session="s2")]  # type: ignore[arg-type]
            )
            await idle(recorder)
            assert recorder.failure is not None and recorder.failure.startswith("claude:s1 is not recorded: TypeError")
            assert recorder.failure.endswith("; 1 event of agents could not be recorded")

    asyncio.run(play())
    with closing(db.connect(str(path))) as connection:
        assert "good" in [ident for (ident,) in event_stream(connection, "id")]


def test_nothing_is_recorded_with_keep_days_0_or_without_a_session(path: Path) -> None:
    async def play() -> None:
        async with recording(path, keep_days=0) as (recorder, registry):
            await recorder.record(seen(act("prompt", "p", 1, "x")))
            assert registry.writes == 0
        async with recording(path) as (recorder, registry):
            one = agent()
            await recorder.record([SeenAgent(type(one)(**{**_fields(one), "session": None, "id": "claude:pid:7"}), ())])
            await idle(recorder)
            assert registry.writes == 0

    asyncio.run(play())


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def test_files_are_measured_without_opening_and_only_in_the_worktree(path: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "a.py").write_text("12345")
    os.mkfifo(tree / "pipe")
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    files = tuple(str(name) for name in (tree / "src" / "a.py", tree / "pipe", path, tree / "gone", "relative"))

    async def play() -> None:
        async with recording(path) as (recorder, _):
            wrote = act("tool_finished", "t", 1, "ok", tool="Write", call="c", ok=True, files=files)
            await recorder.record(seen(wrote, cwd=str(tree)))
            await idle(recorder)

    asyncio.run(play())
    with closing(db.connect(str(path))) as connection:
        found = dict(connection.execute("SELECT path, size FROM artifacts").fetchall())
    assert found == {"src/a.py": 5, "pipe": None, str(path): None, "gone": None, "relative": None}
    assert not set(opened) & set(files)


def test_the_agents_source_reports_a_failing_record(path: Path, tmp_path: Path) -> None:
    tree = tmp_path / "feat-x"
    tree.mkdir()

    class Reader:
        cli = "claude"
        has_more = False

        def watch_folders(self, world: Any) -> Sequence[str]:
            return ()

        def read(self, world: Any, touched: frozenset[str] | None) -> Sequence[Sighting]:
            news = (act("prompt", "p1", 1, "hello"),)
            return [Sighting("claude", "s1", str(tree), evidence=(), events=news)]

    receiver = RecordingReceiver()

    async def play() -> None:
        async with recording(path) as (recorder, registry):
            source = AgentsSource(FakeWatcher(), lambda: [Reader()], lambda: tuple, recorder.record, env={})  # type: ignore[arg-type,list-item]
            entry = RosterEntry(
                Key("h", "app", "feat-x"), str(tree), "", "", "feat", None, None, False, False, None, None, False
            )
            source.set_roster([entry])
            registry.broken = True
            async with running(source, receiver) as task:
                while "sessions" not in receiver.failures and not task.done():
                    source.poll_all()
                    await asyncio.sleep(0.01)
                assert receiver.failures == {"sessions": "the registry is held by another program"}
                registry.broken = False
                while receiver.failures and not task.done():
                    source.poll_all()
                    await asyncio.sleep(0.01)

    asyncio.run(play())
    with closing(db.connect(str(path))) as connection:
        assert [kind for kind, _, _ in event_stream(connection)].count("prompt") == 1
        assert session_row(connection)["lost"] == "unknown"


# several monitors ----------------------------------------------------------------------------------------------------

WORKER = """
import asyncio, random, sys
from imi_monitor.sources.agents.session_recorder import RecorderLimits, SessionRecorder
from imi_monitor.sources.agents.sighting_merge import SeenAgent
from imi_monitor.store import async_registry
from tests.store.session_kit import act, agent
database, seed = sys.argv[1], int(sys.argv[2])
chance = random.Random(seed)
async def main():
    limits = RecorderLimits(pause=0.01)
    async with async_registry.open_registry(database) as registry, SessionRecorder(registry, limits=limits) as recorder:
        print("ready", flush=True)
        sys.stdin.readline()
        for look in range(40):
            for session in ("s1", "s2", "s3"):
                states = ["running", "waiting_for_input", "completed"]
                news = [act("message", f"m{look}-{n}", look, f"text {look} {n}") for n in range(5)]
                news += [act("tool_started", f"t{look}", look, "make", tool="Bash make", call=f"c{look}")]
                news += [act("tool_finished", f"f{look}", look + 0.5, "ok", tool="Bash make", call=f"c{look}", ok=True)]
                chance.shuffle(news)
                trouble = await recorder.record([SeenAgent(agent(states[look % 3], look, session=session), tuple(news))])
                assert trouble is None, trouble
            await asyncio.sleep(chance.random() * 0.01)
asyncio.run(main())
"""


def test_many_monitors_record_the_same_sessions_once(path: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), str(seed)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for seed in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None and read_line(worker.stdout) == "ready\n"
    for worker in workers:
        worker.communicate("go\n", timeout=100)
    assert [worker.returncode for worker in workers] == [0] * 4
    with closing(db.connect(str(path))) as connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (3,)
        told = "SELECT count(*) FROM session_events WHERE kind <> 'status'"
        assert connection.execute(told).fetchone() == (3 * 40 * 7,)
        assert connection.execute("SELECT count(*), sum(status = 'success') FROM tool_calls").fetchone() == (120, 120)
        assert session_row(connection)["status"] == "running", "every monitor has caught up"
        begun = connection.execute("SELECT count(*) FROM events WHERE type = 'session.started'").fetchone()
        assert begun == (3,), "begun once for all monitors"
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_monitor_that_is_killed_leaves_whole_records(path: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path), "1"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert worker.stdin is not None and worker.stdout is not None and read_line(worker.stdout) == "ready\n"
    worker.stdin.write("go\n")
    worker.stdin.flush()
    with closing(db.connect(str(path))) as connection:
        while connection.execute("SELECT count(*) FROM session_events").fetchone()[0] < 100 and worker.poll() is None:
            pass
        worker.kill()
        worker.communicate(timeout=LIMIT)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        lost = "SELECT count(*) FROM session_events WHERE call IS NOT NULL AND call NOT IN (SELECT id FROM tool_calls)"
        assert connection.execute(lost).fetchone() == (0,)


def test_closing_waits_for_the_current_write(path: Path) -> None:
    async def play() -> None:
        async with recording(path) as (recorder, _):
            await recorder.record(seen(*(act("message", f"m{n}", n, "x" * 1500) for n in range(1500)), state=COMPLETED))
            await asyncio.sleep(0.01)

    asyncio.run(play())
    with closing(db.connect(str(path))) as connection:
        assert sum(kind == "message" for kind, _, _ in event_stream(connection)) == 1500
