"""Using trash entries that the registry does not list: list them in it, complete interrupted moves, restore or purge without it.

An adopted entry is an ordinary one afterwards. Its grace period begins anew, because nothing proves what a note says about
the past, and the worktree's epoch never falls behind the noted one.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.actions.removal import purge, restore, trash_folder, trash_note
from imi_monitor.actions.removal.unlisted_entries import INTERRUPTED, UnlistedEntry
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.git import git_admin_dir, layout
from imi_monitor.model import times
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import claims, db, events, operations, trash, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.purge import PurgedEntry
    from imi_monitor.actions.removal.restore import RestoreResult
    from imi_monitor.actions.removal.trash_folder import TrashedWorktree
    from imi_monitor.actions.removal.trash_note import TrashNote


def parts(found: UnlistedEntry) -> tuple[TrashNote, TrashedWorktree]:
    """Note and worktree of a usable entry; Refused with the reason for any other."""
    usable_entry(found, "restored")
    assert found.note is not None and found.trashed is not None
    return found.note, found.trashed


def usable_entry(found: UnlistedEntry, done: str) -> trash.TrashEntry:
    """The entry as its note describes it; Refused ("is not restored") with the reason for one that cannot be used."""
    entry = found.as_entry()
    if entry is None or found.problem is not None:
        raise Refused(
            f"{safe(found.name)} is not {done}: {found.problem}; its files are in {safe(found.folder)}", code="unlisted"
        )
    return entry


def adopt(context: Context, found: UnlistedEntry, *, agent: str) -> trash.TrashEntry:
    """List a removed worktree or discarded files in the registry; returns the entry."""
    if found.files is None:
        return adopt_entry(context, found, agent=agent)
    from imi_monitor.actions.files import file_trash

    return file_trash.adopt(context, usable_entry(found, "listed"))


def purge_entry(context: Context, found: UnlistedEntry, *, agent: str) -> PurgedEntry:
    """Purge an entry that was named: the registry lists it first, if one can be used."""
    if context.registry_problem is not None:
        return purge.purge_unrecorded(context, usable_entry(found, "purged"), agent=agent)
    return purge.purge_entry(context, adopt(context, found, agent=agent), agent=agent)


def adopt_entry(context: Context, found: UnlistedEntry, *, agent: str) -> trash.TrashEntry:
    """List the entry of a worktree in the registry, with the worktree's row and an event; returns the entry."""
    note, trashed = parts(found)
    _remove_left_lock(trashed)
    return db.transact(context.connection, _record_adopted, context, found.repository, note, trashed, agent)


def restore_unrecorded(context: Context, found: UnlistedEntry) -> RestoreResult:
    """Restore the worktree although the registry cannot be used; `imi repair` records it later."""
    _, trashed = parts(found)
    _remove_left_lock(trashed)
    restore.refuse_restore(context, trashed)
    git = context.git(found.repository)
    try:
        return restore.move_into_place(git, trashed)
    except OSError as error:
        raise restore.restore_failed(trashed, error, "run `imi repair`") from error


def complete_move(context: Context, found: UnlistedEntry, *, agent: str) -> str:
    """Finish an interrupted removal or restore whose folder is in its place; returns a line for the user."""
    if found.kind != INTERRUPTED or found.note is None or found.trashed is None:
        raise Refused(f"{safe(found.name)} is not interrupted", code="unlisted")
    trashed = found.trashed
    git = context.git(found.repository)
    _remove_left_lock(trashed)
    marked = git_admin_dir.read_pointer(trashed.admin_dir) in (trashed.pointer, None)
    if marked or git_admin_dir.is_detached_at(trashed.admin_dir, trashed.detach_to):
        restore.move_into_place(git, trashed)
    else:
        trash_folder.restore_git_records(trashed)
        trash_folder.discard_entry(trashed.trash_dir)
    if found.note.state == trash_note.REMOVED and context.registry_problem is None:
        db.transact(context.connection, _record_back, context, found.repository, trashed, agent)
        return f"completed the interrupted restore of {safe(trashed.name)}"
    return f"reverted an interrupted removal: {safe(trashed.name)} is in its old place"


def record_restored(
    connection: sqlite3.Connection, entry: trash.TrashEntry, trashed: TrashedWorktree, agent: str
) -> None:
    """Mark an entry that was restored without the registry; inside a transaction."""
    operations.refuse_if_busy(connection, trashed.repo_name, trashed.name)
    if trash.mark_restored(connection, entry.id):
        restore.record_worktree_back(connection, trashed, agent)


def _remove_left_lock(trashed: TrashedWorktree) -> None:
    """Delete the HEAD.lock of an imi that was killed while it wrote HEAD."""
    git_admin_dir.remove_head_lock(trashed.admin_dir, (f"{trashed.sha}\n", trashed.head), trash_folder.LOCK_PREFIX)


def _record_back(
    connection: sqlite3.Connection,
    context: Context,
    repository: layout.Repository,
    trashed: TrashedWorktree,
    agent: str,
) -> None:
    repo_name = context.register(repository, connection)
    restore.record_worktree_back(connection, replace(trashed, repo_name=repo_name), agent)


def _record_adopted(
    connection: sqlite3.Connection,
    context: Context,
    repository: layout.Repository,
    note: TrashNote,
    noted: TrashedWorktree,
    agent: str,
) -> trash.TrashEntry:
    boot, uptime = host.boot().partition("/")[0], host.uptime()
    trashed = replace(
        noted,
        repo_name=context.register(repository, connection),
        inode=os.lstat(noted.folder).st_ino,
        boot=boot,
        uptime=uptime,
    )
    operations.refuse_if_busy(connection, trashed.repo_name, trashed.name)
    _refuse_listed(connection, trashed)
    _close_row(connection, note, trashed, agent)
    trash.adopt(
        connection,
        trashed.id,
        trashed.repo_name,
        trashed.name,
        path=trashed.path,
        trash_path=trashed.folder,
        at=_removed_at(note),
        by=trashed.agent,
        how=trashed.how,
        data=trashed.data(),
    )
    about: dict[str, object] = {
        "path": trashed.path,
        "branch": trashed.branch,
        "commit": trashed.sha,
        "how": trashed.how,
        "trash_id": trashed.id,
        "removed_by": trashed.agent,
        "claimed_by": note.claim.agent_id if note.claim else None,
    }
    events.record(connection, "worktree.adopted", trashed.repo_name, trashed.name, agent_id=agent, data=about)
    entry = trash.get(connection, trashed.id)
    assert entry is not None
    return entry


def _refuse_listed(connection: sqlite3.Connection, trashed: TrashedWorktree) -> None:
    """Refuse if the registry lists an entry of this id whose folder exists: another process was faster, or it is a copy."""
    entry = trash.get(connection, trashed.id)
    if entry is None or not entry.kept or entry.host != host.hostname():
        return
    if os.path.lexists(str(entry.data.get("trash_dir"))):
        raise Refused(f"{safe(trashed.name)} is listed in the registry already: repeat the command", code="listed")


def _close_row(connection: sqlite3.Connection, note: TrashNote, trashed: TrashedWorktree, agent: str) -> None:
    """Leave row and claim as a removal leaves them: closed and free, with an epoch not below the noted one."""
    key = (trashed.repo_name, trashed.name)
    row = worktrees.get(connection, *key)
    if row is None and note.row is not None:
        worktrees.register(
            connection,
            *key,
            branch=note.row.branch,
            kind=note.row.kind,
            path=trashed.path,
            base_branch=note.row.base_branch,
            pr_number=note.row.pr_number,
        )
        worktrees.close(connection, *key, trashed.how)
    elif row is not None and row.active and os.path.realpath(row.path) == trashed.path:
        claim = claims.current(connection, *key)
        claims.close(connection, *key, epoch=claim.epoch, how="worktree_removed", by=agent)
        worktrees.close(connection, *key, trashed.how)
    claims.raise_epoch(connection, *key, note.epoch)


def _removed_at(note: TrashNote) -> str:
    """The noted time of the removal, or now if that is in the future."""
    noted, now = note.removed_at or note.began_at, times.stamp()
    moment, limit = times.parse(noted), times.parse(now)
    return noted if moment is not None and limit is not None and moment <= limit else now
