"""Claude Code: its live registry says exactly what it does, its transcripts on what, its processes that it is there.

The parts: `claude_household` is one configuration folder (registry, jobs, search), `claude_session` one session
(life, transcript, subagents), `claude_talk` one conversation record by record, `claude_startup` processes without either.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.sources.agents.base import Reader, Sighting, World
from imi_monitor.sources.agents.claude.household import Household
from imi_monitor.sources.agents.claude.places import Watched, places
from imi_monitor.sources.agents.claude.startup import sighting, unlisted

_MOVES_IN = 1.0  # seconds between two questions for configuration folders that were not there


def make() -> Reader:
    return ClaudeReader()


class ClaudeReader:
    cli = "claude"

    def __init__(self) -> None:
        self.unread = False
        self._houses: dict[str, Household] = {}
        self._watched: Watched | None = None
        self._moved_in_at = 0.0

    def look(self, world: World, touched: frozenset[str] | None) -> Sequence[Sighting]:
        if touched is None or not 0 <= world.now - self._moved_in_at < _MOVES_IN:
            self._move_in(world)
        if self._watched is None or self._watched.roots != world.roots:
            touched = None
        if touched is None or self._watched is None:
            self._watched = Watched(world)
        for house in self._houses.values():
            house.look(world, self._watched, touched)
        nameless = self._unlisted(world)
        self.unread = any(house.unread for house in self._houses.values())
        return [*(one for house in self._houses.values() for one in house.sightings(self._watched)), *nameless]

    def _move_in(self, world: World) -> None:
        self._moved_in_at = world.now
        for place in places(world):
            if place.home not in self._houses:
                self._houses[place.home] = Household(place)

    def folders(self, world: World) -> Sequence[str]:
        watched = self._watched or Watched(world)
        return [folder for house in self._houses.values() for folder in house.folders(watched)]

    def _unlisted(self, world: World) -> list[Sighting]:
        listed = {pid for house in self._houses.values() for pid in house.listed()}
        now = times.stamp(datetime.fromtimestamp(world.now, UTC))
        alone = [
            one for one in unlisted(world, listed) if not any(house.adopt(one, now) for house in self._houses.values())
        ]
        registry = any(house.registry.exists for house in self._houses.values())
        return [sighting(one, world, registry) for one in alone]
