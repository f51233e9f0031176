"""Run one source alone: a receiver that records what it reports, roster entries, and waiting for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from imi_monitor.model.agent import Agent
from imi_monitor.model.agent_names import GivenName
from imi_monitor.model.change import Change
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.snapshot import GitState, Key
from imi_monitor.sources.files.watcher import FileWatcher, WatchRoot
from imi_monitor.sources.hints import Hint
from imi_monitor.sources.source import ReadingReceiver, RegistryReading, RosterEntry, Source
from tests.limits import LIMIT


class RecordingReceiver(ReadingReceiver):
    """Keeps everything a source reports."""

    def __init__(self) -> None:
        self.hints: list[Hint] = []
        self.changes: list[Change] = []
        self.git: list[str] = []  # worktrees whose state was reported; "NAME failed" for a failure
        self.registry: list[RegistryReading] = []
        self.agents: tuple[Agent, ...] = ()
        self.agent_reports = 0
        self.agent_names: dict[str, GivenName] = {}
        self.failures: dict[str, str] = {}  # source -> why
        self.notes: dict[str, str | None] = {}  # source -> the note of its health
        self.pulls: dict[Key, PullRequest] = {}
        self.fields: dict[str, object] = {}

    def update(self, **fields: object) -> None:
        self.fields |= fields

    def set_pull_requests(self, pulls: Mapping[Key, PullRequest]) -> None:
        self.pulls = dict(pulls)

    def set_roster(self, entries: tuple[RosterEntry, ...]) -> None: ...

    def set_watch_mode(self, key: Key, mode: str, why: str | None) -> None: ...

    def set_git_state(self, key: Key, state: GitState) -> None:
        self.git.append(key.worktree)

    def set_git_failure(self, key: Key, why: str) -> None:
        self.git.append(f"{key.worktree} failed")

    def add_changes(self, changes: Sequence[Change]) -> None:
        self.changes.extend(changes)

    def set_earlier_changes(self, changes: tuple[Change, ...]) -> None: ...

    def set_registry(self, reading: RegistryReading) -> None:
        self.registry.append(reading)

    def set_agents(self, agents: tuple[Agent, ...]) -> None:
        self.agents, self.agent_reports = agents, self.agent_reports + 1

    def set_agent_names(self, names: Mapping[str, GivenName]) -> None:
        self.agent_names = dict(names)

    def set_healthy(self, source: str, note: str | None = None) -> None:
        self.failures.pop(source, None)
        self.notes[source] = note

    def set_failure(self, source: str, what: str, why: str) -> None:
        self.failures[source] = why

    def send_hint(self, hint: Hint) -> None:
        self.hints.append(hint)


class FakeWatcher(FileWatcher):
    """Remembers the roots; the test calls their sinks."""

    name = "fake"

    def __init__(self, *, slow_start: bool = False) -> None:
        self.slow_start = slow_start
        self.roots: dict[str, WatchRoot] = {}
        self.added: list[str] = []
        self.removed: list[str] = []

    async def add(self, root: WatchRoot) -> None:
        self.roots[root.name] = root
        self.added.append(root.name)

    def remove(self, name: str) -> None:
        self.roots.pop(name, None)
        self.removed.append(name)


@asynccontextmanager
async def running(
    source: Source, receiver: ReadingReceiver, watcher: FileWatcher | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """Start the watcher and the source, and end both."""
    if watcher is not None:
        await watcher.start()
    task = asyncio.ensure_future(source.run(receiver))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if watcher is not None:
            await watcher.close()


def roster_entry(home: Path, name: str, is_main: bool = False) -> RosterEntry:
    """A worktree of the repository `app` in `home`; its folders are made."""
    path, common = home / name, home / "app" / ".git"
    admin = common if is_main else common / "worktrees" / name
    path.mkdir(exist_ok=True)
    admin.mkdir(parents=True, exist_ok=True)
    return RosterEntry(
        key=Key("here", "app", name),
        path=str(path),
        admin_dir=str(admin),
        common_dir=str(common),
        type="feat",
        branch=name,
        head=None,
        is_main=is_main,
        missing=False,
        locked=None,
        pr=None,
        trusted=False,
    )


async def until(condition: Callable[[], object], seconds: float = LIMIT) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
