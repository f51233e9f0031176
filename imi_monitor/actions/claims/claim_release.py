"""The part of `imi release` that needs the registry: who may release, whether the tree is clean, and the release.

A module of its own, so that it is imported while git checks the tree (see `release_action`). Lean.
"""

from __future__ import annotations

from imi_monitor.actions.action import Outcome
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model import contained_names
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import claim_holder, claim_requests, db, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.claims import Claim


def find(context: Context, request: Request) -> tuple[Target, Claim | None]:
    """The worktree NAME and its claim."""
    found = ownership.find_claimable(context, request)
    return found, ownership.claim_of(context, found)


def release(context: Context, request: Request, found: Target, claim: Claim | None, dirty: bool | None) -> Outcome:
    """Release the claim; `dirty` None: git has not been asked yet."""
    agent, epoch = claim_options.agent(context, request), claim_options.epoch(request)
    caller = claim_options.caller(request)
    claim = refuse(context, request, found, claim, dirty)
    its_own = claim.agent_id == agent and claim_holder.holds(claim, caller)
    released, before = db.transact_unsynced_with_ballast(
        context.connection,
        claim_requests.release,
        *claim.key,
        agent,
        claim.epoch if epoch is None else epoch,
        force=request.flag("force"),
        reason=request.text("reason"),
        outcome=request.text("outcome"),
        caller=caller,
    )
    if not released:
        raise ownership.not_yours(context, found, before, agent, epoch, caller)
    return _outcome(context, request, found, before, agent, forced=not its_own)


def refuse(context: Context, request: Request, found: Target, claim: Claim | None, dirty: bool | None) -> Claim:
    """Raise the reason against a release; returns the claim that would end."""
    if found.repo_name is None or claim is None or claim.agent_id is None:
        agent, epoch = claim_options.agent(context, request), claim_options.epoch(request)
        raise ownership.not_yours(context, found, claim, agent, epoch, free="there is nothing to release")
    _refuse_other_agent(context, request, found, claim)
    if request.text("outcome") is not None and claim.task_id is None:
        raise UsageError(
            f"--outcome belongs to a task, and {safe(found.name)} was claimed without one: `imi claim --task TASK` names it",
            code="bad-option",
        )
    in_git = contained_names.in_git(found.repo_name)
    if in_git and not (request.flag("dirty-ok") or request.flag("force") or found.missing):
        _refuse_dirty(context, found, dirty)
    return claim


def _refuse_other_agent(context: Context, request: Request, found: Target, claim: Claim) -> None:
    """Refuse early, before git runs; the transaction decides."""
    agent, epoch = claim_options.agent(context, request), claim_options.epoch(request)
    caller = claim_options.caller(request)
    if claim.agent_id != agent or not claim_holder.holds(claim, caller):
        if not request.flag("force"):
            raise ownership.not_yours(context, found, claim, agent, epoch, caller)
        if request.text("reason") is None:
            raise UsageError(
                advised(
                    ownership.held_by(claim),
                    "--force needs --reason TEXT, which the owner sees",
                    "enter the reason, which the owner sees",
                ),
                code="no-reason",
            )
    elif epoch is not None and epoch != claim.epoch:
        raise ownership.not_yours(context, found, claim, agent, epoch)


def _refuse_dirty(context: Context, found: Target, dirty: bool | None) -> None:
    """Refused unless git says that nothing is uncommitted; unknown counts as uncommitted."""
    name = safe(found.name)

    def refused(why: str, code: str) -> Refused:
        return Refused(
            advised(why, "or release it as it is with --dirty-ok", "or release it with them", joint=", "), code=code
        )

    if found.admin_dir is None:
        raise refused(f"git no longer lists {name}, so uncommitted changes in it are unknown", "dirty")
    if dirty is None:
        from imi_monitor.actions.worktree_lookup import git_in
        from imi_monitor.git.dirty import is_dirty

        try:
            dirty = is_dirty(git_in(context, found))
        except GitError as error:
            raise refused(f"git cannot tell whether {name} is clean ({error.sentence})", "dirty-unknown") from error
    if dirty:
        raise refused(f"{name} has uncommitted changes: commit them first", "dirty")


def _outcome(context: Context, request: Request, found: Target, before: Claim, agent: str, *, forced: bool) -> Outcome:
    warning = _mirror(context, found, before) if found.repository.cluster else None
    row = worktrees.get(context.connection, *before.key)
    data = {
        **ownership.answer_data(context, found, before),
        "state": "free",
        "released_at": row.released_at if row else None,
        "released_by": agent,
        "how": "forced" if forced else "released",
        "reason": request.text("reason"),
        "outcome": request.text("outcome"),
    }
    line = f"{safe(found.name)} is unclaimed now: {safe(before.agent_id or '')} released it"
    if forced:
        line = f"{safe(found.name)} is unclaimed now: taken from {safe(before.agent_id or '')}, who sees the reason"
    return Outcome([line], data, warnings=[warning] if warning else [])


def _mirror(context: Context, found: Target, before: Claim) -> str | None:
    from imi_monitor import presence

    lock = presence.presence_lock_path(found.repository, found.name)
    return presence.update_presence_lock(context.connection, lock, *before.key, context.database)
