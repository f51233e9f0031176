"""The cursors of the sinks: which event each receiver of the log has last, what it refuses, and what it waits for.

A cursor moves only from the place that its relay has read, so that two relays of one sink never skip an event. A commit of a
cursor does not wait for the disk: after a power cut the sink gets some events again, and knows them by their id.
"""

from __future__ import annotations

from imi_monitor.model import times
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from imi_monitor.model.snapshot import SinkState
    from imi_monitor.store.events import Event

_LONGEST_REASON = 300


class SinkCursor(Row):
    """One sink: `backlog` events are behind its cursor, the first of them from `waiting_since`."""

    name: str
    seq: int
    active: bool
    sent_at: str | None
    problem: str | None
    problem_since: str | None
    dropped: int
    backlog: int
    parked: int
    waiting_since: str | None


_STATE = (
    "SELECT s.name, s.seq, s.active, s.sent_at, s.problem, s.problem_since, s.dropped,"
    " max(0, (SELECT coalesce(max(seq), 0) FROM events)"
    " - max(s.seq, (SELECT coalesce(min(seq), 1) - 1 FROM events))),"
    " (SELECT count(*) FROM parked AS p WHERE p.sink = s.name),"
    " (SELECT occurred_at FROM events AS e WHERE e.seq > s.seq ORDER BY e.seq LIMIT 1)"
    " FROM sinks AS s"
)


def list_sinks(connection: sqlite3.Connection) -> list[SinkCursor]:
    """The sinks that are configured, in the order of their names."""
    return [SinkCursor(row) for row in connection.execute(f"{_STATE} WHERE s.active ORDER BY s.name")]


def find(connection: sqlite3.Connection, name: str) -> SinkCursor | None:
    row = connection.execute(f"{_STATE} WHERE s.name = ?", (name,)).fetchone()
    return None if row is None else SinkCursor(row)


def configure(connection: sqlite3.Connection, wanted: Mapping[str, str | None]) -> None:
    """Make these sinks the active ones; inside a transaction.

    A new sink begins with the first event, or with those since the moment given for it. One that is not wanted any more
    keeps its cursor, but nothing waits for it.
    """
    connection.execute(
        f"UPDATE sinks SET active = name IN ({', '.join('?' for _ in wanted)})"
        " , problem = NULL, problem_since = NULL WHERE active <> (name IN "
        f"({', '.join('?' for _ in wanted)}))",
        (*wanted, *wanted),
    )
    for name, since in wanted.items():
        add(connection, name, since)


def add(connection: sqlite3.Connection, name: str, since: str | None) -> None:
    """Make a sink that begins with the first event since that moment (None: of all), if it does not exist."""
    connection.execute("INSERT OR IGNORE INTO sinks (name, seq) VALUES (?, ?)", (name, last_before(connection, since)))


def last_before(connection: sqlite3.Connection, since: str | None) -> int:
    """The last event from before that moment; 0 without a moment."""
    if since is None:
        return 0
    row = connection.execute(
        "SELECT coalesce((SELECT min(seq) - 1 FROM events WHERE occurred_at >= ?), (SELECT max(seq) FROM events), 0)",
        (since,),
    ).fetchone()
    return int(row[0])


def is_configured(connection: sqlite3.Connection, wanted: Iterable[str]) -> bool:
    """Whether exactly these sinks are active."""
    return {row[0] for row in connection.execute("SELECT name FROM sinks WHERE active")} == set(wanted)


def position(connection: sqlite3.Connection, name: str) -> int:
    """The last event that the sink has, as far as it was recorded."""
    row = connection.execute("SELECT seq FROM sinks WHERE name = ?", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def advance(
    connection: sqlite3.Connection, name: str, before: int, after: int, refused: Mapping[int, str] | None = None
) -> bool:
    """Move the cursor and park what the sink refused; False if another relay has moved it meanwhile."""
    moved = connection.execute(
        "UPDATE sinks SET seq = ?, sent_at = ?, problem = NULL, problem_since = NULL WHERE name = ? AND seq = ?",
        (after, times.stamp(), name, before),
    ).rowcount
    if moved:
        for seq, why in (refused or {}).items():
            park(connection, name, seq, why)
    return bool(moved)


def rewind(connection: sqlite3.Connection, name: str, position: int) -> None:
    """The sink has no event behind this number, for example because it lost its data: send them again."""
    connection.execute("UPDATE sinks SET seq = ? WHERE name = ? AND seq > ?", (position, name, position))


def park(connection: sqlite3.Connection, name: str, seq: int, why: str) -> None:
    """Put an event aside that the sink refuses, or count another attempt."""
    connection.execute(
        "INSERT INTO parked (sink, seq, why, tries, tried_at) VALUES (?1, ?2, ?3, 1, ?4) ON CONFLICT (sink, seq)"
        " DO UPDATE SET why = ?3, tries = tries + 1, tried_at = ?4",
        (name, seq, why[:_LONGEST_REASON], times.stamp()),
    )


def unpark(connection: sqlite3.Connection, name: str, seq: int) -> None:
    connection.execute("DELETE FROM parked WHERE sink = ? AND seq = ?", (name, seq))


def list_parked(connection: sqlite3.Connection, name: str, limit: int = 50) -> list[Event]:
    """The parked events of a sink that the log still has, those first that were tried longest ago."""
    from imi_monitor.store.events import Event

    columns = ", ".join(f"e.{column}" for column in Event.columns.split(", "))
    rows = connection.execute(
        f"SELECT {columns} FROM parked AS p JOIN events AS e ON e.seq = p.seq WHERE p.sink = ?"
        " ORDER BY p.tried_at, p.seq LIMIT ?",
        (name, limit),
    )
    return [Event(row) for row in rows]


def why_parked(connection: sqlite3.Connection, name: str) -> list[tuple[int, str, int]]:
    """(event, reason, attempts) of what the sink refuses."""
    rows = connection.execute("SELECT seq, why, tries FROM parked WHERE sink = ? ORDER BY seq", (name,))
    return [(int(seq), str(why), int(tries)) for seq, why, tries in rows]


def set_problem(connection: sqlite3.Connection, name: str, why: str | None) -> None:
    """Record why nothing can be delivered, and since when; None when it works again."""
    if why is None:
        connection.execute(
            "UPDATE sinks SET problem = NULL, problem_since = NULL WHERE name = ? AND problem IS NOT NULL", (name,)
        )
        return
    connection.execute(
        "UPDATE sinks SET problem = ?, problem_since = coalesce(problem_since, ?) WHERE name = ? AND problem IS NOT ?",
        (why[:_LONGEST_REASON], times.stamp(), name, why[:_LONGEST_REASON]),
    )


def floor(connection: sqlite3.Connection) -> int | None:
    """The last event that every configured sink has; None if no sink is configured."""
    found = connection.execute("SELECT min(seq) FROM sinks WHERE active").fetchone()[0]
    return None if found is None else int(found)


def count_dropped(connection: sqlite3.Connection, first: int, last: int) -> None:
    """Count the events from `first` to `last`, which are deleted now, for each sink that does not have them."""
    connection.execute(
        "UPDATE sinks SET dropped = dropped + (SELECT count(*) FROM parked WHERE sink = name AND parked.seq <= ?2)"
        " + max(0, ?2 - max(seq, ?1 - 1)), seq = max(seq, ?2) WHERE active",
        (first, last),
    )
    connection.execute("DELETE FROM parked WHERE seq <= ?", (last,))


def to_model(one: SinkCursor) -> SinkState:
    """Return the sink as a snapshot holds it."""
    from imi_monitor.model.snapshot import SinkState

    return SinkState(
        one.name, one.backlog, one.waiting_since, one.parked, one.dropped, one.sent_at, one.problem, one.problem_since
    )
