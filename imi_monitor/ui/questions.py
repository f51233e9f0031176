"""From a key to an action's dialog: about what it is, one worktree or all that are marked, and in which repository."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from imi_monitor.actions.base import Action
from imi_monitor.actions.context import Context
from imi_monitor.model.snapshot import Worktree
from imi_monitor.ui.commands import takes_worktree
from imi_monitor.ui.dialog import ActionDialog

Surroundings = Callable[[], Context]


def dialogs(
    action: Action, trees: Sequence[Worktree], at: Callable[[Worktree | None], Surroundings]
) -> list[ActionDialog]:
    """One dialog about all of them, if it can take several; else one after the other."""
    if not takes_worktree(action):
        return [ActionDialog(action, {}, at(trees[0] if trees else None))]
    if len(trees) > 1 and "names" in inspect.signature(ActionDialog.__init__).parameters:
        # with each name where it is to be looked up: two repositories may have a worktree of the same name
        names: dict[str, Any] = {"names": [(tree.key.worktree, at(tree)) for tree in trees]}
        return [ActionDialog(action, {}, at(trees[0]), **names)]
    return [ActionDialog(action, {"name": tree.key.worktree}, at(tree)) for tree in trees]
