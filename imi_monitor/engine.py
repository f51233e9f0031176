"""The engine: runs the sources, combines their readings into snapshots, and publishes at most ten snapshots a second.

A reading only marks the snapshot as changed, and how urgent the change is. A publisher makes the next snapshot:
at once for a file, a claim or a worktree, a little later for the rest. The engine itself reads nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

from imi_monitor import host
from imi_monitor.config import Settings
from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.agent_names import AgentNames, GivenName
from imi_monitor.model.attribution import ClaimPeriod, holder_at, periods_by_worktree
from imi_monitor.model.change import GIT, MINUTES, Activity, Change
from imi_monitor.model.run_agents import RunAgents
from imi_monitor.model.run_rows import with_claims
from imi_monitor.model.snapshot import (
    NOT_LOOKED_FOR,
    ClaimState,
    GitState,
    HomeState,
    Intent,
    Key,
    RegistryEvent,
    RegistryState,
    Snapshot,
    SourceFailure,
    SourceHealth,
    Waiter,
    Worktree,
)
from imi_monitor.sources.hints import (
    AgentLookedAt,
    DiskUseWanted,
    GitStateRead,
    Hint,
    RefreshRequested,
    RosterRead,
    UnreadWanted,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.pull_request import PullRequest
    from imi_monitor.model.run import Run
    from imi_monitor.sources.source import RegistryReading, RosterEntry, Source
    from imi_monitor.store.lost_registry import RegistryTrace

PER_SECOND = 10  # snapshots at most
_BURST = 2  # snapshots without a pause between them
_USUAL_RATE = 7.5  # snapshots a second
_RESERVED_RATE = 2.0  # snapshots a second, only for changes that a person waits for
_LONGEST_DELAY = 0.3  # seconds that a change without urgency waits for an urgent one
_MOST_CHANGES = 2000
_MOST_EVENTS = 500


class Engine:
    """Runs the sources while it is open, and receives their readings.

    `async with Engine(sources) as engine: async for snapshot in engine.snapshots(): …`
    """

    def __init__(self, sources: Sequence[Source], *, first: Snapshot | None = None) -> None:
        self.sources = tuple(sources)
        self._entries: dict[Key, RosterEntry] = {}
        self._worktrees: dict[Key, Worktree] = {}
        self._claims: dict[Key, ClaimState] | None = {}  # None: the registry cannot be used
        self._registry = RegistryState()
        self._periods: dict[Key, list[ClaimPeriod]] = {}
        self._changes: deque[Change] = deque(maxlen=_MOST_CHANGES)
        self._events: deque[RegistryEvent] = deque(maxlen=_MOST_EVENTS)
        self._activity: dict[Key, Activity] = {}
        self._fields: dict[str, object] = {}  # fields of the snapshot that a source sets as they are
        self._agents: tuple[Agent, ...] = ()
        self._names = AgentNames()
        self._run_agents = RunAgents()
        self._given_names: Mapping[str, GivenName] = {}
        self._looked_at: set[tuple[str, str | None]] = set()  # (agent, since when it is in that state)
        self._health: dict[str, SourceHealth] = {}
        self._waiting: tuple[Waiter, ...] = ()
        self._intents: dict[Key, Intent] = {}
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()  # changed, and does not wait for other changes
        self._awaited = asyncio.Event()  # changed, and a person may wait for it: uses the reserved rate
        self._published = asyncio.Condition()
        self._snapshot = first or Snapshot(0, times.stamp(), host.hostname())
        if first is not None:  # shown until the sources have read
            self._worktrees = {tree.key: tree for tree in first.worktrees}
            known = {tree.key: tree.claim for tree in first.worktrees if tree.claim is not None}
            self._claims = known if first.registry.problem is None else None
            self._waiting = first.waiting
            self._registry = first.registry
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Engine:
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        tasks = [group.create_task(source.run(self), name=source.name) for source in self.sources]
        tasks.append(group.create_task(self._publish(), name="publish"))
        self._stack.callback(lambda: [task.cancel() for task in tasks])
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    @property
    def snapshot(self) -> Snapshot:
        """The last published snapshot."""
        return self._snapshot

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Yield the present snapshot and each one that follows; a slow reader skips to the newest."""
        seen = -1
        while True:
            async with self._published:
                await self._published.wait_for(lambda: self._snapshot.seq != seen)  # noqa: B023
                current = self._snapshot
            seen = current.seq
            yield current

    def refresh(self) -> None:
        """Read everything again now, whether or not anything seems to have changed."""
        self.send_hint(RefreshRequested())

    def measure(self, *, disk_use: bool, unread: bool) -> None:
        """Measure what worktrees use on disk, and count their unread changes, until it is no longer wanted."""
        self.send_hint(DiskUseWanted(disk_use))
        self.send_hint(UnreadWanted(unread))

    def mark_looked_at(self, agent: Agent) -> None:
        """A person has looked at this agent: until its state changes it needs no attention."""
        self._looked_at.add((agent.id, agent.truth.since))
        self._mark_urgent()
        self.send_hint(AgentLookedAt(agent))

    # -- readings ---------------------------------------------------------------------------------------------------

    def send_hint(self, hint: Hint) -> None:
        for source in self.sources:
            source.handle_hint(hint)

    def update(self, **fields: object) -> None:
        if any(self._fields.get(name) != value for name, value in fields.items()):
            if any(name in fields and fields[name] != self._fields.get(name, ()) for name in ("runs", "watched")):
                self._awaited.set()  # an agent may ask
                self._urgent.set()
            homes = fields.get("homes", ())
            if homes and homes_differ(self._fields.get("homes", ()), homes):  # type: ignore[arg-type]
                self._urgent.set()
            self._fields.update(fields)
            self._changed.set()

    def set_roster(self, entries: tuple[RosterEntry, ...]) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._worktrees = {entry.key: self._merge_entry(entry) for entry in entries}
        self.send_hint(RosterRead(entries))
        self._mark_urgent()

    def set_git_state(self, key: Key, state: GitState) -> None:
        if state.last_commit is not None:
            by = holder_at(self._periods, key, state.last_commit.at, grain=1.0)
            state = replace(state, last_commit=replace(state.last_commit, by=by))
        known = self._worktrees.get(key)
        if known is not None and known.git is not None and replace(known.git, read_at=state.read_at) == state:
            # only the time of the reading is new: it is kept, but is no reason to publish
            self._worktrees[key] = replace(known, git=state)
            state = known.git if known.failure is None else state
        self._update_worktree(key, git=state, failure=None, branch=state.branch)
        self.send_hint(GitStateRead(key, state))

    def set_git_failure(self, key: Key, why: str) -> None:
        known = self._worktrees.get(key)
        if known is not None:
            since = known.failure.since if known.failure and known.failure.why == why else times.stamp()
            self._update_worktree(key, failure=SourceFailure("git status", why, since))

    def add_changes(self, changes: Sequence[Change]) -> None:
        """Append changes, oldest first, each with the owner of the worktree's claim at its time."""
        for reported in changes:
            key = Key(host.hostname(), reported.repo, reported.worktree)
            change = replace(reported, by=reported.by or holder_at(self._periods, key, reported.at))
            self._changes.append(change)
            if change.by == GIT:  # a checkout is no work
                continue
            activity = self._activity.setdefault(key, Activity())
            minute = times.clock() // 60_000_000_000
            activity.add(minute, change.count)
            self._update_worktree(key, last_change=change, activity=activity.since(minute - MINUTES))
        self._mark_urgent()

    def set_earlier_changes(self, changes: tuple[Change, ...]) -> None:
        self.update(earlier=changes)
        for change in changes:
            key = Key(host.hostname(), change.repo, change.worktree)
            known = self._worktrees.get(key)
            last = None if known is None else known.last_change
            if last is None or (
                last.guessed and last.at < change.at
            ):  # an observed change is never replaced by a guessed one
                by = change.by or holder_at(self._periods, key, change.at)
                self._update_worktree(key, last_change=replace(change, by=by))

    def set_watch_mode(self, key: Key, mode: str, why: str | None) -> None:
        self._update_worktree(key, watched=mode, watched_why=why)

    def set_registry(self, reading: RegistryReading) -> None:
        claims = {claim.key: claim for claim in reading.claims}
        if (reading.waiting, claims) != (self._waiting, self._claims):
            self._urgent.set()  # a new event alone is not urgent
        self._waiting = reading.waiting
        self._periods = periods_by_worktree(reading.periods)
        if reading.anew:
            self._events.clear()
        self._events.extend(reading.events)
        replaced = self._registry.replaced + reading.anew
        self._registry = RegistryState(reading.registry_id, reading.generation, replaced)
        self._set_claims(claims)
        self._intents = dict(reading.intents)
        for key in self._worktrees:
            self._update_worktree(key, intent=self._intents.get(key))

    def set_registry_unusable(self, why: str) -> None:
        self._waiting, self._periods = (), {}
        self._registry = replace(self._registry, problem=why)
        self._urgent.set()
        self._set_claims(None)

    def _set_claims(self, claims: dict[Key, ClaimState] | None) -> None:
        self._claims = claims
        for key, entry in self._entries.items():
            worktree, claim = self._worktrees[key], entry.claim(claims)
            if worktree.claim != claim:
                self._worktrees[key] = replace(worktree, claim=claim)
                self._awaited.set()
        self._changed.set()

    def set_agents(self, agents: tuple[Agent, ...]) -> None:
        if agents != self._agents:
            if _states_differ(self._agents, agents):
                self._awaited.set()
            self._agents = agents
            self._mark_urgent()

    def set_pull_requests(self, pulls: Mapping[Key, PullRequest]) -> None:
        for key in self._worktrees:
            self._update_worktree(key, pull=pulls.get(key))

    def set_agent_names(self, names: Mapping[str, GivenName]) -> None:
        if names is not self._given_names and names != self._given_names:
            self._given_names = names
            self._changed.set()

    def set_healthy(self, source: str, note: str | None = None) -> None:
        before = self._health.get(source)
        if before is None or before.failure is not None or before.note != note:
            self._health[source] = SourceHealth(source, times.stamp(), None, note)
            self._changed.set()

    def set_failure(self, source: str, what: str, why: str) -> None:
        before = self._health.get(source)
        if before is not None and before.failure is not None and before.failure.why == why:
            return
        read_at = before.read_at if before else None
        self._health[source] = SourceHealth(source, read_at, SourceFailure(what, why, times.stamp()))
        self._changed.set()

    # -- snapshots --------------------------------------------------------------------------------------------------

    def _mark_urgent(self) -> None:
        self._urgent.set()
        self._changed.set()

    def _merge_entry(self, entry: RosterEntry) -> Worktree:
        """Return the worktree of a roster entry with everything that was read of it before."""
        known = self._worktrees.get(entry.key)
        if known is None or known.path != entry.path:
            return replace(entry.worktree(self._claims), intent=self._intents.get(entry.key))
        merged = replace(
            known,
            type=entry.type,
            branch=entry.branch,
            is_main=entry.is_main,
            missing=entry.missing,
            locked=entry.locked,
            pr=entry.pr,
            claim=entry.claim(self._claims),
        )
        return known if merged == known else merged  # the same object is not drawn again

    def _update_worktree(self, key: Key, **fields: object) -> None:
        known = self._worktrees.get(key)
        if known is None:
            return  # no longer on the roster
        if any(getattr(known, name) != value for name, value in fields.items()):
            self._worktrees[key] = replace(known, **fields)  # type: ignore[arg-type]
            self._changed.set()

    def _named_agents(self) -> tuple[Agent, ...]:
        """Return the agents with the owner names of their claims, marked if a person has looked at their state."""
        claims = {key: tree.claim for key, tree in self._worktrees.items() if tree.claim}
        named = self._names.of(self._agents, claims, self._given_names)
        runs = self._runs
        watched: tuple[Run, ...] = self._fields.get("watched", ())  # type: ignore[assignment]
        named = self._run_agents.join(named, (*runs, *watched) if watched else runs)
        if not self._looked_at:
            return named
        return tuple(
            replace(one, looked_at=True) if (one.id, one.truth.since) in self._looked_at else one for one in named
        )

    @property
    def _runs(self) -> tuple[Run, ...]:
        return self._fields.get("runs", ())  # type: ignore[return-value]

    async def _publish(self) -> None:
        limit, last = SnapshotRateLimit(), -_LONGEST_DELAY
        while True:
            await self._changed.wait()
            if not self._urgent.is_set():
                with suppress(TimeoutError):  # not `asyncio.wait_for`, which can lose a cancellation
                    async with asyncio.timeout(max(0.0, last + _LONGEST_DELAY - time.monotonic())):
                        await self._urgent.wait()
            await self._wait_for_rate(limit)
            awaited = self._awaited.is_set()
            self._changed.clear()
            self._urgent.clear()
            self._awaited.clear()
            snapshot = self._make_snapshot()
            if not _same_content(snapshot, self._snapshot):
                last = time.monotonic()
                limit.spend(last, awaited=awaited)
                self._snapshot = snapshot
                async with self._published:
                    self._published.notify_all()

    async def _wait_for_rate(self, limit: SnapshotRateLimit) -> None:
        """Wait until the rate limit allows a snapshot; an awaited change that comes meanwhile shortens the wait."""
        pause = limit.wait(time.monotonic())
        if pause and not self._awaited.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._awaited.wait()
        if pause and self._awaited.is_set():
            await asyncio.sleep(limit.wait(time.monotonic(), awaited=True))

    def _make_snapshot(self) -> Snapshot:
        worktrees = tuple(self._worktrees.values())
        return Snapshot(
            seq=self._snapshot.seq + 1,
            taken_at=times.stamp(),
            host=host.hostname(),
            worktrees=worktrees,
            waiting=self._waiting,
            changes=tuple(self._changes),
            events=tuple(self._events),
            agents=self._named_agents(),
            health=tuple(self._health[name] for name in sorted(self._health)),
            complete="worktrees" in self._health
            and all(tree.missing or tree.git is not None or tree.failure is not None for tree in worktrees),
            repositories=tuple(dict.fromkeys([key.repo for key in self._worktrees])),
            registry=self._registry,
            **{**self._fields, "runs": with_claims(host.hostname(), self._runs, self._claims)},  # type: ignore[arg-type]
        )


class SnapshotRateLimit:
    """Rate limit of PER_SECOND snapshots with a reserved share for changes that a person waits for.

    Each share is a token bucket: after a pause _BURST snapshots may go out at once, so that a change right behind
    another one is not delayed.
    """

    def __init__(self) -> None:
        self._usual, self._reserved = _TokenBucket(_USUAL_RATE), _TokenBucket(_RESERVED_RATE)
        self._sent: deque[float] = deque(maxlen=PER_SECOND)

    def wait(self, now: float, *, awaited: bool = False) -> float:
        """Return the seconds until the next snapshot may go out."""
        pause = self._usual.wait(now)
        if awaited:
            pause = min(pause, self._reserved.wait(now))
        full = self._sent[0] + 1.0 - now if len(self._sent) == PER_SECOND else 0.0
        return max(0.0, full, pause)

    def spend(self, now: float, *, awaited: bool = False) -> None:
        """Count a snapshot that goes out now."""
        self._sent.append(now)
        use_reserved = awaited and self._reserved.wait(now) <= self._usual.wait(now)
        (self._reserved if use_reserved else self._usual).spend(now)


class _TokenBucket:
    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._tokens, self._updated_at = float(_BURST), time.monotonic()

    def wait(self, now: float) -> float:
        return max(0.0, (1.0 - self._available(now)) / self._rate)

    def spend(self, now: float) -> None:
        self._tokens, self._updated_at = self._available(now) - 1.0, now

    def _available(self, now: float) -> float:
        return min(float(_BURST), self._tokens + (now - self._updated_at) * self._rate)


def _states_differ(before: Sequence[Agent], now: Sequence[Agent]) -> bool:
    """True if an agent came, went or changed its state."""
    if len(before) != len(now):
        return True
    pairs = zip(before, now, strict=True)
    return any((one.id, one.state) != (other.id, other.state) for one, other in pairs if one is not other)


def homes_differ(before: Sequence[HomeState], now: Sequence[HomeState]) -> bool:
    """True if a home came, went or fell silent, or one of its agents changed its state, or a worktree its claim or branch."""
    if [(one.id, one.state) for one in before] != [(one.id, one.state) for one in now]:
        return True
    pairs = list(zip(before, now, strict=True))
    return any(_states_differ(one.agents, other.agents) for one, other in pairs) or any(
        _claims_differ(one.worktrees, other.worktrees) for one, other in pairs
    )


def _claims_differ(before: Sequence[Worktree], now: Sequence[Worktree]) -> bool:
    if len(before) != len(now):
        return True
    pairs = zip(before, now, strict=True)
    return any(
        (one.key, one.claim, one.branch) != (other.key, other.claim, other.branch)
        for one, other in pairs
        if one is not other
    )


def _same_content(left: Snapshot, right: Snapshot) -> bool:
    return replace(left, seq=0, taken_at="") == replace(right, seq=0, taken_at="")


@asynccontextmanager
async def open_engine(
    database: str,
    common_dirs: Sequence[str] | None = None,
    *,
    settings: Settings | None = None,
    first: Snapshot | None = None,
    read_only: bool = False,
) -> AsyncIterator[Engine]:
    """Run an engine on these repositories, or on all that the registry has; `read_only`: it claims and links nothing."""
    from imi_monitor import auto_sync, registry_traces
    from imi_monitor.git import layout
    from imi_monitor.sources import make_sources
    from imi_monitor.sources.agents.session_recorder import SessionRecorder
    from imi_monitor.sources.files.tiered_watcher import choose_watcher
    from imi_monitor.sources.source import SourceContext
    from imi_monitor.store import async_registry

    def find_traces(real: str) -> list[RegistryTrace]:
        found = [layout.repository_at(folder) for folder in common_dirs or () if os.path.isdir(folder)]
        return registry_traces.find_traces(real, found)

    settings = settings or Settings()
    repositories = None if common_dirs is None else tuple(common_dirs)
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(
            async_registry.open_registry(database, find_traces=find_traces, required=False)
        )
        recorder = await stack.enter_async_context(SessionRecorder(registry, settings.number("sessions.keep_days")))
        watcher = choose_watcher()
        await watcher.start()
        stack.push_async_callback(watcher.close)
        context = SourceContext(
            registry,
            database,
            repositories,
            settings,
            watcher,
            recorder,
            partial(auto_sync.find_shared_folders, database),
            read_only,
        )
        engine = await stack.enter_async_context(Engine(make_sources(context), first=first))
        if not context.tracks_agents:
            engine.set_healthy("agents", NOT_LOOKED_FOR)
        yield engine
