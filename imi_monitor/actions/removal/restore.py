"""Restoring a worktree from the trash to its old place: folder, git's records, branch, row.

HEAD depends on the branch. If the branch still points at the old commit, HEAD is restored byte for byte; if it was deleted,
it is recreated at that commit. If it has moved or is checked out elsewhere, HEAD stays detached at the old commit: on the
new one, git would show the old files as a change that reverts all commits since.
"""

from __future__ import annotations

import os

from imi_monitor.actions.removal import trash_folder
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import git_admin_dir, layout
from imi_monitor.git.lock_files import lock_advice
from imi_monitor.model.errors import ImiError, Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, operations, repositories, trash, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.git.runner import Git

RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The restored worktree. `detached` is the reason why HEAD is not on the branch, None if it is."""

    trashed: TrashedWorktree
    branch_recreated: bool
    detached: str | None


def restore_worktree(context: Context, entry: trash.TrashEntry, *, agent: str) -> RestoreResult:
    """Restore the worktree, or refuse and leave it in the trash."""
    trashed = trashed_worktree(context, entry)
    refuse_restore(context, trashed)
    operation = db.transact(context.connection, _begin, trashed, agent)
    git = context.git(layout.repository_at(trashed.common_dir))
    lent = db.lend_ballast(context.connection, trashed.common_dir)
    try:
        result = move_into_place(git, trashed)
        db.transact_with_ballast(context.connection, _record_restored, trashed, operation, agent)
    except BaseException as error:
        _after_failure(context, trashed, operation)
        if isinstance(error, OSError):
            raise restore_failed(trashed, error) from error
        raise
    finally:
        db.take_back_ballast(context.connection, lent)
    return result


def move_into_place(git: Git, trashed: TrashedWorktree) -> RestoreResult:
    """Restore folder, branch and git's records, and delete the entry; can be repeated after a crash."""
    recreated, why, head = _prepare_branch(git, trashed)
    trash_folder.move_back(trashed, git, head=head)
    trash_folder.discard_entry(trashed.trash_dir)
    return RestoreResult(trashed, recreated, why)


def is_in_place(trashed: TrashedWorktree) -> bool:
    """True if the removed folder is back at its old place, and git's record with it."""
    return (
        not trashed.in_trash
        and trash_folder.is_folder(trashed.path, trashed.inode)
        and layout.points_back(trashed.admin_dir, trashed.path)
        and not git_admin_dir.is_locked_by(trashed.admin_dir, trash_folder.LOCK_PREFIX)
    )


def trashed_worktree(context: Context, entry: trash.TrashEntry) -> TrashedWorktree:
    """The worktree of a trash entry, with the paths its repository has now."""
    trashed = TrashedWorktree.of(entry.data)
    now = repositories.list_common_dirs(context.connection).get(trashed.repo_name, trashed.common_dir)
    return trashed if os.path.isdir(trashed.common_dir) else trashed.under(now)


def refuse_restore(context: Context, trashed: TrashedWorktree) -> None:
    """Raise if the worktree cannot be restored in the current state."""
    shown = safe(trashed.name)
    if not os.path.isdir(trashed.common_dir):
        raise Refused(
            f"{shown} cannot be restored: its repository {safe(trashed.common_dir)} does not exist",
            code="repository-gone",
        )
    if not trashed.in_trash:
        raise Refused(f"{shown} is not in the trash any more: {safe(trashed.folder)} was deleted", code="trash-gone")
    trash_folder.refuse_exchanged(trashed)
    trash_folder.refuse_recordless(trashed)
    if os.path.lexists(trashed.path):
        raise Refused(f"{safe(trashed.path)} exists: move or remove it, then `imi undo {trashed.id}`", code="exists")
    held = os.path.join(trashed.admin_dir, "HEAD.lock")
    if os.path.lexists(held):
        raise Refused(f"{shown} stays in the trash: {lock_advice(held)}", code="git-busy")
    row = worktrees.get(context.connection, trashed.repo_name, trashed.name)
    if row is not None and row.active and os.path.lexists(row.path):
        raise Refused(
            f"another worktree {shown} exists at {safe(row.path)}: rename or remove it, then `imi undo {trashed.id}`",
            code="exists",
        )


def recover(context: Context, operation: operations.Operation) -> str | None:
    """After a crash: complete the restore if the folder has left the trash, else leave the worktree there."""
    entry = trash.get(context.connection, str(operation.data["id"]))
    if entry is None or not entry.kept:
        db.transact_with_ballast(context.connection, operations.finish, operation.id)
        return None
    trashed = trashed_worktree(context, entry)
    git_admin_dir.remove_head_lock(trashed.admin_dir, (f"{trashed.sha}\n", trashed.head), trash_folder.LOCK_PREFIX)
    if trashed.in_trash or not trash_folder.is_folder(trashed.path, trashed.inode):
        db.transact_with_ballast(context.connection, operations.finish, operation.id)
        still = "is still in the trash" if trashed.in_trash else f"is neither in the trash nor at {safe(trashed.path)}"
        return f"{safe(trashed.name)} {still}: its restore was interrupted"
    git = context.git(layout.repository_at(trashed.common_dir))
    result = move_into_place(git, trashed)
    db.transact_with_ballast(context.connection, _record_restored, trashed, operation.id, str(operation.data["by"]))
    on = f", with HEAD detached: {result.detached}" if result.detached else ""
    return f"completed the interrupted restore of {safe(trashed.name)}{on}"


def _begin(connection: sqlite3.Connection, trashed: TrashedWorktree, agent: str) -> str:
    entry = trash.get(connection, trashed.id)
    if entry is None or not entry.kept:
        raise Refused(f"{safe(trashed.name)} was restored or purged meanwhile", code="trash-gone")
    operations.refuse_if_busy(connection, trashed.repo_name, trashed.name)
    return operations.begin(connection, RESTORE, trashed.repo_name, trashed.name, {"id": trashed.id, "by": agent})


def _prepare_branch(git: Git, trashed: TrashedWorktree) -> tuple[bool, str | None, str]:
    """Recreate a deleted branch: (branch was recreated, why HEAD cannot be on it, content for HEAD)."""
    from imi_monitor.git import update_ref

    gone, why = branch_state(git, trashed)
    if gone and trashed.branch is not None and trashed.sha is not None:
        try:
            update_ref.create_branch(git, trashed.branch, trashed.sha)
        except ImiError as error:
            gone, why = False, _cannot(trashed.branch, error)
    return gone, why, trashed.head if why is None else f"{trashed.sha}\n"


def branch_state(git: Git, trashed: TrashedWorktree) -> tuple[bool, str | None]:
    """(branch was deleted and must be recreated, why HEAD cannot be on it)."""
    from imi_monitor.git import refs
    from imi_monitor.git.worktree_list import worktrees_using_branch

    if trashed.branch is None or trashed.sha is None:
        return False, None
    shown = safe(trashed.branch)
    try:
        now = refs.branch_sha(git, trashed.branch)
        if now is None:
            return True, None
        users = [
            path for path in worktrees_using_branch(git, trashed.branch) if path not in (trashed.path, trashed.folder)
        ]
    except ImiError as error:
        return False, _cannot(trashed.branch, error)
    if users:
        return False, f"branch {shown} is checked out in {safe(users[0])} now"
    if now != trashed.sha:
        return False, f"branch {shown} has moved on from {trashed.sha[:10]} to {now[:10]}"
    return False, None


def _cannot(branch: str, error: ImiError) -> str:
    return f"branch {safe(branch)} cannot be restored ({error.sentence})"


def _record_restored(connection: sqlite3.Connection, trashed: TrashedWorktree, operation: str, agent: str) -> None:
    if not operations.finish(connection, operation) or not trash.mark_restored(connection, trashed.id):
        raise RegistryError(f"another imi restored {safe(trashed.name)} meanwhile", code="registry-changed")
    record_worktree_back(connection, trashed, agent)


def record_worktree_back(connection: sqlite3.Connection, trashed: TrashedWorktree, agent: str) -> None:
    """Reopen the worktree's row, if it has one, and record the event; inside a transaction."""
    worktrees.reopen(connection, trashed.repo_name, trashed.name, trashed.path)
    about: dict[str, object] = {"path": trashed.path, "branch": trashed.branch, "trash_id": trashed.id}
    events.record(connection, "worktree.restored", trashed.repo_name, trashed.name, agent_id=agent, data=about)


def restore_failed(trashed: TrashedWorktree, error: OSError, advice: str = "run any imi command") -> Refused:
    if trashed.in_trash:
        sentence = f"{safe(trashed.name)} could not be moved back ({error.strerror}): it is still in the trash"
    else:
        sentence = f"{safe(trashed.name)} is back, but the restore is incomplete ({error.strerror}): {advice}"
    return Refused(sentence, code="move-failed")


def _after_failure(context: Context, trashed: TrashedWorktree, operation: str) -> None:
    """End the intent if the worktree is still in the trash, else leave it for the next command's recovery."""
    end = operations.finish if trashed.in_trash else operations.abandon
    with suppress(ImiError):
        db.transact_with_ballast(context.connection, end, operation)
