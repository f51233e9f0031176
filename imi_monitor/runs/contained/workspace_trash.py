"""The trash of workspaces outside of git: a folder beside the workspaces, and rows in the same table as removed worktrees."""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.model import contained_names
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.model.text import count, safe
from imi_monitor.runs.contained import workspace_place
from imi_monitor.store import contained_work, db, events, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.trash import TrashEntry


def place_of(path: str, ident: str) -> str:
    """Where the folder lies in the trash."""
    return os.path.join(os.path.dirname(path), workspace_place.TRASH, ident)


def move(path: str, place: str) -> None:
    """Move the folder into the trash; OSError if it cannot be moved."""
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    os.rename(path, place)


def record(
    connection: sqlite3.Connection, ident: str, path: str, place: str, *, by: str, how: str, files: int, why: str
) -> None:
    """List a folder that was moved, or is moved next; call it inside of a transaction."""
    there = place if os.path.lexists(place) else path
    data: dict[str, object] = {
        "boot": host.boot().partition("/")[0],
        "uptime": host.uptime(),
        "inode": os.lstat(there).st_ino,
        "files": files,
        "why": why,
    }
    trash.add(
        connection,
        ident,
        contained_names.HOME,
        os.path.basename(path),
        path=path,
        trash_path=place,
        by=by,
        how=how,
        data=data,
    )


def is_in_trash(entry: TrashEntry) -> bool:
    return _is(entry, entry.trash_path)


def file_count(entry: TrashEntry) -> str:
    return count(int(str(entry.data["files"])), "file")


def refuse_restore(entry: TrashEntry) -> None:
    """Refused where the folder is gone, or another one stands in its place."""
    name = safe(entry.worktree_name)
    if _is(entry, entry.path):
        return  # a crash cut off its restore: only the record is missing
    if not is_in_trash(entry):
        raise Refused(f"{name} cannot be restored: {safe(entry.trash_path)} was deleted", code="trash-gone")
    if os.path.lexists(entry.path):
        raise Refused(
            f"a workspace {name} stands there again: clean it first with `imi workspace clean {name}`", code="exists"
        )


def restore(connection: sqlite3.Connection, entry: TrashEntry, agent: str) -> None:
    """Bring the folder back, with every file; a contained workspace begins a new life."""
    os.makedirs(os.path.dirname(entry.path), mode=0o700, exist_ok=True)
    with workspace_place.locked(entry.path):
        known = db.read(connection, trash.get, entry.id)
        if known is None or not known.kept:
            raise Refused(f"{safe(entry.worktree_name)} was restored or purged meanwhile", code="trash-gone")
        refuse_restore(entry)
        if not _is(entry, entry.path):
            os.rename(entry.trash_path, entry.path)
        db.transact(connection, _record_restored, entry, agent)


def _record_restored(connection: sqlite3.Connection, entry: TrashEntry, agent: str) -> None:
    if not trash.mark_restored(connection, entry.id):
        raise RegistryError(f"another imi restored {safe(entry.worktree_name)} meanwhile", code="registry-changed")
    if contained_work.set_state(connection, entry.id, contained_work.RESTORED):
        contained_work.open_life(connection, entry.worktree_name, entry.path)
    about: dict[str, object] = {"name": entry.worktree_name, "path": entry.path}
    events.record(connection, "workspace.restored", agent_id=agent, data=about)


def _is(entry: TrashEntry, path: str) -> bool:
    try:
        return os.lstat(path).st_ino == entry.data["inode"]
    except OSError:
        return False
