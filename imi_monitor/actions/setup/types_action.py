"""`imi types list|add|remove`: the types of worktrees, built-in ones (feat, fix, aiops, devops) and the user's."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.status import status_action
from imi_monitor.model import names
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import UsageError
from imi_monitor.model.styled_text import NAME, styled
from imi_monitor.model.text import safe
from imi_monitor.store import db, worktree_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

# Names and beginnings of directory names that have another meaning.
_TAKEN = ("trunk", "pr", "unknown", "main", "list", "add", "remove")
_TAKEN_PREFIXES = ("trunk-", "review-", "pr-", "sync")


class ListTypesAction(Action):
    words = ("types list",)
    group = "Worktrees"
    label = "Types"
    help = "list the types of worktrees with the prefixes of their branches and folders"
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        found = db.read(context.connection, worktree_types.list_types)
        rows = [[styled(safe(kind.name), NAME), _described(kind)] for kind in found]
        lines = table((Column("Type"), Column("Worktrees", least=20)), rows, status_action.terminal_width())
        return Outcome(lines, {"types": [_data(kind) for kind in found], "count": len(found)})


class AddTypeAction(Action):
    words = ("types add",)
    group = "Worktrees"
    label = "Add a type"
    help = "add a type of worktrees, for `imi add NAME …`"
    makes_new = True
    arguments = (Argument("name", "the type, such as docs"),)
    options = (
        Option("branch-prefix", "the beginning of its branches (default: NAME/)", value="PREFIX"),
        Option(
            "directory-prefix",
            "the beginning of its folders (default: NAME-)",
            value="PREFIX",
            aliases=("worktree-prefix",),
        ),
        Option("description", "the purpose of the type", value="TEXT"),
    )

    def refuse(self, context: Context, request: Request) -> None:
        name, branch_prefix, directory_prefix = _asked(request)
        problem = "has another meaning" if name in _TAKEN else names.name_problem(name)
        if problem:
            raise UsageError(f"the type {safe(name, 80)!r} {problem}", code="bad-name")
        _check_directory_prefix(directory_prefix)
        problem = names.branch_problem(branch_prefix + "x")
        if problem:
            raise UsageError(f"the branch prefix {safe(branch_prefix, 80)!r} {problem}", code="bad-name")

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        name, branch_prefix, directory_prefix = _asked(request)
        made = db.transact(
            context.connection,
            worktree_types.add,
            name,
            branch_prefix=branch_prefix,
            directory_prefix=directory_prefix,
            description=safe(request.text("description") or "", 200),
        )
        line = f"type {safe(name)} added: `imi add {safe(name)} NAME` makes {_described(made)}"
        return Outcome([line], {**_data(made), "message": line})


class RemoveTypeAction(Action):
    words = ("types remove",)
    group = "Worktrees"
    label = "Remove a type"
    help = "remove an unused type; built-in types stay"
    makes_new = True  # its argument names a type, not a worktree
    arguments = (Argument("name", "the type"),)

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        gone = db.transact(context.connection, worktree_types.remove, request.text("name") or "")
        line = f"type {safe(gone.name)} removed"
        return Outcome([line], {**_data(gone), "message": line})


ACTIONS = (ListTypesAction(), AddTypeAction(), RemoveTypeAction())


def _asked(request: Request) -> tuple[str, str, str]:
    name = request.text("name") or ""
    branch_prefix, directory_prefix = request.text("branch-prefix"), request.text("directory-prefix")
    return (
        name,
        f"{name}/" if branch_prefix is None else branch_prefix,
        f"{name}-" if directory_prefix is None else directory_prefix,
    )


def _check_directory_prefix(prefix: str) -> None:
    problem = names.name_problem(prefix + "x")
    if not prefix:
        problem = "is empty, but imi recognises a type by it"
    elif any(prefix.startswith(taken) or taken.startswith(prefix) for taken in _TAKEN_PREFIXES):
        problem = f"is reserved for {', '.join(taken + '…' for taken in _TAKEN_PREFIXES)}"
    if problem:
        raise UsageError(f"the folder prefix {safe(prefix, 80)!r} {problem}", code="bad-name")


def _described(kind: worktree_types.WorktreeType) -> str:
    text = f"folders {safe(kind.directory_prefix)}NAME on branches {safe(kind.branch_prefix)}NAME"
    return f"{text} ({safe(kind.description)})" if kind.description else text


def _data(kind: worktree_types.WorktreeType) -> dict[str, object]:
    return {
        "name": kind.name,
        "branch_prefix": kind.branch_prefix,
        "worktree_prefix": kind.directory_prefix,
        "description": kind.description or None,
        "is_builtin": kind.builtin,
    }
