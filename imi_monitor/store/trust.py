"""Which repositories the user trusts to run their own configured programs, and what those programs were then."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


def fingerprint_of(connection: sqlite3.Connection, common_dir: str) -> str | None:
    """What was trusted; None when the repository is not trusted on this machine."""
    row = connection.execute(
        "SELECT fingerprint FROM trust WHERE host = ? AND common_dir = ?", (host.hostname(), common_dir)
    ).fetchone()
    return None if row is None else str(row[0])


def put(connection: sqlite3.Connection, common_dir: str, fingerprint: str) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO trust (host, common_dir, fingerprint, trusted_at) VALUES (?, ?, ?, ?)",
        (host.hostname(), common_dir, fingerprint, times.stamp()),
    )


def revoke(connection: sqlite3.Connection, common_dir: str) -> bool:
    """False when it was not trusted."""
    gone = connection.execute("DELETE FROM trust WHERE host = ? AND common_dir = ?", (host.hostname(), common_dir))
    return gone.rowcount == 1
