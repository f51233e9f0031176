"""What changed in a worktree between its inspection and its move, and which processes write there."""

from __future__ import annotations

import os
import time

from imi_monitor import host
from imi_monitor.actions.removal import inspection
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.model.verdict import SHOWN_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_status import GitStatus

_SEARCH, _PAUSE = 0.5, 0.005  # seconds
_SHOWN = 3


def refuse_changed(found: Target, before: GitStatus, now: GitStatus) -> Refused:
    """The refusal that names the changed files and their writers, as far as they can be determined."""
    files = _changed_files(before, now)
    writers = _find_writers(found.path)
    inside = [] if writers else inspection.live_processes(found)[0]
    return Refused(
        f"{safe(found.name)} changed while it was being inspected ({_what_changed(files, before, now)}): "
        f"{_who(found, writers, inside)}; run the command again when nothing writes there",
        code="changed",
        data={
            "worktree_name": found.name,
            "files": [safe(path) for path in files[:SHOWN_NAMES]],
            "writers": [{"pid": pid, "command": safe(command), "file": safe(file)} for pid, command, file in writers],
        },
    )


def _changed_files(before: GitStatus, now: GitStatus) -> list[str]:
    """The files whose kind of change differs."""
    kinds = ("staged", "unstaged", "untracked", "conflicted")
    return sorted({path for kind in kinds for path in set(getattr(before, kind)) ^ set(getattr(now, kind))})


def _what_changed(files: list[str], before: GitStatus, now: GitStatus) -> str:
    if before.branch != now.branch:
        return "another branch is checked out"
    if before.oid != now.oid:
        return "its branch has another commit"
    return _listed([safe(path, 120) for path in files])


def _find_writers(folder: str) -> list[tuple[int, str, str]]:
    """The processes that write there, each with a file; a writer may hold a file open for moments only."""
    end = time.monotonic() + _SEARCH
    while not (writers := host.writers_inside(folder)) and time.monotonic() < end:
        time.sleep(_PAUSE)
    return writers


def _who(found: Target, writers: list[tuple[int, str, str]], inside: list[str]) -> str:
    if writers:
        files = [f"{safe(command)} ({pid}) writes {_inside(found, file)}" for pid, command, file in writers]
        return _listed(files)
    if inside:
        return f"{_listed(inside)} works there" if len(inside) == 1 else f"{_listed(inside)} work there"
    return "its writer has ended, or belongs to another user, container or machine"


def _inside(found: Target, file: str) -> str:
    return safe(os.path.relpath(file, found.path), 120)


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
