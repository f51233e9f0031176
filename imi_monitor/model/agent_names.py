"""Agents beside the claims: who is called what, and who works where another holds the claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from imi_monitor.model.agent import Agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.snapshot import ClaimState, Key


class AgentNames:
    """Names agents again and again: only when somebody came, went, moved or ended is it thought about who is called what,
    and who is the same as before is not made anew."""

    def __init__(self) -> None:
        self._agents: Sequence[Agent] = ()
        self._claims: Mapping[Key, ClaimState] = {}
        self._made: tuple[Agent, ...] = ()
        self._known: dict[object, tuple[Agent, Agent]] = {}  # each as it was seen, and the same with its name

    def of(self, agents: Sequence[Agent], claims: Mapping[Key, ClaimState]) -> tuple[Agent, ...]:
        same = claims == self._claims
        if same and agents is self._agents:
            return self._made
        if same and list(map(_decides, agents)) == list(map(_decides, self._agents)):
            for agent in agents:
                seen, made = self._known[_who(agent)]
                if seen is not agent:
                    self._known[_who(agent)] = agent, _called(agent, made.name, made.claim, made.claimed_by)
        else:
            self._think_anew(agents, claims)
        self._agents, self._claims = agents, claims
        self._made = tuple([made for _, made in self._known.values()])
        return self._made

    def _think_anew(self, agents: Sequence[Agent], claims: Mapping[Key, ClaimState]) -> None:
        before, seen = self._known, {_who(agent): agent for agent in agents}
        self._known = {}
        for made in name_agents(agents, claims):
            who = _who(made)
            known = before.get(who)
            same = known is not None and known[0] is seen[who] and known[1] == made
            self._known[who] = known if known is not None and same else (seen[who], made)


_who = attrgetter("id", "session")  # a session may be called like a process without one

# All of an agent that decides what it is called, and what others are.
_decides = attrgetter("id", "cli", "key", "pid", "truth.ended", "facts.started_at")


def name_agents(agents: Iterable[Agent], claims: Mapping[Key, ClaimState]) -> tuple[Agent, ...]:
    """Each agent with its name and how it stands to the claim of its worktree; a claim has one agent at most.

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
        made.append(_called(agent, name, _standing(agent, claim, mine), claim.agent if claim else None))
    return tuple(made)


def _called(agent: Agent, name: str, claim: str | None, claimed_by: str | None) -> Agent:
    return replace(agent, name=name, claim=claim, claimed_by=claimed_by)


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
