"""The log of a run as a job: `logs/running-jobs/job-<ms>-<7 characters>.log` with a JSON file beside it, in the runs' home.

The names follow from the run, so nothing has to be stored. Runs for the infrastructure and runs that an agent started in a
run of its own have a second name for their log, in `infrastructure-sessions/` and `orchestrator-sessions/`.
"""

from __future__ import annotations

import os
from contextlib import suppress

from imi_monitor.model import times
from imi_monitor.model.text import safe
from imi_monitor.runs import log_text, run_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.model.agent import AgentEvent
    from imi_monitor.store.runs import RunRow

_JOBS = os.path.join("logs", "running-jobs")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_RANDOM = 7
_LAST_BYTES = 200
AREA, INFRASTRUCTURE = "area", "infrastructure"


def job_id(row: RunRow) -> str:
    number, word = int(row.id.replace("-", "")[:12], 16), ""
    for _ in range(_RANDOM):
        number, digit = divmod(number, len(_DIGITS))
        word += _DIGITS[digit]
    return f"job-{_seconds(row) * 1000:.0f}-{word}"


def path(row: RunRow) -> str:
    return os.path.join(_home(row), _JOBS, f"{job_id(row)}.log")


def begin(row: RunRow, parent: RunRow | None) -> None:
    """Make the log and its JSON file. `parent`: the run in which this one was started."""
    log = path(row)
    with suppress(OSError):  # a copy for people: the run does not depend on it
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        run_folder.append_lines(log, [], anew=True)
        if _labels(row).get(AREA) == INFRASTRUCTURE:
            _link(_session(row, "infrastructure"), "infrastructure.log", log)
        if parent is not None:
            folder = _session(parent, "orchestrator")
            _link(folder, "orchestrator.log", path(parent))
            _link(folder, f"{safe(row.agent_id, 80).replace('/', '-')}-orchestrated.log", log)
    write_about(row)


def link_orchestrated(row: RunRow, folder: str) -> None:
    """Link the log of a run of a batch into the folder of its session."""
    with suppress(OSError):
        _link(folder, f"{safe(row.agent_id, 80).replace('/', '-')}-orchestrated.log", path(row))


def write_about(row: RunRow) -> None:
    """Write the JSON file; `status` is that of the run."""
    labels = _labels(row)
    log = path(row)
    plain: dict[str, object] = {
        "jobId": job_id(row),
        "type": labels.get(AREA) or "engineering",
        "model": _launch(row).get("model"),
        "targetRepo": row.repo_name,
        "branchName": row.worktree_name,
        "pid": row.pid,
        "status": "running" if row.is_open else row.status,
        "startTime": row.started_at or row.created_at,
        "endTime": row.ended_at,
        "exitCode": row.exit_code,
        "logFile": log,
        "runId": row.id,
        "sessionId": row.session,
        "agent": row.agent_id,
        "labels": labels,
    }
    run_folder.write_json(log.removesuffix(".log") + ".json", plain)


def lines(events: Sequence[AgentEvent]) -> list[str]:
    return [f"[STDOUT] {line}" for one in events for line in log_text.entry_lines(one)]


def end(row: RunRow, errors: str) -> None:
    """Add what the program wrote to its standard error and how it ended, once."""
    if _is_ended(path(row)):
        write_about(row)
        return
    shown = [f"[STDERR] {safe(line, 4000)}" for line in errors.splitlines()]
    code = "unknown" if row.exit_code is None else row.exit_code
    run_folder.append_lines(path(row), [*shown, "", f"[EXIT] Process exited with code {code}"])
    write_about(row)


def _is_ended(log: str) -> bool:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
            return file.read().rpartition(b"\n[")[2].startswith(b"EXIT] ")
    except OSError:
        return False


def _link(folder: str, name: str, log: str) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.symlink(os.path.relpath(log, folder), os.path.join(folder, name))


def _session(row: RunRow, kind: str) -> str:
    return os.path.join(_home(row), "logs", f"{kind}-sessions", f"session-{_seconds(row):.0f}")


def _home(row: RunRow) -> str:
    return os.path.dirname(os.path.dirname(row.folder))


def _seconds(row: RunRow) -> float:
    made = times.parse(row.created_at)
    return made.timestamp() if made is not None else 0.0


def _labels(row: RunRow) -> dict[str, str]:
    labels = _launch(row).get("labels")
    return labels if isinstance(labels, dict) else {}


def _launch(row: RunRow) -> dict[str, object]:
    import json

    found: dict[str, object] = json.loads(row.launch)
    return found
