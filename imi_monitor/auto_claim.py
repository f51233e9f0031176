"""`claims.auto`: a live agent claims the free worktree it works in, and its claim ends with its session.

Only a worktree without owner, line and foreign presence lock is claimed, never the trunk's, and only for a process that
is proven to run. A worktree whose automatic claim was ended by another owner is not claimed again for that session. Only
claims made here are released here. Uncommitted work stays as it is.

Several monitors may do this at once: the registry's transactions decide, and the second one finds nothing left to do.
The module is a source that calls the claim functions, so it stands above sources and actions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from imi_monitor import host, presence
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.claims import ownership
from imi_monitor.actions.context import Context
from imi_monitor.git import layout
from imi_monitor.model import names, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.agent_names import name_key
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.sources.hints import AgentsRead, Hint
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.sources.timers import PollTimer
from imi_monitor.store import automatic_claims, claims, db, given_names, repositories
from imi_monitor.store.automatic_claims import AutomaticClaim
from imi_monitor.store.claims import ClaimRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.worktree_lookup import Target

A = TypeVar("A")
_RETRY_SECONDS = 10.0  # a worktree that was taken may be free by now


class AutoClaim(Source):
    """Updates the automatic claims when agents come, go, move or end."""

    name = "claims.auto"

    def __init__(self, database: str) -> None:
        self._database = database
        self._agents: Sequence[Agent] = ()
        self._states: object = None
        self._timer = PollTimer(_RETRY_SECONDS)

    def handle_hint(self, hint: Hint) -> None:
        if not isinstance(hint, AgentsRead):
            return
        self._agents = hint.agents
        states = tuple((one.id, one.key, one.pid, one.truth.ended, one.facts.ended_at) for one in hint.agents)
        if states != self._states:
            self._states = states
            self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        while True:
            await self._timer.wait()
            if self._states is None:
                continue  # before the first reading it is unknown which agents run
            try:
                await asyncio.to_thread(update_claims, self._database, self._agents)
            except (ImiError, OSError) as error:
                self._timer.failed()
                receiver.set_failure(self.name, "claiming for agents", str(error))
            else:
                self._timer.succeeded()
                receiver.set_healthy(self.name)


def make_source(context: SourceContext) -> AutoClaim | None:
    wanted = context.tracks_agents and context.settings.flag("claims.auto")
    return AutoClaim(context.database) if wanted and not context.read_only else None


def update_claims(database: str, agents: Sequence[Agent]) -> list[str]:
    """Release the claims of ended sessions and claim for live ones; returns sentences on what was done or failed.

    Slow (registry, files): call it in a thread.
    """
    done: list[str] = []
    with Context(database=database) as context:
        live = [agent for agent in agents if _is_live(agent)]
        for automatic in db.read(context.connection, automatic_claims.list_current):
            if _is_over(context.connection, automatic, agents):
                done += _sentences(_release, context, automatic)
        held = {claim.key for claim in db.read(context.connection, claims.list_held)}
        for agent in _candidates(live, held):
            done += _sentences(_claim, context, agent)
    return done


def _owner_name(context: Context, agent: Agent) -> str:
    """`claude-1`: the agent's own name owns its claims."""
    given = db.transact(context.connection, given_names.give_names, host.hostname(), [agent], times.now())
    return given[name_key(agent)].name or agent.cli


def _is_live(agent: Agent) -> bool:
    """True if its process is proven to run and its session has not ended."""
    if agent.session is None or agent.pid is None or agent.pid_started is None or agent.truth.ended:
        return False
    return agent.facts.ended_at is None and host.start_time(agent.pid) == agent.pid_started


def _is_over(connection: sqlite3.Connection, automatic: AutomaticClaim, agents: Sequence[Agent]) -> bool:
    """True if the session has ended or the process of the claim is proven dead.

    A session that is not observed is not over. A resumed one claims again, for its new process.
    """
    session = [agent for agent in agents if agent.id == automatic.session_id]
    if any(agent.truth.ended or agent.facts.ended_at is not None for agent in session):
        return True
    return claims.state(claims.current(connection, automatic.repo_name, automatic.worktree_name)) == "dead"


def _candidates(live: Sequence[Agent], held: set[tuple[str, str]]) -> list[Agent]:
    """Return the agent that started first, for each worktree without an owner."""
    chosen: dict[tuple[str, str], Agent] = {}
    for agent in sorted(live, key=lambda one: (one.facts.started_at or "~", one.id)):
        if agent.key is not None and agent.cwd is not None and (agent.key.repo, agent.key.worktree) not in held:
            chosen.setdefault((agent.key.repo, agent.key.worktree), agent)
    return list(chosen.values())


def _claim(context: Context, agent: Agent) -> list[str]:
    found = _find_worktree(context, agent)
    if found is None or found.is_main:
        return []
    claim = ownership.claim_of(context, found)
    if claim is not None and claim.agent_id is not None:
        return []
    lock = presence.presence_lock_path(found.repository, found.name)
    if presence.foreign_owner(lock, context.database) is not None:
        return []
    owner = _owner_name(context, agent)
    if names.agent_problem(owner) is not None:
        return []
    request = ClaimRequest(owner, host.identify_process(agent.pid))
    target = ownership.claim_target(context, found)
    answer = db.transact(context.connection, automatic_claims.claim, target, request, agent.id)
    if answer is None:
        return []
    warning = presence.update_presence_lock(context.connection, lock, *answer.claim.key, context.database)
    sentence = f"{safe(found.name)} is claimed for {safe(request.agent)}, who works in it"
    return [sentence, *([warning] if warning else [])]


def _find_worktree(context: Context, agent: Agent) -> Target | None:
    """The worktree around the agent's folder, if it is the one in which the agent was observed."""
    place = layout.discover(agent.cwd or "")
    if place is None or place.path is None or agent.key is None:
        return None
    path = os.path.realpath(place.path)
    for found in worktree_lookup.list_worktrees(context, place.repository):
        if not found.missing and os.path.realpath(found.path) == path:
            return found if found.name == agent.key.worktree else None
    return None


def _release(context: Context, automatic: AutomaticClaim) -> list[str]:
    if not db.transact_with_ballast(context.connection, automatic_claims.release, automatic):
        return []
    folder = repositories.list_common_dirs(context.connection).get(automatic.repo_name)
    lock = None
    if folder is not None and os.path.isdir(folder):
        lock = presence.presence_lock_path(layout.repository_at(folder), automatic.worktree_name)
    warning = presence.update_presence_lock(
        context.connection, lock, automatic.repo_name, automatic.worktree_name, context.database
    )
    sentence = f"{safe(automatic.worktree_name)} is unclaimed again: the session of {safe(automatic.agent_id)} is over"
    return [sentence, *([warning] if warning else [])]


def _sentences(act: Callable[[Context, A], list[str]], context: Context, about: A) -> list[str]:
    """The result of `act`, or its error as a sentence, so that one failure does not stop the others."""
    try:
        return act(context, about)
    except ImiError as error:
        return [error.sentence]
