"""One look at all agents, in a thread: only the readers whose files moved are asked, all of them once a second.

What a reader said last stands until it is asked again. A reader that breaks is said so and does not take the others with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from imi_monitor import host, paths
from imi_monitor.sources.agents.base import AgentProcess, Reader, Sighting, World
from imi_monitor.sources.agents.joining import Joined

Scan = Callable[[], Sequence[AgentProcess]]

TICK = 1.0  # seconds between two questions for what no file tells
_SCAN = 2.5  # between two looks at all processes while nothing happens; those that are known are asked every time


class Look(NamedTuple):
    found: list[tuple[Sighting, str | None]]  # each with the worktree it is in
    folders: dict[str, frozenset[str]]  # which are to be followed, for each reader
    broken: list[str]
    ticked: bool  # whether all were asked


@dataclass(slots=True)
class _Told:
    """A reader, and what it said last."""

    reader: Reader
    sightings: tuple[Sighting, ...] = ()
    folders: frozenset[str] = frozenset()
    broken: str | None = None

    def concerning(self, touched: Sequence[tuple[str, str]]) -> frozenset[str]:
        """Which of these paths, each with its folder, lie in the folders of this reader."""
        return frozenset(path for path, folder in touched if folder in self.folders or path in self.folders)

    @property
    def unread(self) -> bool:
        return bool(getattr(self.reader, "unread", False))

    def ask(self, world: World, touched: frozenset[str] | None, stopped: Mapping[int, bool]) -> None:
        try:
            self.sightings = tuple(_with_life(one, stopped) for one in self.reader.look(world, touched))
            self.folders = frozenset(self.reader.folders(world))
            self.broken = None
        except Exception as error:  # noqa: BLE001  a format that changed must not blind us to the other agents
            self.again()  # what it said last stays, as far as its processes do
            self.sightings = tuple(_with_life(replace(one, alive=None), stopped) for one in self.sightings)
            self.broken = _sentence(self.reader.cli, error)

    def again(self) -> None:
        """It is not asked: what was new is no news any more."""
        if any(one.news for one in self.sightings):
            self.sightings = tuple(replace(one, news=()) if one.news else one for one in self.sightings)


class Looks:
    def __init__(self, readers: Sequence[Reader], scan: Scan, env: Mapping[str, str]) -> None:
        self._told = [_Told(reader) for reader in readers]
        self._scan = scan
        self._env = env
        self._joined = Joined()
        self._processes: tuple[AgentProcess, ...] = ()
        self._scanned_at = -_SCAN
        self._ticked_at = -TICK
        self._roots: dict[str, str | None] = {}  # folder -> the worktree it lies in
        self._blind: str | None = None  # why processes cannot be seen

    @property
    def unread(self) -> bool:
        """Whether a reader has more to read, which nobody waits for."""
        return any(told.unread for told in self._told)

    def look(self, touched: frozenset[str] | None, roots: tuple[str, ...], *, calm: bool = False) -> Look:
        """`calm`: nobody was there, and no file moved that anybody follows; then only processes can tell who comes."""
        before, processes = self._processes, self._running(touched)
        now = time.monotonic()
        ticked = touched is None or processes != before or (not calm and now - self._ticked_at >= TICK * 0.9)
        if ticked:
            self._ticked_at = now
        if touched is None:
            self._roots = {}
        world = World(time.time(), paths.home(), self._env, roots, processes, self._roots)
        stopped = {one.pid: one.suspended for one in processes}
        where = [(path, os.path.dirname(path)) for path in touched or ()]
        for told in self._told:
            concerning = None if touched is None else told.concerning(where)
            if ticked or concerning or told.unread:
                told.ask(world, concerning, stopped)
            else:
                told.again()
        found = self._joined.join(one for told in self._told for one in told.sightings)
        return Look(
            [(one, None if one.cwd is None else world.root_of(one.cwd)) for one in found],
            {told.reader.cli: told.folders for told in self._told},
            [why for why in (self._blind, *(told.broken for told in self._told)) if why is not None],
            ticked,
        )

    def _running(self, touched: frozenset[str] | None) -> tuple[AgentProcess, ...]:
        """All agent processes, looked for anew when something happened or some seconds are over."""
        now = time.monotonic()
        if touched is None or touched or now - self._scanned_at >= _SCAN:
            self._scanned_at = now
            self._processes = self._scanned()
        elif now - self._ticked_at >= TICK * 0.9:
            self._processes = tuple(again for one in self._processes if (again := _again(one)) is not None)
        return self._processes

    def _scanned(self) -> tuple[AgentProcess, ...]:
        try:
            found = tuple(self._scan())
            self._blind = None
            return found
        except Exception as error:  # noqa: BLE001  records tell most of it; without processes they still do
            self._blind = _sentence("processes", error)
            return self._processes


def _again(one: AgentProcess) -> AgentProcess | None:
    """The same process a little later; None when it has ended."""
    started, suspended = host.life(one.pid)
    if started != one.started:
        return None
    return one if suspended == one.suspended else replace(one, suspended=suspended)


def _sentence(who: str, error: Exception) -> str:
    return f"{who} cannot be read: {type(error).__name__}: {error}"


def _with_life(one: Sighting, stopped: Mapping[int, bool]) -> Sighting:
    """Who names a process but could not say whether it lives is asked about here, once for all; and whether it is suspended
    if it is none of the agent processes that were looked at."""
    if one.pid is None or one.alive is False or (one.alive is None and one.pid_started is None):
        return one
    if one.alive and one.pid in stopped:
        alive, suspended = True, stopped[one.pid]
    else:
        started, suspended = host.life(one.pid)
        alive = one.alive or started == one.pid_started
    told = alive, alive and suspended
    return one if told == (one.alive, one.suspended) else replace(one, alive=told[0], suspended=told[1])
