"""Whether a session's process lives: what its entry in the registry proves, and what the absence of one does.

A process may go on to another session (/clear, /resume), and a session to another process (--resume).
"""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.model.agent import AgentEvent
from imi_monitor.sources.agents.claude.registry import Entry


@dataclass
class Life:
    entry: Entry | None = None  # the newest
    listed: bool = False  # the entry is in the registry now
    alive: bool | None = None
    last_alive: str | None = None
    pid: int | None = None
    pid_started: str | None = None
    went_on_at: str | None = None  # when its process went on to another session

    def is_so(self, entry: Entry, alive: bool | None) -> bool:
        """Whether all of this is known."""
        return self.entry is entry and self.alive is alive and self.listed and self.went_on_at is None

    def listed_as(self, entry: Entry, alive: bool | None, now: str) -> list[AgentEvent]:
        """The registry has it."""
        another = (entry.pid, entry.proc_start) != (self.pid, self.pid_started)
        self.entry, self.listed, self.went_on_at = entry, True, None
        if another:
            self.pid, self.pid_started, self.last_alive, self.alive = entry.pid, entry.proc_start, None, None
        made = self._now(alive, now)
        if not another or alive is False:
            return made
        how = " ".join(word for word in (entry.kind, entry.entrypoint) if word) or None
        return [AgentEvent("started", f"{entry.pid}:{entry.proc_start}:started", entry.started_at or now, how), *made]

    def unlisted(self, alive: bool | None, now: str) -> list[AgentEvent]:
        """Its entry is gone, or never was there."""
        self.listed = False
        return self._now(alive, now)

    def went_on(self, at: str) -> list[AgentEvent]:
        """Its process has another session now."""
        self.listed, self.went_on_at = False, at
        return self._now(False, at)

    def owned_by(self, pid: int, started: str, now: str) -> list[AgentEvent]:
        """A process that lists itself nowhere, and must be this session's."""
        self.pid, self.pid_started = pid, started
        return self._now(True, now)

    def _now(self, alive: bool | None, now: str) -> list[AgentEvent]:
        ended = self.alive is True and alive is False
        self.alive = alive
        if alive is not False:
            self.last_alive = None
        if not ended:
            return []
        self.last_alive = now
        why = "its process went on to another session" if self.went_on_at else "its process ended"
        return [AgentEvent("ended", f"{self.pid}:{self.pid_started}:ended", now, why)]
