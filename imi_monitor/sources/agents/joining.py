"""What several readers say about one agent, put together: by session, and by process where only that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import reduce
from operator import attrgetter
from typing import Any

from imi_monitor.model.agent import NOTHING_KNOWN, Agent, Facts, Happened
from imi_monitor.model.snapshot import Key
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents.base import Sighting

_MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of one agent, and what is new of it."""

    agent: Agent
    news: tuple[Happened, ...]


class Joined:
    """Puts them together, and remembers how: a group that is the same again is the very same sighting again."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[list[Sighting], Sighting]] = {}

    def join(self, sightings: Iterable[Sighting]) -> list[Sighting]:
        """One sighting an agent."""
        before, self._known = self._known, {}
        made = []
        for name, group in _groups(sightings).items():
            known = before.get(name)
            if known is None or known[0] != group or _read_again(group):
                known = group, _merge(group)
            self._known[name] = known
            made.append(known[1])
        return made


def join(sightings: Iterable[Sighting]) -> list[Sighting]:
    """The same for once."""
    return Joined().join(sightings)


def _groups(sightings: Iterable[Sighting]) -> dict[object, list[Sighting]]:
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
        found.setdefault(owners.get((one.cli, one.pid), (one.cli, None, one.pid)), []).append(one)
    return found


def _owners(found: dict[object, list[Sighting]]) -> dict[tuple[str, int | None], object]:
    """Whose each process is."""
    owners: dict[tuple[str, int | None], object] = {}
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


def as_agent(one: Sighting, key: Key | None, now: datetime) -> Seen:
    truth = decide(one.evidence, one.alive, now, last_alive=one.last_alive)
    ident = one.session if one.session is not None else f"pid:{one.pid}"
    agent = Agent(
        id=f"{one.cli}:{ident}", cli=one.cli, name=one.cli, key=key, cwd=one.cwd, session=one.session, pid=one.pid,
        pid_started=one.pid_started, truth=truth, facts=one.facts,
        seen_at=max((each.at for each in one.evidence), default=None), suspended=one.suspended and not truth.ended,
    )  # fmt: skip
    return Seen(agent, one.news)


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


_NAMES = tuple(each.name for each in fields(Facts))
_values = attrgetter(*_NAMES)


def _facts(left: Facts, right: Facts) -> Facts:
    """The first who knows something is believed; files are added up."""
    if right == NOTHING_KNOWN or left == right:
        return left
    if left == NOTHING_KNOWN:
        return right
    pairs = zip(_NAMES, _values(left), _values(right), strict=True)
    values: dict[str, Any] = {name: other if mine is None else mine for name, mine, other in pairs}
    values["files"] = tuple(dict.fromkeys(left.files + right.files))[-_MOST_FILES:]
    return Facts(**values)
