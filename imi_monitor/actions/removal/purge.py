"""Purging trash entries: the only action of imi that deletes data, in two steps.

First the entry becomes unreachable: its folder is renamed, git's record of the worktree is removed, the row is marked as
purged, and commits that only this worktree had get a ref. Then a background process at lowest priority deletes the files:
`python -m imi_monitor.actions.removal.purge REGISTRY OPERATION…`. It deletes only renamed folders and may be killed at any
time; recovery starts it again.
"""

from __future__ import annotations

import os
import stat
import sys

from imi_monitor import host
from imi_monitor.actions.removal import grace_period, restore, trash_folder, trash_parts
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import git_admin_dir, layout
from imi_monitor.model.errors import ImiError, Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, operations, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.unlisted_entries import UnlistedEntry


PURGE = "purge"
SWEEP = "sweep"
SUFFIX = ".purging"


@dataclass(frozen=True, slots=True)
class PurgeCandidate:
    """An entry that is old enough or was named, and the reason why it must stay (None: it can be purged).

    `unlisted`: only its note describes it.
    """

    entry: trash.TrashEntry
    why_not: str | None
    unlisted: UnlistedEntry | None = None


@dataclass(frozen=True, slots=True)
class PurgedEntry:
    """A purged entry; `operation` stands until its files are deleted, None: they are."""

    entry: trash.TrashEntry
    operation: str | None
    kept_refs: tuple[str, ...]


def is_due(context: Context, entry: trash.TrashEntry, days: float | None = None) -> bool:
    """The trash policy: True if the entry is older than `days` (default: trash.keep_days)."""
    return grace_period.is_over(entry, context.settings.number("trash.keep_days") if days is None else days)


def purge_candidates(
    context: Context, entries: list[trash.TrashEntry], *, named: bool, days: float | None = None
) -> list[PurgeCandidate]:
    """What a purge takes, and what it leaves although asked for; the same for a dry run and the purge itself."""
    due = entries if named else [entry for entry in entries if is_due(context, entry, days)]
    return [PurgeCandidate(entry, _why_not(context, entry, named=named)) for entry in due]


def purge_entry(context: Context, entry: trash.TrashEntry, *, agent: str) -> PurgedEntry:
    """Make one entry unreachable. Its files are deleted afterwards by `delete_in_background` or `delete_now`.

    The few files of an act on the diff are deleted at once.
    """
    part = trash_parts.part_of(context, entry)
    if part is not None:
        return PurgedEntry(entry, part.purge(context, agent), ())
    trashed = restore.trashed_worktree(context, entry)
    operation = db.transact_with_ballast(context.connection, _begin, trashed, agent)
    try:
        kept = _put_aside(context, trashed)
        sweep = db.transact_with_ballast(context.connection, _record_purged, trashed, operation, agent, kept)
    except BaseException as error:
        unchanged = os.path.lexists(trashed.trash_dir)
        with suppress(ImiError):
            db.transact_with_ballast(
                context.connection, operations.finish if unchanged else operations.abandon, operation
            )
        if isinstance(error, OSError):
            raise Refused(f"{safe(trashed.name)} could not be purged: {error.strerror}", code="purge-failed") from error
        raise
    return PurgedEntry(entry, sweep, kept)


def purge_unrecorded(context: Context, entry: trash.TrashEntry, *, agent: str) -> PurgedEntry:
    """Delete an entry that only its note describes while no registry can be used.

    Killed on the way, it leaves a renamed folder that `imi trash list` shows.
    """
    part = trash_parts.part_of(context, entry)
    if part is not None:
        part.purge(context, agent, recorded=False)
        return PurgedEntry(entry, None, ())
    trashed = restore.trashed_worktree(context, entry)
    aside = trashed.trash_dir + SUFFIX
    try:
        kept = _put_aside(context, trashed)
        _refuse_mounted(aside)
        _delete_tree(aside)
    except OSError as error:
        raise Refused(f"{safe(trashed.name)} could not be purged: {error.strerror}", code="purge-failed") from error
    trash_folder.remove_empty_root(os.path.dirname(aside))
    return PurgedEntry(entry, None, kept)


def delete_in_background(context: Context, purged: list[str]) -> None:
    """Delete the files of these operations in a separate process at lowest priority."""
    if not purged:
        return
    import subprocess  # 4 ms that `imi undo` does not need

    argv = [sys.executable, "-P", "-m", "imi_monitor.actions.removal.purge", context.database, *purged]
    # the process forks and returns at once, so that it leaves no zombie
    with suppress(OSError, subprocess.SubprocessError):  # the next command's recovery starts it again
        subprocess.run(
            argv,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )


def delete_now(connection: sqlite3.Connection, operation: operations.Operation) -> None:
    """Delete the files of one purged entry; can be repeated."""

    aside = str(operation.data["aside"])
    if os.path.lexists(aside):
        _refuse_mounted(aside)
        _delete_tree(aside)
    trash_folder.remove_empty_root(os.path.dirname(aside))
    db.transact_with_ballast(connection, operations.finish, operation.id)


def _refuse_mounted(folder: str) -> None:
    """Refuse a folder with a mount inside: deleting would enter the mounted file system."""
    mounted = host.mounts_inside(folder)
    if mounted:
        raise Refused(f"{safe(mounted[0])} is mounted inside the folder to delete: unmount it first", code="mounted")


def recover(context: Context, operation: operations.Operation) -> str | None:
    """After a crash: complete a purge whose folder was renamed already, drop any other."""
    if operation.kind == SWEEP:
        delete_in_background(context, [operation.id])
        return f"continues to delete {safe(str(operation.data['name']))}, which was purged from the trash"
    entry = trash.get(context.connection, str(operation.data["id"]))
    trashed = restore.trashed_worktree(context, entry) if entry is not None and entry.kept else None
    if trashed is None or os.path.lexists(trashed.trash_dir) or not os.path.lexists(trashed.trash_dir + SUFFIX):
        db.transact_with_ballast(context.connection, operations.finish, operation.id)
        return None if trashed is None else f"{safe(trashed.name)} is still in the trash: its purge was interrupted"
    kept = _put_aside(context, trashed)
    sweep = db.transact_with_ballast(
        context.connection, _record_purged, trashed, operation.id, str(operation.data["by"]), kept
    )
    delete_in_background(context, [sweep])
    return f"completed the interrupted purge of {safe(trashed.name)}"


def _why_not(context: Context, entry: trash.TrashEntry, *, named: bool) -> str | None:
    if entry.kind != "worktree":
        return None
    trashed = restore.trashed_worktree(context, entry)
    inside = host.processes_inside(trashed.folder)
    if inside:
        pid, command = inside[0]
        return f"{safe(command)} ({pid}) runs in it"
    mounted = host.mounts_inside(trashed.trash_dir)
    if mounted:
        return f"{safe(mounted[0])} is mounted in it and would be emptied: unmount it first"
    with suppress(Refused):
        operations.refuse_if_busy(context.connection, entry.repo_name, entry.worktree_name)
        return _protected(trashed, named=named)
    return "another operation on it is in progress"


def _protected(trashed: TrashedWorktree, *, named: bool) -> str | None:
    if named:
        return None
    if trashed.locked is not None:
        return "it was locked by its user: name it to purge it anyway"
    if not os.path.isdir(trashed.common_dir):
        return f"its repository {safe(trashed.common_dir)} does not exist: name it to purge it anyway"
    return None


def _begin(connection: sqlite3.Connection, trashed: TrashedWorktree, agent: str) -> str:
    entry = trash.get(connection, trashed.id)
    if entry is None or not entry.kept:
        raise Refused(f"{safe(trashed.name)} was restored or purged meanwhile", code="trash-gone")
    operations.refuse_if_busy(connection, trashed.repo_name, trashed.name)
    return operations.begin(connection, PURGE, trashed.repo_name, trashed.name, {"id": trashed.id, "by": agent})


def _put_aside(context: Context, trashed: TrashedWorktree) -> tuple[str, ...]:
    """Keep the commits, rename the folder, remove git's record; every step can be repeated."""
    aside = trashed.trash_dir + SUFFIX
    ours = os.path.isdir(trashed.admin_dir) and trashed.is_recorded
    kept = _keep_commits(context, trashed) if ours else ()
    if os.path.lexists(trashed.trash_dir):
        os.rename(trashed.trash_dir, aside)
        git_admin_dir.fsync_folder(os.path.dirname(aside))
    if ours:
        _forget(trashed.admin_dir, aside)
    return kept


def _keep_commits(context: Context, trashed: TrashedWorktree) -> tuple[str, ...]:
    from imi_monitor.git import update_ref

    git = context.git(layout.repository_at(trashed.common_dir)).at(trashed.admin_dir, None)
    _, now = layout.read_head(trashed.admin_dir, trashed.common_dir)
    return tuple(update_ref.keep_commits(git, trashed.id, [trashed.sha, now]))


def _forget(admin_dir: str, aside: str) -> None:
    """Remove git's admin directory of the worktree, with one rename if possible."""
    target = os.path.join(aside, "forgotten")
    try:
        os.makedirs(aside, mode=0o700, exist_ok=True)
        os.rename(admin_dir, target)
    except OSError:  # the trash is on another file system than the repository
        _delete_tree(admin_dir)
    git_admin_dir.fsync_folder(os.path.dirname(admin_dir))


def _record_purged(
    connection: sqlite3.Connection, trashed: TrashedWorktree, operation: str, agent: str, kept: tuple[str, ...]
) -> str:
    """Mark the entry as purged; returns the operation that stands until its last file is deleted."""
    if not operations.finish(connection, operation) or not trash.mark_purged(connection, trashed.id):
        raise RegistryError(f"another imi restored {safe(trashed.name)} meanwhile", code="registry-changed")
    about: dict[str, object] = {"path": trashed.path, "trash_id": trashed.id, "kept": list(kept)}
    events.record(connection, "worktree.purged", trashed.repo_name, trashed.name, agent_id=agent, data=about)
    return begin_sweep(connection, trashed.repo_name, trashed.id, trashed.name, trashed.trash_dir + SUFFIX)


def begin_sweep(connection: sqlite3.Connection, repo_name: str, ident: str, name: str, aside: str) -> str:
    """The operation that stands until the folder of a purged entry is deleted.

    It is recorded under the entry's id: a new worktree of the same name must not wait for the deletion.
    """
    return operations.begin(connection, SWEEP, repo_name, ident, {"name": name, "aside": aside})


def _delete_tree(path: str) -> None:
    """Delete a folder with everything below it, read-only folders included; links are deleted, never followed."""
    _open_up(path)
    for folder, names, _ in os.walk(path):
        for name in names:  # before the walk enters it
            _open_up(os.path.join(folder, name))
    import shutil

    shutil.rmtree(path)


def _open_up(folder: str) -> None:
    info = os.lstat(folder)
    if stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) & 0o700 != 0o700:
        os.chmod(folder, 0o700)


def sweep(database: str, wanted: list[str], started: Callable[[], None]) -> None:
    """Delete the renamed folders of these operations; `started` is called after this process has adopted them."""
    connection = db.connect(database, create=False)
    try:
        named = [one for one in operations.list_unfinished(connection) if one.id in wanted and one.kind == SWEEP]
        # one process adopts each operation: a recovery may have started a second sweeper
        mine = [one for one in named if db.transact_with_ballast(connection, operations.adopt, one)]
        started()
        for operation in mine:
            delete_now(connection, operation)
    finally:
        connection.close()


def main(argv: list[str]) -> None:
    """Fork, and return when the child has adopted its operations, so that no recovery takes them for abandoned."""
    database, *wanted = argv
    ours, theirs = os.pipe()
    if os.fork():  # before anything is opened
        os.close(theirs)
        os.read(ours, 1)  # returns when the child closes its end, or dies
        return
    os.setsid()
    os.nice(19)
    sweep(database, wanted, lambda: os.close(theirs))


if __name__ == "__main__":
    main(sys.argv[1:])
