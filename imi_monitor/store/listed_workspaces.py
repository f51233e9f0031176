"""The workspaces outside of git that are in use: contained ones, and the run folders of agents at work. Reads only."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model.contained_names import HOME, RUNS_HOME
from imi_monitor.model.worktree_table import ListedWorktree
from imi_monitor.store import claims
from imi_monitor.store.run_walls import LEVEL, OPEN_HERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_WORKSPACE = "json_extract(launch, '$.contained.path')"


def list_workspaces(connection: sqlite3.Connection) -> list[ListedWorktree]:
    """Return this machine's workspaces: the contained ones by name, then the run folders, newest first."""
    here = host.hostname()
    contained = connection.execute(
        f"SELECT name, path, (SELECT {LEVEL} FROM runs WHERE {OPEN_HERE} AND {_WORKSPACE} = path ORDER BY seq DESC LIMIT 1)"
        " FROM contained_workspaces WHERE host = ? AND state = 'active' ORDER BY name, path",
        (here, here),
    )
    found = [_listed(connection, HOME, "contained", *row) for row in contained]
    alone = connection.execute(
        f"SELECT substr(id, 1, 8), folder, {LEVEL} FROM runs WHERE {OPEN_HERE} AND worktree_name IS NULL"
        f" AND {_WORKSPACE} IS NULL ORDER BY seq DESC",
        (here,),
    )
    return found + [_listed(connection, RUNS_HOME, "run", *row) for row in alone]


def _listed(
    connection: sqlite3.Connection, repo: str, kind: str, name: str, path: str, wall: str | None
) -> ListedWorktree:
    claim = claims.current(connection, repo, name)
    return ListedWorktree(
        worktree_name=name,
        repo=repo,
        path=path,
        branch=None,
        type=kind,
        agent_id=claim.agent_id,
        claim_state=claims.state(claim),
        wall=wall,
    )
