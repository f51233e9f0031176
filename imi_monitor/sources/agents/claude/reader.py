"""Claude Code: its live registry says exactly what it does, its transcripts on what, its processes that it is there.

The parts: `claude_household` is one configuration folder (registry, jobs, search), `claude_session` one session
(life, transcript, subagents), `claude_talk` one conversation record by record, `claude_startup` processes without either.

Claude processes that no registry lists: in a dialog at their start (trust, a warning about settings), or too old.

While such a dialog is open nothing is written anywhere, so this is a guess: a version known to list itself, which
still did not after two seconds, shows something that a person must answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from datetime import UTC, datetime
from operator import is_not

from imi_monitor.model import times
from imi_monitor.model.agent import UNKNOWN, WAITING, Evidence
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.claude.config_folder import ConfigFolder
from imi_monitor.sources.agents.claude.live_registry import ClaudePaths, WatchedFolders, config_folders

_MOVES_IN = 1.0  # seconds between two questions for configuration folders that were not there


def make() -> AgentReader:
    return ClaudeReader()


class ClaudeReader:
    cli = "claude"

    def __init__(self) -> None:
        self.unread = False
        self._houses: dict[str, ConfigFolder] = {}
        self._there: set[str] = set()  # configuration folders, as they are called
        self._watched: WatchedFolders | None = None
        self._moved_in_at = 0.0
        self._followed: tuple[list[list[str]], list[str]] = [], []

    def look(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        if touched is None or not 0 <= world.now - self._moved_in_at < _MOVES_IN:
            self._move_in(world, anew=touched is None)
        if self._watched is None or self._watched.roots != world.roots:
            touched = None
        if touched is None or self._watched is None:
            self._watched = WatchedFolders(world)
        for house in self._houses.values():
            house.look(world, self._watched, touched)
        nameless = self._unlisted(world)
        self.unread = any(house.unread for house in self._houses.values())
        made: list[Sighting] = []
        for house in self._houses.values():
            made += house.sightings(self._watched)
        return made + nameless

    def _move_in(self, world: ReadContext, anew: bool) -> None:
        """Into those that were not there before, or into all that there are now by their names."""
        self._moved_in_at = world.now
        for path in config_folders(world):
            if (anew or path not in self._there) and os.path.isdir(path):
                self._there.add(path)
                home = os.path.realpath(path)
                self._houses.setdefault(home, ConfigFolder(ClaudePaths(home)))

    def folders(self, world: ReadContext) -> Sequence[str]:
        watched = self._watched or WatchedFolders(world)
        folders = [house.folders(watched) for house in self._houses.values()]
        if len(folders) != len(self._followed[0]) or any(map(is_not, folders, self._followed[0])):
            self._followed = folders, [folder for one in folders for folder in one]
        return self._followed[1]

    def _unlisted(self, world: ReadContext) -> list[Sighting]:
        listed = set().union(*(house.listed() for house in self._houses.values()))
        now = times.stamp(datetime.fromtimestamp(world.now, UTC))
        alone = [
            one
            for one in unlisted_processes(world, listed)
            if not any(house.adopt(one, now) for house in self._houses.values())
        ]
        registry = any(house.registry.exists for house in self._houses.values())
        return [unlisted_sighting(one, world, registry) for one in alone]


_PATIENCE = 2.0
_HELPERS = frozenset({"bg-pty-host", "bg-spare", "daemon"})
_NO_AGENTS = _HELPERS | {  # commands that are no session of their own
    "agents",
    "attach",
    "auth",
    "config",
    "doctor",
    "install",
    "logs",
    "mcp",
    "migrate-installer",
    "plugin",
    "rm",
    "setup-token",
    "stop",
    "update",
    "upgrade",
}
_PRINTS = frozenset({"-p", "--print"})
_ANSWERS = frozenset({"-v", "--version", "-h", "--help"})


def unlisted_processes(world: ReadContext, listed: Set[int]) -> list[AgentProcess]:
    """Processes in the worktrees that are sessions, and that no entry names."""
    return [
        one
        for one in world.processes_of("claude")
        if one.pid not in listed and listed.isdisjoint(one.family) and _is_session(one.argv) and world.watched(one.cwd)
    ]


def unlisted_sighting(one: AgentProcess, world: ReadContext, registry: bool) -> Sighting:
    """`registry`: Claude's registry exists here, so that whoever runs should be in it."""
    at = times.stamp(datetime.fromtimestamp(one.began_at, UTC))
    guess = registry and world.now - one.began_at >= _PATIENCE and not _PRINTS & set(one.argv)
    if guess:
        says = f"process {one.pid} runs, but is in no list of Claude's sessions: it may show a dialog"
        told = Evidence("process", WAITING, at, says, "a dialog at its start (trust, settings)", standing=True)
    else:
        says = f"process {one.pid} runs, and has told nothing yet"
        told = Evidence("process", UNKNOWN, at, says, standing=True)
    alive = world.alive(one.pid, one.started)
    return Sighting("claude", None, one.cwd, one.pid, one.started, alive, evidence=(told,))


def _is_session(argv: tuple[str, ...]) -> bool:
    words = argv[1:]
    if any(word in _ANSWERS for word in words):
        return False
    first = next((word for word in words if not word.startswith("-") and not word.endswith((".js", "/claude"))), "")
    return first not in _NO_AGENTS and not _HELPERS & set(words[:3])
