"""`imi stop`: end a started agent and everything that descends from it."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Outcome
from imi_monitor.actions.runs import run_lookup
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe
from imi_monitor.runs import run_stop
from imi_monitor.runs.agent_variables import RUN_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.runs import RunRow

_HOW = {
    run_stop.ASKED: "it ended by itself when it was told to",
    run_stop.TERMINATED: "it ended by SIGTERM",
    run_stop.KILLED: "it ended by SIGKILL",
    run_stop.OVER: "it was not running",
}


class StopAction(Action):
    words = ("stop",)
    group = "Agents"
    label = "Stop"
    help = "end a started agent and all that it started"
    more = (
        "The program is told to end in its own way, then by SIGTERM, then by SIGKILL, three seconds each; then every process"
        " that descends from it. Its files, commits and transcript stay, and `imi resume` takes the session up again. A"
        " run in the queue leaves it. For a run that is over, the processes that it left behind are ended."
    )
    key = "X"
    arguments = (run_lookup.RUN,)
    dangerous = True

    def consequences(self, context: Context, request: Request) -> list[str]:
        row = run_lookup.find_run(context, request.text("name"))
        if not row.is_open and not run_stop.list_left_behind([row]):
            raise _over(row)
        where = f" in {safe(row.worktree_name)}" if row.worktree_name else ""
        return [f"ends {safe(row.agent_id)}{where} ({row.shown_state}) and all that it started"]

    def run(self, context: Context, request: Request) -> Outcome:
        row = run_lookup.find_run(context, request.text("name"))
        if os.environ.get(RUN_VARIABLE) == row.id:
            raise Refused("an agent cannot stop its own run: end the turn instead", code="own-run")
        if not row.is_open:
            killed = run_stop.stop_left_behind(row)
            if not killed:
                raise _over(row)
            line = f"ended {count(killed, 'process', 'processes')} that {row.short} left behind"
            return Outcome([line], {"run": row.id, "how": run_stop.OVER, "killed": killed})
        found = run_stop.stop(context.connection, row, context.agent(request))
        how, killed = (found.how, found.killed) if found is not None else (run_stop.OVER, 0)
        more = f", and {count(killed, 'process', 'processes')} that it had started" if killed else ""
        line = f"stopped {row.short} ({safe(row.agent_id)}): {_HOW[how]}{more}"
        return Outcome([line], {"run": row.id, "how": how, "killed": killed})


def _over(row: RunRow) -> Refused:
    return Refused(f"{row.short} is over ({row.status}) and left no process behind", code="ended")


ACTIONS = (StopAction(),)
