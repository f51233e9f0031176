"""Runs an action in a thread on one or several worktrees, in turn, and records each run in the command log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from imi_monitor.actions import command_line
from imi_monitor.actions.action import Action, Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.ui import command_log
from imi_monitor.ui.background_query import unexpected_error
from imi_monitor.ui.command_log import CommandLog

OpenContext = Callable[[], Context]


@dataclass(frozen=True, slots=True)
class ActionTarget:
    """One worktree to act on and its repository's context; without a name the action is about no worktree."""

    name: str | None
    open_context: OpenContext
    bound: dict[str, object] = field(default_factory=dict)  # values that the shown preview has fixed

    def request(self, action: Action, values: dict[str, object]) -> Request:
        """Return the request for this target; `values` are the arguments besides the name."""
        elsewhere = any(one.replaces_worktree and one.name in values for one in action.options)
        named = {} if self.name is None or elsewhere else {action.worktree_value: self.name}
        return Request(action.words[0], {**values, **self.bound, **named})


@dataclass(frozen=True, slots=True)
class TargetResult:
    """The outcome for one target, or the error."""

    target: ActionTarget
    result: Outcome | ImiError


class ActionRun:
    """One run of an action. `run` is called in a thread, which calls `progress`; `cancel` may be called from any thread."""

    def __init__(self, action: Action, log: CommandLog, progress: Callable[[str], None]) -> None:
        self._action = action
        self._log = log
        self._progress = progress
        self._place = ""  # of the worktree among several
        self._stop = threading.Event()

    def cancel(self) -> None:
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    def run(self, targets: Sequence[ActionTarget], values: dict[str, object]) -> list[TargetResult]:
        """Act on each target; after a cancellation the remaining ones are left untouched."""
        results: list[TargetResult] = []
        if len(targets) > 1:
            values = {**values, **self._action.shared_values([target.name or "" for target in targets])}
        for target in targets:
            if self.cancelled and results:
                results.append(TargetResult(target, ImiError("not begun: it was cancelled before", code="cancelled")))
                continue
            if len(targets) > 1:
                self._place = f"{len(results) + 1} of {len(targets)}: {target.name}"
                self._report("")
            results.append(TargetResult(target, self._run_one(target, values)))
        return results

    def _run_one(self, target: ActionTarget, values: dict[str, object]) -> Outcome | ImiError:
        try:
            with target.open_context() as context:
                context.progress, context.shows_progress, context.cancelled = self._report, True, self._stop.is_set
                return self._run_logged(context, target.request(self._action, values))
        except ImiError as error:
            return error
        except Exception as error:  # noqa: BLE001  shown in the dialog as a sentence
            return unexpected_error(error)

    def _report(self, line: str) -> None:
        """Report a line of progress, behind the place of the worktree among several."""
        self._progress(" ".join(filter(None, (self._place, line))))

    def _run_logged(self, context: Context, request: Request) -> Outcome:
        # the command line first: the action may fill in arguments that were not given
        context.needs_registry = self._action.needs_registry
        short, line = (command_line.line(command_line.words(self._action, request, of)) for of in (None, context))
        number = self._log.begin(short, line)
        try:
            recovered = self._recover(context)
            outcome = self._act(context, request)
        except Exception as error:
            known = error if isinstance(error, ImiError) else unexpected_error(error)
            self._log.end(number, _log_state(known), [known.sentence, *known.details])
            if known is error:
                raise
            raise known from error
        outcome.lines[:0] = recovered
        self._log.end(number, command_log.DONE, [*outcome.lines, *(f"warning: {text}" for text in outcome.warnings)])
        return outcome

    def _act(self, context: Context, request: Request) -> Outcome:
        if self._action.needs_registry:
            return self._action.run(context, request)
        from imi_monitor.actions import without_registry

        return without_registry.run(context, lambda: self._action.run(context, request), again=not self._action.changes)

    def _recover(self, context: Context) -> list[str]:
        """Complete or revert operations that a crash interrupted, as the command line does before an action."""
        if self._action.hot or not self._action.recovers or context.registry_problem is not None:
            return []
        from imi_monitor.actions import recovery

        return recovery.recover(context)


def _log_state(error: ImiError) -> str:
    if error.code == "cancelled":
        return command_log.CANCELLED
    return command_log.REFUSED if isinstance(error, (Refused, UsageError)) else command_log.FAILED
