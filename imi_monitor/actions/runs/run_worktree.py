"""The worktree that a run works in: a named one, the one around the caller, or one that is made for the run."""

from __future__ import annotations

import os

from imi_monitor.actions import worktree_lookup
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import db, operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.operations import Operation


_KIND = "start"


@dataclass(frozen=True, slots=True)
class MadeWorktree:
    """The worktree of --new. `created`: it was not there before; `own_branch`: nor was its branch."""

    found: Target
    created: bool
    own_branch: bool
    operation: str  # its intent, which the run takes over


def find(context: Context, request: Request) -> Target | None:
    """The worktree of --in or around the caller; None: the agent works in its run folder."""
    wanted = request.text("in")
    if wanted is not None:
        return find_existing(context, wanted)
    place = context.place() if not context.explicit_repo else None
    if place is None or place.path is None:
        return None
    path = os.path.realpath(place.path)
    among = worktree_lookup.list_worktrees(context, place.repository)
    return next((one for one in among if os.path.realpath(one.path) == path), None)


def make(context: Context, request: Request) -> MadeWorktree | None:
    """Make the worktree of --new, or find it; None without the option."""
    new = request.text("new")
    if new is None:
        return None
    kind, separator, name = new.partition("/")
    if not separator:
        raise UsageError("--new takes TYPE/NAME, such as feat/login", code="bad-option")
    passed = {word: value for word in ("from", "branch", "repo") if (value := request.text(word)) is not None}
    operation, about = _intend(context, kind, name, request.text("repo"))
    try:
        data = _run(context, "add", {"type": kind, "name": name, **passed})
        found = find_existing(context, str(data["worktree_name"]))
    except ImiError:
        db.transact(context.connection, operations.finish, operation)
        raise
    made = MadeWorktree(found, bool(data["created"]), data["took_over"] is None, operation)
    about |= {"made": found.name, "created": made.created, "own_branch": made.own_branch}
    db.transact(context.connection, operations.update, operation, about)
    return made


def _intend(context: Context, kind: str, name: str, repo_given: str | None) -> tuple[str, dict[str, object]]:
    """Record that a worktree is about to be made for a run: if this process dies before there is a run, it is removed."""
    repository = context.repository(repo_given)
    before = [one.name for one in worktree_lookup.list_worktrees(context, repository)]
    data: dict[str, object] = {"wanted": name, "before": before, "common_dir": repository.common_dir}
    repo = context.repo_name(repository) or os.path.basename(repository.home)
    return db.transact(context.connection, operations.begin, _KIND, repo, f"{kind}/{name}", data), data


def recover(context: Context, operation: Operation) -> str | None:
    """Remove the worktree that was made for a run whose start died before the run was recorded, unless there is work in it."""
    made = _find_made(context, operation)
    lines = remove_unused(context, made) if made is not None else []
    db.transact(context.connection, operations.finish, operation.id)
    return ", ".join(lines) or None


def _find_made(context: Context, operation: Operation) -> MadeWorktree | None:
    """The worktree of an interrupted start; its branch is known to be new only if the start recorded that."""
    data = operation.data
    before, folder = data.get("before"), str(data.get("common_dir"))
    if not isinstance(before, list) or not os.path.isdir(folder):
        return None
    among = worktree_lookup.list_worktrees(context, layout.repository_at(folder))
    wanted, made = str(data.get("wanted")), data.get("made")
    new = [one for one in among if one.name == made or (made is None and one.name.endswith(wanted))]
    found = next((one for one in new if one.name not in before and not one.missing), None)
    if found is None:
        return None
    return MadeWorktree(found, bool(data.get("created", True)), data.get("own_branch") is True, operation.id)


def remove_unused(context: Context, made: MadeWorktree) -> list[str]:
    """Move a worktree that was made for a run that did not start into the trash, under the rules of `imi remove`.

    Returns what became of it, as a line for the user. One that was there before is left alone.
    """
    db.transact(context.connection, operations.finish, made.operation)
    if not made.created:
        return []
    name = safe(made.found.name)
    values: dict[str, object] = {"name": made.found.name, "delete-branch": made.own_branch}
    try:
        data = _run(context, "remove", {**values, "repo": made.found.repo_name or made.found.repository.home})
    except ImiError as error:
        return [f"{name} was made for it and stays: {error.sentence}"]
    return [f"{name} was made for it and is removed again; `imi undo {data['trash_id']}` brings it back"]


def find_existing(context: Context, name: str, repo: str | None = None) -> Target:
    """The worktree of this name; Refused if its folder is gone."""
    found = worktree_lookup.find_worktree(context, name, repo)
    if found.missing:
        raise worktree_lookup.missing_folder(found)
    return found


def _run(context: Context, verb: str, values: dict[str, object]) -> dict[str, object]:
    from imi_monitor.actions import find as find_action
    from imi_monitor.actions.action import Request as AnyRequest

    action = find_action(verb)
    assert action is not None
    return action.run(context, AnyRequest(verb, values)).data or {}
