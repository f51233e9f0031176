"""Names agents through the registry, so that every monitor and `imi agents` call the same agent by the same name.

A new agent waits a moment for its name. While the registry cannot be written, agents are shown by the end of their
session's id, and the names are asked for again later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.agent_names import NOT_NAMED, GivenName, name_key
from imi_monitor.model.errors import ImiError
from imi_monitor.store import given_names
from imi_monitor.store.async_registry import AsyncRegistry

_PATIENCE = 0.3  # seconds that a new agent is not shown until it has a name
_REFRESH = 600.0  # seconds between two writes of when the agents were last seen
_RETRY = 10.0
_PAUSE = 1.0  # seconds between two reads of the names while others write into the registry


class RegistryNames:
    def __init__(
        self, registry: AsyncRegistry, *, patience: float = _PATIENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self._patience = patience
        self._clock = clock
        self._names: Mapping[str, GivenName] = {}
        self._agents: Sequence[Agent] = ()
        self._written_at = float("-inf")
        self._retry_at = float("-inf")
        self._read_at = float("-inf")
        self._changed = False  # the registry was written since the last read
        self._task: asyncio.Task[None] | None = None
        self._marks: set[asyncio.Task[None]] = set()

    def registry_changed(self) -> None:
        self._changed = True

    async def names_of(self, agents: Sequence[Agent]) -> Mapping[str, GivenName]:
        """The names known now, by `name_key`; those of new agents are waited for, but not long."""
        self._agents = agents
        nameless = self._has_nameless()
        changed = self._changed and self._clock() - self._read_at >= _PAUSE
        due = nameless or changed or self._clock() - self._written_at > _REFRESH
        if due and agents and self._task is None and self._clock() >= self._retry_at:
            self._task = asyncio.create_task(self._update(nameless), name="name agents")
        if nameless and self._task is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await asyncio.shield(self._task)
        return self._names

    def mark_looked_at(self, agent: Agent) -> None:
        task = asyncio.create_task(self._mark(agent), name="mark an agent as looked at")
        self._marks.add(task)
        task.add_done_callback(self._marks.discard)

    def close(self) -> None:
        for task in (self._task, *self._marks):
            if task is not None:
                task.cancel()

    def _has_nameless(self) -> bool:
        return any(
            self._names.get(name_key(one), NOT_NAMED).name is None
            and not one.truth.ended
            and one.facts.ended_at is None
            for one in self._agents
        )

    async def _update(self, nameless: bool) -> None:
        agents, here, self._changed, self._read_at = self._agents, host.hostname(), False, self._clock()
        try:
            if nameless or self._clock() - self._written_at > _REFRESH:
                self._names = await self._registry.write_unsynced(given_names.give_names, here, agents, times.now())
                self._written_at = self._clock()
            else:
                self._names = await self._registry.read(given_names.read_names, here, agents)
        except ImiError:
            self._retry_at = self._clock() + _RETRY  # the registry source reports why
        finally:
            self._task = None

    async def _mark(self, agent: Agent) -> None:
        with suppress(ImiError):
            await self._registry.write_unsynced(given_names.mark_looked_at, host.hostname(), agent)
