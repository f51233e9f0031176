"""The run folder: `AGENT_RUN_WORKSPACES/session_<time>_<id>`, where an agent leaves what does not belong into git.

search_results/  work_products/  media/     for the agent
workbench_activity/log.txt                  the commands it ran, written by imi
run.json                                    who, what and where; its end once it is over
output.jsonl                                a link to the agent's whole output; output.jsonl.gz once the run is old
"""

from __future__ import annotations

import os
import time

from imi_monitor import paths
from imi_monitor.fast import json_writer
from imi_monitor.model import times
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.layout import Repository
    from imi_monitor.model.agent import AgentEvent
    from imi_monitor.store.runs import RunRow

PARTS = ("search_results", "work_products", "workbench_activity", "media")
_WORKSPACES = "AGENT_RUN_WORKSPACES"
_OUTPUT = "output.jsonl"
PACKED = "output.jsonl.gz"
_LOG = os.path.join("workbench_activity", "log.txt")
_COMMANDS = ("Bash", "shell", "run_shell_command")


def home_of(repository: Repository | None, configured: str) -> str:
    """The folder that holds the run folders: as configured, else beside the worktrees, else in the data folder."""
    if configured:
        return os.path.expanduser(configured)
    if repository is None:
        return paths.data_dir()
    return repository.cluster or f"{repository.home}.worktrees"


def make(home: str, run_id: str, output: str) -> str:
    """Make the folder of a new run and its parts, and return its path; OSError if the disk refuses it."""
    at = time.strftime("%Y%m%d_%H%M%S", time.gmtime(times.clock() // 1_000_000_000))
    folder = os.path.join(home, _WORKSPACES, f"session_{at}_{run_id[:8]}")
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    os.mkdir(folder, 0o700)
    for part in PARTS:
        os.mkdir(os.path.join(folder, part), 0o700)
    os.symlink(output, os.path.join(folder, _OUTPUT))
    return folder


def remove_unused(folder: str) -> None:
    """Remove the folder of a run that did not start; what is in it already stays, with the folder."""
    names = ("run.json", _OUTPUT, _LOG)
    for name in names:
        _try(os.unlink, os.path.join(folder, name))
    for part in (*PARTS, ""):
        _try(os.rmdir, os.path.join(folder, part))


def unlink_output(folder: str) -> None:
    """Remove the link to the output, which would lead nowhere."""
    _try(os.unlink, os.path.join(folder, _OUTPUT))


class PackedOutput:
    """The packed output of an old run, read like that of a launch folder."""

    def __init__(self, folder: str) -> None:
        import gzip

        with gzip.open(os.path.join(folder, PACKED)) as file:
            self._data = file.read()

    def read_output(self, position: int, most: int) -> bytes:
        return self._data[position : position + most]


def _try(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:
        return  # not there, or not empty


def write_start(row: RunRow) -> None:
    _write(row, {"status": row.status})


def write_end(row: RunRow) -> None:
    """Add to `run.json` how the run ended."""
    about: dict[str, object] = {
        "status": row.status,
        "detail": row.detail,
        "exit_code": row.exit_code,
        "ended_at": row.ended_at,
    }
    _write(row, about)


def _write(row: RunRow, about: dict[str, object]) -> None:
    """Write `run.json` whole by a rename; a folder that the user removed stays removed."""
    plain = {
        "id": row.id,
        "program": row.program,
        "session": row.session,
        "agent": row.agent_id,
        "user": row.user,
        "repository": row.repo_name,
        "worktree": row.worktree_name,
        "cwd": row.cwd,
        "prompt": row.prompt,
        "resumed_from": row.resumed_from,
        "started_at": row.started_at or row.created_at,
        **about,
    }
    path = os.path.join(row.folder, "run.json")
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(json_writer.dumps(plain, 2) + "\n")
        os.rename(path + ".new", path)
    except OSError:
        return  # the registry has it all; this copy is for people and programs that look into the folder


def write_log(folder: str, events: Sequence[AgentEvent], *, anew: bool = False) -> None:
    """Append the commands of these events to the log, or write it anew from all events so far."""
    lines = [line for one in events for line in _log_lines(one)]
    if not lines and not anew:
        return
    try:
        with open(os.path.join(folder, _LOG), "w" if anew else "a", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError:
        return  # as above: the tool calls are rows


def _log_lines(one: AgentEvent) -> list[str]:
    tool = one.tool
    if one.kind == "tool_started" and tool is not None and tool.name in _COMMANDS:
        return [f"{one.at} [{tool.id}] $ {safe(tool.target or '', 4000)}"]
    if one.kind == "tool_finished" and tool is not None and tool.name in (*_COMMANDS, "", "?"):
        how = {True: "succeeded", False: "failed", None: "was cancelled"}[one.ok]
        output = [f"    {safe(line, 4000)}" for line in (one.text or "").splitlines()]
        return [f"{one.at} [{tool.id}] {how}", *output]
    return []
