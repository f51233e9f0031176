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

Surroundings = Callable[[str | None], Context]


def dialogs(action: Action, trees: Sequence[Worktree], surroundings: Surroundings) -> list[ActionDialog]:
    """One for each repository that is concerned; of several worktrees a dialog that cannot take them all asks one by one."""
    if not takes_worktree(action):
        return [ActionDialog(action, {}, _at(surroundings, trees[0] if trees else None))]
    several = "names" in inspect.signature(ActionDialog.__init__).parameters
    found: list[ActionDialog] = []
    for group in _by_repository(trees) if several else [[tree] for tree in trees]:
        more: dict[str, Any] = {"names": [tree.key.worktree for tree in group]} if len(group) > 1 else {}
        values: dict[str, object] = {} if more else {"name": group[0].key.worktree}
        found.append(ActionDialog(action, values, _at(surroundings, group[0]), **more))
    return found


def _by_repository(trees: Sequence[Worktree]) -> list[list[Worktree]]:
    groups: dict[tuple[str, str], list[Worktree]] = {}
    for tree in trees:
        groups.setdefault((tree.key.host, tree.key.repo), []).append(tree)
    return list(groups.values())


def _at(surroundings: Surroundings, tree: Worktree | None) -> Callable[[], Context]:
    """A name alone may mean two worktrees: the dialog acts in the repository of the one that was selected."""
    where = _place(tree)
    return lambda: surroundings(where)


def _place(tree: Worktree | None) -> str | None:
    if tree is None:
        return None
    return tree.key.repo if tree.missing else tree.path
