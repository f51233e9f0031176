"""Reads worktrees for `imi list` and `imi status`: from files and registry at once, their git status concurrently.

A worktree that cannot be read becomes a status with an error, never an exception: it must not hide the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.status import worktree_git
from imi_monitor.git import layout
from imi_monitor.model.errors import GitError, ImiError
from imi_monitor.model.worktree_table import ListedWorktree, WorktreeStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_status import GitStatus
    from imi_monitor.git.runner import Git

_MOST_STATTED = 2000  # changed files whose modification time is read


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """A worktree and what its thread needs to read it: threads have no access to the registry."""

    listed: ListedWorktree
    target: Target
    git: Git | None
    problem: str | None
    base: str | None  # the full ref of the trunk
    dates: dict[str, str]  # commit -> time of the commit


def known_worktrees(context: Context, repository: layout.Repository) -> list[ListedWorktree]:
    """Every worktree of the repository, the main one first, then by name. Runs no git process."""
    return [listed for listed, _ in _known_targets(context, repository)]


def read_states(
    context: Context, repositories: Sequence[layout.Repository], name: str | None = None
) -> list[WorktreeStatus]:
    """The status of every worktree, or of the one called `name`."""
    queries = [query for repository in repositories for query in _queries(context, repository, name)]
    if not queries:
        return []
    executor = ThreadPoolExecutor(max_workers=min(len(queries), os.cpu_count() or 1))
    stopped = Event()

    def cancelled() -> bool:
        return stopped.is_set() or context.cancelled()

    try:
        return list(executor.map(_reader(cancelled), queries))
    finally:
        stopped.set()  # after ctrl-c the program must not wait for a git process that hangs
        executor.shutdown(cancel_futures=True)


def _known_targets(context: Context, repository: layout.Repository) -> list[tuple[ListedWorktree, Target]]:
    from imi_monitor.store import claims

    repo = context.repo_name(repository) or layout.repository_name(repository)
    held = {claim.worktree_name: claim for claim in claims.list_held(context.connection, repo)}
    without = "unknown" if context.registry_problem is not None else "free"
    found = []
    for target in worktree_lookup.list_worktrees(context, repository):
        claim = held.get(target.name)
        state = claims.state(claim) if claim else without
        found.append((_listed(target, repo, claim.agent_id if claim else None, state), target))
    return sorted(found, key=lambda pair: (not pair[0].is_main, pair[0].worktree_name))


def _listed(target: Target, repo: str, owner: str | None, state: str) -> ListedWorktree:
    missing = target.missing or (target.linked is not None and target.linked.missing)
    locked = target.linked.locked if target.linked else None
    return ListedWorktree(
        worktree_name=target.name,
        repo=repo,
        path=target.path,
        branch=target.branch,
        type=target.kind,
        is_main=target.is_main,
        agent_id=owner,
        claim_state=state,
        pr_number=target.row.pr_number if target.row else None,
        missing=missing,
        locked=locked,
        prunable=_prunable_reason(target) if missing and locked is None else None,
    )


def _prunable_reason(target: Target) -> str:
    if target.linked is None and not target.is_main:
        return "git does not list it any more"
    return "its .git file is gone" if os.path.isdir(target.path) else "its folder is gone"


def _queries(context: Context, repository: layout.Repository, name: str | None) -> list[StatusQuery]:
    found = [pair for pair in _known_targets(context, repository) if name in (None, pair[0].worktree_name)]
    try:
        git = context.git(repository)
        trunk, base = worktree_git.trunk_of(context, repository)
    except ImiError as error:
        return [StatusQuery(listed, target, None, error.sentence, None, {}) for listed, target in found]
    dates = _commit_dates(git, {target.linked.head for _, target in found if target.linked and target.linked.head})
    # the trunk itself is compared with its upstream only
    return [
        StatusQuery(listed, target, git, None, None if listed.branch == trunk else base, dates)
        for listed, target in found
    ]


def _commit_dates(git: Git, shas: set[str]) -> dict[str, str]:
    """The times of these commits, from one process; empty if one of them cannot be read."""
    from imi_monitor.git import commits

    try:
        found = commits.list_commits(git, *sorted(shas), options=("--no-walk",), limit=len(shas)) if shas else []
    except GitError:  # then each worktree reads its own commit, and only the broken one stays unknown
        return {}
    return {commit.sha: commit.at for commit in found}


def _reader(cancelled: Callable[[], bool]) -> Callable[[StatusQuery], WorktreeStatus]:
    def read_one(query: StatusQuery) -> WorktreeStatus:
        try:
            if cancelled():
                raise GitError("cancelled before it was read", code="cancelled")
            return _read(query, cancelled)
        except ImiError as error:
            return WorktreeStatus(query.listed, error=error.sentence)

    return read_one


def _read(query: StatusQuery, cancelled: Callable[[], bool]) -> WorktreeStatus:
    from imi_monitor.git.git_status import operation_in_progress, read_status

    target = query.target
    if query.listed.missing:
        return WorktreeStatus(query.listed, error=query.listed.states[0])
    if query.git is None or target.admin_dir is None:
        return WorktreeStatus(query.listed, error=query.problem or "git does not list it any more")
    if not target.is_main and not layout.points_back(target.admin_dir, target.path):
        raise GitError(
            "its .git file names another repository (tampered with, or a copy): git is not run there", code="tampered"
        )
    git = query.git.at(target.admin_dir, target.path)
    return _status(query, git, read_status(git, cancelled=cancelled), operation_in_progress(target.admin_dir))


def _status(query: StatusQuery, git: Git, status: GitStatus, operation: str | None) -> WorktreeStatus:
    ahead, behind = _trunk_distance(git, status, query.base)
    path, changed_at = _last_change(query.listed.path, [entry.path for entry in status.entries])
    return WorktreeStatus(
        query.listed,
        head=status.oid,
        upstream=status.upstream,
        ahead=status.ahead,
        behind=status.behind,
        trunk=_short(query.base),
        trunk_ahead=ahead,
        trunk_behind=behind,
        staged=len(status.staged),
        unstaged=len(status.unstaged),
        untracked=len(status.untracked),
        conflicted=len(status.conflicted),
        uncommitted=len(status.entries),
        operation=operation,
        last_commit_at=query.dates.get(status.oid or "") or _commit_date(git, status.oid),
        last_change_at=changed_at,
        last_change_path=path,
    )


def _trunk_distance(git: Git, status: GitStatus, base: str | None) -> tuple[int | None, int | None]:
    from imi_monitor.git.refs import distance

    if base is None or status.oid is None:
        return None, None
    try:
        return distance(git, status.oid, base)
    except GitError:  # an object is missing, as in a shallow or partial clone: the rest of the status is still shown
        return None, None


def _commit_date(git: Git, oid: str | None) -> str | None:
    return _commit_dates(git, {oid}).get(oid) if oid else None


def _short(ref: str | None) -> str | None:
    return None if ref is None else ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")


def _last_change(root: str, paths: Sequence[str]) -> tuple[str | None, str | None]:
    """The changed file that was written last, and when. Deleted files have no time and do not count."""
    from imi_monitor.git import commits

    latest: tuple[float, str] | None = None
    for path in paths[:_MOST_STATTED]:
        try:
            written = os.lstat(os.path.join(root, path)).st_mtime
        except OSError:
            continue
        latest = max(latest or (written, path), (written, path))
    if latest is None:
        return None, None
    return latest[1], commits.commit_time(int(latest[0]))
