"""The crash-safe move of a removal: intent, one more look, move, and one transaction that makes it true.

Whatever dies in between is finished or taken back by `recover`, by looking where the folder is.
"""

from __future__ import annotations

import os
from contextlib import suppress

from imi_monitor import presence
from imi_monitor.actions.removals import inspection, parcel, trash_place
from imi_monitor.actions.removals.parcel import Parcel
from imi_monitor.git import layout, parking
from imi_monitor.model.errors import GitError, ImiError, Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import claims, db, events, operations, repositories, trash, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removals.inspection import Look
    from imi_monitor.git.run import Git
    from imi_monitor.model.verdict import Overrides

KIND = "remove"


def carry_out(context: Context, look: Look, packed: Parcel, overrides: Overrides) -> None:
    before = look.claim or claims.current(context.connection, packed.repo_name, packed.name)
    operation, epoch = db.transact(context.connection, _begin, packed, before)
    git = context.git(look.found.repository)
    try:
        trash_place.prepare(packed.trash_dir)
        _look_again(context, look, packed, epoch, overrides)
        parcel.take_away(packed, git)
        db.transact(context.connection, _make_true, packed, operation, epoch)
        _mirror(context, packed)
    except BaseException:
        _undo_failure(context, packed, operation, before, epoch, git)
        raise


def _begin(connection: sqlite3.Connection, packed: Parcel, before: claims.Claim) -> tuple[str, int]:
    """The intent: nothing of the disk was touched yet, and nobody else can have the worktree from now on."""
    operations.refuse_if_busy(connection, packed.repo_name, packed.name)
    epoch = claims.reserve(connection, packed.repo_name, packed.name, expect_epoch=before.epoch, by=KIND)
    data: dict[str, object] = {**packed.data(), "epoch": epoch, "before": _claim_data(before)}
    return operations.begin(connection, KIND, packed.repo_name, packed.name, data), epoch


def _look_again(context: Context, look: Look, packed: Parcel, epoch: int, overrides: Overrides) -> None:
    """What may have changed between the verdict and now: the files, HEAD, who is inside, and even our own reservation."""
    found = look.found
    if look.status is not None and look.git is not None:
        now = inspection.status_of(look.git, with_ignored=False)
        then = look.status
        same = (now.oid, now.branch, now.staged, now.unstaged, now.untracked, now.conflicted) == (
            then.oid,
            then.branch,
            then.staged,
            then.unstaged,
            then.untracked,
            then.conflicted,
        )
        if not same:
            raise Refused(
                f"{safe(found.name)} changed while it was being looked at: look again and repeat", code="changed"
            )
    if parking.remember(packed.admin_dir) != packed.parked or not layout.points_back(packed.admin_dir, packed.path):
        raise Refused(f"git's record of {safe(found.name)} changed meanwhile: look again and repeat", code="changed")
    inside, _ = inspection.processes(found)
    if inside and not overrides.yes_really:
        raise Refused(
            f"{', '.join(inside[:5])} went into {safe(found.name)} meanwhile: nothing was moved", code="changed"
        )
    if not _still_ours(context, packed, epoch):
        raise Refused(f"{safe(found.name)} was claimed meanwhile: look again and repeat", code="claim-changed")


def _still_ours(context: Context, packed: Parcel, epoch: int) -> bool:
    return claims.current(context.connection, packed.repo_name, packed.name).epoch == epoch


def _make_true(connection: sqlite3.Connection, packed: Parcel, operation: str, epoch: int) -> None:
    """The folder is in the trash: row, claim, trash, event and intent say so at once."""
    if not operations.finish(connection, operation):
        raise RegistryError(f"somebody else finished removing {safe(packed.name)}", code="registry-changed")
    row = worktrees.get(connection, packed.repo_name, packed.name)
    if row is not None and row.active and os.path.realpath(row.path) == packed.path:
        worktrees.close(connection, packed.repo_name, packed.name, packed.how)
    claims.close(connection, packed.repo_name, packed.name, epoch=epoch, how="worktree_removed", by=packed.agent)
    trash.add(
        connection,
        packed.id,
        packed.repo_name,
        packed.name,
        path=packed.path,
        trash_path=packed.folder,
        by=packed.agent,
        how=packed.how,
        data=packed.data(),
    )
    about: dict[str, object] = {
        "path": packed.path,
        "branch": packed.branch,
        "commit": packed.sha,
        "how": packed.how,
        "trash_id": packed.id,
        "overridden": list(packed.overridden),
    }
    events.record(
        connection, "worktree.removed", packed.repo_name, packed.name, agent_id=packed.agent, epoch=epoch, data=about
    )


def _undo_failure(context: Context, packed: Parcel, operation: str, before: claims.Claim, epoch: int, git: Git) -> None:
    """Something went wrong on the way: put everything back; where even that fails, the next command tries again."""
    try:
        if any(left.id == operation for left in operations.list_unfinished(context.connection)):
            _take_back(context, packed, operation, before, epoch, git)
        # else an interrupt came when all had been committed already
    except (ImiError, OSError):
        with suppress(ImiError):  # a registry that cannot be written: then the end of this process says it
            db.transact(context.connection, operations.abandon, operation)


def _take_back(context: Context, packed: Parcel, operation: str, before: claims.Claim, epoch: int, git: Git) -> None:
    if packed.in_trash:
        parcel.bring_back(packed, git, head=packed.head)
    elif os.path.isdir(packed.admin_dir):
        parcel.settle(packed)
    trash_place.discard(packed.trash_dir)
    db.transact(context.connection, _never_happened, operation, before, epoch)
    _mirror(context, packed)


def _mirror(context: Context, packed: Parcel) -> None:
    """Let the cluster's presence lock say what the registry says now. It is only a mirror: a failure decides nothing."""
    lock = presence.path_of(layout.repository_at(packed.common_dir), packed.name)
    presence.mirror(context.connection, lock, packed.repo_name, packed.name, context.database)


def _never_happened(connection: sqlite3.Connection, operation: str, before: claims.Claim, epoch: int) -> None:
    finished = operations.finish(connection, operation)
    if finished and claims.current(connection, before.repo_name, before.worktree_name).epoch == epoch:
        claims.restore(connection, before, epoch)


def recover(context: Context, operation: operations.Operation) -> str | None:
    """A removal whose process died: finished if the folder had reached the trash, else taken back."""
    packed = _packed(context, operation)
    git = context.git(layout.repository_at(packed.common_dir))
    parking.drop_head_lock(packed.admin_dir, (f"{packed.sha}\n", packed.head), parcel.LOCK_PREFIX)
    epoch = _number(operation, "epoch")
    if packed.in_trash and _still_ours(context, packed, epoch):
        parcel.take_away(packed, git)
        db.transact(context.connection, _make_true, packed, operation.id, epoch)
        _mirror(context, packed)
        return (
            f"finished removing {safe(packed.name)}, which had been interrupted: `imi undo {packed.id}` brings it back"
        )
    _take_back(context, packed, operation.id, _before(operation), epoch, git)
    return f"took back an interrupted removal: {safe(packed.name)} is where it was"


def _packed(context: Context, operation: operations.Operation) -> Parcel:
    """The parcel of an intent, where its repository is today."""
    packed = Parcel.of(operation.data)
    now = repositories.list_common_dirs(context.connection).get(packed.repo_name, packed.common_dir)
    if not os.path.isdir(packed.common_dir) and os.path.isdir(now):
        packed = packed.under(now)
    if not os.path.isdir(packed.common_dir):
        raise GitError(f"the repository {safe(packed.common_dir)} is not there", code="repository-gone")
    return packed


def _claim_data(claim: claims.Claim) -> dict[str, object]:
    return {name: getattr(claim, name) for name in claims.Claim.__slots__}


def _before(operation: operations.Operation) -> claims.Claim:
    kept = operation.data["before"]
    assert isinstance(kept, dict)
    order = (
        "repo_name",
        "worktree_name",
        "agent_id",
        "epoch",
        "task_id",
        "claimed_at",
        "heartbeat_at",
        "heartbeat_uptime",
        "ttl_seconds",
        "host",
        "boot",
        "pid",
        "pid_started",
    )
    return claims.Claim(tuple(kept[name] for name in order), foreign=bool(kept["foreign"]))


def _number(operation: operations.Operation, name: str) -> int:
    return int(str(operation.data[name]))
