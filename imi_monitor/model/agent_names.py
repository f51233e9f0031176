"""The names of agents: their own, `claude-1`, or that of the claim they hold; and agents that work under another's claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import UNKNOWN_CLAIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.snapshot import ClaimState, Key

_TAIL = 6  # characters of a session's id that distinguish it; its beginning may be a time that others share


@dataclass(frozen=True, slots=True)
class GivenName:
    """What the registry has of an agent: its name, the owner whose claim it held, and the death a person has looked at."""

    name: str | None = None
    owner: str | None = None
    looked_at: str | None = None


NOT_NAMED: Final = GivenName()


def has_session(agent: Agent) -> bool:
    return agent.session is not None


def name_key(agent: Agent, *, process: bool = False) -> str:
    """Return the key of an agent's name: the session, or the process while it has none (`process`: in any case)."""
    if agent.session is not None and not process:
        return agent.id
    return f"{agent.cli}:pid:{agent.pid}@{agent.pid_started}"


class AgentNames:
    """Caches agent names; recomputes them only when agents or claims change. Unchanged agents stay the same objects."""

    def __init__(self) -> None:
        self._agents: Sequence[Agent] = ()
        self._claims: Mapping[Key, ClaimState] = {}
        self._given: Mapping[str, GivenName] = {}
        self._named: tuple[Agent, ...] = ()
        self._pairs: dict[object, tuple[Agent, Agent]] = {}  # each agent as it was given, and with its name

    def of(
        self, agents: Sequence[Agent], claims: Mapping[Key, ClaimState], given: Mapping[str, GivenName] | None = None
    ) -> tuple[Agent, ...]:
        """Return the agents with their names; `given` are those of the registry, by `name_key`."""
        given = given or {}
        unchanged = claims == self._claims and given == self._given
        if unchanged and agents is self._agents:
            return self._named
        if unchanged and list(map(_naming_fields, agents)) == list(map(_naming_fields, self._agents)):
            for agent in agents:
                before, named = self._pairs[_identity(agent)]
                if before is not agent:
                    self._pairs[_identity(agent)] = agent, _like(named, agent, given)
        else:
            self._name_all(agents, claims, given)
        self._agents, self._claims, self._given = agents, claims, given
        self._named = tuple([named for _, named in self._pairs.values()])
        return self._named

    def _name_all(
        self, agents: Sequence[Agent], claims: Mapping[Key, ClaimState], given: Mapping[str, GivenName]
    ) -> None:
        before, by_identity = self._pairs, {_identity(agent): agent for agent in agents}
        self._pairs = {}
        for named in name_agents(agents, claims, given):
            identity = _identity(named)
            known = before.get(identity)
            unchanged = known is not None and known[0] is by_identity[identity] and known[1] == named
            self._pairs[identity] = known if known is not None and unchanged else (by_identity[identity], named)


_identity = attrgetter("id", "session")  # a session may have the same id as a process without a session

# The fields of an agent that decide its name and those of others.
_naming_fields = attrgetter("id", "cli", "key", "pid", "starters", "truth.ended", "facts.started_at")


def name_agents(
    agents: Iterable[Agent], claims: Mapping[Key, ClaimState], given: Mapping[str, GivenName] | None = None
) -> tuple[Agent, ...]:
    """Return the agents with their names and their relation to the claim of their worktree.

    The agent of a claim is its process, the session that claimed, the agent with the owner's name, or the one that the
    registry recorded as its agent; else the oldest agent whose program is part of the owner's name, a living one first.
    An agent that works under a person's claim belongs to that person. A claim keeps its agent when the agent ends.
    """
    given = given or {}
    ordered = sorted(agents, key=lambda one: (one.truth.ended, one.facts.started_at or "~", one.id))
    labels = _labels(ordered, given)
    holders = _holders(ordered, claims, labels, given)
    named = []
    for agent in ordered:
        claim = claims.get(agent.key) if agent.key is not None else None
        mine = claim is not None and _identity(agent) in holders.get(claim.key, ())
        label = labels[_identity(agent)]
        relation = _claim_relation(agent, claim, mine)
        one = replace(
            agent,
            name=claim.agent if claim is not None and mine else label,
            label=label,
            claim=relation,
            claimed_by=(claim.agent or None) if claim else None,
            looked_at=agent.looked_at or _is_looked_at(agent, given),
        )
        named.append(one)
    return tuple(named)


def _like(named: Agent, agent: Agent, given: Mapping[str, GivenName]) -> Agent:
    """The agent with the names that it had before."""
    return replace(
        agent,
        name=named.name,
        label=named.label,
        claim=named.claim,
        claimed_by=named.claimed_by,
        looked_at=agent.looked_at or _is_looked_at(agent, given),
    )


def _is_looked_at(agent: Agent, given: Mapping[str, GivenName]) -> bool:
    """Each process dates a death by what it saw of it, so every death before the look is the one that was looked at."""
    at = times.parse(given.get(name_key(agent), NOT_NAMED).looked_at)
    since = times.parse(agent.truth.since)
    return at is not None and since is not None and since <= at


def _labels(agents: Sequence[Agent], given: Mapping[str, GivenName]) -> dict[object, str]:
    """Each agent's own name: the given one, else the program and the end of the session's id, or the pid."""
    labels: dict[object, str] = {}
    taken: set[str] = set()
    for agent in agents:
        name = given.get(name_key(agent), NOT_NAMED).name
        if name is None:
            plain = "".join(char for char in agent.session or "" if char.isascii() and char.isalnum())
            tails = (f"{agent.cli}-{plain[-size:]}" for size in range(_TAIL, len(plain) + 1))
            name = next((one for one in tails if one not in taken), f"{agent.cli}-{plain or agent.pid}")
        labels[_identity(agent)] = name
        taken.add(name)
    return labels


def _holders(
    agents: Sequence[Agent],
    claims: Mapping[Key, ClaimState],
    labels: Mapping[object, str],
    given: Mapping[str, GivenName],
) -> dict[Key, set[object]]:
    """The agents of each claim: all that are bound to it by evidence, else one that fits."""
    found: dict[Key, set[object]] = {}
    held: set[Key] = set()  # by a living agent
    rest: list[tuple[Agent, ClaimState]] = []
    for agent in agents:
        claim = claims.get(agent.key) if agent.key is not None else None
        if claim is not None and _is_bound(agent, claim, labels[_identity(agent)], given):
            found.setdefault(claim.key, set()).add(_identity(agent))
            held |= set() if agent.truth.ended else {claim.key}
        elif claim is not None and agent.cli in claim.agent.lower():
            rest.append((agent, claim))
    for agent, claim in rest:  # living ones come first
        fits = _was_there(agent, claim) and claim.key not in found if agent.truth.ended else claim.key not in held
        if fits:
            found.setdefault(claim.key, set()).add(_identity(agent))
            held |= set() if agent.truth.ended else {claim.key}
    return found


def _is_bound(agent: Agent, claim: ClaimState, label: str, given: Mapping[str, GivenName]) -> bool:
    """Whether there is evidence that the claim is this agent's."""
    if claim.pid is not None and (agent.pid == claim.pid or claim.pid in agent.starters):
        return True
    if agent.session is not None and agent.session in claim.sessions:
        return True
    return claim.agent in (label, given.get(name_key(agent), NOT_NAMED).owner)


def _was_there(agent: Agent, claim: ClaimState) -> bool:
    """Whether the ended agent ran at some time of the claim."""
    until = agent.facts.ended_at or agent.truth.since
    return until is not None and claim.claimed_at is not None and until >= claim.claimed_at


def _claim_relation(agent: Agent, claim: ClaimState | None, mine: bool) -> str | None:
    if agent.key is None or (claim is not None and claim.state == UNKNOWN_CLAIM):
        return None
    if claim is None:
        return "none"
    return "mine" if mine or claim.agent.startswith("human") or claim.state == "dead" else "other"
