"""Commands that arrange the list of worktrees: filter, order, groups."""

from __future__ import annotations

from imi_monitor.ui.worktree_order import GROUPS, SORTS, WorktreeOrder, next_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp


class ListCommands:
    """What they change is saved with the layout."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._home = app.home

    def do_filter(self) -> None:
        self._home.filter_box.add_class("-open")
        self._home.set_focus(self._home.filter_box)  # at once: the keys typed next belong to the filter

    def do_sort(self) -> None:
        order = self._home.worktrees.order
        sort = next_in(list(SORTS), order.sort)
        self._set_order(WorktreeOrder(sort, False, order.group))
        self._app.say(f"sorted: {SORTS[sort][0]}")

    def do_backwards(self) -> None:
        order = self._home.worktrees.order
        self._set_order(WorktreeOrder(order.sort, not order.backwards, order.group))

    def do_group(self) -> None:
        order = self._home.worktrees.order
        group = next_in(list(GROUPS), order.group)
        self._home.worktrees.folded = frozenset()
        self._set_order(WorktreeOrder(order.sort, order.backwards, group))
        self._app.say(f"grouped: {GROUPS[group][0]}")

    def do_fold(self) -> None:
        """Fold all groups, or unfold them if any is folded."""
        group_of_tree = GROUPS[self._home.worktrees.order.group][1]
        trees = self._home.shown.worktrees if self._home.shown else ()
        self._home.fold(frozenset() if self._home.worktrees.folded else frozenset(map(group_of_tree, trees)))

    def _set_order(self, order: WorktreeOrder) -> None:
        self._home.worktrees.order = order
        self._app.follow_order()
        self._home.draw()
        self._app.layout_changed()
