"""Interrupts that imi sends by itself, each once: for a budget that is used up, or a claim that was lost.

An interrupt ends the turn and keeps the session; what the user says then goes on.
"""

from __future__ import annotations

from contextlib import suppress

from imi_monitor.model.errors import ImiError
from imi_monitor.runs import providers, window_input
from imi_monitor.runs.provider import TASK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.run_ingest import FollowedRun

FILE = "limits"  # of the launch folder: a line for each reason of an interrupt


def interrupt(one: FollowedRun, reason: str) -> bool:
    """End the turn and note the reason; False if it has to be tried again, because its window shows something else now."""
    if not one.reader.turn_over:
        if one.row.way == TASK:
            with suppress(ImiError):  # it does not read any more: it has ended
                one.folder.send(providers.by_name(one.row.program).interrupt(one.reader))
        else:
            try:
                window_input.interrupt(one.row, one.reader)
            except ImiError:  # it asks, or its window is unknown: no key is pressed there
                return False
    note(one, reason)
    return True


def interrupt_once(one: FollowedRun, reason: str) -> bool:
    """As above, unless it was for this reason before; False then."""
    return not count(one, reason) and interrupt(one, reason)


def note(one: FollowedRun, reason: str) -> None:
    """Count the reason without an interrupt."""
    one.folder.add_line(FILE, reason)


def count(one: FollowedRun, reason: str) -> int:
    """How often this reason was noted."""
    return one.folder.count_lines(FILE, reason)
