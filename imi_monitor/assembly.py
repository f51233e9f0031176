"""The sources of the real world, and who tells whom: sources do not know each other, here they are brought together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from imi_monitor.auto_claim import AutoClaim
from imi_monitor.config import Settings
from imi_monitor.model.snapshot import NOT_LOOKED_FOR, Key
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agents_source import AgentsSource
from imi_monitor.sources.agents.session_recorder import SessionRecorder
from imi_monitor.sources.agents.sighting_merge import SeenAgent
from imi_monitor.sources.changes_source import ChangesSource, Listeners
from imi_monitor.sources.collisions_source import CollisionsSource
from imi_monitor.sources.files.ignore_rules import global_ignore_file
from imi_monitor.sources.files.shared import Shared
from imi_monitor.sources.files.tiered_watcher import choose_watcher, starts_slowly
from imi_monitor.sources.git_status_source import GitStatusSource, TrunkSettings
from imi_monitor.sources.registry_source import RegistrySource
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source
from imi_monitor.sources.worktrees_source import RepositoryScope, WorktreesSource
from imi_monitor.store.async_registry import AsyncRegistry

_PATIENCE = 5.0  # seconds at most that following files waits for the first picture


class Assembly:
    """Made once for an engine: `sources` are what it runs, the methods what it calls."""

    def __init__(
        self,
        registry: AsyncRegistry,
        keeper: SessionRecorder,
        database: str,
        common_dirs: Sequence[str] | None,
        settings: Settings,
    ) -> None:
        events = Shared(choose_watcher())
        self._worktrees = WorktreesSource(
            registry, RepositoryScope(None if common_dirs is None else tuple(common_dirs)), database
        )
        self._claims = RegistrySource(registry, database, self._worktrees.registry_changed)
        self._status = GitStatusSource(_trunk(settings))
        self.collisions = CollisionsSource()
        self._changes = ChangesSource(
            events.part("work"),
            self._listeners(),
            database,
            global_ignore_file(None),
            first=partial(self._status.all_asked, _PATIENCE) if starts_slowly(events.events) else None,
        )
        self.sources: list[Source] = [self._worktrees, self._claims, self._status, self._changes, self.collisions]
        self._agents: AgentsSource | None = None
        if settings.flag("monitoring_settings.track_agent_activity"):
            self._look_at_agents(events, keeper, AutoClaim(database) if settings.flag("claims.auto") else None)
        else:
            self.sources.append(_NoAgents())

    def _look_at_agents(self, events: Shared, keeper: SessionRecorder, steward: AutoClaim | None) -> None:
        async def keep(seen: Sequence[SeenAgent]) -> str | None:
            if steward is not None:
                steward.update_agents([one.agent for one in seen])
            return await keeper.keep(seen)

        self._agents = AgentsSource(
            events.part("agents"), agents.all_readers, agents.process_scanner, keep, stirred=lambda: events.told
        )
        self.sources += [self._agents, *([steward] if steward is not None else [])]

    def _listeners(self) -> Listeners:
        return Listeners(
            touched=self._touched,
            git_dir=self._status.git_dir,
            refs=self._status.refs_changed,
            glance=self._status.glance,
            roster=self._worktrees.look,
            registry=self._claims.look,
        )

    def follow(self, entries: tuple[RosterEntry, ...]) -> None:
        """The roster changed."""
        self._status.follow(entries)
        self._changes.follow(entries)
        self.collisions.follow(entries)
        if self._agents is not None:
            self._agents.follow(entries)

    def look_again(self) -> None:
        """Somebody wants to be sure."""
        self._claims.look()
        self._worktrees.look()
        self._status.look_again()
        if self._agents is not None:
            self._agents.look_again()

    def _touched(self, key: Key, paths: frozenset[str] | None) -> None:
        self.collisions.touched(key, paths)
        self._status.touched(key, paths)


class _NoAgents:
    """In place of the agents, where they are not wanted: says so once."""

    name = "agents"

    async def run(self, board: ReadingReceiver) -> None:
        board.well(self.name, NOT_LOOKED_FOR)
        await asyncio.Event().wait()


def _trunk(settings: Settings) -> TrunkSettings:
    return TrunkSettings(
        settings.text("git_settings.remote_name"), settings.text("git_settings.default_branch") or None
    )
