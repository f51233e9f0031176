"""`imi attach`: go to the own screen of a started agent; one without a terminal is continued in a window."""

from __future__ import annotations

import os
import sys
import time

from imi_monitor import programs
from imi_monitor.actions.action import Action, Option, Outcome, Request
from imi_monitor.actions.runs import resume_action, run_lookup
from imi_monitor.model.agent import RESTING
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.runs import launch_folder, providers, run_stop, ways
from imi_monitor.runs.provider import TASK, WINDOW
from imi_monitor.runs.run_ingest import RunIngest
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.store.runs import RunRow


_RECORD_SECONDS = 10.0


class AttachAction(Action):
    words = ("attach",)
    group = "Agents"
    label = "Attach"
    help = "go to the own screen of a started agent"
    more = (
        "Inside of its tmux or Zellij its window gets the focus; elsewhere this terminal shows it. An agent without a"
        " terminal has no screen: with --take-over its process is ended, in the middle of its turn if there is one, and its"
        " session is continued in a window. Two processes never write to one session."
    )
    examples = (("imi attach 1b2c3d4e", "show the window of this run"),)
    in_menus = True
    arguments = (run_lookup.MAYBE_RUN,)
    dialog_options = ("take-over",)
    options = (Option("take-over", "end an agent without a terminal and continue its session in a window"),)

    def consequences(self, context: Context, request: Request) -> list[str]:
        row = run_lookup.find_run(context, request.text("name"))
        if row.way != TASK:
            run_lookup.refuse_over(row)
            return [f"shows the window of {row.short} ({safe(row.agent_id)}), which is {row.shown_state}"]
        if not request.flag("take-over"):
            raise _no_window(row)
        ends = f"ends {row.short} ({row.shown_state}) and " if row.is_open else ""
        return [f"{ends}continues its session in a window"]

    def run(self, context: Context, request: Request) -> Outcome:
        row = run_lookup.find_run(context, request.text("name"))
        if row.way == TASK:
            return _take_over(context, request, row)
        run_lookup.refuse_over(row)
        folder = launch_folder.folder_of(row.id)
        way = ways.of(folder)
        if way.focus(folder):
            return Outcome([f"{row.short}: its window has the focus"], {"run": row.id})
        command, where = way.attach_command(folder)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise Refused(f"this is no terminal: `imi attach {row.short}` needs one", code="no-terminal")
        within = [programs.find("env") or "/usr/bin/env", "-u", "TMUX", "-u", "ZELLIJ"]  # also in another multiplexer
        return Outcome([f"shows the window of {row.short}"], {"run": row.id}, screen=([*within, *command], where))


def _take_over(context: Context, request: Request, row: RunRow) -> Outcome:
    if not request.flag("take-over"):
        raise _no_window(row)
    if os.environ.get("IMI_RUN_ID") == row.id:
        raise Refused("an agent cannot take its own run over", code="own-run")
    if not providers.by_name(row.program).has_window:
        raise Refused(f"imi cannot start {row.program} in a window", code="no-window")
    ways.needed_holder()  # before anything is ended
    goes_on = row.state not in RESTING
    if row.is_open:
        run_lookup.refuse_over(row)
        run_stop.stop(context.connection, row, context.agent(request))
        _record_end(context, row)
    again = Request(request.verb, {"way": WINDOW})
    return resume_action.resume(context, again, row.id, *(() if goes_on else ("",)))


def _no_window(row: RunRow) -> Refused:
    turn = "" if row.state in RESTING or not row.is_open else ", which ends its turn"
    return Refused(
        f"{row.short} runs without a terminal: `imi attach {row.short} --take-over` continues its session in a window{turn}",
        code="no-terminal",
    )


def _record_end(context: Context, row: RunRow) -> None:
    """Return once the end is recorded, by this process or the follower."""
    until = time.monotonic() + _RECORD_SECONDS
    ingest = RunIngest(context.connection)
    while (now := db.read(context.connection, runs.by_id, row.id)) is not None and now.is_open:
        if time.monotonic() > until:
            raise Refused(f"{row.short} is stopped, but its end is not recorded yet: try again", code="not-recorded")
        ingest.update()
        time.sleep(0.02)


ACTIONS = (AttachAction(),)
