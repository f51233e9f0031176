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
_MOST_BYTES = 64 << 20
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


def rotate(log: str) -> None:
    """Cut a log that has grown beyond the limit: what is there goes compressed into `.1.gz`, at the end of a line."""
    try:
        if os.path.getsize(log) < _MOST_BYTES:
            return
        number = 1 + sum(one.startswith(os.path.basename(log) + ".") for one in os.listdir(os.path.dirname(log)))
        os.rename(log, f"{log}.{number}")
        _compress(f"{log}.{number}")
    except OSError:
        return  # the log goes on as it is


def compress(row: RunRow) -> None:
    """Compress the log of a run that is over."""
    try:
        _compress(path(row))
    except OSError:
        return


def _compress(log: str) -> None:
    """Replace the file by its compressed copy, which is whole before."""
    import gzip
    import shutil

    with open(log, "rb") as source, open(f"{log}.gz.new", "wb") as target:
        with gzip.open(target, "wb") as stream:
            shutil.copyfileobj(source, stream)
        target.flush()
        os.fsync(target.fileno())
    os.rename(f"{log}.gz.new", f"{log}.gz")
    os.unlink(log)


def parts(row: RunRow) -> list[str]:
    """The files of the log, the oldest first; compressed ones end in `.gz`."""
    log = path(row)
    try:
        names = [one for one in os.listdir(os.path.dirname(log)) if one.startswith(os.path.basename(log) + ".")]
    except OSError:
        return []
    numbered = sorted(
        (one for one in names if one.endswith(".gz") and one != f"{os.path.basename(log)}.gz"), key=_number
    )
    last = [one for one in (log, f"{log}.gz") if os.path.exists(one)]
    return [*(os.path.join(os.path.dirname(log), one) for one in numbered), *last]


def remove_parts(row: RunRow) -> None:
    """Remove what was cut off, because the log is written anew."""
    for one in parts(row):
        if one.endswith(".gz"):
            with suppress(OSError):
                os.unlink(one)


def find_lines(row: RunRow, words: str) -> list[str]:
    """The lines of the log that contain the words, whatever their case."""
    import gzip

    found, wanted = [], words.casefold()
    for one in parts(row):
        try:
            with (gzip.open if one.endswith(".gz") else open)(one, "rt", encoding="utf-8", errors="replace") as file:
                found += [line.rstrip("\n") for line in file if wanted in line.casefold()]
        except (OSError, EOFError):
            continue  # it is being compressed, or damaged
    return found


def _number(name: str) -> int:
    word = name.removesuffix(".gz").rpartition(".")[2]
    return int(word) if word.isdecimal() else 0


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
