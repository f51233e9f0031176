"""`imi merge`: merge a worktree's branch into its base, after showing conflicts.

The merge is computed on git objects alone, and only its result enters the base, by a fast-forward. So the base is never half
merged: its files and its ref are either both old or both new.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import ownership
from imi_monitor.git import layout
from imi_monitor.model import times
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import count, safe
from imi_monitor.store import claims, db, events, operations, repositories

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git

_SHOWN = 8  # commits that a preview lists


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What is merged into what. `tree` is the merged tree; None for a fast-forward."""

    branch: str
    base: str
    branch_sha: str
    base_sha: str
    commits: int
    fast_forward: bool
    tree: str | None
    into: Target | None  # the worktree that has the base checked out
    updates: bool = False  # the base is a worktree's branch that gets what the trunk has
    backwards: bool = False  # the base loses commits: it is rebased, or an update is taken back
    undoes: bool = False


class MergeAction(Action):
    words = ("merge",)
    group = "Merge and remove"
    label = "Merge"
    examples = (("imi merge feat-user-auth --close", "merge it into its base, then move it to the trash"),)
    help = "merge a worktree's branch into its base, after showing whether it conflicts"
    key = "i"
    more = """Refuses uncommitted changes on either side. The worktree and the branch stay; --close then moves the
    worktree to the trash; `imi undo` restores it."""
    arguments = (
        Argument("name", "the worktree (default: the current one)", optional=True),
        Argument("repo", "the repository", optional=True),
    )
    options = (
        Option("into", "the branch to merge into (default: the worktree's base, else the trunk)", value="BRANCH"),
        Option("no-ff", "create a merge commit even if a fast-forward is possible", label="Always make a merge commit"),
        Option("message", "the merge commit's message", value="TEXT", aliases=("m",)),
        Option("dry-run", "only show what would happen, including conflicts"),
        Option("close", "move the worktree to the trash afterwards", label="Move it to the trash afterwards"),
        Option("agent", "the acting agent, if it holds a claim", value="ID", aliases=("agent-id", "yi-id")),
    )
    dangerous = True
    brings_work = True
    dialog_options = ("into", "no-ff", "message", "close")

    def consequences(self, context: Context, request: Request) -> list[str]:
        found = _find_source(context, request)
        plan = _plan(context, found, request)
        if plan is None:
            return [f"{safe(found.branch or '')} is already merged into its base"]
        return _describe(context, found, plan, close=request.flag("close"))

    def run(self, context: Context, request: Request) -> Outcome:
        found = _find_source(context, request)
        plan = _plan(context, found, request)
        if plan is None:
            return Outcome([f"{safe(found.branch or '')} is already merged into its base"], {"merged": False})
        if request.flag("dry-run"):
            return _outcome(plan, None, found)
        repo_name = context.register(found.repository)
        sha = merge_plan(context, found, plan, repo_name, request.text("message"))
        outcome = _outcome(plan, sha, found)
        if request.flag("close"):
            _close(context, found, request, outcome)
        return outcome


def _describe(context: Context, found: Target, plan: MergePlan, *, close: bool) -> list[str]:
    """The lines of a preview: the merge, its commits, the files that change."""
    from imi_monitor.git.refs import commits_only_on

    brought = commits_only_on(context.git(found.repository), plan.branch_sha, f"refs/heads/{plan.base}", limit=_SHOWN)
    more = [f"  … and {plan.commits - len(brought)} more"] if plan.commits > len(brought) else []
    where = f", whose files in {safe(plan.into.name)} change" if plan.into else ""
    after = f"{safe(found.name)} moves to the trash afterwards" if close else f"{safe(found.name)} and its branch stay"
    return [
        *_outcome(plan, None, found).lines,
        *(f"  {sha[:8]} {safe(subject, 100)}" for sha, subject in brought),
        *more,
        f"moves {safe(plan.base)}{where}",
        after,
    ]


def recover(context: Context, operation: operations.Operation) -> str | None:
    """Make the files of the base match its ref again, after a crash while git wrote them."""
    from imi_monitor.git.fast_forward import recover_fast_forward

    data = {key: str(value) for key, value in operation.data.items()}
    common_dir = repositories.list_common_dirs(context.connection).get(operation.repo_name)
    summary: str | None = None
    if common_dir and os.path.isdir(data["path"]) and os.path.isdir(data["admin_dir"]):
        git = context.git(layout.repository_at(common_dir)).at(data["admin_dir"], data["path"])
        began = times.parse(operation.started_at)
        summary = recover_fast_forward(git, data["before"], data["after"], began=began.timestamp() if began else 0.0)
    db.transact(context.connection, operations.finish, operation.id)
    return summary and f"a merge into {safe(data['base'])} was interrupted: {summary}"


def _find_source(context: Context, request: Request) -> Target:
    name = request.text("name")
    if name is not None:
        return worktree_lookup.find_worktree(context, name, request.text("repo"))
    place = context.place()
    here = [t for t in worktree_lookup.list_worktrees(context, context.repository()) if place and t.path == place.path]
    if not here:
        raise Refused("name the worktree to merge: the current folder is not in one", code="no-worktree")
    return here[0]


def _plan(context: Context, found: Target, request: Request) -> MergePlan | None:
    from imi_monitor.git import refs

    git = context.git(found.repository)
    base = _base_branch(context, git, found, request)
    branch = checked_branch(context, found, base, context.agent(request))
    branch_sha, base_sha = refs.branch_sha(git, branch), refs.branch_sha(git, base)
    if base_sha is None:
        why = f"there is no local branch {safe(base)} to merge into"
        raise Refused(advised(why, "name one with --into", "enter another branch"), code="no-base")
    if branch_sha is None:
        raise Refused(f"{safe(branch)} has no commit yet", code="unborn")
    ahead = refs.commits_only_on(git, f"refs/heads/{branch}", f"refs/heads/{base}")
    if not ahead:
        return None
    into = _base_worktree(context, found, base, context.agent(request))
    behind = bool(refs.commits_only_on(git, f"refs/heads/{base}", f"refs/heads/{branch}", limit=1))
    fast_forward = not behind and not request.flag("no-ff")
    tree = None if fast_forward else _merged_tree(git, branch, base, branch_sha, base_sha)
    return MergePlan(branch, base, branch_sha, base_sha, len(ahead), fast_forward, tree, into)


def _base_branch(context: Context, git: Git, found: Target, request: Request) -> str:
    from imi_monitor.git import refs

    wanted = request.text("into")
    if wanted is not None:
        return refs.check_branch_name(wanted)
    remembered = found.row.base_branch if found.row else None
    if remembered and refs.branch_sha(git, remembered) is not None:
        return remembered
    return worktree_lookup.trunk_branch(context, git)


def checked_branch(context: Context, found: Target, base: str, agent: str) -> str:
    if found.missing or found.admin_dir is None:
        raise worktree_lookup.missing_folder(found)
    if found.branch is None:
        raise Refused(f"{safe(found.name)} is on no branch: make one with `git switch -c NAME` first", code="detached")
    if found.branch == base:
        raise Refused(f"{safe(found.name)} has {safe(base)} itself checked out: nothing to merge", code="same-branch")
    _require_clean(context, found, agent)
    return found.branch


def _require_clean(context: Context, found: Target, agent: str) -> None:
    """Refuse a worktree claimed by another owner, with uncommitted changes, or with an operation in progress."""
    from imi_monitor.git.git_status import operation_in_progress, read_status

    shown = safe(found.name)
    if found.repo_name is not None:
        holder = claims.current(context.connection, found.repo_name, found.name)
        if ownership.is_anothers(holder, agent):
            raise Refused(
                f"{shown} is claimed by {safe(holder.agent_id or '')}: let its owner do that, or `imi claim` takes it over",
                code="claimed",
            )
    admin = found.admin_dir or found.repository.common_dir
    in_progress = operation_in_progress(admin)
    if in_progress:
        raise Refused(f"a {in_progress} is in progress in {shown}: finish or abort it first", code="operation")
    status = read_status(worktree_lookup.git_in(context, found), untracked="no")
    dirty = [*status.conflicted, *status.staged, *status.unstaged]
    if dirty:
        names = list(dict.fromkeys(dirty))
        raise Refused(
            f"{shown} has {count(len(names), 'uncommitted file')}: commit or stash first",
            code="dirty",
            details=[safe(name) for name in names[:10]],
            data={"files": names[:100]},
        )


def _base_worktree(context: Context, found: Target, base: str, agent: str) -> Target | None:
    for other in worktree_lookup.list_worktrees(context, found.repository):
        if other.branch == base and not other.missing and other.admin_dir is not None:
            _require_clean(context, other, agent)
            return other
    return None


def _merged_tree(git: Git, branch: str, base: str, branch_sha: str, base_sha: str) -> str:
    from imi_monitor.git.git_merge import preview_merge

    result = preview_merge(git, base_sha, branch_sha)
    if result.tree is None or result.conflicts:
        names = list(result.conflicts)
        raise Refused(
            f"{safe(branch)} conflicts with {safe(base)} in {count(len(names), 'file')}: nothing was changed; merge "
            f"{safe(base)} into the worktree and resolve there",
            code="conflicts",
            details=[safe(name) for name in names[:20]],
            data={"conflicts": names},
        )
    return result.tree


def merge_plan(context: Context, found: Target, plan: MergePlan, repo_name: str, message: str | None = None) -> str:
    """Carry out the merge and return the commit that the base is at then; after a failure nothing is changed."""
    from imi_monitor.git import update_ref
    from imi_monitor.git.fast_forward import fast_forward, move_branch
    from imi_monitor.git.git_merge import merge_commit

    git = context.git(found.repository)
    sha = plan.branch_sha
    if plan.tree is not None:
        text = message or f"Merge branch '{plan.branch}' into {plan.base}"
        sha = merge_commit(git, plan.tree, [plan.base_sha, plan.branch_sha], text)
    if plan.into is None:
        update_ref.move_branch(git, plan.base, sha, plan.base_sha)
        db.transact(context.connection, _record_merged, repo_name, found.name, plan, sha, None)
        return sha
    operation = db.transact(context.connection, _begin, repo_name, found.name, plan, sha)
    with _SignalsBlocked():
        base_git = git.at(plan.into.admin_dir or "", plan.into.path)
        try:
            if plan.backwards:
                move_branch(base_git, plan.base_sha, sha)
            else:
                fast_forward(base_git, sha)
        except BaseException:
            db.transact(context.connection, _after_failure(base_git, plan.base_sha, sha), operation)
            raise
        db.transact(context.connection, _record_merged, repo_name, found.name, plan, sha, operation)
    return sha


def _after_failure(git: Git, before: str, after: str) -> Callable[[sqlite3.Connection, str], object]:
    """Undo what git wrote before it failed; if that fails too, the next command tries again."""
    from imi_monitor.git.fast_forward import undo_fast_forward

    try:
        undo_fast_forward(git, before, after)
    except (ImiError, OSError):
        return operations.abandon
    return operations.finish


class _SignalsBlocked:
    """Blocks Ctrl-C and termination while git writes the files of the base."""

    def __enter__(self) -> None:
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

    def __exit__(self, *exception: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)


def _begin(connection: sqlite3.Connection, repo_name: str, name: str, plan: MergePlan, sha: str) -> str:
    into = plan.into
    data: dict[str, object] = {
        "path": into.path if into else "",
        "admin_dir": (into.admin_dir or "") if into else "",
        "before": plan.base_sha,
        "after": sha,
        "base": plan.base,
    }
    return operations.begin(connection, "merge", repo_name, name, data)


def _record_merged(
    connection: sqlite3.Connection, repo_name: str, name: str, plan: MergePlan, sha: str, operation: str | None
) -> None:
    data: dict[str, object] = {"branch": plan.branch, "into": plan.base, "before": plan.base_sha, "after": sha}
    if plan.updates:
        data = {"from": plan.base_sha, "to": sha, "commits": plan.commits}
        data |= {"how": "undo"} if plan.undoes else {"how": "rebase"} if plan.backwards else {}
    events.record(connection, "worktree.updated" if plan.updates else "worktree.merged", repo_name, name, data=data)
    if operation is not None:
        operations.finish(connection, operation)


def _close(context: Context, found: Target, request: Request, outcome: Outcome) -> None:
    from imi_monitor.actions.removal import safe_removal

    verdict = safe_removal.removal_verdict(context, found, agent=context.agent(request))
    if not verdict.safe:
        outcome.warnings.append(f"{safe(found.name)} was merged but not closed: see `imi remove {safe(found.name)}`")
        return
    safe_removal.remove_worktree(context, found, agent=context.agent(request), how="merged")
    outcome.lines.append(f"closed {safe(found.name)}; `imi undo` restores it")
    outcome.data["closed"] = True


def _outcome(plan: MergePlan, sha: str | None, found: Target) -> Outcome:
    way = "fast-forward" if plan.fast_forward else "merge commit"
    what = f"{safe(plan.branch)} into {safe(plan.base)}: {count(plan.commits, 'commit')}, {way}"
    lines = [f"merged {what}"] if sha else [f"would merge {what}, without conflicts"]
    data: dict[str, object] = {
        "merged": sha is not None,
        "worktree_name": found.name,
        "branch": plan.branch,
        "into": plan.base,
        "commits": plan.commits,
        "fast_forward": plan.fast_forward,
        "before": plan.base_sha,
        "after": sha,
    }
    return Outcome(lines, data)


ACTIONS = (MergeAction(),)
