"""What a crash left half done, finished or taken back before the next command does anything else.

Each kind of act knows how to look at the disk; here is only who is asked, and that exactly one process does it.
"""

from __future__ import annotations

from imi_monitor.actions.removal import grace_period
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import db, operations

TYPE_CHECKING = False  # and nothing else heavy at the top: every command comes by here
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context

# kind of operation -> the module of this folder whose `recover(context, operation)` finishes it
MODULES = {
    "create": "imi_monitor.actions.creation.worktree_creation",
    "remove": "imi_monitor.actions.removal.safe_removal",
    "restore": "imi_monitor.actions.removal.restore",
    "purge": "imi_monitor.actions.removal.purge",
    "sweep": "imi_monitor.actions.removal.purge",
    "merge": "imi_monitor.actions.worktree.merge_action",
    "rename": "imi_monitor.actions.worktree.rename_action",
}


def recover(context: Context) -> list[str]:
    """Settle every abandoned operation of this machine; a line about each that a person should know of.

    Never raises for one that cannot be settled: it stays, and is tried again, but must not be in the way of other work.
    """
    lines = [
        line for operation in operations.list_unfinished(context.connection) if (line := _settle(context, operation))
    ]
    try:
        grace_period.record_running_time(context)
    except RegistryError:
        return lines  # not to note it only lengthens a wait; the command itself will say what is wrong
    return lines


def _settle(context: Context, operation: operations.Operation) -> str | None:
    if operation.kind not in MODULES or not operation.abandoned:
        return None  # of a newer imi, or somebody is at it
    try:
        if not db.transact(context.connection, operations.adopt, operation):
            return None
        module = __import__(MODULES[operation.kind], fromlist=["recover"])
        line: str | None = module.recover(context, operation)
        return line
    except (ImiError, OSError) as error:
        _leave(context, operation)
        why = error.sentence if isinstance(error, ImiError) else error.strerror or "input or output failed"
        act = f"{safe(operation.kind)} of {safe(operation.worktree_name)}"
        return f"the interrupted {act} could not be settled yet: {why}"


def _leave(context: Context, operation: operations.Operation) -> None:
    """This process may live on for days: the next attempt shall not wait for its end."""
    try:
        db.transact(context.connection, operations.abandon, operation.id)
    except RegistryError:
        return  # then it waits for this process to end
