"""The run folder: `AGENT_RUN_WORKSPACES/session_<time>_<id>`, where an agent leaves what does not belong into git.

work_products/  media/                      for the agent; a file in work_products is also saved (`report_observer`)
search_results/                             what it fetched from the web, written by imi (`run_files`)
workbench_activity/log.txt                  the commands it ran, written by imi (`run_files`)
run.json                                    who, what and where; its end once it is over
output.jsonl                                a link to the agent's whole output; output.jsonl.gz once the run is old
"""

from __future__ import annotations

import os
import shutil
import stat
import time

from imi_monitor import paths
from imi_monitor.fast import json_writer
from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.git.layout import Repository
    from imi_monitor.store.runs import RunRow

PARTS = ("search_results", "work_products", "workbench_activity", "media")
_WORKSPACES = "AGENT_RUN_WORKSPACES"
_OUTPUT = "output.jsonl"
PACKED = "output.jsonl.gz"
ERRORS = "errors.txt"
UNFINISHED = (".tmp", ".part", ".new", ".swp", "~")  # endings of files that are being written
_MOST_COPIED = 2 << 30
LOG = os.path.join("workbench_activity", "log.txt")


def home_of(repository: Repository | None, configured: str) -> str:
    """The folder that holds the run folders: as configured, else beside the worktrees, else in the data folder."""
    if configured:
        return os.path.expanduser(configured)
    if repository is None:
        return paths.data_dir()
    return repository.cluster or f"{repository.home}.worktrees"


def path_of(home: str, run_id: str) -> str:
    """The path for the folder of a run that begins now."""
    at = time.strftime("%Y%m%d_%H%M%S", time.gmtime(times.clock() // 1_000_000_000))
    return os.path.join(home, _WORKSPACES, f"session_{at}_{run_id[:8]}")


def make(folder: str, output: str) -> None:
    """Make the folder of a new run and its parts; OSError if the disk refuses it."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    os.mkdir(folder, 0o700)
    for part in PARTS:
        os.mkdir(os.path.join(folder, part), 0o700)
    os.symlink(output, os.path.join(folder, _OUTPUT))


def remove_unused(folder: str) -> None:
    """Remove the folder of a run that did not start; what is in it already stays, with the folder."""
    names = ("run.json", _OUTPUT, LOG)
    for name in names:
        _try(os.unlink, os.path.join(folder, name))
    for part in (*PARTS, "requests", ""):
        _try(os.rmdir, os.path.join(folder, part))


def unlink_output(folder: str) -> None:
    """Remove the link to the output, which would lead nowhere."""
    _try(os.unlink, os.path.join(folder, _OUTPUT))


class PackedOutput:
    """The packed output of an old run, read like that of a launch folder."""

    def __init__(self, folder: str, packed: bytes | None = None) -> None:
        """`packed`: the content of the file, where it is not in the folder any more."""
        import gzip

        if packed is None:
            with open(os.path.join(folder, PACKED), "rb") as file:
                packed = file.read()
        self._data = gzip.decompress(packed)

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
    write_json(os.path.join(row.folder, "run.json"), plain)


def write_json(path: str, plain: dict[str, object]) -> None:
    """Write the file whole by a rename. A copy for people and other programs: the registry has it all."""
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(json_writer.dumps(plain, 2) + "\n")
        os.rename(path + ".new", path)
    except OSError:
        return


def copy_into(path: str, folder: str) -> None:
    """Copy a plain file into the folder, unless it is in it or a file of this name and size is; links are not followed."""
    target = os.path.join(folder, os.path.basename(path))
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
            about = os.fstat(source.fileno())
            inside = os.path.dirname(os.path.realpath(path)) == os.path.realpath(folder)
            known = os.path.lexists(target) and os.lstat(target).st_size == about.st_size
            if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_COPIED or inside or known:
                return
            with open(f"{target}.new", "wb") as copy:
                shutil.copyfileobj(source, copy)
        os.rename(f"{target}.new", target)
    except (OSError, ValueError):
        return  # a copy as above


def append_lines(path: str, lines: Sequence[str], *, anew: bool = False) -> None:
    """Add lines to a file, or write it anew. A copy as above; a link is not followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if anew else os.O_APPEND)
    try:
        handle = os.open(path, flags, 0o600)
        with open(handle, "wb") as file:
            file.write("".join([f"{line}\n" for line in lines]).encode("utf-8", "replace"))
    except OSError:
        return
