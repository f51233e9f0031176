"""Commands that arrange the list of worktrees: filter, order, groups."""

from __future__ import annotations

from imi_monitor.ui.worktree_order import GROUPS, WorktreeOrder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp


class ListCommands:
    """What they change is saved with the layout."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._home = app.home

    def do_filter(self) -> None:
        self._home.open_filter()

    def do_sort(self) -> None:
        from imi_monitor.ui import menu_entries

        self._app.push_screen(menu_entries.sort_menu(self._home.worktrees.order), self._sort_by)

    def _sort_by(self, sort: str | None) -> None:
        order = self._home.worktrees.order
        if sort is not None:
            self._set_order(WorktreeOrder(sort, False, order.group))

    def sort_by_column(self, sort: str) -> None:
        """A click on a column's title: sort by it, or backwards if the list is sorted by it."""
        order = self._home.worktrees.order
        self._set_order(WorktreeOrder(sort, order.sort == sort and not order.backwards, order.group))

    def do_backwards(self) -> None:
        order = self._home.worktrees.order
        self._set_order(WorktreeOrder(order.sort, not order.backwards, order.group))

    def do_group(self) -> None:
        from imi_monitor.ui import menu_entries

        self._app.push_screen(menu_entries.group_menu(self._home.worktrees.order), self._group_by)

    def _group_by(self, group: str | None) -> None:
        order = self._home.worktrees.order
        if group is not None:
            self._home.worktrees.folded = frozenset()
            self._set_order(WorktreeOrder(order.sort, order.backwards, group))

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
