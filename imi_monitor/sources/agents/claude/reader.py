"""Claude Code: its live registry says exactly what it does, its transcripts on what, its processes that it is there.

The parts: `claude_household` is one configuration folder (registry, jobs, search), `claude_session` one session
(life, transcript, subagents), `claude_talk` one conversation record by record, `claude_startup` processes without either.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from operator import is_not

from imi_monitor.model import times
from imi_monitor.sources.agents.base import Reader, Sighting, World
from imi_monitor.sources.agents.claude.household import Household
from imi_monitor.sources.agents.claude.places import Places, Watched, usual
from imi_monitor.sources.agents.claude.startup import sighting, unlisted

_MOVES_IN = 1.0  # seconds between two questions for configuration folders that were not there


def make() -> Reader:
    return ClaudeReader()


class ClaudeReader:
    cli = "claude"

    def __init__(self) -> None:
        self.unread = False
        self._houses: dict[str, Household] = {}
        self._there: set[str] = set()  # configuration folders, as they are called
        self._watched: Watched | None = None
        self._moved_in_at = 0.0
        self._followed: tuple[list[list[str]], list[str]] = [], []

    def look(self, world: World, touched: frozenset[str] | None) -> Sequence[Sighting]:
        if touched is None or not 0 <= world.now - self._moved_in_at < _MOVES_IN:
            self._move_in(world, anew=touched is None)
        if self._watched is None or self._watched.roots != world.roots:
            touched = None
        if touched is None or self._watched is None:
            self._watched = Watched(world)
        for house in self._houses.values():
            house.look(world, self._watched, touched)
        nameless = self._unlisted(world)
        self.unread = any(house.unread for house in self._houses.values())
        made: list[Sighting] = []
        for house in self._houses.values():
            made += house.sightings(self._watched)
        return made + nameless

    def _move_in(self, world: World, anew: bool) -> None:
        """Into those that were not there before, or into all that there are now by their names."""
        self._moved_in_at = world.now
        for path in usual(world):
            if (anew or path not in self._there) and os.path.isdir(path):
                self._there.add(path)
                home = os.path.realpath(path)
                self._houses.setdefault(home, Household(Places(home)))

    def folders(self, world: World) -> Sequence[str]:
        watched = self._watched or Watched(world)
        folders = [house.folders(watched) for house in self._houses.values()]
        if len(folders) != len(self._followed[0]) or any(map(is_not, folders, self._followed[0])):
            self._followed = folders, [folder for one in folders for folder in one]
        return self._followed[1]

    def _unlisted(self, world: World) -> list[Sighting]:
        listed = set().union(*(house.listed() for house in self._houses.values()))
        now = times.stamp(datetime.fromtimestamp(world.now, UTC))
        alone = [
            one for one in unlisted(world, listed) if not any(house.adopt(one, now) for house in self._houses.values())
        ]
        registry = any(house.registry.exists for house in self._houses.values())
        return [sighting(one, world, registry) for one in alone]
