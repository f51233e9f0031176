"""Bringing a worktree back from the trash to where it was: folder, git's records, branch, row.

The branch decides what its HEAD says. Where the branch is as it was, HEAD comes back byte for byte; where it is gone, it is
made again at the commit it had; where it has moved on or is checked out elsewhere, HEAD stays detached at the old commit,
for on the new one the files would look like a change that takes back everybody's work since.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from imi_monitor.actions.removal import trash_folder
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.git import admin_dir, layout
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
    """A worktree that is back. `detached` says why it is not on its branch, if it is not."""

    trash_id: str
    repo_name: str
    worktree_name: str
    path: str
    branch: str | None
    branch_made_again: bool
    detached: str | None


def restore_worktree(context: Context, entry: trash.TrashEntry, *, agent: str) -> RestoreResult:
    """Bring it back, or refuse and leave it in the trash."""
    packed = trashed_worktree(context, entry)
    refuse_restore(context, packed)
    operation = db.transact(context.connection, _begin, packed, agent)
    git = context.git(layout.repository_at(packed.common_dir))
    try:
        made, why, head = _prepare_branch(git, packed)
        trash_folder.move_back(packed, git, head=head)
        trash_folder.discard_entry(packed.trash_dir)
        db.transact(context.connection, _record_restored, packed, operation, agent)
    except BaseException as error:
        _after_failure(context, packed, operation)
        if isinstance(error, OSError):
            raise _restore_failed(packed, error) from error
        raise
    if not layout.points_back(packed.admin_dir, packed.path):
        raise Refused(
            f"{safe(packed.path)} came back, but git does not know it: run `imi repair`", code="restore-broken"
        )
    branch = packed.branch if why is None else None
    return RestoreResult(packed.id, packed.repo_name, packed.name, packed.path, branch, made, why)


def trashed_worktree(context: Context, entry: trash.TrashEntry) -> TrashedWorktree:
    """What lies in the trash, where its repository is today."""
    packed = TrashedWorktree.of(entry.data)
    now = repositories.list_common_dirs(context.connection).get(packed.repo_name, packed.common_dir)
    return packed if os.path.isdir(packed.common_dir) else packed.under(now)


def refuse_restore(context: Context, packed: TrashedWorktree) -> None:
    """Raise if it cannot come back as things are."""
    shown = safe(packed.name)
    if not os.path.isdir(packed.common_dir):
        raise Refused(
            f"{shown} has no repository to come back to: {safe(packed.common_dir)} is gone", code="repository-gone"
        )
    if not packed.in_trash:
        raise Refused(
            f"{shown} is not in the trash any more: somebody deleted {safe(packed.folder)}", code="trash-gone"
        )
    if os.path.lexists(packed.path):
        raise Refused(
            f"there is something at {safe(packed.path)} now: move or remove it, then `imi undo {packed.id}`",
            code="exists",
        )
    held = os.path.join(packed.admin_dir, "HEAD.lock")
    if os.path.lexists(held):
        raise Refused(f"{shown} stays in the trash: {lock_advice(held)}", code="git-busy")
    row = worktrees.get(context.connection, packed.repo_name, packed.name)
    if row is not None and row.active and os.path.lexists(row.path):
        raise Refused(
            f"there is another {shown} now, at {safe(row.path)}: rename or remove it, then `imi undo {packed.id}`",
            code="exists",
        )


def recover(context: Context, operation: operations.Operation) -> str | None:
    """A restoration whose process died: finished if the folder had left the trash, else it simply stays there."""
    entry = trash.get(context.connection, str(operation.data["id"]))
    if entry is None or not entry.kept:
        db.transact(context.connection, operations.finish, operation.id)
        return None
    packed = trashed_worktree(context, entry)
    admin_dir.remove_head_lock(packed.admin_dir, (f"{packed.sha}\n", packed.head), trash_folder.LOCK_PREFIX)
    if packed.in_trash or not os.path.isdir(packed.path):
        db.transact(context.connection, operations.finish, operation.id)
        return f"{safe(packed.name)} is still in the trash: bringing it back had been interrupted"
    git = context.git(layout.repository_at(packed.common_dir))
    _, why, head = _prepare_branch(git, packed)
    trash_folder.move_back(packed, git, head=head)
    trash_folder.discard_entry(packed.trash_dir)
    db.transact(context.connection, _record_restored, packed, operation.id, str(operation.data["by"]))
    on = f", with HEAD detached: {why}" if why else ""
    return f"finished bringing back {safe(packed.name)}, which had been interrupted{on}"


def _begin(connection: sqlite3.Connection, packed: TrashedWorktree, agent: str) -> str:
    entry = trash.get(connection, packed.id)
    if entry is None or not entry.kept:
        raise Refused(f"{safe(packed.name)} was brought back or purged meanwhile", code="trash-gone")
    operations.refuse_if_busy(connection, packed.repo_name, packed.name)
    return operations.begin(connection, RESTORE, packed.repo_name, packed.name, {"id": packed.id, "by": agent})


def _prepare_branch(git: Git, packed: TrashedWorktree) -> tuple[bool, str | None, str]:
    """(whether the branch was made again, why HEAD cannot be on it, what HEAD shall say)."""
    from imi_monitor.git import update_ref

    gone, why = branch_state(git, packed)
    if gone and packed.branch is not None and packed.sha is not None:
        try:
            update_ref.create_branch(git, packed.branch, packed.sha)
        except ImiError as error:
            gone, why = False, _cannot(packed.branch, error)
    return gone, why, packed.head if why is None else f"{packed.sha}\n"


def branch_state(git: Git, packed: TrashedWorktree) -> tuple[bool, str | None]:
    """(whether the branch is gone and has to be made again, why HEAD cannot be on it)."""
    from imi_monitor.git import refs
    from imi_monitor.git.worktree_list import worktrees_using_branch

    if packed.branch is None or packed.sha is None:
        return False, None
    shown = safe(packed.branch)
    try:
        now = refs.branch_sha(git, packed.branch)
        if now is None:
            return True, None
        users = [
            path for path in worktrees_using_branch(git, packed.branch) if path not in (packed.path, packed.folder)
        ]
    except ImiError as error:
        return False, _cannot(packed.branch, error)
    if users:
        return False, f"branch {shown} is checked out in {safe(users[0])} now"
    if now != packed.sha:
        return False, f"branch {shown} has moved on from {packed.sha[:10]} to {now[:10]}"
    return False, None


def _cannot(branch: str, error: ImiError) -> str:
    return f"branch {safe(branch)} cannot be had back ({error.sentence})"


def _record_restored(connection: sqlite3.Connection, packed: TrashedWorktree, operation: str, agent: str) -> None:
    if not operations.finish(connection, operation) or not trash.mark_restored(connection, packed.id):
        raise RegistryError(f"somebody else brought {safe(packed.name)} back meanwhile", code="registry-changed")
    if worktrees.get(connection, packed.repo_name, packed.name) is not None:
        worktrees.reopen(connection, packed.repo_name, packed.name, packed.path)
    about: dict[str, object] = {"path": packed.path, "branch": packed.branch, "trash_id": packed.id}
    events.record(connection, "worktree.restored", packed.repo_name, packed.name, agent_id=agent, data=about)


def _restore_failed(packed: TrashedWorktree, error: OSError) -> Refused:
    if packed.in_trash:
        sentence = f"{safe(packed.name)} could not be moved back ({error.strerror}): it is still in the trash"
    else:
        sentence = (
            f"{safe(packed.name)} is back, but not all was done ({error.strerror}): the next imi command finishes it"
        )
    return Refused(sentence, code="move-failed")


def _after_failure(context: Context, packed: TrashedWorktree, operation: str) -> None:
    """Still in the trash: nothing happened. On its way out: the next command finishes it."""
    act = operations.finish if packed.in_trash else operations.abandon
    with suppress(ImiError):
        db.transact(context.connection, act, operation)
