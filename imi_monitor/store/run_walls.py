"""The walls around started agents, for the lists that import no more of runs."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model.agent_walls import NO_WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

LEVEL = "json_extract(launch, '$.sandbox')"  # of a run; NULL: it has no wall
OPEN_HERE = "ended_at IS NULL AND host = ?"


def list_here(connection: sqlite3.Connection, repo_name: str) -> dict[str, str]:
    """The level of the wall of each worktree's newest open run on this machine; NO_WALL of a run without one."""
    rows = connection.execute(
        f"SELECT worktree_name, coalesce({LEVEL}, ?) FROM runs"
        f" WHERE {OPEN_HERE} AND repo_name = ? AND worktree_name IS NOT NULL ORDER BY seq",
        (NO_WALL, host.hostname(), repo_name),
    )
    return dict(rows.fetchall())
