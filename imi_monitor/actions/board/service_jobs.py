"""The jobs of be-agents-service: `logs/running-jobs/<job>.json` with the log beside it.

The file says "running" for ever. The last line of the log decides; without it the process, if it began when the job did: its
number may belong to something else by now.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime

from imi_monitor import host
from imi_monitor.actions.board import workspace_files
from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, DEAD, FAILED, RUNNING, UNKNOWN
from imi_monitor.model.foreign_run import ForeignRun

PROGRAM = "be-agents"
FOLDER = os.path.join("logs", "running-jobs")
_EXIT = re.compile(r"^\[EXIT\] Process exited with code (-?\d+|null)")
_MOST_JOBS = 500
_TAIL = 16 << 10
_START_SECONDS = 10.0  # between the start of a process and the moment in the file


def read(folder: str) -> tuple[list[ForeignRun], list[str]]:
    """(the jobs of a workspace, what cannot be read)."""
    base, jobs, problems = os.path.join(folder, FOLDER), [], []
    for name in [one for one in workspace_files.list_names(base) if one.endswith(".json")][-_MOST_JOBS:]:
        text = workspace_files.read_text(base, name)
        try:
            about = json.loads(text or "")
            jobs.append(_job(base, name.removesuffix(".json"), about if isinstance(about, dict) else {}))
        except (ValueError, RecursionError):
            problems.append(f"{name}: it is no JSON, or only a part of it")
    return jobs, problems


def _job(base: str, name: str, about: dict[str, object]) -> ForeignRun:
    log = os.path.join(base, f"{name}.log")  # never the path in the file
    begun = times.parse(str(about.get("startTime")))
    status, problem = _ending(log) or _process(about.get("pid"), begun)
    try:
        changed = times.stamp(datetime.fromtimestamp(os.stat(log).st_mtime, UTC))
    except OSError:
        changed, log = times.stamp(begun) if begun else times.stamp(), ""
    words = (about.get("type"), about.get("targetRepo"), about.get("priorityFile"))
    return ForeignRun(
        name=name,
        folder=str(about.get("targetRepo") or base),
        status=status,
        started_at=times.stamp(begun) if begun else None,
        updated_at=changed,
        prompt=" ".join(str(one) for one in words if one) or None,
        log=log or None,
        program=PROGRAM,
        problem=problem,
    )


def _ending(log: str) -> tuple[str, str | None] | None:
    """(status, problem) by the last line of the log; None while there is none."""
    try:
        tail = workspace_files.LogTail(log, _TAIL)
        lines = [*tail.read(), tail.unfinished()]
    except OSError:
        return None
    found = next((match for line in reversed(lines[-3:]) if (match := _EXIT.match(line))), None)
    if found is None:
        return None
    return (COMPLETED, None) if found[1] == "0" else (FAILED, f"exit status {found[1]}")


def _process(pid: object, begun: datetime | None) -> tuple[str, str | None]:
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 1:
        return UNKNOWN, None
    started = host.start_time(pid)
    if started is None:
        return DEAD, "its process is gone, and its log has no end"
    moment = host.start_moment(started)
    if moment is None or begun is None:
        return UNKNOWN, None
    if abs(moment - begun.timestamp()) > _START_SECONDS:
        return DEAD, f"process {pid} is another one by now, and its log has no end"
    return RUNNING, None
