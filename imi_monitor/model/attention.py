"""The standing of an agent: its state as a person should read it, and the order in which agents need a person.

A state is not enough: an agent that works under another owner's claim is an intruder whatever its state. All lists, counts,
groups and orders of agents derive from the standing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from imi_monitor.model import agent as statuses
from imi_monitor.model import usage_limit
from imi_monitor.model.agent import Agent
from imi_monitor.model.state_words import (
    ASKS,
    DEAD,
    DONE,
    FAILED,
    INTRUDES,
    LIMITED,
    MEANINGS,
    OF_STATUS,
    READY,
    SUSPENDED,
    UNKNOWN,
)
from imi_monitor.model.usage_limit import UsageLimit

STANDINGS: Final = tuple(MEANINGS)
"""All standings, the one that needs a person most first."""

ALARMING: Final = frozenset({FAILED, LIMITED, DEAD})
"""Standings of an agent that has ended which a person should look at once."""


def has_ended(agent: Agent) -> bool:
    """Return whether its process is gone or it recorded the end of its session."""
    return agent.truth.ended or agent.facts.ended_at is not None


def own_state(agent: Agent) -> str:
    """Return the word of its own state, whatever the claim on its worktree and although its process may be suspended."""
    if agent.state in (statuses.DEAD, statuses.FAILED):
        return OF_STATUS[agent.state] if usage_limit_of(agent) is None else LIMITED
    if has_ended(agent):
        return DONE
    if agent.ready:
        return READY
    return OF_STATUS.get(agent.state, UNKNOWN)


def usage_limit_of(agent: Agent) -> UsageLimit | None:
    """Return the usage limit that ended its last turn."""
    return usage_limit.limit_of(agent.state, agent.truth.detail, agent.truth.since)


def standing(agent: Agent) -> str:
    """Return one of STANDINGS. Without evidence it is UNKNOWN, never IDLE.

    A failed or dead agent whose process is gone counts as DONE once a person has looked at it.
    """
    own = own_state(agent)
    if own in ALARMING:
        return DONE if agent.looked_at and has_ended(agent) else own
    if own in (ASKS, DONE):
        return own
    return INTRUDES if agent.intruder else SUSPENDED if agent.suspended else own


def word(agent: Agent) -> str:
    """Return its state in one word: its standing, but a death or failure is one also after a person has looked at it."""
    own = own_state(agent)
    return own if own in ALARMING else standing(agent)


def is_unseen_end(agent: Agent) -> bool:
    """Return whether it died, or failed and ended, and no person has looked at it since."""
    return has_ended(agent) and standing(agent) in ALARMING


def newest_unseen_end(agents: Iterable[Agent]) -> Agent | None:
    """Return the agent that died or failed last and was not looked at: the only one of them that stands above living ones."""
    return max(filter(is_unseen_end, agents), key=lambda one: one.truth.since or "", default=None)


def by_attention(agents: Iterable[Agent]) -> tuple[Agent, ...]:
    """Return the agents by standing, those that ask by how long they wait, others by name so that rows stay in place.

    Of the deaths and failures that were not looked at, the newest has its place, and the others come after all that runs.
    """
    listed = tuple(agents)
    newest = newest_unseen_end(listed)

    def rank(agent: Agent) -> tuple[int, bool, str, str, str]:
        at, late = STANDINGS.index(standing(agent)), is_unseen_end(agent) and agent is not newest
        waiting_since = (agent.truth.since or "~") if at == 0 else ""
        return STANDINGS.index(DONE) if late else at, not late, waiting_since, agent.name, agent.id

    return tuple(sorted(listed, key=rank))


def needs_attention(agent: Agent) -> bool:
    return standing(agent) in (ASKS, INTRUDES, FAILED, DEAD)


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
