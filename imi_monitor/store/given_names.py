"""The name of each observed agent, `claude-1`: given once and kept, so that it never means another agent a moment later.

A name is free again when its session was not seen for a day, its process does not run, and no claim, line, run or description
has it. Functions that write run inside a transaction; several monitors may name the same agents at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.agent_names import GivenName, has_session, name_key
from imi_monitor.model.session_record import stored_id

KEPT = timedelta(hours=24)  # how long a name stays taken after its session was last seen
_SEEN_AGAIN = timedelta(minutes=10)  # how old `seen_at` may be before it is written again
_PER_QUERY = 500


@dataclass(frozen=True, slots=True)
class _NameRow:
    agent: str
    name: str | None
    pid: int | None
    pid_started: str | None
    seen_at: str


def read_names(connection: sqlite3.Connection, here: str, agents: Sequence[Agent]) -> dict[str, GivenName]:
    """The names of those of the agents that have one, by `name_key`."""
    keys = {stored_id(name_key(one)): name_key(one) for one in agents}
    found: dict[str, GivenName] = {}
    for part in _parts(list(keys)):
        rows = connection.execute(
            "SELECT n.agent, n.name, n.looked_at, s.agent_id FROM agent_names AS n LEFT JOIN sessions AS s"
            f" ON s.host = n.host AND s.id = n.agent WHERE n.host = ? AND n.agent IN ({', '.join('?' * len(part))})",
            (here, *part),
        )
        for agent, name, looked_at, owner in rows:
            found[keys[agent]] = GivenName(name, None if owner in (None, agent) else owner, looked_at)
    return found


def give_names(
    connection: sqlite3.Connection, here: str, agents: Sequence[Agent], now: datetime
) -> dict[str, GivenName]:
    """The names of all agents that had one or run now; those without get one, the oldest agent first."""
    rows = {row.agent: row for row in _rows(connection, here)}
    nameless = []
    for one in agents:
        key = stored_id(name_key(one))
        row = rows.get(key)
        if row is not None:
            _refresh(connection, here, row, one, now)
        if row is not None and row.name is not None:
            continue
        if (
            not one.truth.ended
            and one.facts.ended_at is None
            and not _continue_process(connection, here, rows, one, now)
        ):
            nameless.append(one)
    if nameless:
        _name(connection, here, rows, sorted(nameless, key=lambda one: (one.facts.started_at or "~", one.id)), now)
    return read_names(connection, here, agents)


def mark_looked_at(connection: sqlite3.Connection, here: str, *agents: Agent) -> None:
    """A person has looked at the agents' present states: a death or failure needs no more attention."""
    for agent in agents:
        since, now = times.parse(agent.truth.since), times.now()
        if since is None:
            continue
        key = stored_id(name_key(agent))
        _add_row(connection, here, key, None, agent, now)
        connection.execute(
            "UPDATE agent_names SET looked_at = ? WHERE host = ? AND agent = ?",
            (times.stamp(max(since, now)), here, key),
        )


def _rows(connection: sqlite3.Connection, here: str) -> Iterator[_NameRow]:
    rows = connection.execute("SELECT agent, name, pid, pid_started, seen_at FROM agent_names WHERE host = ?", (here,))
    return (_NameRow(*row) for row in rows)


def _refresh(connection: sqlite3.Connection, here: str, row: _NameRow, one: Agent, now: datetime) -> None:
    seen = times.parse(row.seen_at)
    moved = one.pid is not None and (one.pid, one.pid_started) != (row.pid, row.pid_started)
    if moved or seen is None or now - seen > _SEEN_AGAIN:
        connection.execute(
            "UPDATE agent_names SET seen_at = ?, pid = coalesce(?, pid), pid_started = coalesce(?, pid_started)"
            " WHERE host = ? AND agent = ?",
            (times.stamp(now), one.pid, one.pid_started, here, row.agent),
        )


def _continue_process(
    connection: sqlite3.Connection, here: str, rows: dict[str, _NameRow], one: Agent, now: datetime
) -> bool:
    """A process that had a name before its session was found keeps the name."""
    if not has_session(one) or one.pid is None:
        return False
    key = stored_id(name_key(one, process=True))
    row = rows.pop(key, None)
    if row is None:
        return False
    connection.execute(
        "UPDATE agent_names SET agent = ?, seen_at = ? WHERE host = ? AND agent = ?",
        (stored_id(name_key(one)), times.stamp(now), here, key),
    )
    return True


def _name(
    connection: sqlite3.Connection, here: str, rows: dict[str, _NameRow], agents: Iterable[Agent], now: datetime
) -> None:
    kept = {row.name for row in rows.values() if row.name is not None and _is_kept(row, now)}
    taken = kept | _claimed_names(connection, times.stamp(now - KEPT))
    for one in agents:
        number = 1
        while f"{one.cli}-{number}" in taken:
            number += 1
        name = f"{one.cli}-{number}"
        taken.add(name)
        connection.execute("DELETE FROM agent_names WHERE host = ? AND name = ?", (here, name))
        _add_row(connection, here, stored_id(name_key(one)), name, one, now)


def _add_row(connection: sqlite3.Connection, here: str, key: str, name: str | None, one: Agent, now: datetime) -> None:
    at = times.stamp(now)
    connection.execute(
        "INSERT INTO agent_names (host, agent, name, pid, pid_started, given_at, seen_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (host, agent) DO UPDATE SET name = coalesce(excluded.name, name)",
        (here, key, name, one.pid, one.pid_started, at, at),
    )


def _is_kept(row: _NameRow, now: datetime) -> bool:
    seen = times.parse(row.seen_at)
    if seen is not None and now - seen < KEPT:
        return True
    return row.pid is not None and row.pid_started is not None and host.start_time(row.pid) == row.pid_started


def _claimed_names(connection: sqlite3.Connection, since: str) -> set[str]:
    """Names that mean an owner: of a claim or run, in a line, of a task, described by a person, or active within the day."""
    rows = connection.execute(
        "SELECT agent_id FROM claims WHERE agent_id IS NOT NULL UNION SELECT agent_id FROM claim_queue"
        " UNION SELECT agent_id FROM automatic_claims"
        " UNION SELECT agent_id FROM claim_history WHERE released_at IS NULL OR released_at >= ?1"
        " UNION SELECT agent_id FROM runs WHERE ended_at IS NULL OR ended_at >= ?1"
        " UNION SELECT name FROM agents WHERE last_seen_at >= ?1 OR coalesce(emoji, role, team) IS NOT NULL",
        (since,),
    )
    return {str(row[0]) for row in rows}


def _parts(keys: list[str]) -> Iterator[list[str]]:
    return (keys[at : at + _PER_QUERY] for at in range(0, len(keys), _PER_QUERY))
