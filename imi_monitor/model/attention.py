"""How an agent stands, in one word, and who needs a person first.

A state alone does not tell it: a failed agent that has ended is over, one that works where another holds the claim is an
intruder whatever it does. Lists, counts, groups and the order of everything that shows agents come from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, FAILED, WAITING, WORKING, Agent

ASKS: Final = "asks"
INTRUDES: Final = "intrudes"
FAILS: Final = "failed"
DIED: Final = "dead"
SUSPENDED: Final = "suspended"  # its process is stopped: nothing goes on until a person continues it
WORKS: Final = "works"
UNCLEAR: Final = "unknown"
IDLE: Final = "idle"  # it is there, and its turn is over
ENDED: Final = "ended"

STANDINGS: Final = (ASKS, INTRUDES, FAILS, DIED, SUSPENDED, WORKS, UNCLEAR, IDLE, ENDED)
"""In the order in which they want a person."""

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
    """Its process is gone, or it said itself that the session is over."""
    return agent.truth.ended or agent.facts.ended_at is not None


def standing(agent: Agent) -> str:
    """One of STANDINGS. What nobody can tell is unclear, never idle; who broke and is over has ended, once it was looked at."""
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
    """Where it stands in the lead's view."""
    return "Done" if has_ended(agent) and standing(agent) == FAILS else _GROUP_OF[standing(agent)]


def rank(agent: Agent) -> tuple[int, str, str, str]:
    """Sorts agents: who needs a person first, of those that wait the most patient; all others by name, so that rows stay."""
    at = STANDINGS.index(standing(agent))
    patience = (agent.truth.since or "~") if at == 0 else ""
    return at, patience, agent.name, agent.id


def by_attention(agents: Iterable[Agent]) -> tuple[Agent, ...]:
    return tuple(sorted(agents, key=rank))


def needs_attention(agent: Agent) -> bool:
    return standing(agent) in (ASKS, INTRUDES, FAILS, DIED)


def relevant_agents(agents: Sequence[Agent]) -> tuple[Agent, ...]:
    """Those of one worktree that still matter there, who needs a person first: without those whose place another has taken."""
    left = [one for one in agents if not (has_ended(one) and any(_came_after(other, one) for other in agents))]
    return by_attention(left)


def _came_after(other: Agent, gone: Agent) -> bool:
    if other is gone:
        return False
    began, left = other.facts.started_at, gone.truth.since or gone.facts.ended_at
    if began is None or left is None:
        return not has_ended(other)
    return began > left


def total_tokens(agent: Agent) -> int | None:
    """What went in afresh and what came out; None when neither was told."""
    told = [number for number in (agent.facts.tokens_in, agent.facts.tokens_out) if number is not None]
    return sum(told) if told else None


def context_fill(agent: Agent) -> float | None:
    """How full its context window is, 0 to 1; None when that is not known."""
    used, size = agent.facts.context_used, agent.facts.context_size
    return None if used is None or not size or size < 0 else min(1.0, max(0.0, used / size))
