"""Without agents and file events, only processes are scanned: a new agent writes a file or is a new process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.model.agent import Evidence
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
