"""Workspaces outside of git as targets of claims: a contained one by its name, a run folder by its run."""

from __future__ import annotations

import os

from imi_monitor.git.layout import Repository
from imi_monitor.model import contained_names
from imi_monitor.roster import Target
from imi_monitor.runs.contained import workspace_end
from imi_monitor.store import contained_work, db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context


def find(context: Context, name: str) -> Target | None:
    """The workspace that a name or the beginning of a run's id means; None if there is none, or several."""
    lives = db.read(context.connection, contained_work.list_lives, contained_work.ACTIVE)
    paths = {life.path for life in lives if life.name == name}
    if len(paths) == 1:
        return _target(contained_names.HOME, name, paths.pop())
    found = [row for row in db.read(context.connection, runs.find_by_prefix, name) if row.worktree_name is None]
    if len(found) != 1:
        return None
    path = workspace_end.workspace_of(found[0])
    if path is not None:
        return _target(contained_names.HOME, os.path.basename(path), path)
    return _target(contained_names.RUNS_HOME, found[0].short, found[0].folder)


def _target(home: str, name: str, path: str) -> Target:
    return Target(Repository(path, None, False), home, name, path, None, None, False)
