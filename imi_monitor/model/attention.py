"""The standing of an agent: its state as a person should read it, and the order in which agents need a person.

A state is not enough: an agent that works under another owner's claim is an intruder whatever its state. All lists, counts,
groups and orders of agents derive from the standing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, FAILED, WAITING, WORKING, Agent

ASKS: Final = "asks"
INTRUDES: Final = "intrudes"
FAILS: Final = "failed"
DIED: Final = "dead"
SUSPENDED: Final = "suspended"  # its process is stopped until a person continues it
WORKS: Final = "works"
UNCLEAR: Final = "unknown"
IDLE: Final = "idle"  # it runs, and its turn is over
ENDED: Final = "ended"

STANDINGS: Final = (ASKS, INTRUDES, FAILS, DIED, SUSPENDED, WORKS, UNCLEAR, IDLE, ENDED)
"""All standings, the one that needs a person most first."""

ALARMING: Final = frozenset({FAILS, DIED})
"""Standings of an agent that has ended which a person should look at once."""

GROUPS: Final = ("Needs you", "Working", "Unknown", "Idle", "Done", "Dead")
_GROUP_OF: Final = {
    ASKS: "Needs you",
    INTRUDES: "Needs you",
    FAILS: "Needs you",
    DIED: "Dead",
    SUSPENDED: "Idle",
    WORKS: "Working",
    UNCLEAR: "Unknown",
    IDLE: "Idle",
    ENDED: "Done",
}


def has_ended(agent: Agent) -> bool:
    """Return whether its process is gone or it recorded the end of its session."""
    return agent.truth.ended or agent.facts.ended_at is not None


def standing(agent: Agent) -> str:
    """Return one of STANDINGS. Without evidence it is UNCLEAR, never IDLE.

    A failed or dead agent whose process is gone counts as ended once a person has looked at it.
    """
    if agent.state in (DEAD, FAILED) and not (agent.looked_at and has_ended(agent)):
        return DIED if agent.state == DEAD else FAILS
    if has_ended(agent):
        return ENDED
    if agent.state == WAITING:
        return ASKS
    if agent.intruder:
        return INTRUDES
    if agent.suspended:
        return SUSPENDED
    if agent.state in WORKING:
        return WORKS
    return IDLE if agent.state in (COMPLETED, CANCELLED) else UNCLEAR


def group(agent: Agent) -> str:
    """Return its group in the lead's view."""
    return "Done" if has_ended(agent) and standing(agent) == FAILS else _GROUP_OF[standing(agent)]


def rank(agent: Agent) -> tuple[int, str, str, str]:
    """Return the sort key: by standing, agents that ask by how long they wait, others by name so that rows stay in place."""
    at = STANDINGS.index(standing(agent))
    waiting_since = (agent.truth.since or "~") if at == 0 else ""
    return at, waiting_since, agent.name, agent.id


def by_attention(agents: Iterable[Agent]) -> tuple[Agent, ...]:
    return tuple(sorted(agents, key=rank))


def needs_attention(agent: Agent) -> bool:
    return standing(agent) in (ASKS, INTRUDES, FAILS, DIED)


def relevant_agents(agents: Sequence[Agent]) -> tuple[Agent, ...]:
    """Return the agents of one worktree without ended ones that another agent has replaced, by attention."""
    left = [one for one in agents if not (has_ended(one) and any(_replaces(other, one) for other in agents))]
    return by_attention(left)


def _replaces(other: Agent, gone: Agent) -> bool:
    if other is gone:
        return False
    began, left = other.facts.started_at, gone.truth.since or gone.facts.ended_at
    if began is None or left is None:
        return not has_ended(other)
    return began > left


def total_tokens(agent: Agent) -> int | None:
    """Return its uncached input and output tokens; None when both are unknown."""
    known = [number for number in (agent.facts.tokens_in, agent.facts.tokens_out) if number is not None]
    return sum(known) if known else None


def context_fill(agent: Agent) -> float | None:
    """Return the used part of its context window, 0 to 1; None when it is unknown."""
    used, size = agent.facts.context_used, agent.facts.context_size
    return None if used is None or not size or size < 0 else min(1.0, max(0.0, used / size))
