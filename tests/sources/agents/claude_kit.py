"""A worktree, a configuration folder and a reader, for scenes with a fake Claude Code in them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imi_monitor.model.agent import Agent, AgentEvent
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.claude.reader import ClaudeReader
from imi_monitor.sources.agents.sighting_merge import SightingMerge, as_agent
from tests.sources.agents.fakes.claude import Claude

BEGAN = 1_794_987_315.0


class Scene:
    """The clock stands still until `wait`. The fake writes as this test's own process, which is running."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "claude-home"
        self.config = self.home / ".claude"
        self.worktree = folder / "my.repo_wt X"
        for each in (self.config / "sessions", self.config / "projects", self.worktree):
            each.mkdir(parents=True)
        self.time = BEGAN
        self.world = ReadContext(self.time, str(self.home), {}, (str(self.worktree.resolve()),))
        self.reader = ClaudeReader()
        self.events: list[AgentEvent] = []
        self._before = self._files()

    def claude(self, session: str | None = None, **more: Any) -> Claude:
        settings = {"pid": os.getpid(), "clock": lambda: self.time, "numbers": True} | more
        return Claude(str(self.config), str(self.worktree), session, **settings)

    def wait(self, seconds: float) -> None:
        self.time += seconds

    # -- looking ------------------------------------------------------------------------------------------------------

    def touched(self) -> frozenset[str]:
        """The paths that changed since the last read, as file events would name them."""
        now = self._files()
        changed = {path for path in {*now, *self._before} if now.get(path) != self._before.get(path)}
        self._before = now
        return frozenset(changed)

    def read(self, whole: bool = False, processes: tuple[AgentProcess, ...] = ()) -> list[Sighting]:
        self.world = replace(self.world, now=self.time, processes=processes)
        touched = self.touched()
        found = SightingMerge().merge(self.reader.read(self.world, None if whole else touched))
        self.reader.watch_folders(self.world)
        self.events += [happened for one in found for happened in one.events]
        return found

    def agents(self, whole: bool = False, processes: tuple[AgentProcess, ...] = ()) -> list[Agent]:
        now = datetime.fromtimestamp(self.time, UTC)
        return [as_agent(one, None, now).agent for one in self.read(whole, processes)]

    def agent(self, session: str | None = None, whole: bool = False) -> Agent:
        found = [one for one in self.agents(whole) if session is None or one.session == session]
        assert len(found) == 1, found
        return found[0]

    def state(self) -> str:
        return self.agent().state

    def _files(self) -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in self.config.rglob("*")}


def a_dead_pid() -> tuple[int, str]:
    """(pid, start time) of a process that has ended."""
    with subprocess.Popen(["sleep", "0"]) as process, open(f"/proc/{process.pid}/stat") as file:
        started = file.read().rpartition(")")[2].split()[19]
    return process.pid, started
