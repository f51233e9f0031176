"""A request for a new worktree: TYPE and NAME -> directory, branch and path; the existing worktree of that name, if any."""

from __future__ import annotations

import os

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Outcome
from imi_monitor.model import names
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, operations, worktree_types, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.worktree_creation import CreationPlan
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.config import Settings
    from imi_monitor.git.layout import Repository
    from imi_monitor.store.operations import Operation


class CreationRequest:
    """A checked request. `name` is the name of the folder, `source` the value of `--from`."""

    __slots__ = ("branch", "kind", "name", "path", "repository", "source")

    def __init__(
        self, repository: Repository, kind: str, name: str, path: str, branch: str, source: str | None
    ) -> None:
        self.repository = repository
        self.kind = kind
        self.name = name
        self.path = path
        self.branch = branch
        self.source = source


def parse_request(
    context: Context,
    kind: str,
    name: str,
    *,
    branch: str | None = None,
    source: str | None = None,
    repo: str | None = None,
) -> CreationRequest:
    """Check name, type and branch and derive the path; UsageError for an invalid one."""
    problem = names.name_problem(name)
    if problem:
        raise UsageError(f"the name {safe(name, 80)!r} {problem}", code="bad-name")
    if branch is not None:
        _check_branch(branch)
    known = _type(context, kind)
    repository = context.repository(repo)
    directory = names.directory_name(known.directory_prefix, name)
    if branch is None:
        branch = names.branch_name(known.branch_prefix, name, context.settings.text("worktrees.branch_style"))
        _check_branch(branch)
    path = os.path.join(parent_folder(repository, context.settings, directory), directory)
    return CreationRequest(repository, known.name, directory, path, branch, source)


def parent_folder(repository: Repository, settings: Settings, name: str) -> str:
    """The real path of the folder a new worktree of this name is created in."""
    container = repository.cluster or _around_bare(repository)
    if container is not None:
        return _registrable(os.path.realpath(container))
    home = os.path.realpath(repository.home)
    template = settings.text("worktrees.path_template")
    filled = template.replace("{repo}", os.path.basename(home).removesuffix(".git")).replace("{name}", name)
    path = os.path.normpath(os.path.join(os.path.dirname(home), os.path.expanduser(filled)))
    if "{name}" not in template or "{" in filled or os.path.basename(path) != name:
        raise UsageError(
            f"worktrees.path_template {safe(template)!r} must end in /{{name}} and may hold {{repo}}: see `imi config`",
            code="bad-setting",
        )
    if (path + os.sep).startswith(repository.common_dir + os.sep):
        raise UsageError(f"worktrees.path_template {safe(template)!r} leads into the git directory", code="bad-setting")
    return _registrable(os.path.realpath(os.path.dirname(path)))


def case_twin(name: str, among: list[str]) -> str | None:
    """A name that differs from this one only in case: macOS cannot hold both."""
    folded = name.casefold()
    return next((other for other in among if other != name and other.casefold() == folded), None)


def _refuse_case_twins(wanted: CreationRequest, targets: list[Target]) -> None:
    """Refuse a name that differs from a worktree's or folder's only in case."""
    other = case_twin(wanted.name, [target.name for target in targets]) or case_twin(wanted.name, _entries(wanted.path))
    if other is not None:
        raise UsageError(
            f"{safe(wanted.name)} differs from the existing {safe(other)} only in case: use that, or another name",
            code="case-twin",
        )


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(os.path.dirname(path))
    except OSError:
        return []  # does not exist yet; git reports any other problem


def _check_branch(branch: str) -> None:
    problem = names.branch_problem(branch)
    if problem:
        raise UsageError(f"the branch name {safe(branch, 80)!r} {problem}", code="bad-name")


def _type(context: Context, name: str) -> worktree_types.WorktreeType:
    known = worktree_types.get(context.connection, name)
    if known is None:
        listed = ", ".join(
            safe(kind.name) for kind in worktree_types.list_types(context.connection) if kind.name != "review"
        )
        raise UsageError(
            advised(
                f"there is no type {safe(name, 80)!r}: use one of {listed}",
                "or add it with `imi types add`",
                joint=", ",
            ),
            code="no-type",
        )
    if known.name == "review":
        raise UsageError("a review needs a pull request: use `imi review NUMBER`", code="no-type")
    return known


def _around_bare(repository: Repository) -> str | None:
    """The folder around a hidden bare repository (`app/.bare`), which is meant for its worktrees."""
    hidden = repository.bare and os.path.basename(repository.common_dir) in (".bare", ".git")
    return os.path.dirname(repository.common_dir) if hidden else None


def _registrable(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Refused(
            f"{safe(path)} holds bytes that are not UTF-8, which the registry cannot store: rename that folder",
            code="bad-path",
        ) from None
    return path


def find_existing(context: Context, wanted: CreationRequest) -> Target | None:
    """The existing worktree of this name; None if it must be created; Refused if it is missing or incomplete."""
    known = worktree_lookup.list_worktrees(context, wanted.repository)
    found = next((one for one in known if one.name == wanted.name or one.path == wanted.path), None)
    if found is None:
        _refuse_case_twins(wanted, known)
        return None
    name, path = safe(found.name), safe(found.path)
    locked = found.linked.locked if found.linked else None
    if locked == "initializing" or (locked or "").startswith("imi create "):
        raise Refused(
            f"another git is creating {name}, or left it incomplete at {path}: see `git worktree list`",
            code="half-made",
        )
    if found.linked is not None and found.linked.missing:
        raise Refused(
            f"git lists {name} at {path}, which does not exist (moved, or on an unmounted disk): run `imi repair` to find "
            "it, `imi prune` to forget it",
            code="missing",
        )
    return None if found.linked is None and not found.is_main else found


def open_existing(context: Context, wanted: CreationRequest, found: Target, agent: str) -> Outcome:
    """The outcome that leads to the existing worktree; one that only git listed is registered."""
    adopted = found.row is None and not found.is_main
    if adopted:
        db.transact(context.connection, _adopt, context, wanted, found, agent)
    branch = f"on {safe(found.branch)}" if found.branch else "on no branch"
    line = f"{safe(found.name)} already exists, {branch}" + ("; it is now registered" if adopted else "")
    warnings = []
    if found.branch != wanted.branch:
        warnings.append(f"{safe(found.name)} is {branch}, not on {safe(wanted.branch)}")
    if wanted.source is not None:
        warnings.append(f"--from {safe(wanted.source)} was not used: {safe(found.name)} already exists")
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
    """The JSON result, with the field names of iMi."""
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


def running_operation(context: Context, wanted: CreationRequest) -> Operation | None:
    """The unfinished operation of any process on this worktree."""
    repo_name = context.repo_name(wanted.repository)
    for operation in operations.list_unfinished(context.connection):
        if (operation.repo_name, operation.worktree_name) == (repo_name, wanted.name):
            return operation
    return None


def busy_refusal(wanted: CreationRequest, other: Operation) -> Refused:
    return Refused(
        f"process {other.pid} on {safe(other.host)} is working on {safe(wanted.name)} ({safe(other.kind)}): try again "
        "later",
        code="busy",
    )


def _adopt(
    connection: sqlite3.Connection, context: Context, wanted: CreationRequest, found: Target, agent: str
) -> None:
    repo_name = context.register(wanted.repository, connection)
    branch = found.branch or ""
    kind = wanted.kind if found.name == wanted.name else found.kind
    worktrees.register(connection, repo_name, found.name, branch=branch, kind=kind, path=found.path)
    facts: dict[str, object] = {"path": found.path, "branch": branch, "type": kind, "adopted": True}
    events.record(connection, "worktree.created", repo_name, found.name, agent_id=agent, data=facts)
