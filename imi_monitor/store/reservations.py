"""What this registry knows of reservations: the highest epoch of each name, and until when its own ones are certain."""

from __future__ import annotations

from imi_monitor import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


def highest_epoch(connection: sqlite3.Connection, kind: str, name: str) -> int:
    row = connection.execute("SELECT epoch FROM reservations WHERE kind = ? AND name = ?", (kind, name)).fetchone()
    return 0 if row is None else int(row[0])


def record(
    connection: sqlite3.Connection, kind: str, name: str, epoch: int, agent: str | None, good_until: float | None
) -> None:
    """Record what was seen; an epoch never sinks. `agent` None: it is another home's, or released."""
    connection.execute(
        "INSERT INTO reservations (kind, name, epoch, agent_id, good_until, boot) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (kind, name) DO UPDATE SET epoch = max(epoch, excluded.epoch), agent_id = excluded.agent_id,"
        " good_until = excluded.good_until,"
        " boot = excluded.boot",
        (kind, name, epoch, agent, good_until, host.boot().partition("/")[0]),
    )
