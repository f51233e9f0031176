"""Opens the dialog of an action for the marked or selected worktrees, and shows its outcome."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import cached_property

from imi_monitor import actions
from imi_monitor.model.advice import on_dashboard
from imi_monitor.model.errors import ImiError
from imi_monitor.model.run import workspace_name
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import command_log
from imi_monitor.ui.command_conditions import reason_watched, watched_run
from imi_monitor.ui.handlers.worktree_commands import run_suspended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action, Outcome
    from imi_monitor.actions.context import Context
    from imi_monitor.ui.app import ImiApp
    from imi_monitor.ui.dialogs.action_run import ActionTarget, TargetResult
    from imi_monitor.ui.places_in_line import PlacesInLine

_MOST_LINES = 5  # of an outcome, in a toast


class ActionCommands:
    """One method for all actions: the action itself declares its fields, preview and overrides."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._home = app.home

    def open(
        self,
        word: str,
        trees: Sequence[Worktree] | None = None,
        values: dict[str, object] | None = None,
        done: Callable[[Outcome], None] | None = None,
    ) -> None:
        """Open the dialog of an action, for these worktrees or the marked or selected ones. `values` need no field in it.

        `done` gets the outcome if the action was carried out.
        """
        from imi_monitor.mux import multiplexer
        from imi_monitor.ui.dialogs.action_dialog import dialog_for

        action = actions.find(word.replace("-", " ")) or actions.find(word)
        if action is not None and action.changes and self._app.read_only:
            self._app.say(self._app.read_only_reason, bad=True)
            return
        about = self._home.targets if trees is None else trees
        watched = next(filter(None, map(watched_run, about)), None)
        if watched is not None and action is not None and action.needs_worktree:
            self._app.say(reason_watched(watched), bad=True)  # its name can be that of a worktree
        elif action is not None:
            values = {**self._shown_question(action, about), **(values or {})}

            def wait(targets: Sequence[ActionTarget], values: dict[str, object]) -> None:
                for tree, target in zip(about, targets, strict=True):
                    self.places.start(action, tree.key, target, values, command_log.of(self._app))
                names = ", ".join(safe(workspace_name(tree.key.repo, tree.key.worktree), 60) for tree in about)
                self._app.say(f"in line for {names}: `imi queue` shows the line")

            dialog = dialog_for(action, about, self._context_of, wait, values)
            if action.opens_worktree and (around := multiplexer.current()):
                dialog.then = f"opens there in a new {'tab' if around == 'zellij' else 'window'}"

            def dismissed(outcome: Outcome | None) -> None:
                self._done(action, outcome)
                if done is not None and outcome is not None:
                    done(outcome)

            self._app.push_screen(dialog, dismissed)

    def _shown_question(self, action: Action, about: Sequence[Worktree]) -> dict[str, object]:
        """The question that is on the screen: an answer is for that one, whatever the agent asks meanwhile."""
        facts = self._home.facts
        if len(about) != 1 or facts is None or action.chosen_by_key != "text":
            return {}
        run = facts.runs.get(about[0].key)
        if run is not None and run.question is not None:
            return {"ask": run.question.id}
        found = next((one.facts.ask for one in facts.agents_in(about[0]) if one.facts.ask is not None), None)
        return {} if found is None else {"ask": found}

    def run_now(
        self, word: str, tree: Worktree | None, values: dict[str, object], ended: Callable[[Outcome | ImiError], None]
    ) -> None:
        """Run an action, on a worktree if it needs one, in a thread, without a dialog; `ended` gets its outcome in the
        app's loop."""
        from imi_monitor.ui.dialogs.action_run import ActionRun, ActionTarget

        action = actions.find(word)
        assert action is not None
        run = ActionRun(action, command_log.of(self._app), lambda line: None)
        target = ActionTarget(
            tree.typed_name if tree is not None and action.needs_worktree else None, self._context_of(tree)
        )

        async def wait() -> None:
            result = await asyncio.to_thread(run.run, [target], values)
            ended(result[0].result)

        self._app.run_worker(wait())

    @cached_property
    def places(self) -> PlacesInLine:
        from imi_monitor.ui.places_in_line import PlacesInLine

        return PlacesInLine(lambda result: self._app.call_later(self._waited, result))

    def leave_lines(self) -> None:
        if "places" in self.__dict__:
            self.places.leave_all()

    def _waited(self, result: TargetResult) -> None:
        """Show what a place in line led to."""
        if not isinstance(result.result, ImiError):
            self._app.say("\n".join(safe(line, 200) for line in result.result.lines))
        elif result.result.code == "cancelled":
            self._app.say(f"left the line for {safe(result.target.name or '', 60)}")
        else:
            self._app.say(safe(on_dashboard(result.result.sentence), 400), bad=True)

    def _context_of(self, tree: Worktree | None) -> Callable[[], Context]:
        """Return how to open a context in the worktree's repository, where its name is unique.

        If its folder has been removed meanwhile, another worktree of the same repository serves as well.
        """
        trees = self._home.shown.worktrees if self._home.shown is not None else ()
        of_repository = tree is not None and tree.run is None
        same = [
            other
            for other in trees
            if of_repository and tree and other.key.repo == tree.key.repo and not other.missing and other.path
        ]
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

        lines = [] if action.opens_page else outcome.lines  # `open_page` shows the address
        lines = [*lines, *(f"warning: {text}" for text in outcome.warnings)]
        if lines or not action.opens_page:
            self._app.say("\n".join(safe(on_dashboard(line), 200) for line in lines[:_MOST_LINES]) or "done")
        self._home.marks = frozenset()
        if outcome.screen is not None:
            command, folder = outcome.screen
            run_suspended(self._app, folder, command)
        if action.opens_page:
            self._app.run_worker(self._app.worktree_commands.open_page(str(outcome.data["url"])), group="browse")
        name, path = outcome.data.get("worktree_name"), outcome.path
        new = name if isinstance(name, str) and (path is not None or action.makes_new) else None
        view = action.ends_in_view
        self._home.select_name(new, (lambda key: self._app.open_worktree_view(view, key)) if view else None)
        around = multiplexer.current()
        if action.opens_worktree and around and new is not None and path is not None:
            # only beside the dashboard: without a multiplexer a shell would replace it
            layout = self._app.preferences.tab_layout
            self._app.run_and_say(lambda: multiplexer.open_worktree(around, path, new, layout=layout), opens_tab=True)
