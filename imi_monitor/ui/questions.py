"""From a key to an action's dialog: about what it is, one worktree or all that are marked, and in which repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from imi_monitor.actions.base import Action
from imi_monitor.actions.context import Context
from imi_monitor.model.snapshot import Worktree
from imi_monitor.ui.commands import takes_worktree
from imi_monitor.ui.dialog import ActionDialog

Surroundings = Callable[[], Context]


def dialog(action: Action, trees: Sequence[Worktree], at: Callable[[Worktree | None], Surroundings]) -> ActionDialog:
    """The dialog about all of them."""
    first = trees[0] if trees else None
    if not takes_worktree(action):
        return ActionDialog(action, {}, at(first))
    if len(trees) == 1 and first is not None:
        return ActionDialog(action, {"name": first.key.worktree}, at(first))
    # with each name where it is to be looked up: two repositories may have a worktree of the same name
    return ActionDialog(action, {}, at(first), names=[(tree.key.worktree, at(tree)) for tree in trees])
