"""One look at all agents, in a thread: only the readers whose files moved are asked, all of them once a second.

What a reader said last stands until it is asked again. A reader that breaks is said so and does not take the others with it.

Every agent at one moment, without an engine: for `imi agents`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from imi_monitor import host, paths
from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.agent_names import name_agents
from imi_monitor.model.snapshot import ClaimState
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, ScanProcesses, Sighting
from imi_monitor.sources.agents.sighting_merge import SightingMerge, as_agent
from imi_monitor.sources.source import RosterEntry

TICK = 1.0  # seconds between two questions for what no file tells
_SCAN = 2.5  # between two looks at all processes while nothing new happens; those that are known are asked every time
_MOST_KNOWN = 10_000  # files that are known to be written by somebody who is known


class PollResult(NamedTuple):
    found: Sequence[tuple[Sighting, str | None]]  # each with the worktree it is in; the very same when nothing moved
    folders: dict[str, frozenset[str]]  # which are to be followed, for each reader
    broken: list[str]
    ticked: bool  # whether all were asked


@dataclass(slots=True)
class _ReaderState:
    """A reader, and what it said last."""

    reader: AgentReader
    sightings: tuple[Sighting, ...] = ()
    folders: frozenset[str] = frozenset()
    broken: str | None = None
    fresh: bool = False  # there are news among it
    listed: Sequence[str] | None = None  # its folders, as it gave them

    def concerning(self, touched: Sequence[tuple[str, str]]) -> frozenset[str]:
        """Which of these paths, each with its folder, lie in the folders of this reader."""
        return frozenset([path for path, folder in touched if folder in self.folders or path in self.folders])

    @property
    def unread(self) -> bool:
        return bool(getattr(self.reader, "unread", False))

    def ask(self, world: ReadContext, touched: frozenset[str] | None) -> None:
        try:
            said = self.reader.look(world, touched)
            self.sightings = tuple([_with_life(one, world) for one in said])
            self.fresh = any(one.news for one in self.sightings)
            listed = self.reader.folders(world)
            if listed is not self.listed:
                self.folders, self.listed = frozenset(listed), listed
            self.broken = None
        except Exception as error:  # noqa: BLE001  a format that changed must not blind us to the other agents
            self.fresh = True
            self.again()  # what it said last stays, as far as its processes do
            self.sightings = tuple(_with_life(replace(one, alive=None), world) for one in self.sightings)
            self.broken = _sentence(self.reader.cli, error)

    def again(self) -> None:
        """It is not asked: what was new is no news any more."""
        if self.fresh:
            self.sightings = tuple([replace(one, news=()) if one.news else one for one in self.sightings])
            self.fresh = False


class AgentPoll:
    def __init__(self, readers: Sequence[AgentReader], scan: ScanProcesses, env: Mapping[str, str]) -> None:
        self._told = [_ReaderState(reader) for reader in readers]
        self._scan = scan
        self._env = env
        self._joined = SightingMerge()
        self._processes: tuple[AgentProcess, ...] = ()
        self._scanned_at = -_SCAN
        self._ticked_at = -TICK
        self._known: set[str] = set()  # files that moved, and who was there then is there still
        self._lives: dict[
            int, tuple[str | None, bool]
        ] = {}  # what is known of the lives of processes, asked anew with every tick
        self._roots: dict[str, str | None] = {}  # folder -> the worktree it lies in
        self._placed: tuple[object, Sequence[tuple[Sighting, str | None]]] = None, ()
        self._blind: str | None = None  # why processes cannot be seen

    @property
    def unread(self) -> bool:
        """Whether a reader has more to read, which nobody waits for."""
        return any(told.unread for told in self._told)

    def look(self, touched: frozenset[str] | None, roots: tuple[str, ...], *, calm: bool = False) -> PollResult:
        """`calm`: nobody was there, and no file moved that anybody follows; then only processes can tell who comes."""
        if touched is None:
            self._roots, self._placed = {}, (None, ())
        now = time.monotonic()
        due = touched is None or now - self._ticked_at >= TICK * 0.9
        if due:
            self._lives = {}
        before, processes = self._processes, self._running(touched, now, due)
        ticked = touched is None or processes != before or (due and not calm)
        if ticked:
            self._ticked_at = now
        world = ReadContext(time.time(), paths.home(), self._env, roots, processes, self._roots, self._lives)
        where = [(path, os.path.dirname(path)) for path in touched or ()]
        for told in self._told:
            concerning = None if touched is None else told.concerning(where)
            if ticked or concerning or told.unread:
                told.ask(world, concerning)
            else:
                told.again()
        return PollResult(
            self._found(world),
            {told.reader.cli: told.folders for told in self._told},
            [why for why in (self._blind, *(told.broken for told in self._told)) if why is not None],
            ticked,
        )

    def _found(self, world: ReadContext) -> Sequence[tuple[Sighting, str | None]]:
        joined = self._joined.join(*(told.sightings for told in self._told))
        if joined is not self._placed[0]:
            roots = self._roots
            placed = [(one, roots[one.cwd] if one.cwd in roots else _root(one, world)) for one in joined]
            self._placed = joined, placed
        return self._placed[1]

    def _running(self, touched: frozenset[str] | None, now: float, due: bool) -> tuple[AgentProcess, ...]:
        """All agent processes, looked for anew when something new happened or some seconds are over."""
        if touched is None or self._has_new(touched) or now - self._scanned_at >= _SCAN:
            self._scanned_at = now
            self._processes = self._scanned()
        elif due:
            self._lives = {one.pid: host.start_time_and_suspension(one.pid) for one in self._processes}
            left = tuple(again for one in self._processes if (again := _again(one, self._lives[one.pid])) is not None)
            if len(left) != len(self._processes):
                self._known = set()  # somebody else may go on with what it did
            self._processes = left
        return self._processes

    def _has_new(self, touched: frozenset[str]) -> bool:
        """Whether a file moved that did not move before: somebody new may have written it. Where it did, those who write
        it were looked for, and are there still."""
        if touched <= self._known:
            return False
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known |= touched
        return True

    def _scanned(self) -> tuple[AgentProcess, ...]:
        try:
            found = tuple(self._scan())
            self._blind = None
            return found
        except Exception as error:  # noqa: BLE001  records tell most of it; without processes they still do
            self._blind = _sentence("processes", error)
            return self._processes


def _again(one: AgentProcess, life: tuple[str | None, bool]) -> AgentProcess | None:
    """The same process a little later; None when it has ended."""
    started, suspended = life
    if started != one.started:
        return None
    return one if suspended == one.suspended else replace(one, suspended=suspended)


def _root(one: Sighting, world: ReadContext) -> str | None:
    return None if one.cwd is None else world.root_of(one.cwd)


def _sentence(who: str, error: Exception) -> str:
    return f"{who} cannot be read: {type(error).__name__}: {error}"


def _with_life(one: Sighting, world: ReadContext) -> Sighting:
    """Who names a process but could not say whether it lives is asked about here, once for all; and whether it is
    suspended."""
    if one.pid is None or one.alive is False or (one.alive is None and one.pid_started is None):
        return one
    started, suspended = world.life(one.pid)
    alive = one.alive or started == one.pid_started
    told = alive, alive and suspended
    return one if told == (one.alive, one.suspended) else replace(one, alive=told[0], suspended=told[1])


_PATIENCE = 1.0  # seconds for what lies further back in long records


def read_agents_once(
    entries: Sequence[RosterEntry], claims: Sequence[ClaimState]
) -> tuple[tuple[Agent, ...], list[str]]:
    """(the agents, what could not be read)."""
    places = {os.path.realpath(entry.path): entry.key for entry in entries if not entry.missing}
    looks = AgentPoll(agents.all_readers(), agents.process_scanner(), os.environ)
    look = looks.look(None, tuple(places))
    end = time.monotonic() + _PATIENCE
    while looks.unread and time.monotonic() < end:
        look = looks.look(frozenset(), tuple(places))
    now = times.now()
    seen = [as_agent(one, places.get(root or ""), now).agent for one, root in look.found]
    return name_agents(seen, {claim.key: claim for claim in claims}), look.broken
