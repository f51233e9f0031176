"""What several readers say about one agent, put together: by session, and by process where only that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import reduce
from operator import attrgetter
from typing import Any

from imi_monitor.model.agent import NOTHING_KNOWN, Agent, AgentEvent, SessionFacts
from imi_monitor.model.snapshot import Key
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents.agent_reader import Sighting

Owners = dict[tuple[str, int | None], object]  # (program, pid) -> the group of the session that it works on

_MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class SeenAgent:
    """All that is known of one agent, and what is new of it."""

    agent: Agent
    news: tuple[AgentEvent, ...]


class SightingMerge:
    """Puts them together, and remembers how: only groups of which somebody says something else are put together anew."""

    def __init__(self) -> None:
        self._parts: tuple[Sequence[Sighting], ...] = ()
        self._groups: dict[object, list[Sighting]] = {}
        self._owners: Owners = {}
        self._merged: dict[object, Sighting] = {}
        self._all: list[Sighting] = []

    def join(self, *parts: Sequence[Sighting]) -> list[Sighting]:
        """One sighting an agent; the very same list while all say the same. Each part is what one reader says."""
        moved = _moved(self._parts, parts)
        self._parts = parts
        if moved is None:
            self._anew([one for part in parts for one in part])
        elif moved:
            self._again(moved)
        return self._all

    def _anew(self, sightings: Iterable[Sighting]) -> None:
        before, merged = self._groups, self._merged
        self._groups, self._owners = _groups(sightings)
        self._merged = {
            name: merged[name] if before.get(name) == group and not _read_again(group) else _merge(group)
            for name, group in self._groups.items()
        }
        self._all = list(self._merged.values())

    def _again(self, moved: Iterable[tuple[Sighting, Sighting]]) -> None:
        """Who is whose stays as it is."""
        names = set()
        for before, now in moved:
            name = _name(now, self._owners)
            group = self._groups[name]
            group[next(place for place, one in enumerate(group) if one is before)] = now
            if before != now or _read_again((now,)):
                names.add(name)
        for name in names:
            self._merged[name] = _merge(self._groups[name])
        if names:
            self._all = list(self._merged.values())


def join(sightings: Sequence[Sighting]) -> list[Sighting]:
    """The same for once."""
    return SightingMerge().join(sightings)


def _moved(
    before: Sequence[Sequence[Sighting]], now: Sequence[Sequence[Sighting]]
) -> list[tuple[Sighting, Sighting]] | None:
    """Whose word was replaced by which; None when others are there than before, or it may be others' now."""
    if list(map(len, before)) != list(map(len, now)):
        return None
    found = []
    for old, new in zip(before, now, strict=True):
        if old is not new:
            found += [(one, other) for one, other in zip(old, new, strict=True) if one is not other]
    return found if all(_who(one) == _who(other) for one, other in found) else None


_who = attrgetter("cli", "session", "pid", "alive")  # all that decides which words are about the same agent


def _name(one: Sighting, owners: Owners) -> object:
    if one.session is not None:
        return one.cli, one.session
    return owners.get((one.cli, one.pid), (one.cli, None, one.pid))


def _groups(sightings: Iterable[Sighting]) -> tuple[dict[object, list[Sighting]], Owners]:
    """A process without a session belongs to the session that names its pid and lives, or is an agent by itself."""
    found: dict[object, list[Sighting]] = {}
    nameless: list[Sighting] = []
    for one in sightings:
        if one.session is None:
            nameless.append(one)
        else:
            found.setdefault((one.cli, one.session), []).append(one)
    owners = _owners(found) if nameless else {}
    for one in nameless:
        found.setdefault(_name(one, owners), []).append(one)
    return found, owners


def _owners(found: dict[object, list[Sighting]]) -> Owners:
    """Whose each process is."""
    owners: Owners = {}
    for name, group in found.items():
        pid = next((one.pid for one in group if one.pid is not None), None)
        if pid is not None and _life(group) is not False:
            owners[group[0].cli, pid] = name
    return owners


def _read_again(group: Sequence[Sighting]) -> bool:
    """Whether it tells when it was read: two that say the same are equal, but the later one says that it is so still."""
    return any(each.read_at is not None for one in group for each in one.evidence)


def _life(group: Sequence[Sighting]) -> bool | None:
    """Who proves life is right, whatever another believes to be gone (a session may move to another process)."""
    told = [one.alive for one in group]
    return True if True in told else next((alive for alive in told if alive is not None), None)


def as_agent(one: Sighting, key: Key | None, now: datetime) -> SeenAgent:
    truth = decide(one.evidence, one.alive, now, last_alive=one.last_alive)
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
        facts=one.facts,
        seen_at=max((each.at for each in one.evidence), default=None),
        suspended=one.suspended and not truth.ended,
    )
    return SeenAgent(agent, one.news)


def says_the_same(one: Sighting, other: Sighting) -> bool:
    """But for what is new."""
    return _all_but_news(one) == _all_but_news(other)


_all_but_news = attrgetter(*(each.name for each in fields(Sighting) if each.name != "news"))


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
        alive=_life(group),
        last_alive=next((one.last_alive for one in group if one.last_alive), None),
        evidence=tuple(each for one in group for each in one.evidence),
        facts=reduce(_facts, (one.facts for one in group)),
        news=tuple(each for one in group for each in one.news),
        suspended=any(one.suspended for one in group),
    )


_NAMES = tuple(each.name for each in fields(SessionFacts))
_values = attrgetter(*_NAMES)


def _facts(left: SessionFacts, right: SessionFacts) -> SessionFacts:
    """The first who knows something is believed; files are added up."""
    if right == NOTHING_KNOWN or left == right:
        return left
    if left == NOTHING_KNOWN:
        return right
    pairs = zip(_NAMES, _values(left), _values(right), strict=True)
    values: dict[str, Any] = {name: other if mine is None else mine for name, mine, other in pairs}
    values["files"] = tuple(dict.fromkeys(left.files + right.files))[-_MOST_FILES:]
    return SessionFacts(**values)
