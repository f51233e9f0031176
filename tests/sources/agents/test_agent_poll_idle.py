"""Without agents and file events, only processes are scanned: a new agent writes a file or is a new process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.model.agent import Evidence
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.agents.agent_poll import AgentPoll
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.agents_source import AgentsSource
from imi_monitor.sources.files.inotify_watcher import InotifyWatcher
from tests.sources.agents.test_agents_source import Notes, entry
from tests.sources.source_kit import running


class Reader:
    """A reader with the sessions of the test, which counts its calls and fails on demand."""

    cli = "fake"
    has_more = False

    def __init__(self) -> None:
        self.asked = 0
        self.sessions: list[str] = []
        self.broken = False

    def watch_folders(self, world: ReadContext) -> Sequence[str]:
        return ()

    def read(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        self.asked += 1
        if self.broken:
            raise ValueError("a format of tomorrow")
        said = Evidence("transcript", "running", times.stamp(), "it says so")
        return [Sighting("fake", one, world.roots[0], evidence=(said,)) for one in self.sessions]


class Scene:
    def __init__(self) -> None:
        self.reader, self.notes = Reader(), Notes()
        self.processes: list[AgentProcess] = []
        self.watcher = InotifyWatcher()
        self.scans = 0

    def scan(self) -> Sequence[AgentProcess]:
        self.scans += 1
        return tuple(self.processes)

    async def some_looks(self, number: int = 4) -> None:
        wanted = self.scans + number
        await self.notes.until(lambda: self.scans >= wanted)


class TitledReader(Reader):
    """A session whose records end with words of the model, in a process whose title says that it works."""

    has_title = True

    def read(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        at = times.stamp(times.now() - timedelta(minutes=1))
        alive = not self.broken
        state, others = ("unknown", {"running", "completed"}) if alive else ("completed", {"running"})
        words = Evidence("transcript", state, at, "words of the model", or_else=frozenset(others))
        title = Evidence("title", "running", at, "its title", standing=True, read_at=times.stamp())
        evidence = (words, title) if self.has_title else (words,)
        return [Sighting("fake", "s", world.roots[0], pid=7, pid_started="9", alive=alive, evidence=evidence)]


def test_a_process_that_ends_while_its_title_says_that_it_works_dies_at_work(tmp_path: Path) -> None:
    reader, roots = TitledReader(), {str(tmp_path): Key("h", "app", "feat")}
    poll = AgentPoll([reader], lambda: (), {}, tick=0)

    def state() -> tuple[str, str]:
        (one,) = poll.poll(None, roots).agents
        return one.agent.state, one.agent.truth.confidence

    assert state() == ("running", "likely")
    reader.has_title = False  # its terminal has ended first
    assert state()[0] == "unknown"
    reader.broken = True
    assert [state(), state()] == [("dead", "likely")] * 2
    assert AgentPoll([reader], lambda: (), {}).poll(None, roots).agents[0].agent.state == "completed", "not seen alive"


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Callable[[Scene], object]], None]:
    (tmp_path / "feat").mkdir()

    def run(work: Callable[[Scene], object]) -> None:
        async def main() -> None:
            scene = Scene()
            source = AgentsSource(
                scene.watcher,
                lambda: [scene.reader],
                lambda: scene.scan,
                None,
                {},
                tick=0.02,
                scan_every=0.0,
                without_agents=0.02,
            )
            source.set_roster((entry(tmp_path / "feat"),))
            async with running(source, scene.notes, scene.watcher):
                await scene.some_looks()
                await work(scene)  # type: ignore[misc]

        asyncio.run(main())

    return run


def test_without_agents_and_file_events_no_reader_is_called(play: Callable[[Callable[[Scene], object]], None]) -> None:
    async def work(scene: Scene) -> None:
        asked = scene.reader.asked
        await scene.some_looks()
        assert scene.reader.asked == asked
        scene.reader.sessions.append("s1")  # a file that is not the reader's to follow told of it
        scene.watcher.activity += 1
        await scene.notes.until(lambda: scene.notes.agents)
        asked = scene.reader.asked
        await scene.some_looks()
        assert scene.reader.asked > asked, "the reader is called while it has an agent"

    play(work)


def test_a_new_process_without_files_is_found(
    play: Callable[[Callable[[Scene], object]], None], tmp_path: Path
) -> None:
    async def work(scene: Scene) -> None:
        scene.reader.sessions.append("s1")
        await scene.some_looks()
        assert not scene.notes.agents
        scene.processes.append(AgentProcess("fake", os.getpid(), "1", str(tmp_path), ("fake",), 0.0))
        await scene.notes.until(lambda: scene.notes.agents)

    play(work)


def test_a_failing_reader_is_called_until_it_recovers(play: Callable[[Callable[[Scene], object]], None]) -> None:
    async def work(scene: Scene) -> None:
        scene.reader.broken = True
        scene.watcher.activity += 1
        await scene.notes.until(lambda: scene.notes.troubles)
        scene.reader.broken = False
        await scene.notes.until(lambda: not scene.notes.troubles)

    play(work)
