"""Merges what several readers report about one agent: by session, and by process where only that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import reduce
from operator import attrgetter, is_
from typing import Any

from imi_monitor.model.agent import NOTHING_KNOWN, Agent, AgentEvent, SessionFacts, Truth
from imi_monitor.model.snapshot import Key
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.foreign_files import MOST_WRITTEN
from imi_monitor.sources.agents.secret_filter import filter_evidence, filter_facts


@dataclass(frozen=True, slots=True)
class SeenAgent:
    """Everything known of one agent, and its events since the last poll."""

    agent: Agent
    events: tuple[AgentEvent, ...]


class SightingMerge:
    """Merges the sightings of one poll. Only groups with another object than before are merged again, and the sightings
    are grouped again only if one of them names another session or process: most of them are those of the last poll.
    """

    def __init__(self) -> None:
        self._sightings: list[Sighting] = []  # of the last poll
        self._groups: dict[object, list[int]] = {}  # by session or process: places in `_sightings`
        self._merged: dict[object, tuple[list[Sighting], Sighting]] = {}  # by session or process: parts, result

    def merge(self, sightings: Iterable[Sighting]) -> list[Sighting]:
        """One sighting per agent, in the order in which the agents were first named."""
        before, self._sightings = self._sightings, list(sightings)
        changed = {
            place for place, pair in enumerate(zip(before, self._sightings, strict=False)) if pair[0] is not pair[1]
        }
        is_other = len(before) != len(self._sightings)
        if is_other or any(_grouping(before[place]) != _grouping(self._sightings[place]) for place in changed):
            self._groups = _group(self._sightings)
            known, self._merged = self._merged, {}
            for name, places in self._groups.items():
                self._merged[name] = self._merge(places, known.get(name))
        elif changed:
            for name, places in self._groups.items():
                if not changed.isdisjoint(places):
                    self._merged[name] = self._merge(places, None)
        return [merged for _, merged in self._merged.values()]

    def _merge(
        self, places: Sequence[int], known: tuple[list[Sighting], Sighting] | None
    ) -> tuple[list[Sighting], Sighting]:
        group = [self._sightings[place] for place in places]
        if known is not None and len(known[0]) == len(group) and all(map(is_, known[0], group)):
            return known
        return group, _merge(group)


_grouping = attrgetter("cli", "session", "pid", "alive")  # what decides to which agent a sighting belongs


def _group(sightings: Sequence[Sighting]) -> dict[object, list[int]]:
    """A process without a session belongs to the living session that names its pid, else it is an agent by itself."""
    groups: dict[object, list[int]] = {}
    only_process: list[int] = []
    for place, one in enumerate(sightings):
        if one.session is None:
            only_process.append(place)
        else:
            groups.setdefault((one.cli, one.session), []).append(place)
    owners = _session_of_process(groups, sightings) if only_process else {}
    for place in only_process:
        one = sightings[place]
        name = owners.get((one.cli, one.pid), (one.cli, None, one.pid))
        groups.setdefault(name, []).append(place)
    return groups


def _session_of_process(
    groups: dict[object, list[int]], sightings: Sequence[Sighting]
) -> dict[tuple[str, int | None], object]:
    """(program, pid) -> the group of the session that the process works on."""
    owners: dict[tuple[str, int | None], object] = {}
    for name, places in groups.items():
        group = [sightings[place] for place in places]
        if _is_alive(group) is not False:  # a server and its screen may both be named
            owners |= {(one.cli, one.pid): name for one in group if one.pid is not None and one.alive is not False}
    return owners


def _is_alive(group: Sequence[Sighting]) -> bool | None:
    """A proof of life wins over a proof of an end: a session may move to another process."""
    known = [one.alive for one in group]
    return True if True in known else next((alive for alive in known if alive is not None), None)


def _merge(group: Sequence[Sighting]) -> Sighting:
    first, *others = group
    if not others:
        return first
    return Sighting(
        first.cli,
        first.session,
        cwd=next((one.cwd for one in group if one.cwd), None),
        pid=next((one.pid for one in group if one.pid is not None), None),
        pid_started=next((one.pid_started for one in group if one.pid_started), None),
        alive=_is_alive(group),
        last_alive=next((one.last_alive for one in group if one.last_alive), None),
        evidence=tuple(each for one in group for each in one.evidence),
        facts=reduce(_merge_facts, (one.facts for one in group)),
        events=tuple(each for one in group for each in one.events),
        suspended=any(one.suspended for one in group),
        process_began=next((one.process_began for one in group if one.process_began), None),
        tied=any(one.tied for one in group),
    )


_FACT_NAMES = tuple(each.name for each in fields(SessionFacts))
_fact_values = attrgetter(*_FACT_NAMES)


def _merge_facts(left: SessionFacts, right: SessionFacts) -> SessionFacts:
    """The first known value of each fact; files are added up."""
    if right == NOTHING_KNOWN or left == right:
        return left
    if left == NOTHING_KNOWN:
        return right
    pairs = zip(_FACT_NAMES, _fact_values(left), _fact_values(right), strict=True)
    values: dict[str, Any] = {name: other if mine is None else mine for name, mine, other in pairs}
    values["files"] = tuple(dict.fromkeys(left.files + right.files))[-MOST_WRITTEN:]
    return SessionFacts(**values)


def as_agent(one: Sighting, key: Key | None, now: datetime, former: Truth | None = None) -> SeenAgent:
    """The agent that a merged sighting describes, its state decided from the evidence, without secrets.

    `former`: its state when its process was last seen alive.
    """
    evidence, began = filter_evidence(one.evidence), one.process_began
    truth = decide(
        evidence, one.alive, now, last_alive=one.last_alive, process_began=began, tied=one.tied, former=former
    )
    ident = one.session if one.session is not None else f"pid:{one.pid}"
    agent = Agent(
        id=f"{one.cli}:{ident}",
        cli=one.cli,
        name=one.cli,
        key=key,
        cwd=one.cwd,
        session=one.session,
        pid=one.pid,
        pid_started=one.pid_started,
        truth=truth,
        facts=filter_facts(one.facts),
        seen_at=max((each.at for each in one.evidence), default=None),
        suspended=one.suspended and not truth.ended,
    )
    return SeenAgent(agent, one.events)


def differs_only_in_events(one: Sighting, other: Sighting) -> bool:
    return _all_but_events(one) == _all_but_events(other)


_all_but_events = attrgetter(*(each.name for each in fields(Sighting) if each.name != "events"))
