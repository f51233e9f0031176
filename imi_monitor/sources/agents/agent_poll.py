"""One poll of all agents, in a worker thread: only readers whose files changed are called, all of them once per tick.

The last result of a reader stands until it is called again. A reader that fails is reported, and the others go on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from imi_monitor import host, paths
from imi_monitor.model import times
from imi_monitor.model.agent import UNKNOWN, Agent, Truth
from imi_monitor.model.agent_names import GivenName, name_agents
from imi_monitor.model.snapshot import ClaimState, Key
from imi_monitor.model.truth import reports_rest
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, ScanProcesses, Sighting
from imi_monitor.sources.agents.child_processes import open_command, with_child_evidence
from imi_monitor.sources.agents.sighting_merge import SeenAgent, SightingMerge, as_agent, differs_only_in_events
from imi_monitor.sources.source import RosterEntry

TICK = 1.0  # seconds between two calls of every reader, for what no file shows
SCAN_EVERY = 2.5  # seconds between two scans of all processes; those already found are checked every tick
_FIRST_PROCESS = 1
_MOST_KNOWN = 10_000  # paths known to be written by a known process
_SETTLED = 5.0  # seconds after which newer evidence no longer overrides the last one
_STATE_HOLDS = timedelta(seconds=10)  # how long the last known state of a living process is held
_READ_ONCE = 1.0  # seconds that `imi agents` spends on older records


class PollResult(NamedTuple):
    agents: list[SeenAgent]
    watch_folders: dict[str, frozenset[str]]  # by reader
    failures: list[str]


@dataclass(slots=True)
class _ReaderState:
    """A reader with its last result."""

    reader: AgentReader
    sightings: tuple[Sighting, ...] = ()
    folders: frozenset[str] = frozenset()
    failure: str | None = None
    has_events: bool = False
    listed: Sequence[str] | None = None  # `folders` as the reader returned them
    found: tuple[Sighting, ...] = ()  # `sightings` as the reader returned them
    states: object = None  # the states of the processes when `found` was read

    def concerned_by(self, touched: Sequence[tuple[str, str]]) -> frozenset[str]:
        """Return the (path, folder) pairs that lie in the folders of this reader."""
        return frozenset([path for path, folder in touched if folder in self.folders or path in self.folders])

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> None:
        try:
            found = tuple(self.reader.read(context, touched))
            self.sightings = self._with_process_states(found, context)
            self.found, self.states = found, context.process_states
            self.has_events = any(one.events for one in found)
            listed = self.reader.watch_folders(context)
            if listed is not self.listed:
                self.folders, self.listed = frozenset(listed), listed
            self.failure = None
        except Exception as error:  # noqa: BLE001  a changed format must not hide the agents of other programs
            self.has_events = True
            self.drop_events()  # the last result stands, as far as the processes still run
            self.sightings = tuple(_with_process_state(replace(one, alive=None), context) for one in self.sightings)
            self.failure, self.states = _sentence(self.reader.cli, error), None

    def _with_process_states(self, found: tuple[Sighting, ...], context: ReadContext) -> tuple[Sighting, ...]:
        """Complete the sightings with process states; between two ticks only new ones, the others are those of the last poll."""
        if self.states is None or context.process_states is not self.states or len(found) != len(self.found):
            return tuple([_with_process_state(one, context) for one in found])
        triples = zip(found, self.found, self.sightings, strict=True)
        return tuple([known if one is other else _with_process_state(one, context) for one, other, known in triples])

    def drop_events(self) -> None:
        """Keep the last result without its events: they were reported once."""
        if self.has_events:
            self.sightings = tuple([replace(one, events=()) if one.events else one for one in self.sightings])
            self.has_events = False


class AgentPoll:
    def __init__(
        self,
        readers: Sequence[AgentReader],
        scan: ScanProcesses,
        env: Mapping[str, str],
        *,
        tick: float = TICK,
        scan_every: float = SCAN_EVERY,
    ) -> None:
        self._readers = [_ReaderState(reader) for reader in readers]
        self._scan = scan
        self._env = dict(env)  # `os.environ` decodes each value anew
        self._tick = tick
        self._scan_every = scan_every
        self._merge = SightingMerge()
        self._merged: list[Sighting] = []  # of the last poll
        self._names: list[tuple[str, object]] = []  # of them: by session or process
        self._seen: dict[object, tuple[Sighting, SeenAgent]] = {}  # by session or process
        self._alive: dict[
            object, tuple[Truth, datetime]
        ] = {}  # by session or process: the last known state of its life
        self._roots: Mapping[str, Key] = {}
        self._known_roots: dict[str, str | None] = {}  # see ReadContext
        self._processes: tuple[AgentProcess, ...] = ()
        self._process_states: dict[int, tuple[str | None, bool]] = {}  # see ReadContext; emptied every tick
        self._scanned_at = float("-inf")
        self._ticked_at = float("-inf")
        self._known_paths: set[str] = set()  # changed before, and the processes of that time still run
        self._scan_failure: str | None = None

    @property
    def has_more(self) -> bool:
        """True while a reader has older records to read."""
        return any(one.reader.has_more for one in self._readers)

    def poll(self, touched: frozenset[str] | None, roots: Mapping[str, Key], *, idle: bool = False) -> PollResult:
        """All agents now. `roots`: the worktrees by their real paths.

        `idle`: no agent was there at the last poll and no watched file changed since, so only a new process can show one.
        """
        if roots != self._roots:
            self._roots, self._seen, touched = dict(roots), {}, None
        if touched is None:
            self._known_roots = {}
        now = time.monotonic()
        due = touched is None or now - self._ticked_at >= self._tick * 0.9
        if due:
            self._process_states = {}
        before, processes = self._processes, self._update_processes(touched, now, due)
        ticked = touched is None or processes != before or (due and not idle)
        if ticked:
            self._ticked_at = now
        context = ReadContext(
            times.clock() / 1e9,
            paths.home(),
            self._env,
            tuple(roots),
            processes,
            self._known_roots,
            self._process_states,
        )
        self._read(context, touched, ticked)
        return PollResult(
            self._agents(context, ticked),
            {one.reader.cli: one.folders for one in self._readers},
            [why for why in (self._scan_failure, *(one.failure for one in self._readers)) if why is not None],
        )

    def _read(self, context: ReadContext, touched: frozenset[str] | None, ticked: bool) -> None:
        with_folder = [(path, os.path.dirname(path)) for path in touched or ()]
        for one in self._readers:
            concerned = None if touched is None else one.concerned_by(with_folder)
            if ticked or concerned or one.reader.has_more:
                one.read(context, concerned)
            else:
                one.drop_events()

    def _agents(self, context: ReadContext, ticked: bool) -> list[SeenAgent]:
        """The state of an agent is decided again only when a reader reports something else, or time may change it.

        With 40 agents this saves 0.38 of 0.68 ms per poll.
        """
        now, before, names = times.now(), self._seen, self._names
        former: Sequence[Sighting | None] = self._merged
        self._merged = self._merge.merge(one for reader in self._readers for one in reader.sightings)
        self._names = [(one.cli, one.session or one.pid) for one in self._merged]
        if ticked or not before or names != self._names:
            self._seen, former = {}, [None] * len(self._merged)
        for name, one, other in zip(self._names, self._merged, former, strict=True):
            if one is other:
                continue
            known = before.get(name)
            if known is None or (known[0] is not one and not differs_only_in_events(known[0], one)):
                root = None if one.cwd is None else context.root_of(one.cwd)
                decided = with_child_evidence(one, context.processes, context.now)
                seen = as_agent(decided, self._roots.get(root or ""), now, self._former(name))
                known = one, _with_starters(seen, context.processes)
            elif ticked and _may_change(one, known[1].agent, now):
                decided = with_child_evidence(one, context.processes, context.now)
                seen = as_agent(decided, known[1].agent.key, now, self._former(name))
                known = one, _with_starters(seen, context.processes)
            elif known[0] is not one:
                known = one, SeenAgent(known[1].agent, one.events)
            self._seen[name] = known
            if one.alive:
                self._keep_state(name, known[1].agent.truth, now)
        if not self._alive.keys() <= self._seen.keys():
            self._alive = {name: kept for name, kept in self._alive.items() if name in self._seen}
        return [seen for _, seen in self._seen.values()]

    def _former(self, name: object) -> Truth | None:
        kept = self._alive.get(name)
        return kept and kept[0]

    def _keep_state(self, name: object, truth: Truth, now: datetime) -> None:
        """A terminal's title may go a moment before its process is seen to have ended."""
        if truth.state != UNKNOWN:
            self._alive[name] = truth, now
        elif name in self._alive and abs(now - self._alive[name][1]) > _STATE_HOLDS:
            del self._alive[name]

    # -- processes ----------------------------------------------------------------------------------------------------

    def _update_processes(self, touched: frozenset[str] | None, now: float, due: bool) -> tuple[AgentProcess, ...]:
        """All agent processes: scanned when an unknown file changed or the last scan is old, else checked per tick."""
        if touched is None or self._has_unknown(touched) or now - self._scanned_at >= self._scan_every:
            self._scanned_at = now
            self._processes = self._scanned()
        elif due:
            self._process_states = {one.pid: host.start_time_and_suspension(one.pid) for one in self._processes}
            left = tuple(
                again
                for one in self._processes
                if (again := _still_running(one, self._process_states[one.pid])) is not None
            )
            if len(left) != len(self._processes):
                self._known_paths = set()  # a new process may go on with the files of the one that ended
            self._processes = left
        return self._processes

    def _has_unknown(self, touched: frozenset[str]) -> bool:
        """True if a path changed for the first time: a new process may have written it."""
        if touched <= self._known_paths:
            return False
        if len(self._known_paths) > _MOST_KNOWN:
            self._known_paths.clear()
        self._known_paths |= touched
        return True

    def _scanned(self) -> tuple[AgentProcess, ...]:
        try:
            found = tuple(self._scan())
            self._scan_failure = None
            return found
        except Exception as error:  # noqa: BLE001  files show most of it, also without processes
            self._scan_failure = _sentence("processes", error)
            return self._processes


def read_agents_once(
    entries: Sequence[RosterEntry],
    claims: Sequence[ClaimState],
    given_names: Callable[[Sequence[Agent]], Mapping[str, GivenName]],
) -> tuple[tuple[Agent, ...], list[str]]:
    """(every agent now, what could not be read), without an engine: for `imi agents`."""
    roots = {os.path.realpath(entry.path): entry.key for entry in entries if not entry.missing}
    poll = AgentPoll(agents.all_readers(), agents.process_scanner(), os.environ)
    result = poll.poll(None, roots)
    end = time.monotonic() + _READ_ONCE
    while poll.has_more and time.monotonic() < end:
        result = poll.poll(frozenset(), roots)
    found = [one.agent for one in result.agents]
    return name_agents(found, {claim.key: claim for claim in claims}, given_names(found)), result.failures


def read_agents_at(
    roots: Mapping[str, Key], given_names: Callable[[Sequence[Agent]], Mapping[str, GivenName]]
) -> tuple[Agent, ...]:
    """Every agent in these worktrees, by what the newest records say."""
    poll = AgentPoll(agents.all_readers(), agents.process_scanner(), os.environ)
    found = [one.agent for one in poll.poll(None, roots).agents]
    return name_agents(found, {}, given_names(found))


def _with_starters(seen: SeenAgent, processes: Sequence[AgentProcess]) -> SeenAgent:
    """The agent with the processes that started it: a claim may be bound to one of them."""
    process = next((one for one in processes if one.pid == seen.agent.pid), None)
    if process is None:
        return seen
    starters = (process.family | frozenset(process.ancestors)) - {process.pid, _FIRST_PROCESS}
    return SeenAgent(replace(seen.agent, starters=starters), seen.events)


def _may_change(one: Sighting, agent: Agent, now: datetime) -> bool:
    """True if time alone may change the state: the life of the process is unknown, or a turn has just ended."""
    if open_command(one) is not None:
        return True
    if one.alive is not None and not reports_rest(one.evidence):
        return False
    seen_at = times.parse(agent.seen_at)
    return one.alive is None or seen_at is None or (now - seen_at).total_seconds() < _SETTLED


def _still_running(one: AgentProcess, state: tuple[str | None, bool]) -> AgentProcess | None:
    """Return the process with its present state; None if it has ended."""
    started, suspended = state
    if started != one.started:
        return None
    return one if suspended == one.suspended else replace(one, suspended=suspended)


def _with_process_state(one: Sighting, context: ReadContext) -> Sighting:
    """Fills in whether its process runs, where the reader names one without knowing, and whether it is suspended."""
    if one.pid is None or one.alive is False or (one.alive is None and one.pid_started is None):
        return one
    started, suspended = context.process_state(one.pid)
    alive = one.alive or started == one.pid_started
    state = alive, alive and suspended
    return one if state == (one.alive, one.suspended) else replace(one, alive=state[0], suspended=state[1])


def _sentence(what: str, error: Exception) -> str:
    return f"{what} cannot be read: {type(error).__name__}: {error}"
