"""Removing a worktree without losing work: verdict, intent, second check, move into the trash, commit.

1. The verdict: every reason against the removal (`inspection`).
2. One transaction reserves the claim, which fails if the worktree was granted to another owner since the inspection, and
   records the intent with everything needed to undo it.
3. The state is checked again, immediately before the move.
4. The folder is renamed into the trash (`trash_folder`), beside a note of the removal (`trash_note`).
5. One transaction closes the row and the claim, adds the trash entry, records the event and ends the intent.

After a crash between 2 and 5 `recover` completes or reverts the removal, depending on where the folder is.
"""

from __future__ import annotations

import errno
import os

from imi_monitor import host, presence
from imi_monitor.actions.action import Request
from imi_monitor.actions.removal import inspection, trash_folder, trash_note
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import git_admin_dir, layout
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import GitError, ImiError, Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.model.verdict import FORCE, NEVER, NOTE, Overrides, Reason, Verdict
from imi_monitor.store import claims, db, events, operations, repositories, trash, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.inspection import WorktreeInspection
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_status import GitStatus
    from imi_monitor.git.runner import Git


REMOVE = "remove"
NO_OVERRIDES = Overrides()


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """The worktree in the trash, and the warnings of its pre_remove commands."""

    trashed: TrashedWorktree
    warnings: tuple[str, ...]


def removal_verdict(context: Context, found: Target, *, agent: str | None = None, deep: bool = False) -> Verdict:
    """Every reason against removing the worktree. A claim of `agent` (default: the caller) is no reason."""
    return inspection.inspect_worktree(context, found, agent or context.agent(Request("", {})), deep=deep).verdict


def remove_worktree(
    context: Context,
    found: Target,
    *,
    agent: str,
    how: str = "removed",
    overrides: Overrides = NO_OVERRIDES,
    inspected: WorktreeInspection | None = None,
) -> RemovalResult:
    """Move the worktree into the trash, or refuse with all reasons and change nothing.

    `how` is stored in the worktree's row. `inspected` is an inspection the caller has made; its findings are compared with
    the current state immediately before the move.
    """
    inspected = inspected or inspection.inspect_worktree(context, found, agent)
    refuse_if_unsafe(inspected, overrides)
    warnings, inspected = _run_pre_remove(context, inspected, agent, overrides)
    repo_name = context.register(found.repository)
    try:
        trashed = _into_trash(context, inspected, repo_name, agent, how, overrides)
    except OSError as error:
        raise _move_failed(found, error) from error
    return RemovalResult(trashed, warnings)


def refuse_if_unsafe(inspected: WorktreeInspection, overrides: Overrides) -> None:
    """Raise Refused with every reason that the overrides do not lift, and with the options that would lift them."""
    standing = inspected.verdict.against(force=overrides.force, yes_really=overrides.yes_really)
    if standing:
        raise unsafe_refusal(inspected.found, inspected.verdict, standing)


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
    context: Context, inspected: WorktreeInspection, repo_name: str, agent: str, how: str, overrides: Overrides
) -> TrashedWorktree:
    for root in trash_folder.trash_roots(inspected.found):
        trashed = _describe(inspected, repo_name, root, agent, how, overrides)
        try:
            _carry_out(context, inspected, trashed, overrides)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            continue  # a bind mount or an overlay: equal device numbers, but no rename across; try the next root
        return trashed
    raise trash_folder.other_file_system(inspected.found)


def _run_pre_remove(
    context: Context, inspected: WorktreeInspection, agent: str, overrides: Overrides
) -> tuple[tuple[str, ...], WorktreeInspection]:
    """Run the repository's pre_remove commands and inspect the worktree again, since they may have changed it."""
    found = inspected.found
    if found.repo_name is None or not context.settings.commands(found.repo_name, "pre_remove"):
        return (), inspected
    if found.kind == "review":  # the commands would run code of the pull request, as with post_create
        return ("pre_remove commands were not run, because the worktree holds a pull request",), inspected
    from imi_monitor.actions import repository_commands

    report = repository_commands.run(context, found.repository, "pre_remove", found.path, found.name)
    if report is None:
        return (), inspected
    again = inspection.inspect_worktree(context, found, agent)
    refuse_if_unsafe(again, overrides)
    return tuple(report.warnings), again


def _describe(
    inspected: WorktreeInspection, repo_name: str, root: str, agent: str, how: str, overrides: Overrides
) -> TrashedWorktree:
    found, linked = inspected.found, inspected.found.linked
    assert linked is not None  # the verdict refuses a folder that git does not list
    parked = git_admin_dir.read_admin_files(linked.admin_dir)
    if parked.locked is not None and linked.locked is None:
        raise _record_changed(found)
    gitfile = layout.read_regular(os.path.join(found.path, ".git"), 1 << 16)
    if gitfile is None:
        raise Refused(f"the .git file of {safe(found.name)} cannot be read: nothing was removed", code="tampered")
    identity = os.urandom(5).hex()
    lifted = inspected.verdict.codes() if overrides.force else []
    return TrashedWorktree(
        id=identity,
        repo_name=repo_name,
        name=found.name,
        common_dir=found.repository.common_dir,
        admin_dir=linked.admin_dir,
        path=found.path,
        trash_dir=os.path.join(root, identity),
        inode=os.lstat(found.path).st_ino,
        gitfile=os.fsdecode(gitfile),
        head=parked.head,
        gitdir=parked.gitdir,
        locked=parked.locked,
        branch=inspected.status.branch if inspected.status else found.branch,
        sha=inspected.status.oid if inspected.status else linked.head,
        agent=agent,
        how=how,
        overridden=tuple(lifted),
        boot=host.boot().partition("/")[0],
        uptime=host.uptime(),
    )


def _record_changed(found: Target) -> Refused:
    return Refused(f"git's record of {safe(found.name)} changed meanwhile: run the command again", code="changed")


def _move_failed(found: Target, error: OSError) -> Refused:
    return Refused(
        f"{safe(found.name)} could not be moved into the trash ({error.strerror}): nothing was changed",
        code="move-failed",
    )


def _carry_out(context: Context, inspected: WorktreeInspection, trashed: TrashedWorktree, overrides: Overrides) -> None:
    before = inspected.claim or _refuse_claimed(context, trashed)
    operation, epoch = db.transact_with_ballast(context.connection, _begin, trashed, before)
    git = context.git(inspected.found.repository)
    lent = db.lend_ballast(context.connection, trashed.common_dir)
    try:
        note = trash_note.new_note(context, trashed, before, epoch)
        trash_folder.prepare_entry(trashed.trash_dir)
        trash_note.write_note(note)
        _refuse_if_changed(context, inspected, trashed, epoch, overrides)
        trash_folder.move_to_trash(trashed, git)
        db.transact_with_ballast(context.connection, _record_removed, trashed, operation, epoch)
        _mirror_presence(context, trashed)
    except BaseException:
        _roll_back(context, trashed, operation, before, epoch, git)
        raise
    else:
        trash_note.complete_note(note)
    finally:
        db.take_back_ballast(context.connection, lent)


def _refuse_claimed(context: Context, trashed: TrashedWorktree) -> claims.Claim:
    """The free claim of a worktree that the registry did not know at the inspection; Refused if it was claimed since."""
    before = claims.current(context.connection, trashed.repo_name, trashed.name)
    if before.agent_id is not None:
        raise _claimed_meanwhile(trashed)
    return before


def _claimed_meanwhile(trashed: TrashedWorktree) -> Refused:
    return Refused(f"{safe(trashed.name)} was claimed meanwhile: run the command again", code="claim-changed")


def _begin(connection: sqlite3.Connection, trashed: TrashedWorktree, before: claims.Claim) -> tuple[str, int]:
    """Reserve the claim and record the intent, before anything on disk changes."""
    operations.refuse_if_busy(connection, trashed.repo_name, trashed.name)
    epoch = claims.reserve(connection, trashed.repo_name, trashed.name, expect_epoch=before.epoch, by=REMOVE)
    data: dict[str, object] = {**trashed.data(), "epoch": epoch, "before": _claim_data(before)}
    return operations.begin(connection, REMOVE, trashed.repo_name, trashed.name, data), epoch


def _refuse_if_changed(
    context: Context, inspected: WorktreeInspection, trashed: TrashedWorktree, epoch: int, overrides: Overrides
) -> None:
    """Raise if files, HEAD, git's records, processes or the reservation changed since the inspection."""
    found = inspected.found
    if inspected.status is not None and inspected.git is not None:
        now = inspection.status_of(inspected.git, with_ignored=False)
        if _comparable(now) != _comparable(inspected.status):
            from imi_monitor.actions.removal import concurrent_writers

            raise concurrent_writers.refuse_changed(found, inspected.status, now)
    if git_admin_dir.read_admin_files(trashed.admin_dir) != trashed.parked or not layout.points_back(
        trashed.admin_dir, trashed.path
    ):
        raise _record_changed(found)
    inside, _ = inspection.live_processes(found)
    if inside and not overrides.yes_really:
        raise Refused(
            f"{', '.join(inside[:5])} started in {safe(found.name)} meanwhile: nothing was moved", code="changed"
        )
    if not _holds_reservation(context, trashed, epoch):
        raise _claimed_meanwhile(trashed)


def _comparable(status: GitStatus) -> tuple[object, ...]:
    return (status.oid, status.branch, status.staged, status.unstaged, status.untracked, status.conflicted)


def _holds_reservation(context: Context, trashed: TrashedWorktree, epoch: int) -> bool:
    return claims.current(context.connection, trashed.repo_name, trashed.name).epoch == epoch


def _record_removed(connection: sqlite3.Connection, trashed: TrashedWorktree, operation: str, epoch: int) -> None:
    """Close the row and the claim, add the trash entry and the event, end the intent: one transaction."""
    if not operations.finish(connection, operation):
        raise RegistryError(f"another imi finished removing {safe(trashed.name)}", code="registry-changed")
    row = worktrees.get(connection, trashed.repo_name, trashed.name)
    if row is not None and row.active and os.path.realpath(row.path) == trashed.path:
        worktrees.close(connection, trashed.repo_name, trashed.name, trashed.how)
    claims.close(connection, trashed.repo_name, trashed.name, epoch=epoch, how="worktree_removed", by=trashed.agent)
    trash.add(
        connection,
        trashed.id,
        trashed.repo_name,
        trashed.name,
        path=trashed.path,
        trash_path=trashed.folder,
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
        "overridden": list(trashed.overridden),
    }
    events.record(
        connection, "worktree.removed", trashed.repo_name, trashed.name, agent_id=trashed.agent, epoch=epoch, data=about
    )


def _roll_back(
    context: Context, trashed: TrashedWorktree, operation: str, before: claims.Claim, epoch: int, git: Git
) -> None:
    """Put everything back after a failure. If that fails too, the intent stays and the next command tries again."""
    try:
        if any(left.id == operation for left in operations.list_unfinished(context.connection)):
            _put_back(context, trashed, operation, before, epoch, git)
        # else the interrupt came after the last commit: the removal is complete
    except (ImiError, OSError):
        with suppress(ImiError):  # unwritable registry: the operation counts as abandoned when this process ends
            db.transact_with_ballast(context.connection, operations.abandon, operation)


def _put_back(
    context: Context, trashed: TrashedWorktree, operation: str, before: claims.Claim, epoch: int, git: Git
) -> None:
    if trashed.in_trash or trash_folder.is_half_back(trashed):
        trash_folder.move_back(trashed, git, head=trashed.head)
    else:
        trash_folder.restore_git_records(trashed)
    trash_folder.discard_entry(trashed.trash_dir)
    db.transact_with_ballast(context.connection, _cancel_intent, operation, before, epoch)
    _mirror_presence(context, trashed)


def _mirror_presence(context: Context, trashed: TrashedWorktree) -> None:
    """Update the cluster's presence lock from the registry. The lock is a copy, so a failure to write it is ignored."""
    lock = presence.presence_lock_path(layout.repository_at(trashed.common_dir), trashed.name)
    presence.update_presence_lock(context.connection, lock, trashed.repo_name, trashed.name, context.database)


def _cancel_intent(connection: sqlite3.Connection, operation: str, before: claims.Claim, epoch: int) -> None:
    finished = operations.finish(connection, operation)
    if finished and claims.current(connection, before.repo_name, before.worktree_name).epoch == epoch:
        claims.restore(connection, before, epoch)


def recover(context: Context, operation: operations.Operation) -> str | None:
    """After a crash: complete the removal if the folder is in the trash and the claim still reserved, else revert it."""
    trashed = _read_trashed(context, operation)
    git = context.git(layout.repository_at(trashed.common_dir))
    git_admin_dir.remove_head_lock(trashed.admin_dir, (f"{trashed.sha}\n", trashed.head), trash_folder.LOCK_PREFIX)
    epoch = _number(operation, "epoch")
    if trashed.in_trash and _holds_reservation(context, trashed, epoch):
        note = trash_note.new_note(context, trashed, _claim_before(operation), epoch)
        trash_folder.move_to_trash(trashed, git)
        db.transact_with_ballast(context.connection, _record_removed, trashed, operation.id, epoch)
        _mirror_presence(context, trashed)
        trash_note.complete_note(note)
        return f"completed the interrupted removal of {safe(trashed.name)}: `imi undo {trashed.id}` restores it"
    _put_back(context, trashed, operation.id, _claim_before(operation), epoch, git)
    return f"reverted an interrupted removal: {safe(trashed.name)} is in its old place"


def _read_trashed(context: Context, operation: operations.Operation) -> TrashedWorktree:
    """The worktree of an intent, with the paths its repository has now."""
    trashed = TrashedWorktree.of(operation.data)
    now = repositories.list_common_dirs(context.connection).get(trashed.repo_name, trashed.common_dir)
    if not os.path.isdir(trashed.common_dir):
        trashed = trashed.under(now)
    if not os.path.isdir(trashed.common_dir):
        raise GitError(f"the repository {safe(trashed.common_dir)} does not exist", code="repository-gone")
    return trashed


def _claim_data(claim: claims.Claim) -> dict[str, object]:
    return dict(vars(claim))


def _claim_before(operation: operations.Operation) -> claims.Claim:
    kept = operation.data["before"]
    assert isinstance(kept, dict)
    return claims.Claim(
        tuple(kept.get(name) for name in claims.Claim.columns.split(", ")), foreign=bool(kept["foreign"])
    )


def _number(operation: operations.Operation, name: str) -> int:
    return int(str(operation.data[name]))


def _headline(name: str, standing: Sequence[Reason]) -> str:
    """The sentence of a refusal; a single reason is included in full."""
    if len(standing) == 1:
        return f"{safe(name)} is not safe to remove: {standing[0].sentence}{_affected(standing[0])}"
    return f"{safe(name)} is not safe to remove, for {len(standing)} reasons"


def reason_lines(reasons: Sequence[Reason]) -> list[str]:
    return [f"{'note:' if reason.override == NOTE else '-'} {reason.sentence}{_affected(reason)}" for reason in reasons]


def way_out(name: str, verdict: Verdict) -> str:
    """The command that removes the worktree in spite of the reasons, if any does."""
    if any(reason.override == NEVER for reason in verdict.reasons):
        return "this cannot be overridden"
    if verdict.strongest == FORCE:
        return advised("", f"to move it to the trash anyway: imi remove {safe(name)} --force")
    return advised("", f"to move it to the trash anyway: imi remove {safe(name)} --force --yes-really {safe(name)}")


def _affected(reason: Reason) -> str:
    if not reason.names:
        return ""
    more = f" and {reason.count - len(reason.names)} more" if reason.count > len(reason.names) else ""
    return ": " + ", ".join(safe(name, 120) for name in reason.names) + more
