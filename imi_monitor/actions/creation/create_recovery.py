"""After a crash in the middle of a creation: finish it if git came to its end, else take it back. Never under the hands of
a git that is still at work."""

from __future__ import annotations

import os

from imi_monitor.actions.creation import creating, plan, unmaking
from imi_monitor.actions.removals import still_running
from imi_monitor.git import half_made
from imi_monitor.git.layout import repository_at
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import db, operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.plan import Plan
    from imi_monitor.git.run import Git
    from imi_monitor.store.operations import Operation


def recover(context: Context, operation: Operation) -> str | None:
    """Bring it to an end; a line saying how. Refused "busy" while its git, which outlived its imi, is still at work."""
    name = safe(operation.worktree_name)
    common_dir = str(operation.data.get("common_dir"))
    if not os.path.isdir(common_dir):
        db.transact(context.connection, operations.finish, operation.id)
        return f"the creation of {name} was interrupted; its repository is gone, so there was nothing to take back"
    mark = still_running.take(common_dir, operation.id)
    if mark is None:
        raise Refused(f"its git is still at work on {name}", code="busy")
    try:
        return _end(context, operation, plan.read(operation.data, repository_at(common_dir)))
    finally:
        mark.remove()


def _end(context: Context, operation: Operation, made: Plan) -> str:
    git = context.git(made.repository)
    ours = half_made.locked_with(git.common_dir, unmaking.note(operation.id))
    if ours is not None and half_made.complete(git.at(ours, made.path), made.branch, made.sha):
        return _finish(context, git, operation, made, ours)
    there = half_made.at(git.common_dir, made.path) if ours is None else None
    if there is not None and half_made.on_branch(there, made.branch):
        return _finish(context, git, operation, made, there)  # we had come as far as taking the lock off
    kept = unmaking.undo(context, git, made, operation.id)
    db.transact(context.connection, operations.finish, operation.id)
    return "; ".join([f"took back the interrupted creation of {safe(made.name)}", *kept])


def _finish(context: Context, git: Git, operation: Operation, made: Plan, admin_dir: str) -> str:
    warnings = creating.furnish(context, git, made)
    unmaking.unlock(admin_dir, unmaking.note(operation.id))
    db.transact(context.connection, creating.settle, made, operation.repo_name, operation.id)
    return "; ".join([f"finished making {safe(made.name)}, which had been interrupted", *warnings])
