"""The worktree that is there already when somebody asks for a new one of that name, and what is told about either."""

from __future__ import annotations

import os

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Outcome
from imi_monitor.actions.creation import creation_request
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, operations, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.creation_request import CreationRequest
    from imi_monitor.actions.creation.worktree_creation import CreationPlan
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.operations import Operation


def find_existing(context: Context, wanted: CreationRequest) -> Target | None:
    """The worktree of this name, if it can be gone to; None when it has to be made."""
    known = worktree_lookup.list_worktrees(context, wanted.repository)
    found = next((one for one in known if one.name == wanted.name or one.path == wanted.path), None)
    if found is None:
        creation_request.refuse_case_twins(wanted, known)
        return None
    name, path = safe(found.name), safe(found.path)
    locked = found.linked.locked if found.linked else None
    if locked == "initializing" or (locked or "").startswith("imi create "):
        raise Refused(
            f"{name} is being made by another git just now, or was left half made at {path}: look at `git worktree list`",
            code="half-made",
        )
    if found.linked is not None and found.linked.missing:
        raise Refused(
            f"git has {name} at {path}, but it is not there (moved, or a disk that is not mounted): `imi repair` connects "
            "it again, `imi prune` lets go of it",
            code="missing",
        )
    return None if found.linked is None and not found.is_main else found


def open_existing(context: Context, wanted: CreationRequest, found: Target, agent: str) -> Outcome:
    """Say that it exists and go there; one that only git knew is registered."""
    adopted = found.row is None and not found.is_main
    if adopted:
        db.transact(context.connection, _adopt, context, wanted, found, agent)
    branch = f"on {safe(found.branch)}" if found.branch else "on no branch"
    line = f"{safe(found.name)} exists already, {branch}" + ("; it is registered now" if adopted else "")
    warnings = []
    if found.branch != wanted.branch:
        warnings.append(f"{safe(found.name)} is {branch}, not on {safe(wanted.branch)}")
    if wanted.source is not None:
        warnings.append(f"--from {safe(wanted.source)} was not used: {safe(found.name)} exists already")
    return Outcome(
        [line],
        result_data(context, wanted, branch=found.branch, path=found.path, message=line, name=found.name),
        path=found.path,
        warnings=warnings,
    )


def result_data(
    context: Context,
    wanted: CreationRequest,
    *,
    branch: str | None,
    path: str,
    message: str,
    name: str | None = None,
    plan: CreationPlan | None = None,
) -> dict[str, object]:
    """The answer for scripts, with iMi's field names where it had them."""
    return {
        "worktree_path": path,
        "worktree_name": name or wanted.name,
        "branch": branch,
        "base": plan.shown if plan else None,
        "commit": plan.sha if plan else None,
        "type": wanted.kind,
        "created": plan is not None,
        "took_over": plan.took_over if plan else None,
        "repo": context.repo_name(wanted.repository),
        "message": message,
    }


def at_work(context: Context, wanted: CreationRequest) -> Operation | None:
    """The unfinished act of some process on this worktree."""
    repo_name = context.repo_name(wanted.repository)
    for operation in operations.list_unfinished(context.connection):
        if (operation.repo_name, operation.worktree_name) == (repo_name, wanted.name):
            return operation
    return None


def busy(wanted: CreationRequest, other: Operation) -> Refused:
    return Refused(
        f"process {other.pid} on {safe(other.host)} is at work on {safe(wanted.name)} ({safe(other.kind)}): try again "
        "when it is done",
        code="busy",
    )


def run_post_create(context: Context, repository: layout.Repository, path: str, name: str) -> tuple[int, list[str]]:
    """Run the post-create commands in the finished worktree: (exit status, what a person must be told).

    The worktree stays whatever becomes of them: a command that failed half way is the user's to look at.
    """
    warnings = _filters(context, repository, path)
    if os.path.lexists(os.path.join(path, ".gitmodules")):
        warnings.append("its submodules are not checked out: run `git submodule update --init` there")
    known_as = context.repo_name(repository) or layout.repository_name(repository)
    if not context.settings.commands(known_as, "post_create"):
        return 0, warnings
    from imi_monitor.actions import repository_commands

    try:
        report = repository_commands.run(context, repository, "post_create", path, name)
    except KeyboardInterrupt:
        return 130, [*warnings, f"interrupted: {safe(name)} is made, but its post_create commands have not all run"]
    except ImiError as problem:
        return 1, [*warnings, f"{safe(name)} is made, but {problem.sentence}"]
    return 0, warnings + list(report.warnings if report else ())


def _filters(context: Context, repository: layout.Repository, path: str) -> list[str]:
    """Files that are not what they seem: without trust, git-lfs and the like do not turn them into their real content."""
    attributes = layout.read_small(os.path.join(path, ".gitattributes")) or ""
    if "filter=" not in attributes or context.trusted(repository):
        return []
    from imi_monitor.git import safety

    keys = (line.partition("=")[0] for line in safety.programs(repository.common_dir))
    names = sorted({key.removeprefix("filter.").rpartition(".")[0] for key in keys if key.startswith("filter.")})
    if not names:
        return []
    return [
        f"the repository's filters ({', '.join(map(safe, names))}) have not run on its files: see `imi trust --show`"
    ]


def _adopt(
    connection: sqlite3.Connection, context: Context, wanted: CreationRequest, found: Target, agent: str
) -> None:
    repo_name = context.register(wanted.repository, connection)
    branch = found.branch or ""
    kind = wanted.kind if found.name == wanted.name else found.kind
    worktrees.register(connection, repo_name, found.name, branch=branch, kind=kind, path=found.path)
    facts: dict[str, object] = {"path": found.path, "branch": branch, "type": kind, "adopted": True}
    events.record(connection, "worktree.created", repo_name, found.name, agent_id=agent, data=facts)
