"""Making a worktree so that it is there whole or not at all: intent, branch, checkout, links, then row and event.

Whatever goes wrong on the way (git's refusal, a full disk, Ctrl-C, a registry that cannot be written) is taken back by
`unmaking`; after a kill the intent row lets the next imi do so.
"""

from __future__ import annotations

import os

from imi_monitor.actions.creation import unmaking
from imi_monitor.actions.removals import still_running
from imi_monitor.git import heads, layout
from imi_monitor.git.worktree_add import add_worktree
from imi_monitor.model.errors import GitError, ImiError, Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, operations, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.plan import Plan
    from imi_monitor.git.run import Git

KIND = "create"
_CANNOT_WRITE = ("unable to write", "couldn't write", "could not write", "No space left", "unable to create")


def make(context: Context, git: Git, plan: Plan) -> list[str]:
    """Make it; gives warnings. Refused "busy" when another process is at work on a worktree of this name."""
    if os.path.lexists(plan.path):
        raise Refused(
            f"{safe(plan.path)} exists and is no worktree of this repository: move it away, or choose another name",
            code="path-exists",
        )
    plan.folders = _missing_folders(plan.path)
    plan.taken = unmaking.taken(plan)
    repo_name, identity = db.transact(context.connection, _begin, context, plan)
    note = unmaking.note(identity)
    admin_dir = None
    try:
        warnings: list[str] = []
        admin_dir = _check_out(context, git, plan, identity, warnings)
        warnings += furnish(context, git, plan)
        unmaking.unlock(admin_dir, note)
        db.transact(context.connection, settle, plan, repo_name, identity)
    except BaseException as problem:
        _take_back(context, git, plan, identity, admin_dir, problem)
        raise
    return warnings


def settle(connection: sqlite3.Connection, plan: Plan, repo_name: str, identity: str) -> None:
    """Make it true: the row, its event and the end of the intent, in one transaction."""
    worktrees.put_worktree(
        connection,
        repo_name,
        plan.name,
        branch=plan.branch,
        kind=plan.kind,
        path=plan.path,
        base_branch=plan.base,
        pr_number=plan.pr_number,
    )
    events.record(connection, "worktree.created", repo_name, plan.name, agent_id=plan.agent, data=_event(plan))
    if not operations.finish(connection, identity):
        raise Refused(f"the creation of {safe(plan.name)} was taken back by another imi", code="taken-back")


def _event(plan: Plan) -> dict[str, object]:
    return {
        "path": plan.path,
        "branch": plan.branch,
        "type": plan.kind,
        "base": plan.shown,
        "commit": plan.sha,
        "took_over": plan.took_over,
        "adopted": False,
        **plan.about,
    }


def _begin(connection: sqlite3.Connection, context: Context, plan: Plan) -> tuple[str, str]:
    repo_name = context.register(plan.repository, connection)
    for other in operations.unfinished(connection):
        if (other.repo_name, other.worktree_name) == (repo_name, plan.name):
            raise Refused(f"process {other.pid} is at work on {safe(plan.name)} ({other.kind})", code="busy")
    return repo_name, operations.begin(connection, KIND, repo_name, plan.name, plan.data())


def _check_out(context: Context, git: Git, plan: Plan, identity: str, warnings: list[str]) -> str:
    """Branch and checkout; gives git's directory for it. Locked, so that no prune takes it before it is registered."""
    note = unmaking.note(identity)
    mark = still_running.begin(plan.repository.common_dir, identity)
    try:
        if plan.new_branch:
            heads.make(git, plan.branch, plan.sha, note)
        admin_dir = add_worktree(
            git,
            plan.path,
            branch=plan.branch,
            at=plan.sha,
            lock=note,
            on_progress=context.progress if context.watched else None,
            cancelled=context.cancelled,
        )
    except GitError as problem:
        whole = _only_its_hook_failed(git, plan, note)
        if whole is None:
            raise _explained(problem, plan) from problem
        admin_dir = whole
        warnings.append(f"the repository's post-checkout hook failed: {problem.sentence}")
    finally:
        mark.remove()
    branch, _ = layout.read_head(admin_dir, plan.repository.common_dir)
    if branch != plan.branch or not layout.points_back(admin_dir, plan.path):
        raise GitError(f"git made {safe(plan.path)} on {safe(branch or 'no branch')} instead of {safe(plan.branch)}")
    return admin_dir


def _only_its_hook_failed(git: Git, plan: Plan, note: str) -> str | None:
    """git's directory for a worktree that is whole although git says it failed, as plain git would leave it too."""
    if not git.trusted:
        return None
    from imi_monitor.git import half_made

    admin_dir = half_made.locked_with(git.common_dir, note)
    if admin_dir is None or not half_made.complete(git.at(admin_dir, plan.path), plan.branch, plan.sha):
        return None
    return admin_dir


def _explained(problem: GitError, plan: Plan) -> GitError:
    """git's failure; when it could not write, which it does not explain, with what is most likely the reason."""
    if not any(words in problem.stderr for words in _CANNOT_WRITE) or "Read-only" in problem.stderr:
        return problem
    folder = os.path.dirname(plan.path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free, where = min((_free(place), place) for place in (folder, plan.repository.common_dir))
    explained = GitError(
        f"git could not write all that {safe(plan.name)} needs: no space left ({free / 1e6:.1f} MB are free in "
        f"{safe(where)}) or not allowed; nothing was made",
        code="not-writable",
        stderr=problem.stderr,
    )
    explained.details = tuple(line for line in problem.stderr.splitlines() if line.startswith(("error:", "fatal:")))[:5]
    return explained


def _free(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def furnish(context: Context, git: Git, plan: Plan) -> list[str]:
    """Upstream and shared files; what cannot be linked is a warning."""
    if plan.new_branch and plan.upstream:
        unmaking.follow(git, plan.branch, plan.upstream)
    if context.cancelled():
        raise Refused(f"making {safe(plan.name)} was cancelled", code="cancelled")
    settings = context.settings
    around = os.path.dirname(plan.path)
    shared = ("sync", settings.text("sync_settings.user_sync_path"), settings.text("sync_settings.local_sync_path"))
    if not any(os.path.isdir(os.path.join(around, folder)) for folder in shared):
        return []
    from imi_monitor.actions.sharing import shared_files

    report = shared_files.link_into(plan.repository, plan.path, settings)
    return [f"{safe(name) or 'the shared files'} not linked: {why}" for name, why in report.conflicts]


def _missing_folders(path: str) -> list[str]:
    missing: list[str] = []
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def _take_back(
    context: Context, git: Git, plan: Plan, identity: str, admin_dir: str | None, problem: BaseException
) -> None:
    """As if it had never begun; what cannot be taken back now is left to the next imi, and said."""
    try:
        left = unmaking.undo(context, git, plan, identity, admin_dir)
        db.transact(context.connection, operations.finish, identity)
    except (ImiError, OSError) as trouble:
        what = trouble.sentence if isinstance(trouble, ImiError) else safe(str(trouble))
        left = [f"what was half made could not be taken back yet ({what}): the next `imi` tries again"]
        _give_up(context, identity)
    if isinstance(problem, ImiError):
        problem.details = (*problem.details, *left)


def _give_up(context: Context, identity: str) -> None:
    """This process may live on: let the intent count as abandoned. If not even that can be written, its end will tell."""
    try:
        db.transact(context.connection, operations.give_up, identity)
    except RegistryError as problem:
        context.progress(problem.sentence)
