"""Asking about worktrees: at once what files and registry tell, and their git status many at a time.

A worktree that cannot be asked is a reading with its reason, never an exception: one broken worktree must not hide the
others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from imi_monitor.actions import worktree_lookup
from imi_monitor.git import layout
from imi_monitor.model.errors import GitError, ImiError
from imi_monitor.model.worktree_table import ListedWorktree, WorktreeStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_status import GitStatus
    from imi_monitor.git.runner import Git

_MOST_STATTED = 2000  # files looked at for the youngest change


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """A worktree and what is needed to ask about it, gathered before the threads start: they have no registry."""

    known: ListedWorktree
    target: Target
    git: Git | None
    problem: str | None
    base: str | None  # the trunk as a full ref
    dates: dict[str, str]  # commit -> when it was made


def known_worktrees(context: Context, repository: layout.Repository) -> list[ListedWorktree]:
    """Every worktree of the repository, by name and the main one first, without a git process."""
    return [what for what, _ in _known(context, repository)]


def read_states(
    context: Context, repositories: Sequence[layout.Repository], name: str | None = None
) -> list[WorktreeStatus]:
    """The state of every worktree (or of the one called `name`), asked concurrently."""
    asked = [one for repository in repositories for one in _asked(context, repository, name)]
    if not asked:
        return []
    executor = ThreadPoolExecutor(max_workers=min(len(asked), os.cpu_count() or 1))
    stopped = Event()

    def cancelled() -> bool:
        return stopped.is_set() or context.cancelled()

    try:
        return list(executor.map(_reader(cancelled), asked))
    finally:
        stopped.set()  # after Ctrl-C nobody shall wait for a git that hangs
        executor.shutdown(cancel_futures=True)


def _known(context: Context, repository: layout.Repository) -> list[tuple[ListedWorktree, Target]]:
    from imi_monitor.store import claims

    repo = context.repo_name(repository) or layout.repository_name(repository)
    holders = {claim.worktree_name: claim for claim in claims.list_held(context.connection, repo)}
    found = []
    for one in worktree_lookup.list_worktrees(context, repository):
        claim = holders.get(one.name)
        state = claims.state(claim) if claim else "free"
        found.append((_describe(one, repo, claim.agent_id if claim else None, state), one))
    return sorted(found, key=lambda pair: (not pair[0].is_main, pair[0].worktree_name))


def _describe(one: Target, repo: str, agent: str | None, state: str) -> ListedWorktree:
    missing = one.missing or (one.linked is not None and one.linked.missing)
    locked = one.linked.locked if one.linked else None
    return ListedWorktree(
        worktree_name=one.name,
        repo=repo,
        path=one.path,
        branch=one.branch,
        type=one.kind,
        is_main=one.is_main,
        agent_id=agent,
        claim_state=state if agent else "free",
        pr_number=one.row.pr_number if one.row else None,
        missing=missing,
        locked=locked,
        prunable=_prunable(one) if missing and locked is None else None,
    )


def _prunable(one: Target) -> str:
    if one.linked is None and not one.is_main:
        return "git does not list it any more"
    return "its .git file is gone" if os.path.isdir(one.path) else "its folder is gone"


def _asked(context: Context, repository: layout.Repository, name: str | None) -> list[StatusQuery]:
    found = [(what, one) for what, one in _known(context, repository) if name in (None, what.worktree_name)]
    try:
        git = context.git(repository)
        trunk, base = _trunk(context, git)
    except ImiError as error:
        return [StatusQuery(what, one, None, error.sentence, None, {}) for what, one in found]
    dates = _dates(git, {one.linked.head for _, one in found if one.linked and one.linked.head})
    # the trunk itself is compared with nothing but its upstream
    return [StatusQuery(what, one, git, None, None if what.branch == trunk else base, dates) for what, one in found]


def _trunk(context: Context, git: Git) -> tuple[str, str | None]:
    """The trunk's branch, and the full ref everybody's distance to it is measured from."""
    from imi_monitor.git import refs

    remote = context.settings.text("git_settings.remote_name")
    name = refs.default_branch(git, remote, context.settings.text("git_settings.default_branch") or None)
    return name, refs.trunk_ref(git, remote, name)


def _dates(git: Git, shas: set[str]) -> dict[str, str]:
    """When these commits were made, by one process for all; empty if one of them cannot be read."""
    from imi_monitor.git import commits

    try:
        found = commits.list_commits(git, *sorted(shas), options=("--no-walk",), limit=len(shas)) if shas else []
    except GitError:  # then every worktree asks for its own, and only the broken one stays unknown
        return {}
    return {made.sha: made.at for made in found}


def _reader(cancelled: Callable[[], bool]) -> Callable[[StatusQuery], WorktreeStatus]:
    def read_one(asked: StatusQuery) -> WorktreeStatus:
        try:
            if cancelled():
                raise GitError("cancelled before it was asked", code="cancelled")
            return _ask(asked, cancelled)
        except ImiError as error:
            return WorktreeStatus(asked.known, error=error.sentence)

    return read_one


def _ask(asked: StatusQuery, cancelled: Callable[[], bool]) -> WorktreeStatus:
    from imi_monitor.git.git_status import operation_in_progress, read_status

    one = asked.target
    if asked.known.missing:
        return WorktreeStatus(asked.known, error=asked.known.states[0])
    if asked.git is None or one.admin_dir is None:
        return WorktreeStatus(asked.known, error=asked.problem or "git does not list it any more")
    if not one.is_main and not layout.points_back(one.admin_dir, one.path):
        raise GitError(
            "its .git file names another repository (tampered with, or a copy): nothing was asked", code="tampered"
        )
    git = asked.git.at(one.admin_dir, one.path)
    return _reading(asked, git, read_status(git, cancelled=cancelled), operation_in_progress(one.admin_dir))


def _reading(asked: StatusQuery, git: Git, status: GitStatus, operation: str | None) -> WorktreeStatus:
    ahead, behind = _trunk_distance(git, status, asked.base)
    path, moment = _youngest(asked.known.path, [entry.path for entry in status.entries])
    return WorktreeStatus(
        asked.known,
        head=status.oid,
        upstream=status.upstream,
        ahead=status.ahead,
        behind=status.behind,
        trunk=_short(asked.base),
        trunk_ahead=ahead,
        trunk_behind=behind,
        staged=len(status.staged),
        unstaged=len(status.unstaged),
        untracked=len(status.untracked),
        conflicted=len(status.conflicted),
        uncommitted=len(status.entries),
        operation=operation,
        last_commit_at=asked.dates.get(status.oid or "") or _committed(git, status.oid),
        last_change_at=moment,
        last_change_path=path,
    )


def _trunk_distance(git: Git, status: GitStatus, base: str | None) -> tuple[int | None, int | None]:
    from imi_monitor.git.refs import distance

    if base is None or status.oid is None:
        return None, None
    try:
        return distance(git, status.oid, base)
    except GitError:  # an object is missing (a shallow or partial clone): the rest is still worth showing
        return None, None


def _committed(git: Git, oid: str | None) -> str | None:
    return _dates(git, {oid}).get(oid) if oid else None


def _short(ref: str | None) -> str | None:
    return None if ref is None else ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")


def _youngest(root: str, paths: Sequence[str]) -> tuple[str | None, str | None]:
    """The changed file that was written last, and when. A deleted file has no time of its own."""
    from imi_monitor.git import commits

    best: tuple[float, str] | None = None
    for path in paths[:_MOST_STATTED]:
        try:
            written = os.lstat(os.path.join(root, path)).st_mtime
        except OSError:
            continue
        best = max(best or (written, path), (written, path))
    if best is None:
        return None, None
    return best[1], commits.commit_time(int(best[0]))
