"""The engine: owns the sources, folds what they say into snapshots, and publishes those.

It is the board the sources write on. Writing marks the picture as changed; a publisher makes the next snapshot at
once for what a person waits for, and at most ten in a second. Nothing here waits, reads or runs anything itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

from imi_monitor import host
from imi_monitor.config import Settings
from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.agent_names import AgentNames
from imi_monitor.model.attribution import ClaimPeriod, holder_at, periods_by_worktree
from imi_monitor.model.change import MINUTES, Activity, Change
from imi_monitor.model.snapshot import (
    NOT_LOOKED_FOR,
    ClaimState,
    Failure,
    GitState,
    Key,
    RegistryEvent,
    Snapshot,
    SourceHealth,
    Waiter,
    Worktree,
)
from imi_monitor.sources.hints import GitStateRead, Hint, RefreshRequested, RosterRead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.source import RegistryReading, RosterEntry, Source

PER_SECOND = 10  # snapshots at most
AT_ONCE = 2  # of them without any pause, so that a single change is never kept waiting
_A_SECOND = 7.5  # the usual share of them: so many then, on and on
_WAITED_FOR = 2.0  # what somebody waits for has a share of its own
CALM = 0.3  # seconds that what nobody waits for may go with the next one
MOST_CHANGES = 2000
MOST_EVENTS = 500


class Engine:
    """Use as `async with Engine(sources) as engine: async for snapshot in engine.snapshots(): …`."""

    def __init__(self, sources: Sequence[Source], *, first: Snapshot | None = None) -> None:
        self.sources = tuple(sources)
        self._entries: dict[Key, RosterEntry] = {}
        self._worktrees: dict[Key, Worktree] = {}
        self._claims: dict[Key, ClaimState] = {}
        self._periods: dict[Key, list[ClaimPeriod]] = {}
        self._changes: deque[Change] = deque(maxlen=MOST_CHANGES)
        self._events: deque[RegistryEvent] = deque(maxlen=MOST_EVENTS)
        self._activity: dict[Key, Activity] = {}
        self._fields: dict[str, object] = {}  # of the snapshot, as sources set them
        self._agents: tuple[Agent, ...] = ()
        self._names = AgentNames()
        self._looked_at: set[tuple[str, str | None]] = set()  # who, since when it stood so
        self._repositories: tuple[tuple[Worktree, ...], tuple[str, ...]] = (), ()
        self._health: dict[str, SourceHealth] = {}
        self._waiting: tuple[Waiter, ...] = ()
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._waited_for = asyncio.Event()
        self._published = asyncio.Condition()
        self._snapshot = first or Snapshot(0, times.stamp(), host.hostname())
        if first is not None:  # known, until the sources say something else
            self._worktrees = {tree.key: tree for tree in first.worktrees}
            self._claims = {tree.key: tree.claim for tree in first.worktrees if tree.claim is not None}
            self._waiting = first.waiting
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
        """The last published reading."""
        return self._snapshot

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        """Every published picture from now on; a slow reader gets the newest one, not all."""
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

    def looked_at(self, agent: Agent) -> None:
        """A person has looked at this agent as it stands: until it stands otherwise nobody is needed for that any more."""
        self._looked_at.add((agent.id, agent.truth.since))
        self._named = None
        self._urgent.set()
        self._changed.set()

    # -- readings ---------------------------------------------------------------------------------------------------

    def send_hint(self, hint: Hint) -> None:
        for source in self.sources:
            source.handle_hint(hint)

    def update(self, **fields: object) -> None:
        if any(self._fields.get(name) != value for name, value in fields.items()):
            self._fields.update(fields)
            self._changed.set()

    def set_roster(self, entries: tuple[RosterEntry, ...]) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._worktrees = {entry.key: self._listed(entry) for entry in entries}
        self.send_hint(RosterRead(entries))
        self._urgent.set()
        self._changed.set()

    def set_git_state(self, key: Key, state: GitState) -> None:
        if state.last_commit is not None:
            by = holder_at(self._periods, key, state.last_commit.at, grain=1.0)
            state = replace(state, last_commit=replace(state.last_commit, by=by))
        known = self._worktrees.get(key)
        if known is not None and known.git is not None and replace(known.git, read_at=state.read_at) == state:
            # the same answer again: remember that it is fresh, but there is nothing new to show
            self._worktrees[key] = replace(known, git=state)
            state = known.git if known.failure is None else state
        self._update(key, git=state, failure=None, branch=state.branch)
        self.send_hint(GitStateRead(key, state))

    def set_git_failure(self, key: Key, why: str) -> None:
        known = self._worktrees.get(key)
        if known is not None:
            since = known.failure.since if known.failure and known.failure.why == why else times.stamp()
            self._update(key, failure=Failure("git status", why, since))

    def add_changes(self, changes: Sequence[Change]) -> None:
        """New lines of the feed, oldest first; who did it is filled in here, where the claims are known."""
        for change in changes:
            key = Key(host.hostname(), change.repo, change.worktree)
            by = change.by or holder_at(self._periods, key, change.at)
            change = replace(change, by=by)
            self._changes.append(change)
            activity = self._activity.setdefault(key, Activity())
            minute = times.clock() // 60_000_000_000
            activity.add(minute, change.count)
            self._update(key, last_change=change, activity=activity.since(minute - MINUTES))
        self._urgent.set()
        self._changed.set()

    def set_watch_mode(self, key: Key, mode: str, why: str | None) -> None:
        self._update(key, watched=mode, watched_why=why)

    def set_registry(self, reading: RegistryReading) -> None:
        claims = {claim.key: claim for claim in reading.claims}
        if (reading.waiting, claims) != (self._waiting, self._claims):
            self._urgent.set()  # a line of the log alone goes with the next
        self._waiting = reading.waiting
        self._periods = periods_by_worktree(reading.periods)
        self._claims = claims
        self._events.extend(reading.events)
        for key, entry in self._entries.items():
            worktree, claim = self._worktrees[key], entry.claim(self._claims)
            if worktree.claim != claim:
                self._worktrees[key] = replace(worktree, claim=claim)
                self._waited_for.set()
        self._changed.set()

    def set_agents(self, seen: tuple[Agent, ...]) -> None:
        if seen != self._agents:
            if _other_state(self._agents, seen):
                self._waited_for.set()
            self._agents = seen
            self._urgent.set()
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
        self._health[source] = SourceHealth(source, read_at, Failure(what, why, times.stamp()))
        self._changed.set()

    # -- folding ----------------------------------------------------------------------------------------------------

    def _listed(self, entry: RosterEntry) -> Worktree:
        """The worktree of a roster entry, keeping what is already known of it."""
        known = self._worktrees.get(entry.key)
        if known is not None and known.path == entry.path:
            listed = replace(
                known,
                type=entry.type,
                branch=entry.branch,
                is_main=entry.is_main,
                missing=entry.missing,
                locked=entry.locked,
                pr=entry.pr,
                claim=entry.claim(self._claims),
            )
            return known if listed == known else listed  # the very same one need not be drawn again
        return entry.worktree(self._claims)

    def _update(self, key: Key, **fields: object) -> None:
        known = self._worktrees.get(key)
        if known is None:
            return  # it left the roster meanwhile
        changed = replace(known, **fields)  # type: ignore[arg-type]
        if changed != known:
            self._worktrees[key] = changed
            self._changed.set()

    def _named_agents(self) -> tuple[Agent, ...]:
        """With their claims' names, and whether a person has looked at them as they stand."""
        named = self._names.of(self._agents, {key: tree.claim for key, tree in self._worktrees.items() if tree.claim})
        return tuple(map(self._as_looked_at, named)) if self._looked_at else named

    def _as_looked_at(self, one: Agent) -> Agent:
        return replace(one, looked_at=True) if (one.id, one.truth.since) in self._looked_at else one

    async def _publish(self) -> None:
        """What a person waits for (a file, a claim, a worktree) goes out at once; the rest goes with it, or soon after."""
        allowance, last = SnapshotRateLimit(), -CALM
        while True:
            await self._changed.wait()
            if not self._urgent.is_set():
                with suppress(TimeoutError):  # not `wait_for`: that may forget a cancellation
                    async with asyncio.timeout(max(0.0, last + CALM - time.monotonic())):
                        await self._urgent.wait()
            await self._turn_of(allowance)
            waited_for = self._waited_for.is_set()
            self._changed.clear()
            self._urgent.clear()
            self._waited_for.clear()
            made = self._fold()
            if not _same(made, self._snapshot):
                last = time.monotonic()
                allowance.spend(last, waited_for=waited_for)
                self._snapshot = made
                async with self._published:
                    self._published.notify_all()

    async def _turn_of(self, allowance: SnapshotRateLimit) -> None:
        """Until the next snapshot may go out. What somebody waits for (who asks, who holds what) has a share of its own."""
        if not self._waited_for.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(allowance.wait(time.monotonic())):
                    await self._waited_for.wait()
        if self._waited_for.is_set():
            await asyncio.sleep(allowance.wait(time.monotonic(), waited_for=True))

    def _fold(self) -> Snapshot:
        worktrees = tuple(self._worktrees.values())
        if worktrees != self._repositories[0]:
            self._repositories = worktrees, tuple(dict.fromkeys([key.repo for key in self._worktrees]))
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
            repositories=self._repositories[1],
            **self._fields,  # type: ignore[arg-type]
        )


class SnapshotRateLimit:
    """At most PER_SECOND in any second. There are two shares of it: one for what somebody waits for, and the usual one, so
    that a crowd of small news holds up nobody who asks, and is itself told evenly.

    A share is saved up while nothing is published: what is spent a moment ago costs nothing as long as something is left,
    and a change right behind a reading of git is not kept waiting, as a fixed pause between two would.
    """

    def __init__(self) -> None:
        self._usual, self._waited_for = _TokenBucket(_A_SECOND), _TokenBucket(_WAITED_FOR)
        self._sent: deque[float] = deque(maxlen=PER_SECOND)

    def wait(self, now: float, *, waited_for: bool = False) -> float:
        """Seconds until the next snapshot may go out."""
        share = self._usual.wait(now)
        if waited_for:
            share = min(share, self._waited_for.wait(now))
        full = self._sent[0] + 1.0 - now if len(self._sent) == PER_SECOND else 0.0
        return max(0.0, full, share)

    def spend(self, now: float, *, waited_for: bool = False) -> None:
        self._sent.append(now)
        of = self._waited_for if waited_for and self._waited_for.wait(now) <= self._usual.wait(now) else self._usual
        of.spend(now)


class _TokenBucket:
    """So many a second, and AT_ONCE of them that are saved up."""

    def __init__(self, a_second: float) -> None:
        self._a_second = a_second
        self._left, self._at = float(AT_ONCE), time.monotonic()

    def wait(self, now: float) -> float:
        return max(0.0, (1.0 - self._earned(now)) / self._a_second)

    def spend(self, now: float) -> None:
        self._left, self._at = self._earned(now) - 1.0, now

    def _earned(self, now: float) -> float:
        return min(float(AT_ONCE), self._left + (now - self._at) * self._a_second)


def _other_state(before: Sequence[Agent], now: Sequence[Agent]) -> bool:
    """Whether somebody came or went, or does something else."""
    if len(before) != len(now):
        return True
    pairs = zip(before, now, strict=True)
    return any((one.id, one.state) != (other.id, other.state) for one, other in pairs if one is not other)


def _same(left: Snapshot, right: Snapshot) -> bool:
    return replace(left, seq=0, taken_at="") == replace(right, seq=0, taken_at="")


@asynccontextmanager
async def open_engine(
    database: str,
    common_dirs: Sequence[str] | None = None,
    *,
    settings: Settings | None = None,
    first: Snapshot | None = None,
) -> AsyncIterator[Engine]:
    """Run an engine on these repositories, or on all that the registry has."""
    from imi_monitor.source_list import SourceContext, make_sources
    from imi_monitor.sources.agents.session_recorder import SessionRecorder
    from imi_monitor.sources.files.tiered_watcher import choose_watcher
    from imi_monitor.sources.worktrees_source import RepositoryScope
    from imi_monitor.store import async_registry

    settings = settings or Settings()
    scope = RepositoryScope(None if common_dirs is None else tuple(common_dirs))
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(async_registry.open_registry(database))
        recorder = await stack.enter_async_context(SessionRecorder(registry, settings.number("sessions.keep_days")))
        watcher = choose_watcher()
        await watcher.start()
        stack.push_async_callback(watcher.close)
        context = SourceContext(registry, database, scope, settings, watcher, recorder)
        engine = await stack.enter_async_context(Engine(make_sources(context), first=first))
        if not context.tracks_agents:
            engine.set_healthy("agents", NOT_LOOKED_FOR)
        yield engine
