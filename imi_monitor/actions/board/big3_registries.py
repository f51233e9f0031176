"""The registries of Big 3's agents in a folder, with the operator logs beside them: `agents/<tool>/<agent>/task-*.md`.

An agent that was sent a task is at work as far as its log says. Nothing there proves that it still is: after an hour without a
new line its state is unknown.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from imi_monitor.actions.board import workspace_files
from imi_monitor.model import board, operator_log, times
from imi_monitor.model.agent import COMPLETED, FAILED, PLANNING, RUNNING, UNKNOWN
from imi_monitor.model.foreign_run import ForeignRun, ForeignTask
from imi_monitor.model.operator_log import OperatorTask, RegisteredAgent

PROGRAM = "big3"
REGISTRY = "registry.json"
_AGENTS = "agents"
_MOST_LOG = 4 << 20  # bytes; the output of the agent is in it
_SILENT = timedelta(hours=1)
_STATES = {board.PENDING: PLANNING, board.IN_PROGRESS: RUNNING, board.COMPLETED: COMPLETED, board.FAILED: FAILED}


def find(folder: str) -> list[tuple[str, str]]:
    """(tool, folder) of each registry: below a working directory, its `agents`, or the folder of one tool."""
    places = [
        (tool, os.path.join(base, tool))
        for base in (os.path.join(folder, _AGENTS), folder)
        for tool in operator_log.TOOLS
    ]
    if os.path.basename(folder) in operator_log.TOOLS:
        places.append((os.path.basename(folder), folder))
    return [(tool, place) for tool, place in places if os.path.isfile(os.path.join(place, REGISTRY))]


def read(folder: str) -> tuple[list[ForeignRun], list[str]]:
    """(the agents of all registries, what cannot be read)."""
    found, problems = [], []
    for tool, place in find(folder):
        try:
            text = workspace_files.read_text(place, REGISTRY)
            if text is None:
                raise ValueError("it is no plain file, or too large")
            found += [_run(tool, place, one) for one in operator_log.read_registry(text)]
        except ValueError as error:
            problems.append(f"{tool}/{REGISTRY}: {error}")
    return found, problems


def _run(tool: str, place: str, one: RegisteredAgent) -> ForeignRun:
    folder = os.path.join(place, one.name)
    known = [(name, text) for name in one.logs if (text := workspace_files.read_text(folder, name, ".md", _MOST_LOG))]
    tasks = [(name, operator_log.read_log(text)) for name, text in known]
    moments = [task.updated_at for _, task in tasks if task.updated_at]
    last = tasks[-1][1] if tasks else None
    return ForeignRun(
        name=f"{tool}/{one.name}",
        folder=one.folder or folder,
        status=_state(last),
        started_at=one.created_at,
        updated_at=max(moments, default=None) or one.created_at or _changed(os.path.join(place, REGISTRY)),
        prompt=last.task if last else None,
        log=os.path.join(folder, tasks[-1][0]) if tasks else None,
        program=PROGRAM,
        agent=one.name,
        problem=last.error if last else None,
        records=folder,
        tasks=tuple(_task(tool, one, name, task) for name, task in tasks),
    )


def _state(task: OperatorTask | None) -> str:
    if task is None:
        return UNKNOWN
    said = times.parse(task.updated_at)
    silent = said is None or times.now() - said > _SILENT
    return UNKNOWN if silent and task.status in (board.PENDING, board.IN_PROGRESS) else _STATES[task.status]


def _task(tool: str, one: RegisteredAgent, name: str, task: OperatorTask) -> ForeignTask:
    ident = f"{PROGRAM}:{tool}/{one.name}/{name.removesuffix('.md')}"
    return ForeignTask(ident, task.task or name, task.status, task.error, task.created_at, task.updated_at)


def _changed(path: str) -> str:
    return times.stamp(datetime.fromtimestamp(os.stat(path).st_mtime, UTC))
