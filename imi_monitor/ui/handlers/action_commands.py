"""Opens the dialog of an action for the marked or selected worktrees, and shows its outcome."""

from __future__ import annotations

import os
from collections.abc import Callable

from imi_monitor import actions
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action, Outcome
    from imi_monitor.actions.context import Context
    from imi_monitor.ui.app import ImiApp

_MOST_LINES = 5  # of an outcome, in a toast


class ActionCommands:
    """One method for all actions: the action itself declares its fields, preview and overrides."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._home = app.home

    def open(self, word: str) -> None:
        from imi_monitor.ui.dialogs.action_dialog import dialog_for

        action = actions.find(word.replace("-", " ")) or actions.find(word)
        if action is not None:
            dialog = dialog_for(action, self._home.targets, self._context_of)
            self._app.push_screen(dialog, lambda outcome: self._done(action, outcome))

    def _context_of(self, tree: Worktree | None) -> Callable[[], Context]:
        """Return how to open a context in the worktree's repository, where its name is unique.

        If its folder has been removed meanwhile, another worktree of the same repository serves as well.
        """
        trees = self._home.shown.worktrees if self._home.shown is not None else ()
        same = [other for other in trees if tree is not None and other.key.repo == tree.key.repo and not other.missing]
        same.sort(key=lambda other: (other is not tree, not other.is_main))
        paths = [other.path for other in same]

        def open_context() -> Context:
            existing = next((path for path in paths if os.path.isdir(path)), None)
            return self._app.open_context(existing or next(iter(paths), None))

        return open_context

    def _done(self, action: Action, outcome: Outcome | None) -> None:
        if outcome is None:
            return
        from imi_monitor.mux import multiplexer

        lines = [*outcome.lines, *(f"warning: {text}" for text in outcome.warnings)]
        self._app.say("\n".join(safe(line, 200) for line in lines[:_MOST_LINES]) or "done")
        self._home.marks = frozenset()
        name, path = outcome.data.get("worktree_name"), outcome.path
        new = name if isinstance(name, str) and path is not None else None
        self._home.select_name(new)
        around = multiplexer.current()
        if action.opens_worktree and around and new is not None and path is not None:
            # only beside the dashboard: without a multiplexer a shell would replace it
            self._app.run_and_say(lambda: multiplexer.open_worktree(around, path, new))
