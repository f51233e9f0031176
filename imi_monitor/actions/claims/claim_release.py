"""Giving a claim back: who may, whether the tree is clean, and the act itself. Lean, and loaded while git works."""

from __future__ import annotations

from imi_monitor.actions.action import Outcome
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import claim_requests, db, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claims import Claim


def look(context: Context, request: Request) -> tuple[Target, Claim | None]:
    """The worktree meant, and its claim."""
    found = ownership.find(context, request)
    return found, ownership.claim_of(context, found)


def release(context: Context, request: Request, found: Target, claim: Claim | None, dirty: bool | None) -> Outcome:
    """Give it back as it was looked at; `dirty` None: git is still to be asked."""
    who, number = claim_options.agent(context, request), claim_options.epoch(request)
    claim = refuse(context, request, found, claim, dirty)
    released, before = db.transact_unsynced(
        context.connection,
        claim_requests.release,
        claim.repo_name,
        found.name,
        who,
        claim.epoch if number is None else number,
        force=request.flag("force"),
        reason=request.text("reason"),
        outcome=request.text("outcome"),
    )
    if not released:
        raise ownership.not_yours(context, found, before, who, number)
    return _outcome(context, request, found, before, who)


def refuse(context: Context, request: Request, found: Target, claim: Claim | None, dirty: bool | None) -> Claim:
    """Raise what stands against it; gives the claim that would end."""
    if found.repo_name is None or claim is None or claim.agent_id is None:
        who, number = claim_options.agent(context, request), claim_options.epoch(request)
        raise ownership.not_yours(context, found, claim, who, number)
    _refuse_others(context, request, found, claim)
    if request.text("outcome") is not None and claim.task_id is None:
        raise UsageError(
            f"--outcome is of a task, and {safe(found.name)} was claimed without one: `imi claim --task TASK` names it",
            code="bad-option",
        )
    if not (request.flag("dirty-ok") or request.flag("force") or found.missing):
        _refuse_dirty(context, found, dirty)
    return claim


def _refuse_others(context: Context, request: Request, found: Target, claim: Claim) -> None:
    """Said before git is asked; what decides is the transaction."""
    who, number = claim_options.agent(context, request), claim_options.epoch(request)
    if claim.agent_id != who:
        if not request.flag("force"):
            raise ownership.not_yours(context, found, claim, who, number)
        if request.text("reason") is None:
            raise UsageError(
                f"{ownership.held_by(claim)}: to release it by force say why with --reason TEXT, the owner is told",
                code="no-reason",
            )
    elif number is not None and number != claim.epoch:
        raise ownership.not_yours(context, found, claim, who, number)


def _refuse_dirty(context: Context, found: Target, dirty: bool | None) -> None:
    """Refused unless git says that nothing is uncommitted; what git cannot tell counts as uncommitted."""
    name, instead = safe(found.name), "or release it as it is with --dirty-ok"
    if found.admin_dir is None:
        raise Refused(
            f"git does not list {name} any more, so nobody can tell whether it is clean: {instead}", code="dirty"
        )
    if dirty is None:
        from imi_monitor.actions.worktree_lookup import git_in
        from imi_monitor.git.dirty import is_dirty

        try:
            dirty = is_dirty(git_in(context, found))
        except GitError as error:
            raise Refused(
                f"git cannot tell whether {name} is clean ({error.sentence}): {instead}", code="dirty-unknown"
            ) from error
    if dirty:
        raise Refused(f"{name} has uncommitted changes: commit them first, {instead}", code="dirty")


def _outcome(context: Context, request: Request, found: Target, before: Claim, who: str) -> Outcome:
    warning = _mirror(context, found, before) if found.repository.cluster else None
    row = worktrees.get(context.connection, before.repo_name, found.name)
    forced = before.agent_id != who
    data = {
        **ownership.done_data(context, found, before),
        "state": "free",
        "released_at": row.released_at if row else None,
        "released_by": who,
        "how": "forced" if forced else "released",
        "reason": request.text("reason"),
        "outcome": request.text("outcome"),
    }
    line = f"{safe(found.name)} is free: {safe(before.agent_id or '')} gave it back"
    if forced:
        line = f"{safe(found.name)} is free: taken from {safe(before.agent_id or '')}, who will be told why"
    return Outcome([line], data, warnings=[warning] if warning else [])


def _mirror(context: Context, found: Target, before: Claim) -> str | None:
    from imi_monitor import presence

    lock = presence.presence_lock_path(found.repository, found.name)
    return presence.update_presence_lock(context.connection, lock, before.repo_name, found.name, context.database)
