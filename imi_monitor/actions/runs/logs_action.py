"""`imi logs`: what a started agent said and did, from its output file; `-f` goes on until it is over."""

from __future__ import annotations

import os
import time

from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.actions.runs import foreign_log, run_lookup
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.runs import job_log, launch_folder, log_text, providers, run_archive, run_folder
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
_POLL_SECONDS = 0.05
_DEFAULT_LINES = 200


class LogsAction(Action):
    words = ("logs",)
    group = "Agents"
    label = "Logs"
    help = "show what a started agent said and did"
    more = (
        "> prompt, $ tool call, = its result, ? question, . end of a turn. --errors shows failures and what the program wrote to"
        " its standard error, --path the file of its whole output, for grep and jq. A session of a watched workspace of another"
        " program (`imi sessions`) shows its own log."
    )
    examples = (("imi logs 1b2c3d4e -f", "follow a run until it is over"),)
    arguments = (run_lookup.MAYBE_RUN,)
    options = (
        Option("follow", "go on with what the agent does next, until it is over", aliases=("f",)),
        Option(
            "limit", f"the number of last entries (default: {_DEFAULT_LINES})", value="N", number=True, aliases=("n",)
        ),
        Option("errors", "show only failures: of turns and tool calls, and the program's standard error"),
        Option(
            "search",
            "show the lines of job logs with this text, also of compressed ones; without RUN of all runs",
            value="TEXT",
        ),
        Option("path", "print the path of the output file and nothing else"),
    )
    changes = False
    reads_only = True
    streams = True

    def run(self, context: Context, request: Request) -> Outcome:
        words = request.text("search")
        if words is not None:
            return _search(context, request, words)
        limit = request.whole("limit") or _DEFAULT_LINES
        try:
            row = run_lookup.find_run(context, request.text("name"))
        except Refused as refused:
            path = foreign_log.find(context, request.text("name")) if refused.code == "no-run" else None
            if path is None:
                raise
            if request.flag("path"):
                context.emit(path, {"path": path})
                return Outcome()
            return foreign_log.show(context, path, limit, follow=request.flag("follow"))
        folder = launch_folder.folder_of(row.id)
        if request.flag("path"):
            packed = row.archive or os.path.join(row.folder, run_folder.PACKED)
            path = folder.file("out") if os.path.exists(folder.path) else packed
            context.emit(path, {"path": path})
            return Outcome()
        reader = OutputReader(row)
        if request.flag("errors"):
            return _emit_errors(context, row, reader, limit)
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


def _search(context: Context, request: Request, words: str) -> Outcome:
    """Each line with the run it is from, the newest run last."""
    if not words.strip():
        raise UsageError("--search needs a text", code="missing")
    name, limit = request.text("name"), request.whole("limit") or _DEFAULT_LINES
    among = [run_lookup.find_run(context, name)] if name else db.read(context.connection, runs.list_runs)
    found = [(row, line) for row in reversed(among) for line in job_log.find_lines(row, words)]
    for row, line in found[-limit:]:
        context.emit(f"{row.short}  {safe(line, 4000)}", {"run": row.id, "line": safe(line, 4000)})
    if not found:
        raise Refused(f"no job log has {safe(words, 60)!r}", code="not-found")
    return Outcome()


def _emit_errors(context: Context, row: RunRow, reader: OutputReader, limit: int) -> Outcome:
    failed = [one for one in reader.read() if one.kind == "failed" or (one.kind == "tool_finished" and one.ok is False)]
    for one in failed[-limit:]:
        _emit(context, one)
    for line in _error_lines(row).splitlines()[-limit:]:
        context.emit(safe(line, 4000), {"error": safe(line, 4000)})
    return Outcome()


def _error_lines(row: RunRow) -> str:
    """The standard error of the program, also of a run whose output is packed."""
    folder = launch_folder.folder_of(row.id)
    if os.path.exists(folder.path):
        return folder.error_lines()
    try:
        if row.archive:
            return run_archive.read_output(row, run_folder.ERRORS).decode("utf-8", "replace")
        with open(os.path.join(row.folder, run_folder.ERRORS), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # it wrote none


class OutputReader:
    """Turns the output file into events, from where the last call ended."""

    def __init__(self, row: RunRow) -> None:
        folder = launch_folder.folder_of(row.id)
        self._output: LaunchFolder | PackedOutput = folder
        if not os.path.exists(folder.path):
            try:
                packed = run_archive.read_output(row, run_folder.PACKED) if row.archive else None
                self._output = PackedOutput(row.folder, packed)
            except OSError as error:
                raise Refused(
                    f"the output of {row.short} is gone: its folder {safe(row.folder)} was removed", code="missing"
                ) from error
        self._reader = providers.by_name(row.program).reader(row.way)
        self._position = 0
        self._began = row.started_at or row.created_at  # the time of lines without one before the first with one

    def read(self) -> list[AgentEvent]:
        found: list[AgentEvent] = []
        while data := self._output.read_output(self._position, _SLICE):
            end = data.rfind(b"\n") + 1
            if not end and len(data) < _SLICE:
                break  # a line that is being written
            for line in data[: end or None].splitlines(keepends=True):
                self._reader.add(line.rstrip(b"\n"), self._position, "" if self._position else self._began)
                self._position += len(line)
            found += self._reader.take_log()
            if end and end < len(data) and len(data) < _SLICE:
                break
        return found


def _emit(context: Context, one: AgentEvent) -> None:
    about = {"tool": str(one.tool)} if one.tool else {}
    context.emit(
        "\n".join(log_text.entry_lines(one)), {"at": one.at, "kind": one.kind, "text": one.text, "ok": one.ok, **about}
    )


ACTIONS = (LogsAction(),)
