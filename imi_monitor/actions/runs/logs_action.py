"""`imi logs`: what a started agent said and did, from its output file; `-f` goes on until it is over."""

from __future__ import annotations

import os
import time

from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.actions.runs import run_lookup
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.runs import launch_folder, log_text, providers, run_folder
from imi_monitor.runs.run_folder import PackedOutput
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.model.agent import AgentEvent
    from imi_monitor.runs.launch_folder import LaunchFolder
    from imi_monitor.store.runs import RunRow

_SLICE = 1 << 20
_POLL_SECONDS = 0.1
_DEFAULT_LINES = 200


class LogsAction(Action):
    words = ("logs",)
    group = "Agents"
    label = "Logs"
    help = "show what a started agent said and did"
    more = (
        "> prompt, $ tool call, = its result, ? question, . end of a turn. --errors shows what the program wrote to its"
        " standard error, --path the file of its whole output, for grep and jq."
    )
    examples = (("imi logs 1b2c3d4e -f", "follow a run until it is over"),)
    arguments = (run_lookup.MAYBE_RUN,)
    options = (
        Option("follow", "go on with what the agent does next, until it is over", aliases=("f",)),
        Option(
            "limit", f"the number of last entries (default: {_DEFAULT_LINES})", value="N", number=True, aliases=("n",)
        ),
        Option("errors", "show the standard error of the program"),
        Option("path", "print the path of the output file and nothing else"),
    )
    changes = False
    streams = True

    def run(self, context: Context, request: Request) -> Outcome:
        row = run_lookup.find_run(context, request.text("name"))
        folder = launch_folder.folder_of(row.id)
        if request.flag("path"):
            packed = os.path.join(row.folder, run_folder.PACKED)
            path = folder.file("out") if os.path.exists(folder.path) else packed
            context.emit(path, {"path": path})
            return Outcome()
        if request.flag("errors"):
            for line in folder.error_lines().splitlines():
                context.emit(safe(line, 4000), {"error": safe(line, 4000)})
            return Outcome()
        reader = OutputReader(row)
        limit = request.whole("limit") or _DEFAULT_LINES
        for one in reader.read()[-limit:]:
            _emit(context, one)
        while request.flag("follow") and not context.cancelled():
            current = db.read(context.connection, runs.by_id, row.id)
            for one in reader.read():
                _emit(context, one)
            if current is None or not current.is_open:
                break
            time.sleep(_POLL_SECONDS)
        return Outcome()


class OutputReader:
    """Turns the output file into events, from where the last call ended."""

    def __init__(self, row: RunRow) -> None:
        folder = launch_folder.folder_of(row.id)
        self._output: LaunchFolder | PackedOutput = folder
        if not os.path.exists(folder.path):
            try:
                self._output = PackedOutput(row.folder)
            except OSError as error:
                raise Refused(
                    f"the output of {row.short} is gone: its folder {safe(row.folder)} was removed", code="missing"
                ) from error
        self._reader = providers.by_name(row.program).reader(row.way)
        self._position = 0

    def read(self) -> list[AgentEvent]:
        found: list[AgentEvent] = []
        while data := self._output.read_output(self._position, _SLICE):
            end = data.rfind(b"\n") + 1
            if not end and len(data) < _SLICE:
                break  # a line that is being written
            for line in data[: end or None].splitlines(keepends=True):
                self._reader.add(line.rstrip(b"\n"), self._position)
                self._position += len(line)
            found += self._reader.take_events()
            if end and end < len(data) and len(data) < _SLICE:
                break
        return found


def _emit(context: Context, one: AgentEvent) -> None:
    about = {"tool": str(one.tool)} if one.tool else {}
    context.emit(
        "\n".join(log_text.entry_lines(one)), {"at": one.at, "kind": one.kind, "text": one.text, "ok": one.ok, **about}
    )


ACTIONS = (LogsAction(),)
