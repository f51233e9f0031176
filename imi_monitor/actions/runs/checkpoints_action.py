"""`imi checkpoints`: the checkpoints of a run."""

from __future__ import annotations

import json

from imi_monitor.actions.action import Action, Outcome
from imi_monitor.actions.runs import run_lookup
from imi_monitor.actions.status import status_action
from imi_monitor.model import times
from imi_monitor.model.columns import Column, table
from imi_monitor.model.text import safe
from imi_monitor.store import checkpoints, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.checkpoints import CheckpointRow

_COLUMNS = (
    Column("No", right=True),
    Column("Why"),
    Column("Age", right=True),
    Column("Files", right=True),
    Column("Open", right=True),
    Column("Commit"),
    Column("Message", least=20, rank=1),
)


class CheckpointsAction(Action):
    words = ("checkpoints",)
    group = "Agents"
    label = "Checkpoints"
    help = "list the checkpoints of a started agent, oldest first"
    more = (
        "A checkpoint has the prompt, the last message, the plan, the open tool calls, the files with their hashes, and HEAD."
        " Why: messages (every runs.checkpoint_every), wrote (a tool wrote files), asks, turn (its end), end. `imi resume"
        " --fresh` begins a new session from the last one."
    )
    arguments = (run_lookup.MAYBE_RUN,)
    changes = False
    reads_only = True

    def run(self, context: Context, request: Request) -> Outcome:
        row = run_lookup.find_run(context, request.text("name"))
        found = db.read(context.connection, checkpoints.list_checkpoints, row.seq)
        data = [
            {"number": one.number, "kind": one.kind, "at": one.at, "position": one.position, **json.loads(one.state)}
            for one in found
        ]
        if not found:
            return Outcome([f"{row.short} has no checkpoint yet"], {"run": row.id, "checkpoints": []})
        lines = table(_COLUMNS, [_row(one) for one in found], status_action.terminal_width())
        return Outcome(lines, {"run": row.id, "checkpoints": data})


def _row(one: CheckpointRow) -> list[str]:
    state = json.loads(one.state)
    return [
        str(one.number),
        one.kind,
        times.age_of(one.at),
        str(len(state["files"])),
        str(len(state["open"])),
        (state["head"] or "")[:10],
        safe((state["message"] or "").split("\n")[0], 200),
    ]


ACTIONS = (CheckpointsAction(),)
