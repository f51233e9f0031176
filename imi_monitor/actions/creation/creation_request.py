"""What a new worktree is called and where it goes: TYPE and NAME -> directory, branch and path. Nothing is made here."""

from __future__ import annotations

import os

from imi_monitor.model import names
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import worktree_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.config import Settings
    from imi_monitor.git.layout import Repository


class CreationRequest:
    """What was asked for, all of it checked: `name` is the directory's, `source` what `--from` said."""

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
    """The request as names and a path; UsageError for a name or type that makes no sense, before anything is looked at."""
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
    """The folder that a new worktree of this name goes into, as its real path."""
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
    """A name that differs from this one only in case: one of the two could not exist on a Mac."""
    folded = name.casefold()
    return next((other for other in among if other != name and other.casefold() == folded), None)


def refuse_case_twins(wanted: CreationRequest, targets: list[Target]) -> None:
    """Neither a worktree nor a folder may be called the same but for upper and lower case."""
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
        return []  # not there yet; what else is wrong with it, git will say


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
            f"there is no type {safe(name, 80)!r}: use one of {listed}, or make it with `imi types add`", code="no-type"
        )
    if known.name == "review":
        raise UsageError("reviews are made from a pull request: use `imi review NUMBER`", code="no-type")
    return known


def _around_bare(repository: Repository) -> str | None:
    """A hidden bare repository (`app/.bare`) lies in a folder that exists for its worktrees."""
    hidden = repository.bare and os.path.basename(repository.common_dir) in (".bare", ".git")
    return os.path.dirname(repository.common_dir) if hidden else None


def _registrable(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Refused(
            f"{safe(path)} holds bytes that are not UTF-8, which the registry cannot keep: rename that folder",
            code="bad-path",
        ) from None
    return path
