"""A verdict in words: what stands against it, with names, and what would override it.

Taking a worktree out of its place without losing anything of it: the verdict, then the move into the trash.

1. The verdict. 2. One transaction: the claim is reserved, which fails if it was granted anew, and the intent is written with
all that is needed to undo it. 3. Another look, right before the move. 4. The move. 5. One transaction makes it true. Here is
the first; the others are in removing.py.

The crash-safe move of a removal: intent, one more look, move, and one transaction that makes it true.

Whatever dies in between is finished or taken back by `recover`, by looking where the folder is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from imi_monitor import host, presence
from imi_monitor.actions.action import Request
from imi_monitor.actions.removal import inspection, trash_folder
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.git import admin_dir as git_admin_dir
from imi_monitor.git import layout
from imi_monitor.model.errors import GitError, ImiError, Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.model.verdict import FORCE, NEVER, NOTE, Overrides, Reason, Verdict
from imi_monitor.store import claims, db, events, operations, repositories, trash, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.inspection import WorktreeInspection
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git
    from imi_monitor.model.verdict import Overrides


def _headline(name: str, standing: Sequence[Reason]) -> str:
    """One sentence for a refusal; a single reason is told in full."""
    if len(standing) == 1:
        return f"{safe(name)} is not safe to remove: {standing[0].sentence}{_affected(standing[0])}"
    return f"{safe(name)} is not safe to remove, for {len(standing)} reasons"


def reason_lines(reasons: Sequence[Reason]) -> list[str]:
    return [f"{'note:' if reason.override == NOTE else '-'} {reason.sentence}{_affected(reason)}" for reason in reasons]


def way_out(name: str, verdict: Verdict) -> str:
    """How to go on. What is overridden still goes to the trash whole."""
    if any(reason.override == NEVER for reason in verdict.reasons):
        return "this cannot be overridden"
    if verdict.strongest == FORCE:
        return f"to move it to the trash all the same: imi remove {safe(name)} --force"
    return f"to move it to the trash all the same: imi remove {safe(name)} --force --yes-really {safe(name)}"


def _affected(reason: Reason) -> str:
    if not reason.names:
        return ""
    more = f" and {reason.count - len(reason.names)} more" if reason.count > len(reason.names) else ""
    return ": " + ", ".join(safe(name, 120) for name in reason.names) + more


NO_OVERRIDES = Overrides()


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """A worktree that is in the trash now."""

    trash_id: str
    repo_name: str
    worktree_name: str
    path: str
    trash_path: str
    branch: str | None
    sha: str | None
    verdict: Verdict
    notes: tuple[str, ...] = ()


def removal_verdict(context: Context, found: Target, *, agent: str | None = None, deep: bool = False) -> Verdict:
    """Everything that speaks against removing it; `agent` is whose claim does not count (default: the caller's)."""
    return inspection.inspect_worktree(context, found, agent or context.agent(Request("", {})), deep=deep).verdict


def remove_worktree(
    context: Context,
    found: Target,
    *,
    agent: str,
    how: str = "removed",
    overrides: Overrides = NO_OVERRIDES,
    look: WorktreeInspection | None = None,
) -> RemovalResult:
    """Move the worktree into the trash, or refuse with all reasons and change nothing. `how` goes into its row.

    `look` is what the caller has seen already, if it did; it is checked against the present once more before the move.
    """
    look = look or inspection.inspect_worktree(context, found, agent)
    refuse_if_unsafe(look, overrides)
    warnings, look = _run_pre_remove(context, look, agent, overrides)
    repo_name = context.register(found.repository)
    try:
        packed = _into_trash(context, look, repo_name, agent, how, overrides)
    except OSError as error:
        raise _move_failed(found, error) from error
    return RemovalResult(
        packed.id, repo_name, found.name, found.path, packed.folder, packed.branch, packed.sha, look.verdict, warnings
    )


def refuse_if_unsafe(look: WorktreeInspection, overrides: Overrides) -> None:
    """Raise with every reason that still stands, and with what it would take."""
    standing = look.verdict.against(force=overrides.force, yes_really=overrides.yes_really)
    if standing:
        raise unsafe_refusal(look.found, look.verdict, standing)


def unsafe_refusal(found: Target, verdict: Verdict, standing: tuple[Reason, ...]) -> Refused:
    listed = reason_lines(standing) if len(standing) > 1 else []
    return Refused(
        _headline(found.name, standing),
        code="not-safe" if len(standing) > 1 else standing[0].code,
        details=[*listed, *reason_lines(verdict.notes), way_out(found.name, verdict)],
        data={
            "worktree_name": found.name,
            "repo": found.repo_name,
            "reasons": [reason.data() for reason in verdict.reasons],
        },
    )


def _into_trash(
    context: Context, look: WorktreeInspection, repo_name: str, agent: str, how: str, overrides: Overrides
) -> TrashedWorktree:
    for root in trash_folder.trash_roots(look.found):
        packed = _describe(look, repo_name, root, agent, how, overrides)
        try:
            _carry_out(context, look, packed, overrides)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            continue  # in spite of equal devices: a bind mount or an overlay; try beside it
        return packed
    raise trash_folder.other_file_system(look.found)


def _run_pre_remove(
    context: Context, look: WorktreeInspection, agent: str, overrides: Overrides
) -> tuple[tuple[str, ...], WorktreeInspection]:
    """The repository's own commands, if there are any; they may change something, so it is looked at anew."""
    found = look.found
    if found.repo_name is None or not context.settings.commands(found.repo_name, "pre_remove"):
        return (), look
    if found.kind == "review":  # as after its creation: `make stop` there is whatever a stranger wrote
        return ("its pre_remove commands were not run, because it is a pull request's",), look
    from imi_monitor.actions import repository_commands

    report = repository_commands.run(context, found.repository, "pre_remove", found.path, found.name)
    if report is None:
        return (), look
    again = inspection.inspect_worktree(context, found, agent)
    refuse_if_unsafe(again, overrides)
    return tuple(report.warnings), again


def _describe(
    look: WorktreeInspection, repo_name: str, root: str, agent: str, how: str, overrides: Overrides
) -> TrashedWorktree:
    found = look.found
    admin_dir = found.admin_dir or ""
    parked = git_admin_dir.read_admin_files(admin_dir)
    gitfile = layout.read_regular(os.path.join(found.path, ".git"), 1 << 16)
    if gitfile is None:
        raise Refused(f"the .git file of {safe(found.name)} cannot be read: nothing was done", code="tampered")
    identity = os.urandom(5).hex()
    lifted = look.verdict.codes() if overrides.force else []
    return TrashedWorktree(
        id=identity,
        repo_name=repo_name,
        name=found.name,
        common_dir=found.repository.common_dir,
        admin_dir=admin_dir,
        path=found.path,
        trash_dir=os.path.join(root, identity),
        inode=os.lstat(found.path).st_ino,
        gitfile=os.fsdecode(gitfile),
        head=parked.head,
        gitdir=parked.gitdir,
        locked=parked.locked,
        branch=look.status.branch if look.status else found.branch,
        sha=look.status.oid if look.status else (found.linked.head if found.linked else None),
        agent=agent,
        how=how,
        overridden=tuple(lifted),
        boot=host.boot().partition("/")[0],
        uptime=host.uptime(),
    )


def _move_failed(found: Target, error: OSError) -> Refused:
    return Refused(
        f"{safe(found.name)} could not be moved into the trash ({error.strerror}): nothing was changed",
        code="move-failed",
    )


REMOVE = "remove"


def _carry_out(context: Context, look: WorktreeInspection, packed: TrashedWorktree, overrides: Overrides) -> None:
    before = look.claim or claims.current(context.connection, packed.repo_name, packed.name)
    operation, epoch = db.transact(context.connection, _begin, packed, before)
    git = context.git(look.found.repository)
    try:
        trash_folder.prepare_entry(packed.trash_dir)
        _refuse_if_changed(context, look, packed, epoch, overrides)
        trash_folder.move_to_trash(packed, git)
        db.transact(context.connection, _record_removed, packed, operation, epoch)
        _mirror_presence(context, packed)
    except BaseException:
        _roll_back(context, packed, operation, before, epoch, git)
        raise


def _begin(connection: sqlite3.Connection, packed: TrashedWorktree, before: claims.Claim) -> tuple[str, int]:
    """The intent: nothing of the disk was touched yet, and nobody else can have the worktree from now on."""
    operations.refuse_if_busy(connection, packed.repo_name, packed.name)
    epoch = claims.reserve(connection, packed.repo_name, packed.name, expect_epoch=before.epoch, by=REMOVE)
    data: dict[str, object] = {**packed.data(), "epoch": epoch, "before": _claim_data(before)}
    return operations.begin(connection, REMOVE, packed.repo_name, packed.name, data), epoch


def _refuse_if_changed(
    context: Context, look: WorktreeInspection, packed: TrashedWorktree, epoch: int, overrides: Overrides
) -> None:
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
    if git_admin_dir.read_admin_files(packed.admin_dir) != packed.parked or not layout.points_back(
        packed.admin_dir, packed.path
    ):
        raise Refused(f"git's record of {safe(found.name)} changed meanwhile: look again and repeat", code="changed")
    inside, _ = inspection.live_processes(found)
    if inside and not overrides.yes_really:
        raise Refused(
            f"{', '.join(inside[:5])} went into {safe(found.name)} meanwhile: nothing was moved", code="changed"
        )
    if not _still_ours(context, packed, epoch):
        raise Refused(f"{safe(found.name)} was claimed meanwhile: look again and repeat", code="claim-changed")


def _still_ours(context: Context, packed: TrashedWorktree, epoch: int) -> bool:
    return claims.current(context.connection, packed.repo_name, packed.name).epoch == epoch


def _record_removed(connection: sqlite3.Connection, packed: TrashedWorktree, operation: str, epoch: int) -> None:
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


def _roll_back(
    context: Context, packed: TrashedWorktree, operation: str, before: claims.Claim, epoch: int, git: Git
) -> None:
    """Something went wrong on the way: put everything back; where even that fails, the next command tries again."""
    try:
        if any(left.id == operation for left in operations.list_unfinished(context.connection)):
            _put_back(context, packed, operation, before, epoch, git)
        # else an interrupt came when all had been committed already
    except (ImiError, OSError):
        with suppress(ImiError):  # a registry that cannot be written: then the end of this process says it
            db.transact(context.connection, operations.abandon, operation)


def _put_back(
    context: Context, packed: TrashedWorktree, operation: str, before: claims.Claim, epoch: int, git: Git
) -> None:
    if packed.in_trash:
        trash_folder.move_back(packed, git, head=packed.head)
    elif os.path.isdir(packed.admin_dir):
        trash_folder.restore_git_records(packed)
    trash_folder.discard_entry(packed.trash_dir)
    db.transact(context.connection, _cancel_intent, operation, before, epoch)
    _mirror_presence(context, packed)


def _mirror_presence(context: Context, packed: TrashedWorktree) -> None:
    """Let the cluster's presence lock say what the registry says now. It is only a mirror: a failure decides nothing."""
    lock = presence.presence_lock_path(layout.repository_at(packed.common_dir), packed.name)
    presence.update_presence_lock(context.connection, lock, packed.repo_name, packed.name, context.database)


def _cancel_intent(connection: sqlite3.Connection, operation: str, before: claims.Claim, epoch: int) -> None:
    finished = operations.finish(connection, operation)
    if finished and claims.current(connection, before.repo_name, before.worktree_name).epoch == epoch:
        claims.restore(connection, before, epoch)


def recover(context: Context, operation: operations.Operation) -> str | None:
    """A removal whose process died: finished if the folder had reached the trash, else taken back."""
    packed = _read_trashed(context, operation)
    git = context.git(layout.repository_at(packed.common_dir))
    git_admin_dir.remove_head_lock(packed.admin_dir, (f"{packed.sha}\n", packed.head), trash_folder.LOCK_PREFIX)
    epoch = _number(operation, "epoch")
    if packed.in_trash and _still_ours(context, packed, epoch):
        trash_folder.move_to_trash(packed, git)
        db.transact(context.connection, _record_removed, packed, operation.id, epoch)
        _mirror_presence(context, packed)
        return (
            f"finished removing {safe(packed.name)}, which had been interrupted: `imi undo {packed.id}` brings it back"
        )
    _put_back(context, packed, operation.id, _claim_before(operation), epoch, git)
    return f"took back an interrupted removal: {safe(packed.name)} is where it was"


def _read_trashed(context: Context, operation: operations.Operation) -> TrashedWorktree:
    """The parcel of an intent, where its repository is today."""
    packed = TrashedWorktree.of(operation.data)
    now = repositories.list_common_dirs(context.connection).get(packed.repo_name, packed.common_dir)
    if not os.path.isdir(packed.common_dir) and os.path.isdir(now):
        packed = packed.under(now)
    if not os.path.isdir(packed.common_dir):
        raise GitError(f"the repository {safe(packed.common_dir)} is not there", code="repository-gone")
    return packed


def _claim_data(claim: claims.Claim) -> dict[str, object]:
    return {name: getattr(claim, name) for name in claims.Claim.__slots__}


def _claim_before(operation: operations.Operation) -> claims.Claim:
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
