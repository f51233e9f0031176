"""Trash entries of workspaces outside of git: a contained workspace that was cleaned, a folder of Denker's that was migrated."""

from __future__ import annotations

from imi_monitor.actions.removal import purge
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.runs.contained import workspace_trash
from imi_monitor.store import contained_work, db, events, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context


class FolderEntry:
    """A trash entry of a workspace."""

    paths: tuple[str, ...] = ()  # it is restored whole

    def __init__(self, entry: trash.TrashEntry) -> None:
        self.entry = entry

    @property
    def names(self) -> str:
        """`3 files: run 1b2c3d4e completed`."""
        return f"{workspace_trash.file_count(self.entry)}: {safe(str(self.entry.data.get('why') or '?'), 200)}"

    @property
    def sentence(self) -> str:
        """`the workspace default with 3 files, which was cleaned`."""
        return f"the workspace {safe(self.entry.worktree_name)} with {workspace_trash.file_count(self.entry)}, {self.entry.how}"

    @property
    def restorable(self) -> bool:
        return workspace_trash.is_in_trash(self.entry)

    def refuse_restore(self, context: Context) -> None:
        """Raise if it cannot come back in the present state."""
        workspace_trash.refuse_restore(self.entry)

    def restore(self, context: Context, *, agent: str, recorded: bool = True) -> list[str]:
        """Bring the folder back to its place, with every file."""
        workspace_trash.restore(context.connection, self.entry, agent)
        return []

    def purge(self, context: Context, agent: str, *, recorded: bool = True) -> str:
        """Make the entry unreachable; returns the operation that deletes its files."""
        return db.transact_with_ballast(context.connection, _record_purged, self.entry, agent)


def _record_purged(connection: sqlite3.Connection, entry: trash.TrashEntry, agent: str) -> str:
    if not trash.mark_purged(connection, entry.id):
        raise Refused(f"{safe(entry.worktree_name)} was restored or purged meanwhile", code="trash-gone")
    contained_work.set_state(connection, entry.id, contained_work.PURGED)
    about: dict[str, object] = {"name": entry.worktree_name, "path": entry.path}
    events.record(connection, "workspace.purged", agent_id=agent, data=about)
    return purge.begin_sweep(connection, entry.repo_name, entry.id, entry.worktree_name, entry.trash_path)
