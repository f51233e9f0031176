"""Acting in a thread: one act on one worktree after the other, each recorded, with progress and a way to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    """One worktree to act on; None is an act on no worktree in particular."""

    name: str | None
    surroundings: OpenContext


@dataclass(frozen=True, slots=True)
class TargetResult:
    """What became of one of them."""

    target: ActionTarget
    result: Outcome | ImiError


class ActionRun:
    """Runs in a thread. `progress` is called from there; `cancel` may be called from anywhere."""

    def __init__(self, action: Action, log: CommandLog, progress: Callable[[str], None]) -> None:
        self._action = action
        self._log = log
        self._progress = progress
        self._stop = threading.Event()

    def cancel(self) -> None:
        self._stop.set()

    @property
    def cancelled(self) -> bool:
        return self._stop.is_set()

    def run(self, targets: Sequence[ActionTarget], values: dict[str, object]) -> list[TargetResult]:
        """Each in turn; once cancelled, those not begun are left alone."""
        done: list[TargetResult] = []
        for target in targets:
            if self.cancelled and done:
                done.append(TargetResult(target, ImiError("not begun: it was cancelled before", code="cancelled")))
                continue
            if len(targets) > 1:
                self._progress(f"{len(done) + 1} of {len(targets)}: {target.name}")
            done.append(TargetResult(target, self._one(target, values)))
        return done

    def _one(self, target: ActionTarget, values: dict[str, object]) -> Outcome | ImiError:
        try:
            with target.surroundings() as context:
                context.progress, context.shows_progress, context.cancelled = self._progress, True, self._stop.is_set
                return self._recorded(context, self._request(target, values))
        except ImiError as error:
            return error
        except Exception as error:  # noqa: BLE001  it becomes a sentence in the dialog
            return unexpected_error(error)

    def _request(self, target: ActionTarget, values: dict[str, object]) -> Request:
        named = {} if target.name is None else {"name": target.name}
        return Request(self._action.words[0], {**values, **named})

    def _recorded(self, context: Context, request: Request) -> Outcome:
        # the words first: acting may fill in values that nobody gave
        short, line = (command_line.line(command_line.words(self._action, request, of)) for of in (None, context))
        number = self._log.begin(short, line)
        try:
            settled = self._settle(context)
            outcome = self._action.run(context, request)
        except Exception as error:
            known = error if isinstance(error, ImiError) else unexpected_error(error)
            self._log.end(number, log_state(known), [known.sentence, *known.details])
            raise
        outcome.lines[:0] = settled
        self._log.end(number, command_log.DONE, [*outcome.lines, *(f"warning: {one}" for one in outcome.warnings)])
        return outcome

    def _settle(self, context: Context) -> list[str]:
        """What a crash left half done is finished or taken back first, as on the command line."""
        if self._action.hot or not self._action.recovers:
            return []
        from imi_monitor.actions import recovery

        return recovery.recover(context)


def log_state(error: ImiError) -> str:
    if error.code == "cancelled":
        return command_log.CANCELLED
    return command_log.REFUSED if isinstance(error, (Refused, UsageError)) else command_log.FAILED
