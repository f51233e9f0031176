"""Keeps what agents do: collects the news between two looks and writes it down, at most once a second.

Nobody waits for the registry here: `keep` only notes, a task of its own writes. What is new is asked first (many monitors
see the same, and each start reads the same records again), so that what is known already costs no write at all. A registry
that fails is tried again later and later; what waits meanwhile is bounded, and what had to go is counted and said.

Where the files that agents write belong, and how large they are.

They are looked at from outside only, never opened: an agent may name any file, the registry's own among them, and closing
that would drop the locks SQLite has on it.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Sequence
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
from imi_monitor.store import retention, session_writer
from imi_monitor.store.async_registry import AsyncRegistry

_EVERY = 1.0  # seconds between two transactions
_FACTS = 10.0  # numbers that grow all the time (tokens) may be so old in the registry
_HEARTBEAT = 60.0
_LONGEST = 60.0  # seconds between two tries of a registry that fails
_MOST_AT_ONCE = 2_000  # acts in one transaction
_CROWDED = 10_000  # acts that wait before looking is slowed down
_SLOWED = 1.0  # seconds, at most
_MOST = 40_000  # acts that are held in memory at all
_SWEEP = 600.0


@dataclass(slots=True)
class _PendingAgent:
    """What is to be written of one agent, and what was written last."""

    agent: Agent
    ident: str  # under which it is kept
    news: dict[str, AgentEvent] = field(default_factory=dict)
    due: bool = False
    state: tuple[object, ...] | None = None
    facts: object = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one transaction is about."""

    noted: _PendingAgent
    agent: Agent
    news: tuple[AgentEvent, ...]
    due: bool


class SessionRecorder:
    """Use as `async with Keeper(registry) as keeper`; what is left is written at the end."""

    def __init__(self, registry: AsyncRegistry, keep_days: int = retention.KEEP_DAYS) -> None:
        self._registry = registry
        self._keep_days = keep_days
        self._noted: dict[str, _PendingAgent] = {}  # by the agent's own id
        self._waiting = 0
        self._lost = 0
        self._odd: str | None = None
        self._trouble: str | None = None
        self._written_at = -_EVERY
        self._swept_at = -_SWEEP
        self._pause = _EVERY
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._roots = WorktreeRoots()

    async def __aenter__(self) -> SessionRecorder:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def keep(self, seen: Sequence[SeenAgent]) -> str | None:
        """Note what is new. Gives a sentence while it cannot be written, or when something was lost."""
        if not self._keep_days:
            return None
        now = time.monotonic()
        sessions = 0
        for one in seen:
            agent = one.agent
            if agent.session is not None:
                sessions += 1
                noted = self._noted.get(agent.id)
                if noted is None or noted.agent is not agent or one.news or now - noted.at >= _FACTS:
                    self._note(one, now)
        if sessions != len(self._noted):
            self._forget_the_gone({one.agent.id for one in seen})
        if (self._task is None or self._task.done()) and self._due():
            self._task = asyncio.create_task(self._write_until_done(), name="keep sessions")
        if self._waiting > _CROWDED and self._trouble is None:
            self._room.clear()
            with suppress(TimeoutError):  # not `wait_for`: that may forget a cancellation
                async with asyncio.timeout(_SLOWED):
                    await self._room.wait()
        return self.trouble

    @property
    def trouble(self) -> str | None:
        lost = f"{count(self._lost, 'act')} of agents could not be kept" if self._lost else None
        return "; ".join(filter(None, (self._trouble, self._odd, lost))) or None

    async def close(self) -> None:
        """Write what is left, once; a registry that fails now has the last word."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        while any(one.due or one.news for one in self._noted.values()):
            before = self._waiting
            await self._write()
            if self._trouble is not None or (before and self._waiting >= before):
                return

    # -- noting -----------------------------------------------------------------------------------------------------

    def _note(self, one: SeenAgent, now: float) -> None:
        noted = self._noted.get(one.agent.id)
        if noted is None:
            noted = self._noted[one.agent.id] = _PendingAgent(one.agent, session_record.session_id(one.agent))
        age = now - noted.at
        noted.agent = one.agent
        for act in one.news:
            if act.id not in noted.news:
                self._waiting += 1
            noted.news[act.id] = act
        while self._waiting > _MOST:
            self._drop_oldest()
        if _state(one.agent) != noted.state:
            noted.due = True
        elif age >= _FACTS:
            heartbeat = age >= _HEARTBEAT and not one.agent.truth.ended
            noted.due = (
                noted.due or heartbeat or (one.agent.facts is not noted.facts and one.agent.facts != noted.facts)
            )

    def _drop_oldest(self) -> None:
        fullest = max(self._noted.values(), key=lambda one: len(one.news))
        fullest.news.pop(next(iter(fullest.news)))
        self._waiting -= 1
        self._lost += 1

    def _forget_the_gone(self, seen: set[str]) -> None:
        """Who is not seen any more needs no place here, once everything is written."""
        for ident in [
            ident for ident, one in self._noted.items() if ident not in seen and not one.news and not one.due
        ]:
            del self._noted[ident]

    def _due(self) -> bool:
        return any(one.due or one.news for one in self._noted.values())

    # -- writing ----------------------------------------------------------------------------------------------------

    async def _write_until_done(self) -> None:
        while self._due():
            await asyncio.sleep(max(0.0, self._written_at + self._pause - time.monotonic()))
            await self._write()

    async def _write(self) -> None:
        """One transaction, and only if there is anything that is not kept yet."""
        taken = self._take(time.monotonic())
        try:
            await self._write_these(taken)
        except asyncio.CancelledError:
            self._give_back(taken)  # kept twice is kept once
            raise
        except ImiError as error:
            self._give_back(taken)
            self._trouble = error.sentence
            self._pause = min(_LONGEST, self._pause * 2)
        else:
            self._trouble, self._pause = None, _EVERY
        finally:
            self._written_at = time.monotonic()
            if self._waiting < _CROWDED // 2:
                self._room.set()

    async def _write_these(self, taken: Sequence[_Batch]) -> None:
        asked = [(one.noted.ident, session_record.event_ids(one.news)) for one in taken if one.news]
        known = await self._registry.read(session_writer.known_event_ids, host.hostname(), asked) if asked else set()
        fresh = [(one.agent, _unknown(one, known), one.due) for one in taken]
        records = await asyncio.to_thread(self._prepared, [one for one in fresh if one[1] or one[2]])
        if records:
            await self._registry.write_unsynced(session_writer.record, records)  # it can all be read again
        await self._sweep(time.monotonic())

    def _prepared(self, wanted: Sequence[tuple[Agent, Sequence[AgentEvent], bool]]) -> list[SessionRecord]:
        """In a thread, before the registry is asked to hold still: cleaning texts and looking at files takes its time."""
        now, here, boot = times.now(), host.hostname(), host.boot()
        made: list[SessionRecord] = []
        for agent, news, due in wanted:
            try:
                seen = session_record.session_state(agent, here, boot, now)
                root = self._roots.of(agent.cwd)
                made.append(session_record.session_record(seen, root, news, now, file_size, only_acts=not due))
            except Exception as error:  # noqa: BLE001  what one agent's records hold must not end the record of the others
                self._lost += len(news)
                self._odd = f"{safe(agent.id, 60)} is not kept: {type(error).__name__}: {safe(str(error), 120)}"
        return made

    def _take(self, now: float) -> list[_Batch]:
        """The oldest of everybody, as much as one transaction may hold."""
        room, taken = _MOST_AT_ONCE, []
        for noted in self._noted.values():
            ids = list(noted.news)[:room]
            # signs of life go together: forty agents must not make forty transactions a minute
            due = noted.due or (now - noted.at >= _HEARTBEAT / 2 and not noted.agent.truth.ended)
            if not ids and not due:
                continue
            news = tuple(noted.news.pop(ident) for ident in ids)
            taken.append(_Batch(noted, noted.agent, news, due))
            if due:
                noted.state, noted.facts, noted.at, noted.due = _state(noted.agent), noted.agent.facts, now, False
            room -= len(news)
        self._waiting -= _MOST_AT_ONCE - room
        return taken

    def _give_back(self, taken: Sequence[_Batch]) -> None:
        for one in taken:
            before = len(one.noted.news)
            one.noted.news = {**{act.id: act for act in one.news}, **one.noted.news}
            self._waiting += len(one.noted.news) - before
            one.noted.due = one.noted.due or one.due
            self._noted.setdefault(one.agent.id, one.noted)

    async def _sweep(self, now: float) -> None:
        """A bite of what is too old, every so often; the rest of it with the next write."""
        if now - self._swept_at < _SWEEP:
            return
        if await self._registry.read(retention.are_sessions_due, self._keep_days):
            await self._registry.write_unsynced(retention.trim_sessions, self._keep_days)
        else:
            self._swept_at = now


def _state(agent: Agent) -> tuple[object, ...]:
    """What is written at once when it changes. While it works, only that it does: each tool is told by its own act."""
    truth = agent.truth
    since = None if truth.state in WORKING else truth.since
    return truth.state, since, truth.ended, truth.detail, agent.facts.ended_at, agent.pid, agent.pid_started, agent.key


def _unknown(one: _Batch, known: set[tuple[str, str]]) -> list[AgentEvent]:
    ids = session_record.event_ids(one.news)
    return [act for act, event in zip(one.news, ids, strict=True) if (one.noted.ident, event) not in known]


_MOST_ROOTS = 1000


def file_size(path: str, root: str | None) -> int | None:
    """Of a plain file in its worktree as it is now; None for what cannot be told, or is none of ours to look at."""
    if root is None or not path.startswith(root.rstrip("/") + "/"):
        return None
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None


class WorktreeRoots:
    """The worktree that a folder lies in, looked up once."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def of(self, cwd: str | None) -> str | None:
        if cwd is None:
            return None
        if cwd not in self._found:
            if len(self._found) >= _MOST_ROOTS:
                self._found.clear()
            self._found[cwd] = _root(cwd)
        return self._found[cwd]


def _root(cwd: str) -> str:
    try:
        place = layout.discover(cwd)
    except (ImiError, OSError):
        place = None
    return place.path if place is not None and place.path else cwd
