"""Agents beside the claims: who is called what, and who works where another holds the claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from imi_monitor.model.agent import Agent

if TYPE_CHECKING:
    from imi_monitor.model.snapshot import ClaimState, Key


Named = dict[str, tuple[Agent, Agent]]  # by its id: the agent as it was seen, and the same with its name


def named(agents: Iterable[Agent], claims: Mapping[Key, ClaimState], known: Named | None = None) -> tuple[Agent, ...]:
    """Each agent with its name and how it stands to the claim of its worktree; a claim has one agent at most. `known` is
    kept from one time to the next: who is the same as before is not made anew.

    The claim's own process is its agent, else the oldest living one of the kind that the claimer's name tells. Work
    under a person's claim is that person's own doing.
    """
    ordered = sorted(agents, key=lambda one: (one.truth.ended, one.facts.started_at or "~", one.id))
    holders = _holders(ordered, claims)
    taken: dict[str, int] = {}
    made = []
    for agent in ordered:
        claim = claims.get(agent.key) if agent.key is not None else None
        mine = claim is not None and holders.get(claim.key) == agent.id
        name = claim.agent if claim is not None and mine else _numbered(agent.cli, taken)
        stands, holder = _standing(agent, claim, mine), claim.agent if claim else None
        before = known.get(agent.id) if known is not None else None
        if before is not None and before[0] is agent and _told(before[1]) == (name, stands, holder):
            made.append(before[1])
        else:
            made.append(replace(agent, name=name, claim=stands, claimed_by=holder))
    if known is not None:
        known.clear()
        known.update((agent.id, (agent, one)) for agent, one in zip(ordered, made, strict=True))
    return tuple(made)


def _told(agent: Agent) -> tuple[str, str | None, str | None]:
    return agent.name, agent.claim, agent.claimed_by


def _holders(agents: list[Agent], claims: Mapping[Key, ClaimState]) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for agent in agents:
        claim = claims.get(agent.key) if agent.key is not None else None
        if claim is not None and claim.pid is not None and agent.pid == claim.pid:
            found[claim.key] = agent.id
    for agent in agents:
        claim = claims.get(agent.key) if agent.key is not None else None
        if claim is not None and claim.key not in found and not agent.truth.ended and agent.cli in claim.agent.lower():
            found[claim.key] = agent.id
    return found


def _standing(agent: Agent, claim: ClaimState | None, mine: bool) -> str | None:
    if agent.key is None:
        return None
    if claim is None:
        return "none"
    return "mine" if mine or claim.agent.startswith("human") or claim.state == "dead" else "other"


def _numbered(cli: str, taken: dict[str, int]) -> str:
    taken[cli] = taken.get(cli, 0) + 1
    return cli if taken[cli] == 1 else f"{cli} {taken[cli]}"
