"""The open pull requests of a repository: as its forge listed them, else those that were fetched with git."""

from __future__ import annotations

import time
from dataclasses import dataclass

from imi_monitor.forges import forge_program, forge_project
from imi_monitor.forges.forge_program import LIMITED, ForgeUnavailable
from imi_monitor.git import pull_refs
from imi_monitor.model import times
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.pull_request_list import PullRequestList
from imi_monitor.model.text import count
from imi_monitor.store import db, pull_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.forges.forge_project import ForgeProject
    from imi_monitor.git.layout import Repository

_LIMIT_SECONDS = 900.0
_RECORDED_SECONDS = 2.0  # from the end of a question to its record
_LOOK_SECONDS = 0.1
_LEAST_SECONDS = 60.0  # between two questions, where the forge is not asked in the background


@dataclass(frozen=True, slots=True)
class OfferedPullRequests:
    """What to choose from, and the sentence that says where it is from."""

    pulls: tuple[PullRequest, ...]
    origin: str
    listed: PullRequestList | None  # None: the repository has no forge


def offered(context: Context, repository: Repository, *, ask: bool) -> OfferedPullRequests:
    """The open pull requests; with `ask` the forge is asked first, unless it was within the last minute.

    If another process is asking it for the first time, that answer is waited for.
    """
    project = project_of(context, repository)
    if project is None:
        return _fetched(context, repository, "this repository has no remote on a forge", None)
    listed = _ask(context, repository, project) if ask else None
    if listed is None:
        if ask:
            _await_first_answer(context, project)
        listed = pull_requests.read_list(context.connection, project.key)
    if listed.read_at is None:
        return _fetched(context, repository, listed.problem or "the forge was not asked yet", listed)
    return OfferedPullRequests(listed.open_ones, listed.origin(times.now()), listed)


def find_cached(context: Context, repository: Repository, number: int | None) -> tuple[PullRequest | None, str | None]:
    """A pull request as the forge listed it last, and when; asks nothing."""
    project = project_of(context, repository)
    if project is None or number is None:
        return None, None
    listed = pull_requests.read_list(context.connection, project.key)
    return listed.find(number), listed.read_at


def of_worktree(context: Context, found: Target) -> tuple[PullRequest | None, str | None, str | None]:
    """The pull request of a worktree as the forge listed it last, by which program, and when."""
    project = project_of(context, found.repository)
    if project is None or found.is_main:
        return None, None, None
    listed = pull_requests.read_list(context.connection, project.key)
    number = found.row.pr_number if found.row is not None else None
    head = found.linked.head if found.linked is not None else None
    return listed.of_worktree(number, found.branch, head, project.own), listed.via, listed.read_at


def project_of(context: Context, repository: Repository) -> ForgeProject | None:
    return forge_project.forge_project(repository, context.settings_of(repository).text("git.remote_name"))


def _ask(context: Context, repository: Repository, project: ForgeProject) -> PullRequestList | None:
    """The answer of the forge, recorded; None if it must not be asked now."""
    pause = context.settings.number("reviews.refresh_seconds") or _LEAST_SECONDS
    connection, key = context.connection, project.key
    if not db.transact_unsynced(connection, pull_requests.reserve, key, times.now(), pause):
        return None
    context.progress(f"asking {project.address.host} for pull requests")
    try:
        answer = forge_project.ask(project, _reviewed(context, repository), context.cancelled)
    except ForgeUnavailable as problem:
        limited = _LIMIT_SECONDS if problem.code == LIMITED else 0.0
        return db.transact_unsynced(
            connection, pull_requests.record_problem, key, str(problem), times.now(), limited=limited
        )
    return db.transact_unsynced(
        connection, pull_requests.record, key, answer.via, answer.pulls, answer.total, times.now()
    )


def _await_first_answer(context: Context, project: ForgeProject) -> None:
    longest = forge_program.TIMEOUT + _RECORDED_SECONDS
    while pull_requests.is_first_answer_due(context.connection, project.key, times.now(), longest):
        if context.cancelled():
            return
        time.sleep(_LOOK_SECONDS)


def _reviewed(context: Context, repository: Repository) -> list[int]:
    """The numbers of the pull requests that have a worktree."""
    from imi_monitor.actions import worktree_lookup

    found = worktree_lookup.list_worktrees(context, repository)
    return [one.row.pr_number for one in found if one.row is not None and one.row.pr_number is not None]


def _fetched(context: Context, repository: Repository, why: str, listed: PullRequestList | None) -> OfferedPullRequests:
    """Return the pull requests whose commits an earlier review fetched; whether they are still open is unknown."""
    found = pull_refs.list_fetched(context.git(repository))
    pulls = tuple(PullRequest(one.number, one.subject, one.author, sha=one.sha) for one in found)
    some = f": {count(len(pulls), 'pull request')} fetched before with git" if pulls else ""
    return OfferedPullRequests(pulls, f"{why}{some}", listed)
