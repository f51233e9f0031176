"""Creating a worktree, whole or not at all: intent, branch, checkout, shared links, then row and event.

A failure on the way (git's refusal, a full disk, Ctrl-C, an unwritable registry) is reverted by `creation_rollback`. After
a crash the intent lets the next command complete the creation if git had finished, else revert it; never while the git of
the dead process is still running.
"""

from __future__ import annotations

import os

from imi_monitor.actions.creation import creation_rollback
from imi_monitor.git import heads, layout
from imi_monitor.git.layout import repository_at
from imi_monitor.git.worktree_add import add_worktree
from imi_monitor.model import amounts
from imi_monitor.model.errors import GitError, ImiError, Refused, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, operations, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.runner import Git
    from imi_monitor.store.operations import Operation


CREATE = "create"
_CANNOT_WRITE = ("unable to write", "couldn't write", "could not write", "No space left", "unable to create")


class CreationPlan:
    """Everything about one worktree to create, complete enough for another process to complete or revert the creation.

    `branch` is created at `sha` if `new_branch`, else it exists there. A plain class: importing dataclasses would cost
    `imi feat` 8 ms.
    """

    def __init__(
        self,
        repository: Repository,
        *,
        kind: str,
        name: str,
        path: str,
        branch: str,
        sha: str,
        new_branch: bool,
        agent: str,
        shown: str | None = None,
        base: str | None = None,
        took_over: str | None = None,
        upstream: str | None = None,
        pr_number: int | None = None,
        about: dict[str, object] | None = None,
        folders: list[str] | None = None,
        taken: list[str] | None = None,
    ) -> None:
        self.repository = repository
        self.kind = kind
        self.name = name
        self.path = path
        self.branch = branch
        self.sha = sha
        self.new_branch = new_branch
        self.agent = agent
        self.shown = shown  # the start point as text
        self.base = base  # the branch this one is to be merged into
        self.took_over = took_over
        self.upstream = upstream  # REMOTE/BRANCH that a new branch tracks
        self.pr_number = pr_number
        self.about = about or {}  # more data of the event, such as a pull request's title
        self.folders = folders or []  # missing parent folders of `path`, outermost first
        self.taken = taken or []  # names in git's directory that existed before and are not ours

    def data(self) -> dict[str, object]:
        """The plan as JSON values, for the intent."""
        recorded = {name: value for name, value in vars(self).items() if name != "repository"}
        return {**recorded, "common_dir": self.repository.common_dir}

    @classmethod
    def of(cls, data: dict[str, object], repository: Repository) -> CreationPlan:
        """Read what `data` returned back from JSON."""
        recorded = {name: value for name, value in data.items() if name != "common_dir"}
        try:
            return cls(repository, **recorded)  # type: ignore[arg-type]
        except TypeError as error:
            raise RegistryError("this creation was recorded by another version of imi: use that version") from error


def create_worktree(context: Context, git: Git, plan: CreationPlan) -> list[str]:
    """Create the worktree; returns warnings. Refused "busy" while another process works on this name."""
    if os.path.lexists(plan.path):
        raise Refused(
            f"{safe(plan.path)} exists and is not a worktree of this repository: move it away, or choose another name",
            code="path-exists",
        )
    plan.folders = _missing_folders(plan.path)
    plan.taken = creation_rollback.names_in_use(plan)
    repo_name, identity = db.transact(context.connection, _begin, context, plan)
    note = creation_rollback.marker(identity)
    admin_dir = None
    try:
        warnings: list[str] = []
        admin_dir = _check_out(context, git, plan, identity, warnings)
        warnings += finish_setup(context, git, plan)
        creation_rollback.unlock(admin_dir, note)
        db.transact(context.connection, _record_created, plan, repo_name, identity)
    except BaseException as problem:
        _roll_back(context, git, plan, identity, admin_dir, problem)
        raise
    return warnings


def _record_created(connection: sqlite3.Connection, plan: CreationPlan, repo_name: str, identity: str) -> None:
    """Record the row and its event and end the intent, in one transaction."""
    worktrees.register(
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
        raise Refused(f"the creation of {safe(plan.name)} was reverted by another imi", code="taken-back")


def _event(plan: CreationPlan) -> dict[str, object]:
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


def _begin(connection: sqlite3.Connection, context: Context, plan: CreationPlan) -> tuple[str, str]:
    repo_name = context.register(plan.repository, connection)
    for other in operations.list_unfinished(connection):
        if (other.repo_name, other.worktree_name) == (repo_name, plan.name):
            raise Refused(f"process {other.pid} is working on {safe(plan.name)} ({other.kind})", code="busy")
    return repo_name, operations.begin(connection, CREATE, repo_name, plan.name, plan.data())


def _check_out(context: Context, git: Git, plan: CreationPlan, identity: str, warnings: list[str]) -> str:
    """Create branch and checkout; returns git's admin directory, locked against `git worktree prune` until the end."""
    note = creation_rollback.marker(identity)
    mark = creation_rollback.lock_creation(plan.repository.common_dir, identity)
    try:
        if plan.new_branch:
            heads.make_branch(git, plan.branch, plan.sha, note)
        admin_dir = add_worktree(
            git,
            plan.path,
            branch=plan.branch,
            at=plan.sha,
            lock=note,
            on_progress=context.progress if context.shows_progress else None,
            cancelled=context.cancelled,
        )
    except GitError as problem:
        whole = _whole_despite_hook(git, plan, note)
        if whole is None:
            raise _explain_unwritable(problem, plan) from problem
        admin_dir = whole
        warnings.append(f"the repository's post-checkout hook failed: {problem.sentence}")
    finally:
        mark.remove()
    branch, _ = layout.read_head(admin_dir, plan.repository.common_dir)
    if branch != plan.branch or not layout.points_back(admin_dir, plan.path):
        raise GitError(f"git created {safe(plan.path)} on {safe(branch or 'no branch')} instead of {safe(plan.branch)}")
    return admin_dir


def _whole_despite_hook(git: Git, plan: CreationPlan, note: str) -> str | None:
    """The admin directory if the worktree is complete although git failed: only its post-checkout hook did."""
    if not git.trusted:
        return None
    from imi_monitor.git import partial_checkout

    admin_dir = partial_checkout.admin_dir_locked_with(git.common_dir, note)
    if admin_dir is None or not partial_checkout.is_complete(git.at(admin_dir, plan.path), plan.branch, plan.sha):
        return None
    return admin_dir


def _explain_unwritable(problem: GitError, plan: CreationPlan) -> GitError:
    """Add the probable reason and the free space to a failure to write, which git does not explain."""
    if not any(words in problem.stderr for words in _CANNOT_WRITE) or "Read-only" in problem.stderr:
        return problem
    folder = os.path.dirname(plan.path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free, where = min((_free(place), place) for place in (folder, plan.repository.common_dir))
    explained = GitError(
        f"git could not write all that {safe(plan.name)} needs: no space left ({amounts.size(free)} free in "
        f"{safe(where)}) or not allowed; nothing was created",
        code="not-writable",
        stderr=problem.stderr,
    )
    explained.details = tuple(line for line in problem.stderr.splitlines() if line.startswith(("error:", "fatal:")))[:5]
    return explained


def _free(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def finish_setup(context: Context, git: Git, plan: CreationPlan) -> list[str]:
    """Set the upstream and link the shared files; a file that cannot be linked is a warning."""
    if plan.new_branch and plan.upstream:
        creation_rollback.set_upstream(git, plan.branch, plan.upstream)
    if context.cancelled():
        raise Refused(f"the creation of {safe(plan.name)} was cancelled", code="cancelled")
    settings = context.settings
    around = os.path.dirname(plan.path)
    shared = ("sync", settings.text("sync.user_path"), settings.text("sync.local_path"))
    if not any(os.path.isdir(os.path.join(around, folder)) for folder in shared):
        return []
    from imi_monitor.actions.sync import worktree_links

    report = worktree_links.link_shared_files(plan.repository, plan.path, settings)
    return [f"{safe(name) or 'the shared files'} not linked: {why}" for name, why in report.conflicts]


def _missing_folders(path: str) -> list[str]:
    missing: list[str] = []
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def _roll_back(
    context: Context, git: Git, plan: CreationPlan, identity: str, admin_dir: str | None, problem: BaseException
) -> None:
    """Revert everything; what cannot be reverted now is reported and left to the next command."""
    try:
        left = creation_rollback.roll_back(context, git, plan, identity, admin_dir)
        db.transact(context.connection, operations.finish, identity)
    except (ImiError, OSError) as trouble:
        what = trouble.sentence if isinstance(trouble, ImiError) else safe(str(trouble))
        left = [f"the partial worktree could not be reverted yet ({what}): the next imi command tries again"]
        _abandon(context, identity)
    if isinstance(problem, ImiError):
        problem.details = (*problem.details, *left)


def _abandon(context: Context, identity: str) -> None:
    """Mark the intent as abandoned, since this process may live on; if that fails too, its end marks it."""
    try:
        db.transact(context.connection, operations.abandon, identity)
    except RegistryError as problem:
        context.progress(problem.sentence)


def recover(context: Context, operation: Operation) -> str | None:
    """Complete or revert the creation; returns a line about it. Refused "busy" while its git is still running."""
    name = safe(operation.worktree_name)
    common_dir = str(operation.data.get("common_dir"))
    if not os.path.isdir(common_dir):
        db.transact(context.connection, operations.finish, operation.id)
        return f"the creation of {name} was interrupted; its repository is gone, so there was nothing to revert"
    mark = creation_rollback.try_lock_creation(common_dir, operation.id)
    if mark is None:
        raise Refused(f"its git is still working on {name}", code="busy")
    try:
        return _complete_or_revert(context, operation, CreationPlan.of(operation.data, repository_at(common_dir)))
    finally:
        mark.remove()


def _complete_or_revert(context: Context, operation: Operation, made: CreationPlan) -> str:
    from imi_monitor.git import partial_checkout

    git = context.git(made.repository)
    ours = partial_checkout.admin_dir_locked_with(git.common_dir, creation_rollback.marker(operation.id))
    if ours is not None and partial_checkout.is_complete(git.at(ours, made.path), made.branch, made.sha):
        return _complete(context, git, operation, made, ours)
    there = partial_checkout.admin_dir_at(git.common_dir, made.path) if ours is None else None
    if there is not None and partial_checkout.is_on_branch(there, made.branch):
        return _complete(context, git, operation, made, there)  # interrupted after the lock was taken off
    kept = creation_rollback.roll_back(context, git, made, operation.id)
    db.transact(context.connection, operations.finish, operation.id)
    return "; ".join([f"reverted the interrupted creation of {safe(made.name)}", *kept])


def _complete(context: Context, git: Git, operation: Operation, made: CreationPlan, admin_dir: str) -> str:
    warnings = finish_setup(context, git, made)
    creation_rollback.unlock(admin_dir, creation_rollback.marker(operation.id))
    db.transact(context.connection, _record_created, made, operation.repo_name, operation.id)
    return "; ".join([f"completed the interrupted creation of {safe(made.name)}", *warnings])
