"""What a creation is going to make, complete enough that another process can take it back or finish it.

Making a worktree so that it is there whole or not at all: intent, branch, checkout, links, then row and event.

Whatever goes wrong on the way (git's refusal, a full disk, Ctrl-C, a registry that cannot be written) is taken back by
`unmaking`; after a kill the intent row lets the next imi do so.

After a crash in the middle of a creation: finish it if git came to its end, else take it back. Never under the hands of
a git that is still at work.
"""

from __future__ import annotations

import os

from imi_monitor.actions.creation import creation_rollback
from imi_monitor.git import heads, layout, partial_checkout
from imi_monitor.git.layout import repository_at
from imi_monitor.git.worktree_add import add_worktree
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


_TEXTS = ("agent", "base", "branch", "kind", "name", "path", "sha", "shown", "took_over", "upstream")


class CreationPlan:
    """One worktree to be. `branch` is made at `sha` if `new_branch`, else it stands there already."""

    __slots__ = (*_TEXTS, "about", "folders", "new_branch", "pr_number", "repository", "taken")

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
        folders: list[str] | None = None,
        taken: list[str] | None = None,
        about: dict[str, object] | None = None,
    ) -> None:
        self.repository = repository
        self.kind = kind
        self.name = name
        self.path = path
        self.branch = branch
        self.sha = sha
        self.new_branch = new_branch
        self.agent = agent
        self.shown = shown  # where the branch starts, for people
        self.base = base  # the branch it will be merged into one day
        self.took_over = took_over
        self.upstream = upstream  # REMOTE/BRANCH that a new branch follows
        self.pr_number = pr_number
        self.about = about or {}  # what else its event shall say, such as a pull request's title
        self.folders = folders or []  # those above `path` that do not exist yet, outermost first
        self.taken = taken or []  # what git's directory held before under such names

    def data(self) -> dict[str, object]:
        """For the intent row."""
        texts: dict[str, object] = {name: getattr(self, name) for name in _TEXTS}
        more = {
            "new_branch": self.new_branch,
            "pr_number": self.pr_number,
            "folders": self.folders,
            "taken": self.taken,
            "about": self.about,
        }
        return {**texts, **more, "common_dir": self.repository.common_dir}


def read_plan(data: dict[str, object], repository: Repository) -> CreationPlan:
    """The plan in an intent row."""
    texts = {name: None if data.get(name) is None else str(data[name]) for name in _TEXTS}
    number, about = data.get("pr_number"), data.get("about")
    return CreationPlan(
        repository,
        **texts,  # type: ignore[arg-type]
        new_branch=data.get("new_branch") is True,
        pr_number=number if isinstance(number, int) else None,
        folders=_list(data.get("folders")),
        taken=_list(data.get("taken")),
        about=about if isinstance(about, dict) else None,
    )


def _list(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


CREATE = "create"
_CANNOT_WRITE = ("unable to write", "couldn't write", "could not write", "No space left", "unable to create")


def create_worktree(context: Context, git: Git, plan: CreationPlan) -> list[str]:
    """Make it; gives warnings. Refused "busy" when another process is at work on a worktree of this name."""
    if os.path.lexists(plan.path):
        raise Refused(
            f"{safe(plan.path)} exists and is no worktree of this repository: move it away, or choose another name",
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
        db.transact(context.connection, record_created, plan, repo_name, identity)
    except BaseException as problem:
        _take_back(context, git, plan, identity, admin_dir, problem)
        raise
    return warnings


def record_created(connection: sqlite3.Connection, plan: CreationPlan, repo_name: str, identity: str) -> None:
    """Make it true: the row, its event and the end of the intent, in one transaction."""
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
        raise Refused(f"the creation of {safe(plan.name)} was taken back by another imi", code="taken-back")


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
            raise Refused(f"process {other.pid} is at work on {safe(plan.name)} ({other.kind})", code="busy")
    return repo_name, operations.begin(connection, CREATE, repo_name, plan.name, plan.data())


def _check_out(context: Context, git: Git, plan: CreationPlan, identity: str, warnings: list[str]) -> str:
    """Branch and checkout; gives git's directory for it. Locked, so that no prune takes it before it is registered."""
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


def _only_its_hook_failed(git: Git, plan: CreationPlan, note: str) -> str | None:
    """git's directory for a worktree that is whole although git says it failed, as plain git would leave it too."""
    if not git.trusted:
        return None
    from imi_monitor.git import partial_checkout

    admin_dir = partial_checkout.admin_dir_locked_with(git.common_dir, note)
    if admin_dir is None or not partial_checkout.is_complete(git.at(admin_dir, plan.path), plan.branch, plan.sha):
        return None
    return admin_dir


def _explained(problem: GitError, plan: CreationPlan) -> GitError:
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


def finish_setup(context: Context, git: Git, plan: CreationPlan) -> list[str]:
    """Upstream and shared files; what cannot be linked is a warning."""
    if plan.new_branch and plan.upstream:
        creation_rollback.set_upstream(git, plan.branch, plan.upstream)
    if context.cancelled():
        raise Refused(f"making {safe(plan.name)} was cancelled", code="cancelled")
    settings = context.settings
    around = os.path.dirname(plan.path)
    shared = ("sync", settings.text("sync_settings.user_sync_path"), settings.text("sync_settings.local_sync_path"))
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


def _take_back(
    context: Context, git: Git, plan: CreationPlan, identity: str, admin_dir: str | None, problem: BaseException
) -> None:
    """As if it had never begun; what cannot be taken back now is left to the next imi, and said."""
    try:
        left = creation_rollback.roll_back(context, git, plan, identity, admin_dir)
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
        db.transact(context.connection, operations.abandon, identity)
    except RegistryError as problem:
        context.progress(problem.sentence)


def recover(context: Context, operation: Operation) -> str | None:
    """Bring it to an end; a line saying how. Refused "busy" while its git, which outlived its imi, is still at work."""
    name = safe(operation.worktree_name)
    common_dir = str(operation.data.get("common_dir"))
    if not os.path.isdir(common_dir):
        db.transact(context.connection, operations.finish, operation.id)
        return f"the creation of {name} was interrupted; its repository is gone, so there was nothing to take back"
    mark = creation_rollback.try_lock_creation(common_dir, operation.id)
    if mark is None:
        raise Refused(f"its git is still at work on {name}", code="busy")
    try:
        return _end(context, operation, read_plan(operation.data, repository_at(common_dir)))
    finally:
        mark.remove()


def _end(context: Context, operation: Operation, made: CreationPlan) -> str:
    git = context.git(made.repository)
    ours = partial_checkout.admin_dir_locked_with(git.common_dir, creation_rollback.marker(operation.id))
    if ours is not None and partial_checkout.is_complete(git.at(ours, made.path), made.branch, made.sha):
        return _finish(context, git, operation, made, ours)
    there = partial_checkout.admin_dir_at(git.common_dir, made.path) if ours is None else None
    if there is not None and partial_checkout.is_on_branch(there, made.branch):
        return _finish(context, git, operation, made, there)  # we had come as far as taking the lock off
    kept = creation_rollback.roll_back(context, git, made, operation.id)
    db.transact(context.connection, operations.finish, operation.id)
    return "; ".join([f"took back the interrupted creation of {safe(made.name)}", *kept])


def _finish(context: Context, git: Git, operation: Operation, made: CreationPlan, admin_dir: str) -> str:
    warnings = finish_setup(context, git, made)
    creation_rollback.unlock(admin_dir, creation_rollback.marker(operation.id))
    db.transact(context.connection, record_created, made, operation.repo_name, operation.id)
    return "; ".join([f"finished making {safe(made.name)}, which had been interrupted", *warnings])
