"""Records what agents do: collects their events between two polls and writes them every two to four seconds.

`record` never waits for the registry; a task of its own writes. Known events are looked up first, because every monitor
sees the same ones and each start reads the same files again: what is known costs no write. A registry that fails is
tried again with growing pauses; what waits meanwhile is bounded, and dropped events are counted and reported.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from imi_monitor import host
from imi_monitor.git import layout
from imi_monitor.model import session_record, times
from imi_monitor.model.agent import WORKING, Agent, AgentEvent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.session_record import SessionRecord
from imi_monitor.model.text import count, safe
from imi_monitor.sources.agents.sighting_merge import SeenAgent
from imi_monitor.store import item_moves, retention, session_writer
from imi_monitor.store.async_registry import AsyncRegistry

_FACTS_AGE = 10.0  # seconds that growing numbers (tokens) may be behind in the registry
_HEARTBEAT = 60.0
_LONGEST_PAUSE = 60.0  # seconds between two attempts while the registry fails
_SLOWDOWN = 1.0  # seconds by which `record` delays the next poll at most
_SWEEP_EVERY = 600.0
_MOST_ROOTS = 1000


@dataclass(frozen=True, slots=True)
class RecorderLimits:
    """Numbers are counts of events."""

    pause: float = 2.0  # seconds between two transactions: each has its readers and relays at work, too
    many: int = 20  # agents in a transaction that double the pause behind it
    per_transaction: int = 2_000
    crowded: int = 10_000  # so many waiting slow polling down
    waiting: int = 40_000  # more are dropped, the oldest first


@dataclass(slots=True)
class _PendingAgent:
    """What is to be written of one agent, and what was written last."""

    agent: Agent
    session: str  # its id in the registry
    events: dict[str, AgentEvent] = field(default_factory=dict)
    due: bool = False
    state: tuple[object, ...] | None = None
    facts: object = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Batch:
    """The part of one agent in a transaction."""

    pending: _PendingAgent
    agent: Agent
    events: tuple[AgentEvent, ...]
    due: bool


class SessionRecorder:
    """Use as `async with SessionRecorder(registry) as recorder`; the rest is written at the end."""

    def __init__(
        self,
        registry: AsyncRegistry,
        keep_days: int = retention.KEEP_DAYS,
        limits: RecorderLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._keep_days = keep_days
        self._limits = limits or RecorderLimits()
        self._pending: dict[str, _PendingAgent] = {}  # by the agent's own id
        self.waiting = 0  # events not yet written
        self._dropped = 0
        self._not_recorded: str | None = None
        self._registry_failure: str | None = None
        self._written_at = -self._limits.pause
        self._swept_at = -_SWEEP_EVERY
        self._pause = self._limits.pause
        self._task: asyncio.Task[None] | None = None
        self._not_crowded = asyncio.Event()
        self._roots = WorktreeRoots()

    async def __aenter__(self) -> SessionRecorder:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def record(self, seen: Sequence[SeenAgent]) -> str | None:
        """Note what is new. Returns a sentence while it cannot be written, or if something was dropped."""
        if not self._keep_days:
            return None
        now = self._clock()
        sessions = 0
        for one in seen:
            agent = one.agent
            if agent.session is not None:
                sessions += 1
                pending = self._pending.get(agent.id)
                if pending is None or pending.agent is not agent or one.events or now - pending.at >= _FACTS_AGE:
                    self._note(one, now)
        if sessions != len(self._pending):
            self._forget_ended({one.agent.id for one in seen})
        if not self.writing and self._is_due():
            self._task = asyncio.create_task(self._write_until_done(), name="record sessions")
        if self.waiting > self._limits.crowded and self._registry_failure is None:
            self._not_crowded.clear()
            with suppress(TimeoutError):  # not `wait_for`, which may swallow a cancellation
                async with asyncio.timeout(_SLOWDOWN):
                    await self._not_crowded.wait()
        return self.failure

    @property
    def failure(self) -> str | None:
        dropped = f"{count(self._dropped, 'event')} of agents could not be recorded" if self._dropped else None
        return "; ".join(filter(None, (self._registry_failure, self._not_recorded, dropped))) or None

    @property
    def writing(self) -> bool:
        """True while a task writes what is due."""
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        """Write the rest; gives up at the first failure of the registry."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        while self._is_due():
            before = self.waiting
            await self._write()
            if self._registry_failure is not None or (before and self.waiting >= before):
                return

    # -- noting -----------------------------------------------------------------------------------------------------

    def _note(self, one: SeenAgent, now: float) -> None:
        pending = self._pending.get(one.agent.id)
        if pending is None:
            pending = self._pending[one.agent.id] = _PendingAgent(one.agent, session_record.session_id(one.agent))
        age = now - pending.at
        pending.agent = one.agent
        for event in one.events:
            if event.id not in pending.events:
                self.waiting += 1
            pending.events[event.id] = event
        while self.waiting > self._limits.waiting:
            self._drop_oldest()
        if _written_state(one.agent) != pending.state:
            pending.due = True
        elif age >= _FACTS_AGE:
            heartbeat = age >= _HEARTBEAT and not one.agent.truth.ended
            facts_changed = one.agent.facts is not pending.facts and one.agent.facts != pending.facts
            pending.due = pending.due or heartbeat or facts_changed

    def _drop_oldest(self) -> None:
        fullest = max(self._pending.values(), key=lambda one: len(one.events))
        fullest.events.pop(next(iter(fullest.events)))
        self.waiting -= 1
        self._dropped += 1

    def _forget_ended(self, seen: set[str]) -> None:
        """Forget agents that are no longer seen, once everything of them is written."""
        for ident in [
            ident for ident, one in self._pending.items() if ident not in seen and not one.events and not one.due
        ]:
            del self._pending[ident]

    def _is_due(self) -> bool:
        return any(one.due or one.events for one in self._pending.values())

    # -- writing ----------------------------------------------------------------------------------------------------

    async def _write_until_done(self) -> None:
        while self._is_due():
            await asyncio.sleep(max(0.0, self._written_at + self._pause - self._clock()))
            await self._write()

    async def _write(self) -> None:
        """One transaction, if there is anything the registry does not have yet."""
        batch = self._take_batch(self._clock())
        try:
            await self._write_batch(batch)
        except asyncio.CancelledError:
            self._put_back(batch)  # writing it twice is harmless
            raise
        except ImiError as error:
            self._put_back(batch)
            self._registry_failure = error.sentence
            self._pause = min(_LONGEST_PAUSE, self._pause * 2)
        else:
            self._registry_failure = None
            share = 0.0 if self.waiting >= self._limits.per_transaction else len(batch) / self._limits.many
            self._pause = self._limits.pause * (1 + min(1.0, share))  # a backlog does not wait longer
        finally:
            self._written_at = self._clock()
            if self.waiting < self._limits.crowded // 2:
                self._not_crowded.set()

    async def _write_batch(self, batch: Sequence[_Batch]) -> None:
        ids = [(one.pending.session, session_record.event_ids(one.events)) for one in batch if one.events]
        known = await self._registry.read(session_writer.known_event_ids, host.hostname(), ids) if ids else set()
        new = [(one.agent, _unknown_events(one, known), one.due) for one in batch]
        records = await asyncio.to_thread(self._records, [one for one in new if one[1] or one[2]])
        if records:
            await self._registry.write_unsynced(session_writer.record, records)  # it can all be read again
            if await self._registry.read(item_moves.list_idle, 1):
                from imi_monitor.store import item_settlement

                await self._registry.write_unsynced(item_settlement.settle)
        await self._sweep(self._clock())

    def _records(self, wanted: Sequence[tuple[Agent, Sequence[AgentEvent], bool]]) -> list[SessionRecord]:
        """Runs in a thread, before the transaction: cleaning texts and measuring files takes time."""
        now, here, boot = times.now(), host.hostname(), host.boot()
        made: list[SessionRecord] = []
        for agent, events, due in wanted:
            try:
                state = session_record.session_state(agent, here, boot, now)
                root = self._roots.of(agent.cwd)
                made.append(session_record.session_record(state, root, events, now, file_size, only_acts=not due))
            except Exception as error:  # noqa: BLE001  odd data of one agent must not stop the record of the others
                self._dropped += len(events)
                what = f"{type(error).__name__}: {safe(str(error), 120)}"
                self._not_recorded = f"{safe(agent.id, 60)} is not recorded: {what}"
        return made

    def _take_batch(self, now: float) -> list[_Batch]:
        """The oldest events of every agent, as many as one transaction may hold."""
        left, batch = self._limits.per_transaction, []
        for pending in self._pending.values():
            ids = list(pending.events)[:left]
            # heartbeats are written together: forty agents must not cause forty transactions a minute
            due = pending.due or (now - pending.at >= _HEARTBEAT / 2 and not pending.agent.truth.ended)
            if not ids and not due:
                continue
            events = tuple(pending.events.pop(ident) for ident in ids)
            batch.append(_Batch(pending, pending.agent, events, due))
            if due:
                pending.state, pending.facts = _written_state(pending.agent), pending.agent.facts
                pending.at, pending.due = now, False
            left -= len(events)
        self.waiting -= self._limits.per_transaction - left
        return batch

    def _put_back(self, batch: Sequence[_Batch]) -> None:
        for one in batch:
            before = len(one.pending.events)
            one.pending.events = {**{event.id: event for event in one.events}, **one.pending.events}
            self.waiting += len(one.pending.events) - before
            one.pending.due = one.pending.due or one.due
            self._pending.setdefault(one.agent.id, one.pending)

    async def _sweep(self, now: float) -> None:
        """Delete a slice of what is older than `keep_days`; the next write deletes the next slice."""
        if now - self._swept_at < _SWEEP_EVERY:
            return
        if await self._registry.read(retention.are_sessions_due, self._keep_days):
            await self._registry.write_unsynced(retention.trim_sessions, self._keep_days)
        else:
            self._swept_at = now


def _written_state(agent: Agent) -> tuple[object, ...]:
    """What is written at once when it changes. While an agent works, `since` is not: its tool calls are events."""
    truth = agent.truth
    since = None if truth.state in WORKING else truth.since
    return truth.state, since, truth.ended, truth.detail, agent.facts.ended_at, agent.pid, agent.pid_started, agent.key


def _unknown_events(one: _Batch, known: set[tuple[str, str]]) -> list[AgentEvent]:
    ids = session_record.event_ids(one.events)
    return [event for event, ident in zip(one.events, ids, strict=True) if (one.pending.session, ident) not in known]


# -- files that agents write ------------------------------------------------------------------------------------------


def file_size(path: str, root: str | None) -> int | None:
    """The size of a plain file inside its worktree; None for anything else.

    The file is never opened: an agent may name any file, also the registry's own, and closing that would drop the locks
    SQLite has on it.
    """
    if root is None or not path.startswith(root.rstrip("/") + "/"):
        return None
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None


class WorktreeRoots:
    """The worktree that contains a folder, looked up once per folder."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def of(self, cwd: str | None) -> str | None:
        if cwd is None:
            return None
        if cwd not in self._found:
            if len(self._found) >= _MOST_ROOTS:
                self._found.clear()
            self._found[cwd] = _worktree_root(cwd)
        return self._found[cwd]


def _worktree_root(cwd: str) -> str:
    try:
        place = layout.discover(cwd)
    except (ImiError, OSError):
        place = None
    return place.path if place is not None and place.path else cwd
