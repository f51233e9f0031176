"""Turns of agents: keeps the files of a worktree as they are when a turn begins there, for the diff of the last turn.

The files of a turn that began before the dashboard or `imi watch` are rebuilt from the agent's records, as `imi diff --turn`
does it without either. The turns of agents that imi started are kept by their follower too (`runs/run_turns.py`).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from imi_monitor.git import turn_start
from imi_monitor.git.runner import Git
from imi_monitor.model import times
from imi_monitor.model.agent import WAITING, WORKING, Agent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key
from imi_monitor.model.turn_files import TurnFiles
from imi_monitor.sources.agents import turn_records
from imi_monitor.sources.hints import AgentsRead, Hint, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext

_LATE = 3.0  # seconds after which a turn was not seen when it began


class TurnSource(Source):
    """Follows the agents; it reports no field of the snapshot."""

    name = "turns"

    def __init__(self) -> None:
        self.kept = 0  # how often files were kept, for tests
        self._entries: dict[Key, RosterEntry] = {}
        self._agents: dict[str, Agent] = {}  # agent id -> it, as it was read last
        self._turns: dict[str, str] = {}  # agent id -> when its present turn began
        self._seen: dict[str, str] = {}  # agent id -> when the last turn began whose files were to be kept
        self._due: dict[Key, Agent] = {}
        self._woken = asyncio.Event()
        self._stopping = False
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="turns")

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._entries = {one.key: one for one in entries if not one.missing and one.admin_dir}
                self._due = {key: agent for key, agent in self._due.items() if key in self._entries}
            case AgentsRead(agents):
                before, self._agents = self._agents, {agent.id: agent for agent in agents}
                for agent in [agent for agent in agents if before.get(agent.id) is not agent]:
                    self._follow(agent)
                for ident in before.keys() - self._agents.keys():
                    self._turns.pop(ident, None)

    def _follow(self, agent: Agent) -> None:
        began = self._turn_of(agent)
        if began is None:
            self._turns.pop(agent.id, None)
            return
        if agent.key in self._entries and self._turns.get(agent.id) != began:
            self._due[agent.key] = agent
            self._woken.set()
        self._turns[agent.id] = began

    def _turn_of(self, agent: Agent) -> str | None:
        """When the agent's present turn began; None while it is in none. Without a record, when its work was first seen."""
        if agent.truth.ended or not (agent.state in WORKING or agent.state == WAITING):
            return None
        return agent.facts.turn_at or self._turns.get(agent.id) or agent.truth.since

    async def run(self, receiver: ReadingReceiver) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._pool, turn_start.forget_gone)
            while True:
                await self._woken.wait()
                self._woken.clear()
                while self._due:
                    key, agent = self._due.popitem()
                    entry, began = self._entries[key], self._turns.get(agent.id)
                    if began is None:
                        continue  # the turn is already over
                    try:
                        self.kept += await loop.run_in_executor(self._pool, self._keep, entry, agent, began)
                    except (ImiError, OSError) as error:
                        what = f"the files of {key.worktree} at the beginning of a turn"
                        receiver.set_failure(self.name, what, str(error))
                    else:
                        receiver.set_healthy(self.name)
        finally:
            self._stopping = True
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _keep(self, entry: RosterEntry, agent: Agent, began: str) -> bool:
        """Keep the files, in the thread of the pool; False if those of this turn or of a later one are kept already."""
        git = Git(
            entry.common_dir, entry.admin_dir, entry.path, trusted=entry.trusted, cancelled=lambda: self._stopping
        )
        earlier, self._seen[agent.id] = self._seen.get(agent.id), began
        moment = times.parse(began)
        if agent.facts.turn_at != began or moment is None or (times.now() - moment).total_seconds() < _LATE:
            return turn_start.keep_turn(git, agent.id, agent.name, began, earlier)

        def recorded() -> TurnFiles:
            return turn_records.read_files(agent.cli, agent.session, agent.cwd, began)

        return turn_start.keep_turn(git, agent.id, agent.name, began, earlier, recorded)


def make_source(_context: SourceContext) -> TurnSource:
    return TurnSource()
