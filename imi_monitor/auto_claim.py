"""With `claims.auto` the engine also acts: whenever agents come, go, move or end, their claims are brought in line.

A source by its looks, but it uses an action (`auto_claim.py`, which decides), so it lives up here.

`claims.auto`: a live agent claims the free worktree it works in, and its claim ends with its session.

Nothing is ever taken: only what nobody holds, nobody waits for and no other program's lock names, in a worktree that is
not the trunk's, for a process that is proven to live; and not again what somebody freed while its session went on. Nothing
is given back but what was claimed here, told by a mark in the same transaction as the claim. What was not committed stays
as it is for whoever comes next; the event says so.

Several monitors may do this at once: the registry's transactions decide, and the second finds nothing left to do.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from imi_monitor import host, presence
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.claims import claim_action
from imi_monitor.actions.context import Context
from imi_monitor.git import layout
from imi_monitor.model import names
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.sources.source import ReadingReceiver
from imi_monitor.sources.timers import PollTimer
from imi_monitor.store import automatic_claims, claim_history, claim_requests, claims, db, repositories
from imi_monitor.store.automatic_claims import AutomaticClaim
from imi_monitor.store.claims import ClaimRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claim_requests import ClaimAnswer


_AGAIN = 10.0  # seconds: what was held by another may be free by now


class AutoClaim:
    """`saw` is told of every look at the agents."""

    name = "claims.auto"

    def __init__(self, database: str) -> None:
        self._database = database
        self._agents: Sequence[Agent] = ()
        self._told: object = None
        self._pace = PollTimer(_AGAIN)

    def saw(self, agents: Sequence[Agent]) -> None:
        self._agents = agents
        told = tuple((one.id, one.key, one.pid, one.truth.ended, one.facts.ended_at) for one in agents)
        if told != self._told:
            self._told = told
            self._pace.poke()

    async def run(self, board: ReadingReceiver) -> None:
        while True:
            await self._pace.next()
            if self._told is None:
                continue  # nobody has looked yet: that is no reason to think that all are gone
            try:
                await asyncio.to_thread(follow, self._database, self._agents)
            except (ImiError, OSError) as error:
                self._pace.failed()
                board.fail(self.name, "claiming for agents", str(error))
            else:
                self._pace.worked()
                board.well(self.name)


A = TypeVar("A")
_SHORT = 8
OVER = "its session ended; given back by imi, uncommitted work stays as it is"


def follow(database: str, agents: Sequence[Agent]) -> list[str]:
    """Bring the automatic claims in line with who is alive; gives what was done, or could not be, as sentences.

    Slow (registry, files): call it in a thread, when agents come, go, move or end.
    """
    done: list[str] = []
    with Context(database=database) as context:
        living = [agent for agent in agents if _lives(agent)]
        for mark in db.read(context.connection, automatic_claims.list_standing):
            if _is_over(context.connection, mark, agents):
                done += _tried(_give_back, context, mark)
        taken = {(one.repo_name, one.worktree_name) for one in db.read(context.connection, claims.list_held)}
        for agent in _candidates(living, taken):
            done += _tried(_claim, context, agent)
    return done


def name_of(agent: Agent) -> str:
    """`claude-1a2b3c4d`: stays the same for as long as it is this session."""
    plain = "".join(char for char in agent.session or "" if char.isascii() and char.isalnum())
    return f"{agent.cli}-{plain[:_SHORT] or agent.pid}"


def _lives(agent: Agent) -> bool:
    """Proven to run now, as the process it was, and in a session that is not over."""
    if agent.session is None or agent.pid is None or agent.pid_started is None or agent.truth.ended:
        return False
    return agent.facts.ended_at is None and host.start_time(agent.pid) == agent.pid_started


def _is_over(connection: sqlite3.Connection, mark: AutomaticClaim, agents: Sequence[Agent]) -> bool:
    """Whether the session has ended, or the process it was claimed for is proven dead (one that was taken up again claims
    anew, as the process it is now). Not to be seen is not to be over."""
    session = [agent for agent in agents if agent.id == mark.session_id]
    if any(agent.truth.ended or agent.facts.ended_at is not None for agent in session):
        return True
    return claims.state(claims.current(connection, mark.repo_name, mark.worktree_name)) == "dead"


def _candidates(living: Sequence[Agent], taken: set[tuple[str, str]]) -> list[Agent]:
    """One a worktree, who was there first."""
    chosen: dict[tuple[str, str], Agent] = {}
    for agent in sorted(living, key=lambda one: (one.facts.started_at or "~", one.id)):
        if agent.key is not None and agent.cwd is not None and (agent.key.repo, agent.key.worktree) not in taken:
            chosen.setdefault((agent.key.repo, agent.key.worktree), agent)
    return list(chosen.values())


def _claim(context: Context, agent: Agent) -> list[str]:
    found = _place(context, agent)
    if found is None or found.is_main or names.agent_problem(name_of(agent)) is not None:
        return []
    if (
        found.repo_name is not None
        and claims.current(context.connection, found.repo_name, found.name).agent_id is not None
    ):
        return []
    lock = presence.presence_lock_path(found.repository, found.name)
    if presence.foreign_owner(lock, context.database) is not None:
        return []
    wish = ClaimRequest(name_of(agent), host.identify_process(agent.pid))
    answer = db.transact(context.connection, _take, context, found, wish, agent.id)
    if answer is None:
        return []
    warning = presence.update_presence_lock(
        context.connection, lock, answer.claim.repo_name, answer.claim.worktree_name, context.database
    )
    said = f"{safe(found.name)} is claimed for {safe(wish.agent)}, who works in it"
    return [said, *([warning] if warning else [])]


def _take(
    connection: sqlite3.Connection, context: Context, found: Target, wish: ClaimRequest, session: str
) -> ClaimAnswer | None:
    """The claim and its mark, or nothing of either: only a slot that nobody holds, dead or alive."""
    if found.repo_name is not None and claims.current(connection, found.repo_name, found.name).agent_id is not None:
        return None
    if wish.process.started is None:
        return None  # it died a moment ago
    if _was_taken_away(connection, found, wish.agent):
        return None
    answer = claim_action.take_now(connection, context, found, wish)
    if answer.how != "claimed":
        return None
    made = answer.claim
    automatic_claims.add(
        connection, AutomaticClaim(made.repo_name, made.worktree_name, made.epoch, wish.agent, session)
    )
    return answer


def _was_taken_away(connection: sqlite3.Connection, found: Target, agent: str) -> bool:
    """Somebody freed it although the session went on: that is a decision, and it is not undone at the next look."""
    if found.repo_name is None:
        return False
    last = claim_history.last_grant(connection, found.repo_name, found.name, agent)
    return last is not None and last.released_at is not None and last.reason != OVER


def _place(context: Context, agent: Agent) -> Target | None:
    """The worktree around the agent's folder, if it is the one it was seen in."""
    place = layout.discover(agent.cwd or "")
    if place is None or place.path is None or agent.key is None:
        return None
    here = [
        one
        for one in worktree_lookup.list_worktrees(context, place.repository)
        if not one.missing and _same(one.path, place.path)
    ]
    return here[0] if here and here[0].name == agent.key.worktree else None


def _same(left: str, right: str) -> bool:
    return os.path.realpath(left) == os.path.realpath(right)


def _give_back(context: Context, mark: AutomaticClaim) -> list[str]:
    released = db.transact(context.connection, _release, mark)
    if not released:
        return []
    folder = repositories.list_common_dirs(context.connection).get(mark.repo_name)
    if folder is None or not os.path.isdir(folder):
        lock = None
    else:
        lock = presence.presence_lock_path(layout.repository_at(folder), mark.worktree_name)
    warning = presence.update_presence_lock(
        context.connection, lock, mark.repo_name, mark.worktree_name, context.database
    )
    said = f"{safe(mark.worktree_name)} is free again: the session of {safe(mark.agent_id)} is over"
    return [said, *([warning] if warning else [])]


def _release(connection: sqlite3.Connection, mark: AutomaticClaim) -> bool:
    """Exactly the claim that was made: by its agent and epoch."""
    released, _ = claim_requests.release(
        connection, mark.repo_name, mark.worktree_name, mark.agent_id, mark.epoch, reason=OVER
    )
    automatic_claims.remove(connection, mark)
    return released


def _tried(act: Callable[[Context, A], list[str]], context: Context, about: A) -> list[str]:
    """What came of it; what goes wrong with one is said and does not stop the others."""
    try:
        return act(context, about)
    except ImiError as error:
        return [error.sentence]
