"""What several readers say about one agent, put together: by session, and by process where only that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from imi_monitor.model.agent import Agent, Facts, Happened
from imi_monitor.model.snapshot import Key
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents.base import Sighting

_MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of one agent, and what is new of it."""

    agent: Agent
    news: tuple[Happened, ...]


def join(sightings: Iterable[Sighting]) -> list[Sighting]:
    """One sighting an agent. A process without a session belongs to the session that names its pid, or is one itself."""
    by_session: dict[tuple[str, str], list[Sighting]] = {}
    nameless: list[Sighting] = []
    for one in sightings:
        if one.session is None:
            nameless.append(one)
        else:
            by_session.setdefault((one.cli, one.session), []).append(one)
    merged = [_merge(group) for group in by_session.values()]
    owners: dict[tuple[str, int | None], int] = {
        (one.cli, one.pid): number
        for number, one in enumerate(merged)
        if one.pid is not None and one.alive is not False
    }
    alone: dict[tuple[str, int | None], list[Sighting]] = {}
    for one in nameless:
        number = owners.get((one.cli, one.pid))
        if number is None:
            alone.setdefault((one.cli, one.pid), []).append(one)
        else:
            merged[number] = _merge((merged[number], one))
    return merged + [_merge(group) for group in alone.values()]


def as_agent(one: Sighting, key: Key | None, now: datetime) -> Seen:
    truth = decide(one.evidence, one.alive, now, last_alive=one.last_alive)
    ident = one.session if one.session is not None else f"pid:{one.pid}"
    agent = Agent(
        id=f"{one.cli}:{ident}", cli=one.cli, name=one.cli, key=key, cwd=one.cwd, session=one.session, pid=one.pid,
        pid_started=one.pid_started, truth=truth, facts=one.facts,
        seen_at=max((each.at for each in one.evidence), default=None),
    )  # fmt: skip
    return Seen(agent, one.news)


def _merge(group: Sequence[Sighting]) -> Sighting:
    first, *others = group
    for one in others:
        first = replace(
            first,
            cwd=first.cwd or one.cwd,
            pid=first.pid if first.pid is not None else one.pid,
            pid_started=first.pid_started or one.pid_started,
            alive=_alive(first.alive, one.alive),
            last_alive=first.last_alive or one.last_alive,
            evidence=first.evidence + one.evidence,
            facts=_facts(first.facts, one.facts),
            news=first.news + one.news,
        )
    return first


def _alive(left: bool | None, right: bool | None) -> bool | None:
    """Who proves life is right, whatever another believes to be gone (a session may move to another process)."""
    return True if True in (left, right) else left if left is not None else right


def _facts(left: Facts, right: Facts) -> Facts:
    """The first who knows something is believed; files are added up."""
    values: dict[str, Any] = {}
    for each in fields(Facts):
        mine, other = getattr(left, each.name), getattr(right, each.name)
        values[each.name] = other if mine is None else mine
    values["files"] = tuple(dict.fromkeys(left.files + right.files))[-_MOST_FILES:]
    return Facts(**values)
