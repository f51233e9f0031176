"""`imi rename`: rename a worktree, its folder and, if it follows the naming, its branch."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from imi_monitor import host, presence
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import ownership
from imi_monitor.model import names
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import claims, db, operations, repositories, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git


@dataclass(frozen=True, slots=True)
class RenamePlan:
    """Old and new names and paths; the branches are None if the branch keeps its name."""

    old_name: str
    new_name: str
    old_path: str
    new_path: str
    old_branch: str | None
    new_branch: str | None
    agent: str | None = None  # who renames it; unknown for one that an earlier version began


class RenameAction(Action):
    words = ("rename", "mv")
    group = "Worktrees"
    label = "Rename"
    help = "give a worktree another name: its folder and, if it follows the naming, its branch"
    key = "N"
    returns_path = True
    more = """A branch that has been pushed under its name keeps it, so that its pull request keeps its branch."""
    arguments = (
        Argument("name", "the worktree"),
        Argument("new", "its new name; a known prefix such as feat- is kept", label="New name"),
    )
    options = (
        Option("keep-branch", "leave the branch's name as it is", label="Keep the branch's name"),
        Option(
            "force", "even while processes run inside", overrides=("in-use",), label="Even while processes run inside"
        ),
        Option("agent", "the acting agent, if it holds the claim", value="ID", aliases=("agent-id", "yi-id")),
    )

    dialog_options = ("keep-branch", "force")

    def consequences(self, context: Context, request: Request) -> list[str]:
        found, plan = _plan(context, request)
        lines = [f"{safe(plan.old_name)} becomes {safe(plan.new_name)}", f"folder  {safe(plan.new_path)}"]
        if plan.new_branch:
            return [*lines, f"branch  {safe(plan.old_branch or '')} becomes {safe(plan.new_branch)}"]
        kept = f"branch  {safe(found.branch)} keeps its name" if found.branch else "no branch (detached HEAD)"
        return [*lines, kept]

    def run(self, context: Context, request: Request) -> Outcome:
        found, plan = _plan(context, request)
        git = context.git(found.repository)
        repo_name = context.register(found.repository)
        operation = db.transact(context.connection, _begin, repo_name, found, plan)
        try:
            _move(git, plan)
        except BaseException:
            _roll_back(git, plan)
            db.transact(context.connection, operations.finish, operation)
            raise
        epoch = db.transact(context.connection, _record_renamed, repo_name, plan, operation)
        outcome = _outcome(plan, repo_name, epoch)
        for name in (plan.old_name, plan.new_name):
            lock = presence.presence_lock_path(found.repository, name)
            warning = presence.update_presence_lock(context.connection, lock, repo_name, name, context.database)
            outcome.warnings.extend([warning] if warning else [])
        return outcome


def _plan(context: Context, request: Request) -> tuple[Target, RenamePlan]:
    """The worktree and its rename; raises if it must not be renamed."""
    found = worktree_lookup.find_worktree(context, request.text("name") or "")
    new_name = _new_name(worktree_lookup.name_prefixes(context), found, request.text("new") or "")
    _refuse(context, found, new_name, context.agent(request), force=request.flag("force"))
    git = context.git(found.repository)
    branches = None if request.flag("keep-branch") else _branches(git, found, new_name)
    new_path = os.path.join(os.path.dirname(found.path), new_name)
    old_branch, new_branch = branches or (None, None)
    agent = context.agent(request)
    return found, RenamePlan(found.name, new_name, found.path, new_path, old_branch, new_branch, agent)


def recover(context: Context, operation: operations.Operation) -> str | None:
    """Complete the rename after a crash if the folder has moved, else drop it."""
    plan = RenamePlan(**{key: None if value is None else str(value) for key, value in operation.data.items()})  # type: ignore[arg-type]
    common_dir = repositories.list_common_dirs(context.connection).get(operation.repo_name)
    if common_dir is None or not os.path.isdir(plan.new_path) or os.path.lexists(plan.old_path):
        db.transact(context.connection, operations.finish, operation.id)
        return None
    from imi_monitor.git.layout import repository_at

    git = context.git(repository_at(common_dir))
    git.run("worktree", "repair", "--", plan.new_path)
    if (
        plan.old_branch
        and plan.new_branch
        and _branch_exists(git, plan.old_branch)
        and not _branch_exists(git, plan.new_branch)
    ):
        git.run("branch", "-m", "--", plan.old_branch, plan.new_branch)
    db.transact(context.connection, _record_renamed, operation.repo_name, plan, operation.id)
    return f"completed the interrupted rename of {safe(plan.old_name)} to {safe(plan.new_name)}"


def _new_name(prefixes: list[str], found: Target, wanted: str) -> str:
    problem = names.name_problem(wanted)
    if problem:
        raise UsageError(f"the new name {safe(wanted)!r} {problem}", code="bad-name")
    has_prefix = any(wanted.startswith(prefix) for prefix in prefixes)
    prefix = next((prefix for prefix in prefixes if found.name.startswith(prefix)), "")
    return wanted if has_prefix else prefix + wanted


def _refuse(context: Context, found: Target, new_name: str, agent: str, *, force: bool) -> None:
    shown = safe(found.name)
    if found.is_main:
        raise Refused(f"{shown} is the repository's main worktree, which cannot be renamed", code="main-worktree")
    if found.linked is None or found.missing:
        raise worktree_lookup.missing_folder(found)
    if found.linked.locked is not None:
        why = safe(found.linked.locked) or "no reason given"
        raise Refused(f"{shown} is locked ({why}): `git worktree unlock` it first", code="locked")
    others = [other.name for other in worktree_lookup.list_worktrees(context, found.repository)]
    if new_name in others or os.path.lexists(os.path.join(os.path.dirname(found.path), new_name)):
        raise Refused(f"{safe(new_name)} exists: choose another name", code="exists")
    twin = next((other for other in others if other.lower() == new_name.lower() and other != found.name), None)
    if twin is not None:
        raise Refused(f"{safe(new_name)} differs from {safe(twin)} only in case: choose another name", code="case-twin")
    if found.repo_name is not None:
        holder = claims.current(context.connection, found.repo_name, found.name)
        if ownership.is_anothers(holder, agent):
            raise Refused(
                f"{shown} is claimed by {safe(holder.agent_id or '')}: only its owner can rename it", code="claimed"
            )
    inside = host.processes_inside(found.path)
    if inside and not force:
        who = ", ".join(f"{safe(command)} ({pid})" for pid, command in inside[:5])
        running = f"{len(inside)} processes run in {shown}: {who}"
        raise Refused(advised(running, "end them, or use --force", "end them first", joint="; "), code="in-use")


def _branches(git: Git, found: Target, new_name: str) -> tuple[str, str] | None:
    """(old, new) branch if it is named after the worktree and was not pushed under that name."""
    from imi_monitor.git.refs import tracking

    branch = found.branch
    if branch is None:
        return None
    for separator in ("/", "-"):
        if branch == found.name.replace("-", separator, 1) and new_name.count("-"):
            new = new_name.replace("-", separator, 1)
            known = tracking(git)
            if branch not in known or known[branch].upstream is not None:
                return None
            if new in known:
                taken = advised(
                    f"the branch {safe(new)} exists", "use --keep-branch or another name", "choose another name"
                )
                raise Refused(taken, code="exists")
            return branch, new
    return None


def _begin(connection: sqlite3.Connection, repo_name: str, found: Target, plan: RenamePlan) -> str:
    if worktrees.get(connection, repo_name, found.name) is None:
        worktrees.register(
            connection, repo_name, found.name, branch=found.branch or "", kind=found.kind, path=found.path
        )
    return operations.begin(connection, "rename", repo_name, found.name, asdict(plan))


def _move(git: Git, plan: RenamePlan) -> None:
    git.run("worktree", "move", "--", plan.old_path, plan.new_path, timeout=60)
    if plan.old_branch and plan.new_branch:
        git.run("branch", "-m", "--", plan.old_branch, plan.new_branch)


def _roll_back(git: Git, plan: RenamePlan) -> None:
    """Rename folder and branch back after a failure: git renames a branch before it fails to write HEAD or its settings."""
    if (
        plan.old_branch
        and plan.new_branch
        and _branch_exists(git, plan.new_branch)
        and not _branch_exists(git, plan.old_branch)
    ):
        git.run("branch", "-m", "--", plan.new_branch, plan.old_branch, ok=(0, 128))
    if os.path.isdir(plan.new_path) and not os.path.lexists(plan.old_path):
        git.run("worktree", "move", "--", plan.new_path, plan.old_path, timeout=60)


def _branch_exists(git: Git, branch: str) -> bool:
    from imi_monitor.git.refs import branch_sha

    try:
        return branch_sha(git, branch) is not None
    except GitError:
        return False


def _record_renamed(connection: sqlite3.Connection, repo_name: str, plan: RenamePlan, operation: str) -> int:
    epoch = claims.rename_worktree(connection, repo_name, plan.old_name, plan.new_name)
    names = (plan.old_name, plan.new_name)
    worktrees.rename(connection, repo_name, *names, path=plan.new_path, branch=plan.new_branch, agent=plan.agent)
    operations.finish(connection, operation)
    return epoch


def _outcome(plan: RenamePlan, repo_name: str, epoch: int) -> Outcome:
    lines = [f"renamed {safe(plan.old_name)} to {safe(plan.new_name)}"]
    if plan.new_branch:
        lines.append(f"branch {safe(plan.old_branch or '')} is now {safe(plan.new_branch)}")
    data: dict[str, object] = {**asdict(plan), "repo": repo_name, "worktree_name": plan.new_name}
    data["worktree_path"] = plan.new_path
    data["epoch"] = epoch
    return Outcome(lines, data, path=plan.new_path)


ACTIONS = (RenameAction(),)
