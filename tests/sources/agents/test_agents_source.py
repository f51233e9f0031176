"""The agents source: polls after file events, merges, finds worktrees, and survives a failing reader."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.agent import AgentEvent, Evidence
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.agents import foreign_db
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.agents_source import AgentsSource, poll_due
from imi_monitor.sources.agents.sighting_merge import SeenAgent
from imi_monitor.sources.files.tiered_watcher import choose_watcher
from imi_monitor.sources.files.watcher import FileEvent
from imi_monitor.sources.source import RosterEntry
from tests.limits import LIMIT, wait_for_zombie
from tests.sources.source_kit import RecordingReceiver, running, until


class Notes(RecordingReceiver):
    @property
    def troubles(self) -> list[str]:
        return list(self.failures.values())

    async def until(self, true: Callable[[], object]) -> None:
        await until(true)


class OneFile:
    """A program whose states are the lines of a file: `session cwd state`."""

    cli = "fake"
    has_more = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.looks: list[frozenset[str] | None] = []

    def watch_folders(self, world: ReadContext) -> Sequence[str]:
        return [str(self.path.parent)]

    def read(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        self.looks.append(touched)
        found = []
        for line in self.path.read_text().splitlines():
            session, cwd, state = line.split()
            if world.is_watched(cwd):
                evidence = Evidence("transcript", state, times.stamp(), "the file says so")
                news = (AgentEvent(state, f"{session}{state}", times.stamp()),)
                found.append(Sighting("fake", session, cwd, evidence=(evidence,), events=news))
        return found


class Broken:
    cli = "broken"
    has_more = False

    def watch_folders(self, world: ReadContext) -> Sequence[str]:
        return []

    def read(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        raise KeyError("a format of tomorrow")


def entry(path: Path) -> RosterEntry:
    return RosterEntry(
        Key("h", "app", path.name), str(path), "", "", "feat", None, None, False, False, None, None, False
    )


def play(
    tmp_path: Path,
    readers: Sequence[object],
    work: Callable[[AgentsSource, Notes], object],
    processes: Sequence[AgentProcess] = (),
    keep: Callable[[Sequence[SeenAgent]], object] | None = None,
) -> Notes:
    async def main() -> Notes:
        notes = Notes()
        watcher = choose_watcher()
        source = AgentsSource(watcher, lambda: readers, lambda: lambda: processes, keep, {})  # type: ignore[arg-type,return-value]
        source.set_roster(
            (entry(tmp_path / "feat-a"), entry(tmp_path / "feat-a" / "inner"), entry(tmp_path / "feat-b"))
        )
        async with running(source, notes, watcher):
            await work(source, notes)  # type: ignore[misc]
        return notes

    for name in ("feat-a/inner/deep", "feat-b", "records"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    return asyncio.run(main())


@pytest.fixture
def records(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    return tmp_path / "records" / "states"


def test_a_new_record_appears_with_the_innermost_worktree(tmp_path: Path, records: Path) -> None:
    records.write_text(f"s1 {tmp_path}/feat-a/inner/deep running\ns2 {tmp_path}/elsewhere running\n")
    reader = OneFile(records)
    kept: list[SeenAgent] = []

    async def keep(seen: Sequence[SeenAgent]) -> None:
        kept.extend(seen)

    async def work(_: AgentsSource, notes: Notes) -> None:
        await notes.until(lambda: notes.agents)
        (one,) = notes.agents
        assert (one.id, one.key, one.state) == ("fake:s1", Key("h", "app", "inner"), "running")
        await notes.until(lambda: len(reader.looks) >= 3)
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "feat-b")
        records.write_text(f"s1 {link} completed\n")
        await notes.until(lambda: notes.agents[0].state == "completed")
        assert notes.agents[0].key == Key("h", "app", "feat-b"), "it moved, and by another name of the folder"
        assert any(touched and str(records) in touched for touched in reader.looks)

    play(tmp_path, [reader], work, keep=keep)
    assert {(seen.agent.id, each.id) for seen in kept for each in seen.events} == {
        ("fake:s1", "s1running"),
        ("fake:s1", "s1completed"),
    }


def test_appended_records_are_gathered_after_a_poll_and_what_shows_a_state_is_not() -> None:
    record = FileEvent("/p/s.jsonl", "modified")
    assert poll_due([record], now=100.0, polled_at=float("-inf")) == pytest.approx(100.01), (
        "the first one is polled soon"
    )
    assert poll_due([record], now=100.0, polled_at=99.9) == pytest.approx(100.05)
    assert poll_due([record, record], now=100.0, polled_at=99.0) == pytest.approx(100.01)
    for other in (
        FileEvent("/p/1.json", "moved_to"),
        FileEvent("/p/s.jsonl", "created"),
        FileEvent("/p/x", "modified"),
    ):
        assert poll_due([record, other], now=100.0, polled_at=99.99) == pytest.approx(100.01)


def test_a_failing_reader_is_reported_and_the_others_go_on(tmp_path: Path, records: Path) -> None:
    records.write_text(f"s1 {tmp_path}/feat-b running\n")

    async def work(_: AgentsSource, notes: Notes) -> None:
        await notes.until(lambda: notes.agents and notes.troubles)
        assert "broken cannot be read: KeyError: 'a format of tomorrow'" in notes.troubles[-1]

    play(tmp_path, [Broken(), OneFile(records)], work)


class Fickle(OneFile):
    """Fails while its file says `torn`."""

    def read(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        if self.path.read_text() == "torn":
            raise ValueError("what is this")
        return super().read(world, touched)


def test_the_last_result_stands_while_a_reader_fails(tmp_path: Path, records: Path) -> None:
    records.write_text(f"s1 {tmp_path}/feat-b running\n")

    async def work(_: AgentsSource, notes: Notes) -> None:
        await notes.until(lambda: notes.agents)
        records.write_text("torn")
        await notes.until(lambda: notes.troubles)
        assert [one.id for one in notes.agents] == ["fake:s1"]
        records.write_text(f"s1 {tmp_path}/feat-b completed\n")
        await notes.until(lambda: not notes.troubles and notes.agents[0].state == "completed")

    play(tmp_path, [Fickle(records)], work)


def test_a_failing_process_scan_is_reported_and_files_are_still_read(tmp_path: Path, records: Path) -> None:
    records.write_text(f"s1 {tmp_path}/feat-b running\n")

    class Unlisted(Sequence[AgentProcess]):
        def __len__(self) -> int:
            raise ValueError("/proc is another thing here")

        def __getitem__(self, index: object) -> AgentProcess:  # type: ignore[override]
            raise ValueError("/proc is another thing here")

    async def work(_: AgentsSource, notes: Notes) -> None:
        await notes.until(lambda: notes.agents and notes.troubles)
        assert "processes cannot be read: ValueError" in notes.troubles[-1]

    play(tmp_path, [OneFile(records)], work, Unlisted())


def test_the_end_of_a_process_is_seen_without_a_file_event(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    started = host.start_time(child.pid)
    assert started is not None
    process = AgentProcess("fake", child.pid, started, str(tmp_path), ("sleep",), 0.0)

    class Processes(Broken):
        cli = "processes"

        def read(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
            evidence = (Evidence("transcript", "running", times.stamp(), "it said so once"),)
            return [Sighting("fake", "s", str(tmp_path / "feat-a"), child.pid, started, evidence=evidence)]

    async def work(_: AgentsSource, notes: Notes) -> None:
        await notes.until(lambda: notes.agents and notes.agents[0].state == "running")
        child.kill()
        wait_for_zombie(child.pid)  # a zombie is dead too
        await notes.until(lambda: notes.agents[0].state == "dead")

    try:
        play(tmp_path, [Processes()], work, [process])
    finally:
        child.wait(LIMIT)


@pytest.mark.parametrize("scanned", [True, False])
def test_a_process_that_is_stopped_is_suspended_until_it_is_continued(tmp_path: Path, scanned: bool) -> None:
    """`scanned`: the process is found by the scan, or only named by its session."""
    child = subprocess.Popen(["sleep", "60"])
    started = host.start_time(child.pid)
    assert started is not None

    class Records(Broken):
        cli = "fake"
        has_more = False

        def read(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
            evidence = (Evidence("registry", "running", at, "it says so", standing=True),)
            return [Sighting("fake", "s", str(tmp_path / "feat-a"), child.pid, started, True, evidence=evidence)]

    async def work(_: AgentsSource, notes: Notes) -> None:
        await notes.until(lambda: notes.agents and not notes.agents[0].suspended)
        child.send_signal(signal.SIGSTOP)
        await notes.until(lambda: notes.agents[0].suspended)
        assert (notes.agents[0].state, notes.agents[0].truth.ended) == ("running", False)
        child.send_signal(signal.SIGCONT)
        await notes.until(lambda: not notes.agents[0].suspended)

    at = times.stamp()
    process = AgentProcess("fake", child.pid, started, str(tmp_path / "feat-a"), ("sleep",), 0.0)
    try:
        play(tmp_path, [Records()], work, [process] if scanned else [])
    finally:
        child.kill()
        child.wait(LIMIT)


class OneDatabase(OneFile):
    """A program whose agent is a row of a database with a log."""

    def read(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        self.looks.append(touched)
        ((cwd, state),) = (row.values() for row in foreign_db.rows(str(self.path), "select cwd, state from agents"))
        evidence = Evidence("transcript", str(state), times.stamp(), "the database says so")
        return [Sighting("fake", "s1", str(cwd), evidence=(evidence,))]


def test_reading_a_database_is_no_change_of_it(tmp_path: Path, records: Path) -> None:
    """Each read opens and closes its log as a writer does; without care each read is the reason of the next one."""
    reader = OneDatabase(records.with_name("agents.db"))
    with contextlib.closing(sqlite3.connect(reader.path, isolation_level=None)) as made:
        made.execute("pragma journal_mode = wal")
        made.execute("create table agents (cwd text, state text)")
        made.execute("insert into agents values (?, 'running')", (f"{tmp_path}/feat-b",))

        async def work(source: AgentsSource, notes: Notes) -> None:
            await notes.until(lambda: len(reader.looks) >= 5)
            reasons = [look for look in reader.looks[1:] if look]
            assert len(reasons) <= 1, "nothing wrote: beside the first event all polls are those of the clock"
            made.execute("update agents set state = 'completed'")
            await notes.until(lambda: notes.agents and notes.agents[0].state == "completed")
            assert any(look and f"{reader.path}-wal" in look for look in reader.looks)

        play(tmp_path, [reader], work)


def test_without_worktrees_there_are_no_agents(tmp_path: Path, records: Path) -> None:
    records.write_text(f"s1 {tmp_path}/feat-b running\n")

    async def work(source: AgentsSource, notes: Notes) -> None:
        await notes.until(lambda: notes.agents)
        source.set_roster(())
        await notes.until(lambda: not notes.agents)

    play(tmp_path, [OneFile(records)], work)
