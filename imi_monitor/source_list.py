"""The sources that the engine runs, one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from imi_monitor.auto_claim import AutoClaim
from imi_monitor.config import Settings
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agents_source import AgentsSource
from imi_monitor.sources.agents.session_recorder import SessionRecorder
from imi_monitor.sources.changes_source import ChangesSource
from imi_monitor.sources.collisions_source import CollisionsSource
from imi_monitor.sources.files.watcher import FileWatcher
from imi_monitor.sources.git_status_source import GitStatusSource, TrunkSettings
from imi_monitor.sources.registry_source import RegistrySource
from imi_monitor.sources.source import Source
from imi_monitor.sources.worktrees_source import RepositoryScope, WorktreesSource
from imi_monitor.store.async_registry import AsyncRegistry


@dataclass(frozen=True)
class SourceContext:
    """What sources are made from."""

    registry: AsyncRegistry
    database: str
    scope: RepositoryScope
    settings: Settings
    watcher: FileWatcher
    recorder: SessionRecorder

    @property
    def tracks_agents(self) -> bool:
        return self.settings.flag("monitoring_settings.track_agent_activity")

    @property
    def claims_for_agents(self) -> bool:
        return self.tracks_agents and self.settings.flag("claims.auto")

    @property
    def trunk(self) -> TrunkSettings:
        remote = self.settings.text("git_settings.remote_name")
        return TrunkSettings(remote, self.settings.text("git_settings.default_branch") or None)


# None: the settings turn it off
SOURCES: tuple[Callable[[SourceContext], Source | None], ...] = (
    lambda c: WorktreesSource(c.registry, c.scope, c.database),
    lambda c: RegistrySource(c.registry, c.database),
    lambda c: GitStatusSource(c.trunk),
    lambda c: ChangesSource(c.watcher, c.database),
    lambda c: CollisionsSource(),
    lambda c: (
        AgentsSource(c.watcher, agents.all_readers, agents.process_scanner, c.recorder.keep)
        if c.tracks_agents
        else None
    ),
    lambda c: AutoClaim(c.database) if c.claims_for_agents else None,
)


def make_sources(context: SourceContext) -> list[Source]:
    return [source for make in SOURCES if (source := make(context)) is not None]
