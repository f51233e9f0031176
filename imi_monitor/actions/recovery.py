"""Recovery of interrupted operations, before a command does anything else.

Each kind of operation has a module with `recover(context, operation)`, which completes or reverts it; exactly one process
adopts an operation. This module is imported by every command, so it imports nothing heavy.
"""

from __future__ import annotations

from imi_monitor.actions.removal import grace_period
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import db, operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context

# kind of operation -> the module whose `recover` ends it
MODULES = {
    "create": "imi_monitor.actions.creation.worktree_creation",
    "remove": "imi_monitor.actions.removal.safe_removal",
    "restore": "imi_monitor.actions.removal.restore",
    "purge": "imi_monitor.actions.removal.purge",
    "sweep": "imi_monitor.actions.removal.purge",
    "merge": "imi_monitor.actions.worktree.merge_action",
    "rename": "imi_monitor.actions.worktree.rename_action",
    "start": "imi_monitor.actions.runs.run_worktree",
}

_LAST = "start"  # of a run in a new worktree, whose creation may be unfinished, too


def recover(context: Context) -> list[str]:
    """Complete or revert every abandoned operation of this machine; returns a line about each for the user.

    An operation that fails stays recorded and is tried again by the next command; it never raises.
    """
    lines = [
        line
        for operation in sorted(operations.list_unfinished(context.connection), key=lambda one: one.kind == _LAST)
        if (line := _recover_one(context, operation))
    ]
    try:
        grace_period.record_running_time(context)
    except RegistryError:
        return lines  # a missing record only lengthens the grace period; the command reports the registry's problem
    return lines


def _recover_one(context: Context, operation: operations.Operation) -> str | None:
    if operation.kind not in MODULES or not operation.abandoned:
        return None  # of a newer imi, or its process is alive
    try:
        if not db.transact(context.connection, operations.adopt, operation):
            return None
        module = __import__(MODULES[operation.kind], fromlist=["recover"])
        line: str | None = module.recover(context, operation)
        return line
    except (ImiError, OSError) as error:
        _abandon(context, operation)
        why = error.sentence if isinstance(error, ImiError) else error.strerror or "input or output failed"
        return f"could not recover the interrupted {safe(operation.kind)} of {safe(operation.worktree_name)} yet: {why}"


def _abandon(context: Context, operation: operations.Operation) -> None:
    """Give the operation up again: this process may live for days, and the next attempt must not wait for its end."""
    try:
        db.transact(context.connection, operations.abandon, operation.id)
    except RegistryError:
        return  # then the next attempt waits for this process to end
