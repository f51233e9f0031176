"""Reads worktrees for `imi list` and `imi status`: from files and registry at once, their git status concurrently.

A worktree that cannot be read becomes a status with an error, never an exception: it must not hide the others.
"""

from __future__ import annotations

import os

from imi_monitor.actions import worktree_lookup
from imi_monitor.fast import thread_map
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.git import layout
from imi_monitor.model.errors import GitError, ImiError
from imi_monitor.model.worktree_table import ListedWorktree, WorktreeStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_status import GitStatus
    from imi_monitor.git.refs import Trunk
    from imi_monitor.git.runner import Git
    from imi_monitor.model.pull_request import PullRequest

_MOST_STATTED = 2000  # changed files whose modification time is read


class RepositoryFacts:
    """What the worktrees of one repository are compared with, read once for all of them in a thread."""

    def __init__(self, git: Git | None, remote: str, configured: str | None, heads: Sequence[str]) -> None:
        self.git = git  # None: `problem` says why not
        self.remote = remote
        self.configured = configured
        self.heads = heads  # the commits of the worktrees
        self.trunk: Trunk | None = None
        self.problem: str | None = None

    def read(self) -> None:
        from imi_monitor.git import commits, distances, refs

        if self.git is None:
            return
        try:
            self.trunk = refs.find_trunk(self.git, self.remote, self.configured)
            if self.trunk.sha is not None:
                distances.read_distances(self.git, self.heads, self.trunk.sha)
        except ImiError as error:
            self.problem = error.sentence
            return
        commits.read_commits(self.git, self.heads)


class StatusQuery:
    """A worktree and what its thread needs to read it: threads have no access to the registry."""

    __slots__ = ("error", "facts", "listed", "operation", "status", "target")

    def __init__(self, listed: ListedWorktree, target: Target, facts: RepositoryFacts) -> None:
        self.listed = listed
        self.target = target
        self.facts = facts
        self.status: GitStatus | None = None
        self.operation: str | None = None
        self.error: str | None = None

    def read(self) -> None:
        try:
            self._read()
        except ImiError as error:
            self.error = error.sentence

    def _read(self) -> None:
        from imi_monitor.git.git_status import operation_in_progress, read_status

        target = self.target
        if self.listed.missing:
            raise GitError(self.listed.states[0], code="missing")
        if target.admin_dir is None:
            raise GitError("git does not list it any more", code="missing")
        if not target.is_main and not layout.points_back(target.admin_dir, target.path):
            raise GitError(
                "its .git file names another repository (tampered with, or a copy): git is not run there",
                code="tampered",
            )
        if self.facts.git is None:
            raise GitError(self.facts.problem or "git cannot be run")
        self.status = read_status(self.facts.git.at(target.admin_dir, target.path))
        self.operation = operation_in_progress(target.admin_dir)


def known_worktrees(context: Context, repository: layout.Repository) -> list[ListedWorktree]:
    """Every worktree of the repository, the main one first, then by name. Runs no git process."""
    return [listed for listed, _ in _known_targets(context, repository)]


def read_states(
    context: Context,
    repositories: Sequence[layout.Repository],
    name: str | None = None,
    *,
    unread_seconds: float | None = None,
) -> list[WorktreeStatus]:
    """The status of every worktree, or of the one called `name`; with what is unread, as far as so many seconds suffice."""
    stopped: list[bool] = []

    def cancelled() -> bool:  # after ctrl-c the program must not wait for a git process that hangs
        return bool(stopped) or context.cancelled()

    facts, queries = [], []
    for repository in repositories:
        found = [pair for pair in _known_targets(context, repository) if name in (None, pair[0].worktree_name)]
        facts.append(_facts(context, repository, [target for _, target in found], cancelled))
        queries += [StatusQuery(listed, target, facts[-1]) for listed, target in found]
    if queries:
        work = [*(one.read for one in facts), *(one.read for one in queries)]
        thread_map.map_in_threads(_run, work, lambda: stopped.append(True))
    statuses = [_status(query) for query in queries]
    if unread_seconds is None or context.registry_problem is not None:  # then what was read is unknown
        return statuses
    return _with_unread(context, queries, statuses, unread_seconds)


def _with_unread(
    context: Context, queries: list[StatusQuery], statuses: list[WorktreeStatus], seconds: float
) -> list[WorktreeStatus]:
    from imi_monitor.git import unread_counts
    from imi_monitor.store import db, read_parts

    repos = {query.listed.repo for query in queries}
    kept = {repo: db.read(context.connection, read_parts.list_repository, repo) for repo in repos}
    asked: list[tuple[int, unread_counts.UnreadQuery]] = []
    for number, (query, status) in enumerate(zip(queries, statuses, strict=True)):
        git, trunk, found, admin = query.facts.git, query.facts.trunk, query.status, query.target.admin_dir
        if status.error is None and git is not None and trunk is not None and found is not None and admin is not None:
            entries = tuple((one.path, one.index, one.tree) for one in found.entries)
            parts = kept[query.listed.repo].get(query.listed.worktree_name, frozenset())
            there = git.at(admin, query.target.path)
            asked.append((number, unread_counts.UnreadQuery(there, found.oid, trunk.sha, entries, parts)))
    counts = unread_counts.count([query for _, query in asked], seconds)
    for (number, _), counted in zip(asked, counts, strict=True):
        statuses[number] = replace(statuses[number], unread=counted)
    return statuses


def _run(work: Callable[[], None]) -> None:
    work()


def _known_targets(context: Context, repository: layout.Repository) -> list[tuple[ListedWorktree, Target]]:
    from imi_monitor.store import claims, run_walls

    repo = context.repo_name(repository) or layout.repository_name(repository)
    held = {claim.worktree_name: claim for claim in claims.list_held(context.connection, repo)}
    without = "unknown" if context.registry_problem is not None else "free"
    pulls = _pull_requests(context, repository)
    walls = run_walls.list_here(context.connection, repo)
    found = []
    for target in worktree_lookup.list_worktrees(context, repository):
        claim = held.get(target.name)
        state = claims.state(claim) if claim else without
        listed = _listed(target, repo, claim.agent_id if claim else None, state, pulls(target))
        found.append((replace(listed, wall=walls.get(target.name)), target))
    return sorted(found, key=lambda pair: (not pair[0].is_main, pair[0].worktree_name))


def _pull_requests(context: Context, repository: layout.Repository) -> Callable[[Target], PullRequest | None]:
    """Return a function that returns the pull request of a worktree, as its forge listed it last."""
    from imi_monitor.store import pull_requests

    if not pull_requests.has_lists(context.connection):  # then the import, which parses addresses, would be for nothing
        return lambda _: None
    from imi_monitor.forges.forge_project import forge_project

    project = forge_project(repository, context.settings_of(repository).text("git.remote_name"))
    if project is None:
        return lambda _: None
    listed = pull_requests.read_list(context.connection, project.key)

    def find(target: Target) -> PullRequest | None:
        number = target.row.pr_number if target.row else None
        head = target.linked.head if target.linked else None
        return None if target.is_main else listed.of_worktree(number, target.branch, head, project.own)

    return find


def _listed(target: Target, repo: str, owner: str | None, state: str, pull: PullRequest | None) -> ListedWorktree:
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
        pull=pull,
        prunable=_prunable_reason(target) if missing and locked is None else None,
    )


def _prunable_reason(target: Target) -> str:
    if target.linked is None and not target.is_main:
        return "git does not list it any more"
    return "its .git file is gone" if os.path.isdir(target.path) else "its folder is gone"


def _facts(
    context: Context, repository: layout.Repository, targets: Sequence[Target], cancelled: Callable[[], bool]
) -> RepositoryFacts:
    settings = context.settings_of(repository)
    heads = [head for target in targets if not target.missing and (head := _head(target)) is not None]
    configured = settings.text("git.default_branch") or None
    facts = RepositoryFacts(None, settings.text("git.remote_name"), configured, heads)
    try:
        facts.git = context.git(repository)
        facts.git.cancelled = cancelled
    except ImiError as error:
        facts.problem = error.sentence
    return facts


def _head(target: Target) -> str | None:
    """The worktree's commit, from git's files; None if it is only known to git, or to nothing."""
    if target.linked is not None:
        return target.linked.head
    common_dir = target.repository.common_dir
    return layout.read_head(common_dir, common_dir)[1] if target.is_main else None


def _status(query: StatusQuery) -> WorktreeStatus:
    status, facts = query.status, query.facts
    error = query.error or facts.problem
    git, trunk = facts.git, facts.trunk
    if status is None or git is None or trunk is None or error is not None:
        return WorktreeStatus(query.listed, error=error)
    # the trunk itself is compared with its upstream only
    base = None if query.listed.branch == trunk.branch else trunk.ref
    ahead, behind = _trunk_distance(git, status, trunk.sha if base else None)
    path, changed_at = _last_change(query.listed.path, [entry.path for entry in status.entries])
    return WorktreeStatus(
        query.listed,
        head=status.oid,
        upstream=status.upstream,
        ahead=status.ahead,
        behind=status.behind,
        trunk=_short(base),
        trunk_ahead=ahead,
        trunk_behind=behind,
        staged=len(status.staged),
        unstaged=len(status.unstaged),
        untracked=len(status.untracked),
        conflicted=len(status.conflicted),
        uncommitted=len(status.entries),
        operation=query.operation,
        last_commit_at=_commit_date(git, status.oid),
        last_change_at=changed_at,
        last_change_path=path,
    )


def _trunk_distance(git: Git, status: GitStatus, base: str | None) -> tuple[int | None, int | None]:
    from imi_monitor.git.distances import find_distance

    return (None, None) if base is None or status.oid is None else find_distance(git, status.oid, base)


def _commit_date(git: Git, oid: str | None) -> str | None:
    from imi_monitor.git import commits

    found = commits.find_commit(git, oid) if oid else None
    return found.at if found else None


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
