"""Emptying the trash: the one act of imi after which something is gone. Listed first, asked for by name, and in two steps.

First the entry is made unreachable at once: its folder gets another name, git forgets the worktree, the row says purged; what
only it knew of commits gets a ref and stays. Then its files are deleted in the background, which a crash only delays.

The background half of a purge: `python -m imi_monitor.actions.removal.purge REGISTRY OPERATION…`.

It only deletes what a purge has put aside, gives way to everybody else, and can die at any time: recovery starts it again.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass

from imi_monitor import host
from imi_monitor.actions.removal import grace_period, restore, trash_folder
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.git import admin_dir as git_admin_dir
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError, Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, operations, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.actions.context import Context


PURGE = "purge"
SWEEP = "sweep"
_SUFFIX = ".purging"


@dataclass(frozen=True, slots=True)
class PurgeCandidate:
    """An entry, and why it must stay although it is old enough or was named (None: it may go)."""

    entry: trash.TrashEntry
    why_not: str | None


@dataclass(frozen=True, slots=True)
class PurgedEntry:
    """An entry that cannot be brought back any more; `operation` is the deletion of its files."""

    entry: trash.TrashEntry
    operation: str
    kept_refs: tuple[str, ...]


def purge_candidates(
    context: Context, entries: list[trash.TrashEntry], *, days: float, named: bool
) -> list[PurgeCandidate]:
    """What a purge would take, and what it would leave though it was asked for. The same answer for dry run and act."""
    due = entries if named else [entry for entry in entries if grace_period.is_over(entry, days)]
    return [PurgeCandidate(entry, _why_not(context, entry, named=named)) for entry in due]


def purge_entry(context: Context, entry: trash.TrashEntry, *, agent: str) -> PurgedEntry:
    """Make one entry unreachable; its files still have to be deleted, by `delete_in_background` or `delete_now`."""
    packed = restore.trashed_worktree(context, entry)
    operation = db.transact(context.connection, _begin, packed, agent)
    try:
        kept = _put_aside(context, packed)
        sweep = db.transact(context.connection, _record_purged, packed, operation, agent, kept)
    except BaseException as error:
        unchanged = os.path.lexists(packed.trash_dir)
        with suppress(ImiError):
            db.transact(context.connection, operations.finish if unchanged else operations.abandon, operation)
        if isinstance(error, OSError):
            raise Refused(f"{safe(packed.name)} could not be purged: {error.strerror}", code="purge-failed") from error
        raise
    return PurgedEntry(entry, sweep, kept)


def delete_in_background(context: Context, purged: list[str]) -> None:
    """Delete the files of these operations in a process of its own that gives way to everybody else."""
    if not purged:
        return
    argv = [sys.executable, "-P", "-m", "imi_monitor.actions.removal.purge", context.database, *purged]
    # It leaves a child behind and returns at once, so that nobody has to wait for it or to bury it.
    with suppress(OSError, subprocess.SubprocessError):  # then the next command's recovery starts it
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
        delete_tree(aside)
    trash_folder.drop_root_if_empty(os.path.dirname(aside))
    db.transact(connection, operations.finish, operation.id)


def _refuse_mounted(folder: str) -> None:
    """Deleting goes through a mount, into what somebody has elsewhere."""
    mounted = host.mounts_inside(folder)
    if mounted:
        raise Refused(f"{safe(mounted[0])} is mounted in what is to be deleted: unmount it first", code="mounted")


def recover(context: Context, operation: operations.Operation) -> str | None:
    """A purge whose process died: not begun, it is forgotten; begun, it is finished."""
    if operation.kind == SWEEP:
        delete_in_background(context, [operation.id])
        return f"goes on deleting {safe(str(operation.data['name']))}, which was purged from the trash"
    entry = trash.get(context.connection, str(operation.data["id"]))
    packed = restore.trashed_worktree(context, entry) if entry is not None and entry.kept else None
    if packed is None or os.path.lexists(packed.trash_dir) or not os.path.lexists(packed.trash_dir + _SUFFIX):
        db.transact(context.connection, operations.finish, operation.id)
        return None if packed is None else f"{safe(packed.name)} is still in the trash: purging it had been interrupted"
    kept = _put_aside(context, packed)
    sweep = db.transact(context.connection, _record_purged, packed, operation.id, str(operation.data["by"]), kept)
    delete_in_background(context, [sweep])
    return f"finished purging {safe(packed.name)}, which had been interrupted"


def _why_not(context: Context, entry: trash.TrashEntry, *, named: bool) -> str | None:
    packed = restore.trashed_worktree(context, entry)
    inside = host.processes_inside(packed.folder)
    if inside:
        pid, command = inside[0]
        return f"{safe(command)} ({pid}) works in it"
    mounted = host.mounts_inside(packed.trash_dir)
    if mounted:
        return f"{safe(mounted[0])} is mounted in it, and would be emptied: unmount it first"
    with suppress(Refused):
        operations.refuse_if_busy(context.connection, entry.repo_name, entry.worktree_name)
        return _protected(packed, named=named)
    return "another act on it is under way"


def _protected(packed: TrashedWorktree, *, named: bool) -> str | None:
    if named:
        return None
    if packed.locked is not None:
        return "it was locked by its user: name it to purge it all the same"
    if not os.path.isdir(packed.common_dir):
        return f"its repository {safe(packed.common_dir)} is not there: name it to purge it all the same"
    return None


def _begin(connection: sqlite3.Connection, packed: TrashedWorktree, agent: str) -> str:
    entry = trash.get(connection, packed.id)
    if entry is None or not entry.kept:
        raise Refused(f"{safe(packed.name)} was brought back or purged meanwhile", code="trash-gone")
    operations.refuse_if_busy(connection, packed.repo_name, packed.name)
    return operations.begin(connection, PURGE, packed.repo_name, packed.name, {"id": packed.id, "by": agent})


def _put_aside(context: Context, packed: TrashedWorktree) -> tuple[str, ...]:
    """Keep its commits, then let folder and git's records disappear; every step can be repeated."""
    aside = packed.trash_dir + _SUFFIX
    ours = os.path.isdir(packed.admin_dir) and packed.is_recorded
    kept = _keep_commits(context, packed) if ours else ()
    if os.path.lexists(packed.trash_dir):
        os.rename(packed.trash_dir, aside)
        git_admin_dir.fsync_folder(os.path.dirname(aside))
    if ours:
        _forget(packed.admin_dir, aside)
    return kept


def _keep_commits(context: Context, packed: TrashedWorktree) -> tuple[str, ...]:
    from imi_monitor.git import update_ref

    git = context.git(layout.repository_at(packed.common_dir)).at(packed.admin_dir, None)
    _, now = layout.read_head(packed.admin_dir, packed.common_dir)
    return tuple(update_ref.keep_commits(git, packed.id, [packed.sha, now]))


def _forget(admin_dir: str, aside: str) -> None:
    """What `git worktree remove` would do with the admin directory, in one step."""
    target = os.path.join(aside, "forgotten")
    try:
        os.makedirs(aside, mode=0o700, exist_ok=True)
        os.rename(admin_dir, target)
    except OSError:  # the trash is on another file system than the repository
        delete_tree(admin_dir)
    git_admin_dir.fsync_folder(os.path.dirname(admin_dir))


def _record_purged(
    connection: sqlite3.Connection, packed: TrashedWorktree, operation: str, agent: str, kept: tuple[str, ...]
) -> str:
    """From here on it cannot be brought back. Gives the operation that stands until its last file is deleted."""
    if not operations.finish(connection, operation) or not trash.mark_purged(connection, packed.id):
        raise RegistryError(f"somebody else brought {safe(packed.name)} back meanwhile", code="registry-changed")
    about: dict[str, object] = {"path": packed.path, "trash_id": packed.id, "kept": list(kept)}
    events.record(connection, "worktree.purged", packed.repo_name, packed.name, agent_id=agent, data=about)
    # under the entry's id, not the worktree's name: a new worktree of that name must not have to wait for the deletion
    data: dict[str, object] = {"name": packed.name, "aside": packed.trash_dir + _SUFFIX}
    return operations.begin(connection, SWEEP, packed.repo_name, packed.id, data)


def delete_tree(path: str) -> None:
    """Delete a folder and all below it, also where folders are read-only; links are deleted, never followed."""
    _open_up(path)
    for folder, names, _ in os.walk(path):
        for name in names:  # before the walk enters it
            _open_up(os.path.join(folder, name))
    shutil.rmtree(path)


def _open_up(folder: str) -> None:
    info = os.lstat(folder)
    if stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) & 0o700 != 0o700:
        os.chmod(folder, 0o700)


def sweep(database: str, wanted: list[str], started: Callable[[], None]) -> None:
    """Delete what these operations have put aside; `started` is called when they are ours."""
    from imi_monitor.store import db, operations

    connection = db.connect(database, create=False)
    try:
        named = [one for one in operations.list_unfinished(connection) if one.id in wanted and one.kind == SWEEP]
        # whoever adopts it deletes it: a recovery may have started another sweeper meanwhile
        mine = [one for one in named if db.transact(connection, operations.adopt, one)]
        started()
        for operation in mine:
            delete_now(connection, operation)
    finally:
        connection.close()


def main(argv: list[str]) -> int:
    """Returns when the child that does the work has made it its own, so that nobody takes it for abandoned."""
    database, *wanted = argv
    ours, theirs = os.pipe()
    if os.fork():  # before anything is opened
        os.close(theirs)
        os.read(ours, 1)  # ends when the child says so, or dies
        return 0
    os.close(ours)
    os.setsid()
    os.nice(19)
    sweep(database, wanted, lambda: os.close(theirs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
