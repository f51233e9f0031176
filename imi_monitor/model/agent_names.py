"""Names agents after the claims of their worktrees, and finds agents that work under another owner's claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import UNKNOWN_CLAIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.snapshot import ClaimState, Key


class AgentNames:
    """Caches agent names; recomputes them only when agents or claims change. Unchanged agents stay the same objects."""

    def __init__(self) -> None:
        self._agents: Sequence[Agent] = ()
        self._claims: Mapping[Key, ClaimState] = {}
        self._named: tuple[Agent, ...] = ()
        self._pairs: dict[object, tuple[Agent, Agent]] = {}  # each agent as it was given, and with its name

    def of(self, agents: Sequence[Agent], claims: Mapping[Key, ClaimState]) -> tuple[Agent, ...]:
        """Return the agents with their names."""
        same_claims = claims == self._claims
        if same_claims and agents is self._agents:
            return self._named
        if same_claims and list(map(_naming_fields, agents)) == list(map(_naming_fields, self._agents)):
            for agent in agents:
                given, named = self._pairs[_identity(agent)]
                if given is not agent:
                    self._pairs[_identity(agent)] = agent, _with_name(agent, named.name, named.claim, named.claimed_by)
        else:
            self._name_all(agents, claims)
        self._agents, self._claims = agents, claims
        self._named = tuple([named for _, named in self._pairs.values()])
        return self._named

    def _name_all(self, agents: Sequence[Agent], claims: Mapping[Key, ClaimState]) -> None:
        before, given = self._pairs, {_identity(agent): agent for agent in agents}
        self._pairs = {}
        for named in name_agents(agents, claims):
            identity = _identity(named)
            known = before.get(identity)
            unchanged = known is not None and known[0] is given[identity] and known[1] == named
            self._pairs[identity] = known if known is not None and unchanged else (given[identity], named)


_identity = attrgetter("id", "session")  # a session may have the same id as a process without a session

# The fields of an agent that decide its name and those of others.
_naming_fields = attrgetter("id", "cli", "key", "pid", "truth.ended", "facts.started_at")


def name_agents(agents: Iterable[Agent], claims: Mapping[Key, ClaimState]) -> tuple[Agent, ...]:
    """Return the agents with their names and their relation to the claim of their worktree; a claim has one agent at most.

    The agent of a claim is the claim's own process, or else the oldest living agent whose program is part of the owner's
    name. An agent that works under a person's claim belongs to that person.
    """
    ordered = sorted(agents, key=lambda one: (one.truth.ended, one.facts.started_at or "~", one.id))
    holders = _holders(ordered, claims)
    counts: dict[str, int] = {}
    named = []
    for agent in ordered:
        claim = claims.get(agent.key) if agent.key is not None else None
        mine = claim is not None and holders.get(claim.key) == agent.id
        name = claim.agent if claim is not None and mine else _numbered(agent.cli, counts)
        named.append(
            _with_name(agent, name, _claim_relation(agent, claim, mine), (claim.agent or None) if claim else None)
        )
    return tuple(named)


def _with_name(agent: Agent, name: str, claim: str | None, claimed_by: str | None) -> Agent:
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


def _claim_relation(agent: Agent, claim: ClaimState | None, mine: bool) -> str | None:
    if agent.key is None or (claim is not None and claim.state == UNKNOWN_CLAIM):
        return None
    if claim is None:
        return "none"
    return "mine" if mine or claim.agent.startswith("human") or claim.state == "dead" else "other"


def _numbered(cli: str, counts: dict[str, int]) -> str:
    counts[cli] = counts.get(cli, 0) + 1
    return cli if counts[cli] == 1 else f"{cli} {counts[cli]}"
