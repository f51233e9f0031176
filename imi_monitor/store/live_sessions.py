"""The recorded sessions whose agents still run, by worktree: what `imi status --json` shows without reading agents' files.

A dashboard or `imi watch` records sessions once a minute at least. A session that was not seen lately has an unknown state.
"""

from __future__ import annotations

from datetime import timedelta

from imi_monitor import host
from imi_monitor.model import session_status, times
from imi_monitor.model.agent import RESTING, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

_SILENT = timedelta(minutes=3)  # three missed updates


def list_living(
    connection: sqlite3.Connection, here: str, now: datetime
) -> tuple[dict[tuple[str, str], list[dict[str, object]]], bool]:
    """(the agents of each repository and worktree, whether a monitor records sessions now)."""
    rows = connection.execute(
        "SELECT s.repo_name, s.worktree_name, s.id, s.cli, nullif(s.agent_id, s.id), n.name, s.status, s.lost, s.status_at,"
        " s.boot, s.pid, s.pid_started, s.seen_at FROM sessions AS s LEFT JOIN agent_names AS n ON n.host = s.host"
        " AND n.agent = s.id WHERE s.host = ? AND s.ended_at IS NULL AND s.worktree_name IS NOT NULL ORDER BY s.seq",
        (here,),
    )
    found: dict[tuple[str, str], list[dict[str, object]]] = {}
    for repo, worktree, ident, cli, owner, name, status, lost, since, boot, pid, started, seen_at in rows:
        alive, recent = host.is_alive(here, boot, pid, started), _is_recent(seen_at, now)
        if alive is False or (alive is None and not recent):
            continue
        lost = lost or (None if recent or status in RESTING else UNKNOWN)
        found.setdefault((repo, worktree), []).append(
            {
                "name": owner or name or cli,
                "cli": cli,
                "state": session_status.displayed_status(status, lost),
                "since": since,
                "session": ident,
                "pid": pid,
                "seen_at": seen_at,
            }
        )
    last = connection.execute("SELECT max(seen_at) FROM sessions WHERE host = ?", (here,)).fetchone()[0]
    return found, _is_recent(last, now)


def _is_recent(at: str | None, now: datetime) -> bool:
    seen = times.parse(at)
    return seen is not None and now - seen < _SILENT
