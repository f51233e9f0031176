"""The dashboard's own places in line: actions that wait in the background, each in a thread, until they are done or left.

A place belongs to this process. It is left with the dashboard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from imi_monitor.actions.action import Action
from imi_monitor.model.snapshot import Key
from imi_monitor.ui.command_log import CommandLog
from imi_monitor.ui.dialogs.action_run import ActionRun, ActionTarget, TargetResult

Ended = Callable[[TargetResult], object]


class PlacesInLine:
    """`ended` is called in a thread with what a place led to."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._places: dict[Key, ActionRun] = {}

    def start(
        self, action: Action, key: Key, target: ActionTarget, values: dict[str, object], commands: CommandLog
    ) -> None:
        """Wait for one worktree, unless this dashboard does already."""
        if key in self._places:
            return
        run = self._places[key] = ActionRun(action, commands, lambda line: None)
        threading.Thread(target=self._wait, args=(key, run, target, values), name="imi-line", daemon=True).start()

    def _wait(self, key: Key, run: ActionRun, target: ActionTarget, values: dict[str, object]) -> None:
        (result,) = run.run([target], values)
        self._places.pop(key, None)
        with suppress(RuntimeError):  # the dashboard has ended
            self._ended(result)

    def has(self, repo: str, worktree: str) -> bool:
        return any((key.repo, key.worktree) == (repo, worktree) for key in self._places)

    def leave(self, repo: str, worktree: str) -> None:
        for key, run in list(self._places.items()):
            if (key.repo, key.worktree) == (repo, worktree):
                run.cancel()

    def leave_all(self) -> None:
        for run in list(self._places.values()):
            run.cancel()
